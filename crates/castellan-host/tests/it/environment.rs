//! Secrets of our environment, looked for as a command would.
//!
//! The snapshot blanks the environment of the whole process, so it is taken in a process of its
//! own: this test binary, started again.

use std::process::Command;

use castellan_host::{Environment, Hidden};

use crate::world::job;

const MARK: &str = "TEST_TAKES_ENVIRONMENT";

/// Not a test of its own: what the process of its own does.
#[tokio::test]
async fn as_parent() {
    if crate::world::variable(MARK).is_none() {
        return;
    }
    let environment = Environment::take();
    assert_eq!(
        environment.get("FAKE_PROVIDER_API_KEY"),
        Some("sk-test-123")
    );
    println!("hidden {:?}", environment.hidden());
    println!("is no {}", matches!(environment.hidden(), Hidden::No(_)));
    println!("secrets {}", environment.secret_values().len());
    let mut job = job(
        "env; tr '\\0' '\\n' < /proc/$PPID/environ; p=$PPID
        for i in 1 2; do
            p=$(sed 's/.*) . \\([0-9]*\\) .*/\\1/' /proc/$p/stat)
            echo ancestor $p $(tr '\\0' '\\n' < /proc/$p/environ | grep -a -e FAKE -e X_KEYS -e ^PATH)
        done",
    );
    job.env = environment.child_environment(&[]);
    let ran = crate::world::run(job).await;
    println!("{}", ran.text);
}

/// S08.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the parent under test is born here"
)]
fn a_command_finds_no_secret_of_ours() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "environment::as_parent", "--nocapture"])
        .env(MARK, "1")
        .env("FAKE_PROVIDER_API_KEY", "sk-test-123")
        .env("X_KEYS_0", "yyyyyyyyy")
        .env("PLAIN_NOTE", "plain-note")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(text.contains("is no false"), "{text}");
    for secret in ["sk-test-123", "yyyyyyyyy", "plain-note"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    assert!(text.contains("GIT_TERMINAL_PROMPT=0"), "{text}");
}
