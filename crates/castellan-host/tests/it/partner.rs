//! Programs that are spoken with in lines, and what those do that misbehave.

use std::time::Duration;

use castellan_host::partner::{LINE_LIMIT, WAITING_LIMIT};
use castellan_host::{Partner, ShellJob, Silence};

use crate::world::{eventually, is_alive, job, pids_in, shell};

fn start(text: &str) -> Partner {
    Partner::start(&shell(), job(text))
}

async fn silence(text: &str) -> Silence {
    let mut partner = start(text);
    loop {
        if let Err(silence) = partner.hear().await {
            return silence;
        }
    }
}

#[tokio::test]
async fn a_conversation_goes_back_and_forth() {
    let mut partner = start("while read -r line; do echo \"you said $line\"; done; echo bye >&2");
    for number in 0..50 {
        partner.say(&format!("line {number}")).await;
        assert_eq!(partner.hear().await, Ok(format!("you said line {number}")));
    }
    assert_eq!(partner.early(), None);
    partner.close().await;
}

#[tokio::test]
async fn a_long_line_arrives_whole_in_both_directions() {
    let mut partner = start("cat");
    let long = "0123456789".repeat(LINE_LIMIT / 10 - 1);
    for _ in 0..3 {
        partner.say(&long).await;
        assert!(partner.hear().await.as_ref() == Ok(&long));
    }
}

#[tokio::test]
async fn more_can_be_said_than_a_pipe_holds_before_any_of_it_is_read() {
    let mut partner = start("read -r go; wc -c");
    let long = "x".repeat(500_000);
    partner.say("go").await;
    for _ in 0..8 {
        partner.say(&long).await;
    }
    partner.fall_silent();
    assert_eq!(partner.hear().await.as_deref(), Ok("4000008"));
}

#[tokio::test]
async fn how_it_ended_is_said_with_the_end_of_its_complaint() {
    let ended = silence("echo first; echo 'no such thing' >&2; exit 3").await;
    assert_eq!(ended.why, "ended with exit code 3");
    assert_eq!(ended.complaint, "no such thing");
    assert_eq!(silence("kill -9 $$").await.why, "was ended by SIGKILL");
    let missing = ShellJob {
        program: "/no/such/program".to_owned(),
        ..job("")
    };
    let mut partner = Partner::start(&shell(), missing);
    partner.say("hello").await;
    let why = partner.hear().await.unwrap_err().why;
    assert!(why.contains("could not be started"), "{why}");
}

#[tokio::test]
async fn a_last_line_without_an_end_is_heard() {
    let mut partner = start("printf 'one\\n\\n\\ntwo'");
    assert_eq!(partner.hear().await.as_deref(), Ok("one"));
    assert_eq!(partner.hear().await.as_deref(), Ok("two"));
    assert!(partner.hear().await.is_err());
}

#[tokio::test]
async fn a_flood_ends_the_program() {
    for (text, why) in [
        ("yes", format!("more than {WAITING_LIMIT} lines")),
        (
            "tr '\\0' x </dev/zero",
            format!("more than {LINE_LIMIT} bytes"),
        ),
    ] {
        let silence = silence(text).await;
        assert!(silence.why.contains(&why), "{silence:?}");
    }
}

#[tokio::test]
async fn what_is_no_text_is_refused() {
    let refused = silence("printf '\\377\\n'; sleep 300").await;
    assert!(refused.why.contains("not UTF-8"), "{refused:?}");
}

#[tokio::test]
async fn it_ends_with_whoever_speaks_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let text = format!(
        "trap '' TERM; sleep 300 & echo \"pid $!\" >{0}; echo \"pid $$\" >>{0}; wait; sleep 300",
        file.display()
    );
    for polite in [true, false] {
        std::fs::write(&file, "").unwrap();
        let partner = start(&text);
        let pids = pids_in(&file, 2).await;
        if polite {
            tokio::time::timeout(Duration::from_secs(20), partner.close())
                .await
                .unwrap();
        } else {
            drop(partner);
        }
        eventually("all of it ends", || pids.iter().all(|pid| !is_alive(*pid))).await;
    }
}
