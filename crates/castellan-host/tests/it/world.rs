//! What the tests share: a shell with the helper of this crate, and a look at the process table.

use std::path::Path;
use std::time::Duration;

use castellan_core::{Cancel, CancelSource, Clock as _};
use castellan_host::{
    Capture, Environment, Error, HelperCommand, Shell, ShellJob, ShellReport, SystemClock,
};

/// Long enough never to be what ends a test that works.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn shell() -> Shell {
    Shell::adopt_orphans().unwrap();
    Shell::new(HelperCommand::at(env!(
        "CARGO_BIN_EXE_castellan-shell-helper"
    )))
}

/// A variable of this test process, such as one a test gave to the process it started.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::vars_os()
        .find(|(known, _)| known == name)?
        .1
        .into_string()
        .ok()
}

/// The environment children get, from a parent that has a usual path and nothing else.
pub(crate) fn child_environment() -> Vec<(String, String)> {
    let path = variable("PATH").map(|path| ("PATH".to_owned(), path));
    Environment::new(path, "/".into()).child_environment(&[])
}

pub(crate) fn job(text: &str) -> ShellJob {
    ShellJob::bash(text, "/", child_environment(), LONG)
}

/// What a command came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) report: ShellReport,
    pub(crate) text: String,
    pub(crate) total: u64,
    /// Time on our own clock.
    pub(crate) took: Duration,
}

pub(crate) async fn run_job(shell: &Shell, job: ShellJob, cancel: Cancel) -> Result<Ran, Error> {
    let clock = SystemClock::new();
    let mut capture = Capture::default();
    let report = shell
        .run(
            job,
            |stream, chunk| drop(capture.push(stream, chunk)),
            cancel,
        )
        .await?;
    Ok(Ran {
        report,
        text: capture.text(),
        total: capture.total(),
        took: clock.monotonic(),
    })
}

pub(crate) async fn run(job: ShellJob) -> Ran {
    let source = CancelSource::new();
    run_job(&shell(), job, source.token()).await.unwrap()
}

/// Whether a process exists that has not ended.
pub(crate) fn is_alive(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('Z'))
    })
}

/// The pids a command printed, one a line, as `pid NUMBER`.
pub(crate) fn pids(text: &str) -> Vec<i32> {
    text.lines()
        .filter_map(|line| line.strip_prefix("pid ")?.trim().parse().ok())
        .collect()
}

/// Waits until a condition holds, looking again and again; panics if it never does.
pub(crate) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let clock = SystemClock::new();
    while !condition() {
        assert!(clock.monotonic() < Duration::from_secs(20), "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The pids in a file a command writes, once it has `count` lines.
pub(crate) async fn pids_in(file: &Path, count: usize) -> Vec<i32> {
    let read = || pids(&std::fs::read_to_string(file).unwrap_or_default());
    eventually("the command writes its pids", || read().len() >= count).await;
    read()
}
