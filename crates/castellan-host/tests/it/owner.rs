//! An owner that is killed, and commands that turn against their helper.
//!
//! These run in a process of their own (this test binary, started again): one is killed, and after
//! the other has lost a helper it takes any child it does not know for an orphan.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use castellan_host::End;

use crate::world::{LONG, eventually, is_alive, job, pids, run, variable};

const SCRIPT: &str = "TEST_OWNER_SCRIPT";
const TIMEOUT: &str = "TEST_OWNER_TIMEOUT_MS";

/// Not a test of its own: what the process of its own does. Without a script it does nothing.
#[tokio::test]
async fn as_owner() {
    let (Some(script), Some(timeout)) = (variable(SCRIPT), variable(TIMEOUT)) else {
        return;
    };
    let mut job = job(&script);
    job.timeout = Duration::from_millis(timeout.parse().unwrap());
    job.term_grace = Duration::from_millis(200);
    let ran = run(job).await;
    println!("{}", ran.text);
    let end = match ran.report.end {
        End::HelperLost { reason } => format!("lost: {reason}"),
        end @ (End::Exited(_) | End::Signalled { .. } | End::Unended) => format!("{end:?}"),
    };
    println!("end {end}");
    println!("survivors {}", ran.report.survivors.len());
    println!("ended {}", ran.report.ended_total);
}

#[expect(
    clippy::disallowed_methods,
    reason = "the owner under test is born here"
)]
fn owner(script: &str, timeout: Duration) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "owner::as_owner", "--nocapture"])
        .env(SCRIPT, script)
        .env(TIMEOUT, timeout.as_millis().to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn output(script: &str, timeout: Duration) -> String {
    let mut owner = owner(script, timeout);
    let mut text = String::new();
    owner
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    owner.wait().unwrap();
    text
}

#[tokio::test]
async fn nothing_survives_an_owner_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    let script = format!(
        "mkfifo {0}; exec 3<>{0}; trap '' TERM HUP; echo pid $$ > {0}.pids; echo pid $PPID >> {0}.pids
        setsid bash -c 'trap \"\" TERM HUP; echo pid $$ >> {0}.pids; exec sleep 300' &
        sleep 301 & echo pid $! >> {0}.pids; read -u 3",
        fifo.display()
    );
    let mut owner = owner(&script, LONG);
    let file = folder.path().join("fifo.pids");
    let found = crate::world::pids_in(&file, 4).await;
    assert!(found.iter().all(|pid| is_alive(*pid)));
    owner.kill().unwrap();
    owner.wait().unwrap();
    eventually("all processes of the command end", || {
        found.iter().all(|pid| !is_alive(*pid))
    })
    .await;
}

#[test]
fn a_command_that_kills_its_helper_ends_with_all_it_started() {
    // The pids go to a file: what the helper had not passed on yet dies with it.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let script = format!(
        "exec 3>{}; trap '' TERM; echo pid $$ >&3; setsid sleep 300 & echo pid $! >&3
        (setsid sleep 301 & echo pid $! >&3; echo pid $BASHPID >&3; kill -9 $PPID; sleep 302) &
        while :; do sleep 303; done",
        file.display()
    );
    let text = output(&script, LONG);
    assert!(text.contains("end lost: it ended with signal: 9"), "{text}");
    assert!(text.contains("survivors 0"), "{text}");
    let pids = pids(&std::fs::read_to_string(file).unwrap());
    assert_eq!(pids.len(), 4, "{pids:?}");
    assert!(pids.into_iter().all(|pid| !is_alive(pid)), "{text}");
}

#[test]
fn a_command_that_stops_its_helper_does_not_outlive_its_time() {
    // The time limit, the grace after it, then the owner waits five seconds and no longer.
    let text = output("kill -STOP $PPID; sleep 300", Duration::from_millis(500));
    assert!(text.contains("end lost: it ended with signal: 9"), "{text}");
    assert!(text.contains("survivors 0"), "{text}");
}
