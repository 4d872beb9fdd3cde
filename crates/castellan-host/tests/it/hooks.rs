//! What a command reads, and hooks that behave and misbehave.

use std::path::PathBuf;
use std::time::Duration;

use castellan_core::port::{HookEnd, HookJob, Hooks as _};
use castellan_core::{Cancel, CancelSource, Clock as _};
use castellan_host::hooks::ShellHooks;
use castellan_host::{End, Sandbox, SystemClock};

use crate::world::{LONG, child_environment, eventually, is_alive, job, pids, pids_in, run, shell};

/// Far more than a pipe holds.
fn long_text() -> String {
    "0123456789abcde\n".repeat(200_000)
}

#[tokio::test]
async fn a_command_reads_what_it_is_given_and_then_the_end() {
    let mut one = job("wc -c; read -r x || echo the end");
    one.input = Some(long_text());
    let ran = run(one).await;
    assert_eq!(ran.text, "3200000\nthe end\n");
    let mut empty = job("wc -c");
    empty.input = Some(String::new());
    assert_eq!(run(empty).await.text, "0\n");
    assert_eq!(run(job("wc -c")).await.text, "0\n");
}

#[tokio::test]
async fn a_command_that_does_not_read_its_input_is_not_held_up() {
    for text in [
        "echo done",
        "exec <&-; echo done",
        "head -c 5 >/dev/null; echo done",
        "sleep 300 & echo done",
    ] {
        let mut one = job(text);
        one.input = Some(long_text());
        let ran = run(one).await;
        assert_eq!(ran.report.end, End::Exited(0), "{text}");
        assert!(ran.text.contains("done"), "{text}: {}", ran.text);
    }
}

#[tokio::test]
async fn output_is_read_while_input_is_written() {
    let mut one = job("cat");
    one.input = Some(long_text());
    let ran = run(one).await;
    assert_eq!(ran.total, 3_200_000);
}

#[tokio::test]
async fn an_input_past_every_bound_is_refused_before_anything_runs() {
    let mut one = job("echo ran");
    one.input = Some("x".repeat(20 * 1024 * 1024));
    let source = CancelSource::new();
    let refused = shell().run(one, |_, _| (), source.token()).await;
    let text = castellan_core::text::chain(&refused.unwrap_err());
    assert!(text.contains("more than 16 MiB"), "{text}");
}

fn hook(command: &str) -> HookJob {
    HookJob {
        command: command.to_owned(),
        cwd: "/".into(),
        project: "/tmp".into(),
        input: "{\"tool\": \"bash\"}".to_owned(),
        timeout: LONG,
    }
}

async fn end_of(hook: HookJob, cancel: Cancel) -> HookEnd {
    let shell = shell();
    shell.enclose(Sandbox::off("these tests are about hooks"));
    let hooks = ShellHooks::new(shell, child_environment());
    hooks.run(hook, cancel).await
}

async fn end(command: &str) -> HookEnd {
    end_of(hook(command), CancelSource::new().token()).await
}

fn exited(code: i32, stdout: &str, stderr: &str) -> HookEnd {
    HookEnd::Exited {
        code,
        stdout: stdout.into(),
        stderr: stderr.into(),
    }
}

#[tokio::test]
async fn a_hook_reads_the_call_and_says_what_it_thinks() {
    assert_eq!(
        end("cat; echo no >&2; exit 2").await,
        exited(2, "{\"tool\": \"bash\"}", "no\n")
    );
    assert_eq!(end("true").await, exited(0, "", ""));
    assert_eq!(
        end("printf '%s %s' \"$CASTELLAN_PROJECT_DIR\" \"$PWD\"").await,
        exited(0, "/tmp /", "")
    );
}

#[tokio::test]
async fn a_hook_sees_no_variable_that_was_not_given_to_it() {
    let HookEnd::Exited { stdout, .. } = end("env -0 | cut -z -d= -f1 | tr '\\0' ' '").await else {
        panic!("it did not end by itself");
    };
    let names = String::from_utf8(stdout).unwrap();
    assert!(!names.contains("CARGO"), "{names}");
}

#[tokio::test]
async fn a_hook_that_misbehaves_is_broken_and_says_how() {
    for (command, expected) in [
        ("yes", "more than 1 MiB"),
        ("head -c 10000000 /dev/zero", "more than 1 MiB"),
        ("kill -9 $$", "SIGKILL"),
        ("kill -SEGV $$", "SIGSEGV"),
    ] {
        let HookEnd::Broken(how) = end(command).await else {
            panic!("`{command}` is not broken");
        };
        assert!(how.contains(expected), "{command}: {how}");
    }
    assert_eq!(end("no-such-program").await, {
        let said = "bash: line 1: no-such-program: command not found\n";
        exited(127, "", said)
    });
}

#[tokio::test]
async fn a_long_reason_is_cut_and_leaves_the_exit_code_as_it_is() {
    let long = "echo no pushing >&2; head -c 3000000 /dev/zero | tr '\\0' x >&2; exit 2";
    let HookEnd::Exited { code, stderr, .. } = end(long).await else {
        panic!("it is broken");
    };
    assert_eq!((code, stderr.len()), (2, 1024 * 1024));
    assert!(stderr.starts_with(b"no pushing\nxxx"));
}

#[tokio::test]
async fn a_hook_that_hangs_costs_its_timeout_and_nothing_more() {
    let clock = SystemClock::new();
    let mut hanging = hook("trap '' TERM; setsid sleep 300 & echo pid $!; sleep 300");
    hanging.timeout = Duration::from_secs(1);
    let HookEnd::Broken(how) = end_of(hanging, CancelSource::new().token()).await else {
        panic!("it is not broken");
    };
    assert!(how.contains("within 1 s"), "{how}");
    assert!(clock.monotonic() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_hook_leaves_nothing_in_the_background() {
    let HookEnd::Exited { code, stdout, .. } =
        end("setsid sleep 300 >/dev/null 2>&1 & echo pid $!").await
    else {
        panic!("it did not end by itself");
    };
    assert_eq!(code, 0);
    let pid = pids(&String::from_utf8(stdout).unwrap())[0];
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn a_cancel_ends_a_hook_within_about_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let mut hanging = hook(&format!(
        "trap '' TERM; echo pid $$ >> {0}; while :; do sleep 300; done",
        file.display()
    ));
    hanging.input = long_text();
    let source = CancelSource::new();
    let token = source.token();
    let mut ending = tokio::task::JoinSet::new();
    ending.spawn(end_of(hanging, token));
    let pid = pids_in(&file, 1).await[0];
    let clock = SystemClock::new();
    source.cancel();
    assert_eq!(
        ending.join_next().await.unwrap().unwrap(),
        HookEnd::Cancelled
    );
    assert!(
        clock.monotonic() < Duration::from_secs(3),
        "{:?}",
        clock.monotonic()
    );
    eventually("the hook is gone", || !is_alive(pid)).await;
}

#[tokio::test]
async fn a_hook_runs_in_the_project_where_the_working_folder_is_gone() {
    let mut lost = hook("pwd");
    lost.cwd = "/no/such/folder".into();
    let source = CancelSource::new();
    assert_eq!(
        end_of(lost.clone(), source.token()).await,
        exited(0, "/tmp\n", "")
    );
    lost.project = PathBuf::from("/nor/this");
    assert!(matches!(
        end_of(lost, source.token()).await,
        HookEnd::Broken(_)
    ));
}
