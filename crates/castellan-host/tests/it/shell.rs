//! Commands and their ends.

use std::time::Duration;

use castellan_core::CancelSource;
use castellan_host::{End, ErrorKind, HelperCommand, Shell, Way};

use crate::world::{child_environment, is_alive, job, pids, pids_in, run, run_job, shell};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn output_comes_with_the_exit_code() {
    let ran = run(job("echo out; echo err >&2; exit 3")).await;
    assert_eq!(ran.report.end, End::Exited(3));
    assert!(
        ran.text.contains("out\n") && ran.text.contains("[stderr] err\n"),
        "{}",
        ran.text
    );
    assert!(!ran.report.timed_out && !ran.report.cancelled);
    assert!(ran.report.ended.is_empty() && ran.report.survivors.is_empty());
}

#[tokio::test]
async fn death_by_signal_is_told_from_an_exit_code() {
    let ran = run(job("kill -SEGV $$")).await;
    assert_eq!(
        ran.report.end,
        End::Signalled {
            number: 11,
            name: "SIGSEGV".to_owned()
        }
    );
    let ran = run(job("kill -40 $$")).await;
    assert_eq!(
        ran.report.end,
        End::Signalled {
            number: 40,
            name: "signal 40".to_owned()
        }
    );
}

/// S01.
#[tokio::test]
async fn a_background_child_does_not_hold_up_the_call() {
    for text in [
        "sleep 300 & echo pid $!; echo done",
        "sleep 300 >/dev/null & echo pid $!; echo done",
        "sleep 300 >/dev/null 2>&1 & echo pid $!; echo done",
        "(while :; do echo t; sleep 1; done) & echo pid $!; echo done",
        "nohup setsid sleep 300 & echo pid $!; echo done",
    ] {
        let ran = run(job(text)).await;
        assert_eq!(ran.report.end, End::Exited(0), "{text}");
        assert!(ran.text.contains("done"), "{text}: {}", ran.text);
        assert!(ran.took < 3 * SECOND, "{text}: {:?}", ran.took);
        let child = pids(&ran.text)[0];
        assert!(!is_alive(child), "{text}");
        assert!(
            ran.report.ended.iter().any(|ended| ended.pid == child),
            "{:?}",
            ran.report
        );
    }
}

#[tokio::test]
async fn a_process_substitution_may_write_its_last_lines() {
    let ran = run(job("echo hello > >(sleep 0.02; sed s/hello/later/)")).await;
    assert_eq!(ran.text, "later\n");
    assert!(ran.report.ended.is_empty(), "{:?}", ran.report);
}

/// S03.
#[tokio::test]
async fn what_ignores_the_polite_signal_or_changed_its_session_dies_at_the_timeout() {
    let text = "setsid sleep 333 & echo pid $!
        (trap '' TERM; echo pid $BASHPID; while :; do sleep 334; done) &
        (setsid bash -c 'trap \"\" TERM; (echo pid $BASHPID; sleep 336) & exit' &)
        sleep 335";
    let mut job = job(text);
    job.timeout = SECOND;
    job.term_grace = Duration::from_millis(300);
    let ran = run(job).await;
    assert!(ran.report.timed_out);
    assert!(ran.report.survivors.is_empty(), "{:?}", ran.report);
    assert!(ran.took < 5 * SECOND, "{:?}", ran.took);
    let pids = pids(&ran.text);
    assert_eq!(pids.len(), 3, "{}", ran.text);
    for pid in pids {
        assert!(!is_alive(pid));
    }
    assert!(
        ran.report
            .ended
            .iter()
            .any(|ended| ended.how == Way::Killed),
        "{:?}",
        ran.report
    );
    assert!(
        ran.report
            .ended
            .iter()
            .any(|ended| ended.how == Way::Terminated)
    );
}

#[tokio::test]
async fn processes_that_fork_on_and_on_are_caught() {
    let python = "import os,sys\nwhile True:\n if os.fork(): os._exit(0)\n os.setsid()";
    let mut job = job(&format!(
        "timeout 5 true; python3 -c '{python}' & sleep 100"
    ));
    job.timeout = Duration::from_millis(500);
    job.term_grace = Duration::from_millis(100);
    let ran = run(job).await;
    assert!(ran.report.timed_out);
    assert!(ran.report.survivors.is_empty(), "{:?}", ran.report);
}

/// S04.
#[tokio::test(flavor = "multi_thread")]
async fn endless_output_costs_no_memory_and_delays_no_timeout() {
    let before = resident();
    let ran = run(job("head -c 300000000 /dev/zero | tr '\\0' x")).await;
    assert_eq!(ran.total, 300_000_000);
    assert!(ran.text.len() < 300_000 && ran.text.contains("of 300000000 bytes left out"));
    let mut endless = job("yes");
    endless.timeout = SECOND;
    let ran = run(endless).await;
    assert!(
        ran.report.timed_out && ran.took < 3 * SECOND,
        "{:?}",
        ran.took
    );
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 * 1024, "{grown} KiB more than before");
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// S06.
#[tokio::test]
async fn nothing_finds_a_terminal_a_prompt_or_an_editor() {
    let ran = run(job("python3 -c \"open('/dev/tty').readline()\"")).await;
    assert_ne!(ran.report.end, End::Exited(0));
    assert!(ran.text.contains("/dev/tty"), "{}", ran.text);

    let ran = run(job("read -p 'name? ' x; echo \"got:$x\"")).await;
    assert!(ran.text.contains("got:\n"), "{}", ran.text);

    let folder = tempfile::tempdir().unwrap();
    let text = "git init -q . && touch a && git add a &&
        git -c user.name=n -c user.email=e@e.invalid commit";
    let mut commit = job(text);
    commit.cwd = folder.path().to_owned();
    let ran = run(commit).await;
    assert_ne!(ran.report.end, End::Exited(0));
    assert!(ran.text.contains("not interactive"), "{}", ran.text);
    assert!(ran.took < 5 * SECOND);
}

/// S06, with a server that wants a password.
#[tokio::test]
async fn git_does_not_ask_for_a_password() {
    let server = crate::http::Server::answering(
        "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\
         Connection: close\r\n\r\n",
    );
    let ran = run(job(&format!(
        "git ls-remote http://{}/x.git",
        server.address
    )))
    .await;
    assert_eq!(ran.report.end, End::Exited(128), "{}", ran.text);
    assert!(
        ran.text.contains("terminal prompts disabled"),
        "{}",
        ran.text
    );
}

/// S07.
#[tokio::test]
async fn standard_input_is_empty_and_closed() {
    for text in ["cat", "python3 -", "wc -l", "grep foo -", "bash"] {
        let ran = run(job(text)).await;
        assert!(ran.took < 5 * SECOND, "{text}");
        assert!(matches!(ran.report.end, End::Exited(_)), "{text}");
    }
}

/// S12.
#[tokio::test]
async fn output_before_the_timeout_is_kept() {
    let mut early = job("echo early; sleep 60");
    early.timeout = SECOND;
    let ran = run(early).await;
    assert_eq!(ran.text, "early\n");
    assert!(ran.report.timed_out);
    assert!(ran.report.elapsed >= SECOND && ran.report.elapsed < 3 * SECOND);
}

#[tokio::test]
async fn a_cancel_returns_within_a_second_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let text = format!(
        "exec 2>/dev/null; trap '' TERM; echo pid $$ >> {0}
        setsid bash -c 'trap \"\" TERM; echo pid $$ >> {0}; while :; do sleep 300; done' &
        while :; do sleep 301; done",
        file.display()
    );
    let source = CancelSource::new();
    let shell = shell();
    let running = run_job(&shell, job(&text), source.token());
    let clock = castellan_host::SystemClock::new();
    let cancelling = async {
        let pids = pids_in(&file, 2).await;
        let since = castellan_core::Clock::monotonic(&clock);
        source.cancel();
        (pids, since)
    };
    let (ran, (pids, since)) = tokio::join!(running, cancelling);
    let took = castellan_core::Clock::monotonic(&clock) - since;
    let ran = ran.unwrap();
    assert!(
        ran.report.cancelled && !ran.report.timed_out,
        "{:?}",
        ran.report
    );
    assert!(took < SECOND, "{took:?}");
    assert!(pids.into_iter().all(|pid| !is_alive(pid)));
}

#[tokio::test]
async fn a_dropped_call_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let text = format!(
        "trap '' TERM; echo pid $$ >> {0}; echo pid $PPID >> {0}
        setsid bash -c 'trap \"\" TERM; echo pid $$ >> {0}; while :; do sleep 300; done' &
        while :; do sleep 301; done",
        file.display()
    );
    let source = CancelSource::new();
    let shell = shell();
    let pids = tokio::select! {
        ran = run_job(&shell, job(&text), source.token()) => panic!("{ran:?}"),
        pids = pids_in(&file, 3) => pids,
    };
    shell.close().await;
    for pid in pids {
        assert!(
            !std::path::Path::new(&format!("/proc/{pid}")).exists(),
            "{pid} or its zombie"
        );
    }
}

#[tokio::test]
async fn a_helper_that_cannot_start_is_named() {
    let source = CancelSource::new();
    let missing = Shell::new(HelperCommand::at("/nowhere/helper"));
    let error = run_job(&missing, job("true"), source.token())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Helper);
    assert!(error.to_string().contains("/nowhere/helper"));

    let other = Shell::new(HelperCommand::at("/bin/true"));
    let error = run_job(&other, job("true"), source.token())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Helper);
    assert!(error.to_string().contains("exit status: 0"), "{error}");
}

#[tokio::test]
async fn a_missing_folder_is_named() {
    let source = CancelSource::new();
    let mut lost = job("echo hi");
    lost.cwd = "/nowhere/at/all".into();
    let error = run_job(&shell(), lost, source.token()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WorkingFolder);
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");

    let mut file = job("echo hi");
    file.cwd = "/etc/passwd".into();
    let error = run_job(&shell(), file, source.token()).await.unwrap_err();
    assert!(error.to_string().contains("Not a directory"), "{error}");
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let source = CancelSource::new();
    let mut missing = job("");
    // A folder that is closed to us would make it "permission denied".
    missing.env = vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
    missing.program = "no-such-program-here".to_owned();
    let error = run_job(&shell(), missing, source.token())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ProgramNotFound);
    assert!(error.to_string().contains("no-such-program-here"));
    // Within bash it is the command's own failure.
    assert_eq!(
        run(job("no-such-program-here")).await.report.end,
        End::Exited(127)
    );
}

#[tokio::test]
async fn a_reader_that_stops_reading_delays_neither_timeout_nor_end() {
    let source = CancelSource::new();
    let mut loud = job("yes");
    loud.timeout = SECOND;
    let clock = castellan_host::SystemClock::new();
    let mut total = 0_u64;
    let mut chunks = 0;
    let report = shell()
        .run(
            loud,
            |_, chunk| {
                total += u64::try_from(chunk.len()).unwrap();
                chunks += 1;
                if chunks == 1 {
                    // A reader that is busy elsewhere until well past the timeout.
                    #[expect(clippy::disallowed_methods, reason = "it stands for a slow reader")]
                    std::thread::sleep(2 * SECOND);
                }
            },
            source.token(),
        )
        .await
        .unwrap();
    assert!(report.timed_out);
    assert!(report.elapsed < 2 * SECOND, "{:?}", report.elapsed);
    assert!(castellan_core::Clock::monotonic(&clock) < 5 * SECOND);
    assert!(total < 4 * 1024 * 1024, "{total}");
}

#[tokio::test]
async fn eight_commands_at_once_keep_their_output_apart() {
    let shell = shell();
    let source = CancelSource::new();
    let runs = (0..8).map(|number| {
        let text = format!("for i in $(seq 200); do echo {number}-$i; done; exit {number}");
        run_job(&shell, job(&text), source.token())
    });
    for (number, ran) in futures::future::join_all(runs)
        .await
        .into_iter()
        .enumerate()
    {
        let ran = ran.unwrap();
        assert_eq!(ran.report.end, End::Exited(i32::try_from(number).unwrap()));
        let expected: String = (1..=200).map(|line| format!("{number}-{line}\n")).collect();
        assert_eq!(ran.text, expected);
    }
}

#[tokio::test]
async fn the_command_text_is_taken_as_it_stands() {
    let text = "cat <<'X'\nraw $HOME \\\nX\necho 'a\\' # comment \\";
    let ran = run(job(text)).await;
    assert_eq!(ran.text, "raw $HOME \\\na\\\n");
}

#[tokio::test]
async fn the_environment_is_exactly_the_one_given() {
    let mut bare = job("");
    bare.program = "env".to_owned();
    bare.args.clear();
    bare.env.push(("MARK".to_owned(), "kept".to_owned()));
    let ran = run(bare).await;
    let mut expected: Vec<String> = child_environment()
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    expected.push("MARK=kept".to_owned());
    let mut found: Vec<&str> = ran.text.lines().collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_command_can_neither_read_the_helpers_environment_nor_write_to_its_owner() {
    let ran = run(job("wc -c < /proc/$PPID/environ; id -u")).await;
    // Root is not stopped from looking, and finds nothing; others are stopped.
    assert!(
        ran.text.starts_with("0\n") || ran.text.contains("Permission denied"),
        "{}",
        ran.text
    );
}
