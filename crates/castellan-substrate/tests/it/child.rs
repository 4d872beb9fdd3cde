//! This test binary as another process: what it does then, and how a test starts and ends it.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, Command, ExitStatus, Stdio};

const TASK: &str = "CASTELLAN_SUBSTRATE_TEST_TASK";
const PLACE: &str = "CASTELLAN_SUBSTRATE_TEST_PLACE";

/// The whole work of a process that [`Other::start`] started; in any other process there is none.
#[test]
fn body() {
    #[expect(
        clippy::disallowed_methods,
        reason = "how a test talks to its own child"
    )]
    let (task, place) = (std::env::var(TASK), std::env::var(PLACE));
    if let (Ok(task), Ok(place)) = (task, place) {
        crate::processes::work(&task, Path::new(&place));
    }
}

/// Says `line` to the test that started this process. Standard output belongs to the test harness.
pub(crate) fn say(line: &str) {
    std::io::stderr()
        .write_all(format!("{line}\n").as_bytes())
        .unwrap();
}

/// Waits for the test's word to go on.
pub(crate) fn wait_for_go() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
}

/// Another process that does one task of [`crate::processes::work`].
#[derive(Debug)]
pub(crate) struct Other {
    process: Child,
    orders: ChildStdin,
    lines: Lines<BufReader<ChildStderr>>,
}

impl Other {
    pub(crate) fn start(task: &str, place: &Path) -> Self {
        Self::start_under(&[], task, place)
    }

    /// Starts it as the arguments of the command `launcher`, which must exec them.
    pub(crate) fn start_under(launcher: &[&str], task: &str, place: &Path) -> Self {
        let binary = std::env::current_exe().unwrap();
        let body = ["child::body", "--exact", "--nocapture"];
        let line: Vec<&str> = launcher
            .iter()
            .copied()
            .chain([binary.to_str().unwrap()])
            .chain(body)
            .collect();
        #[expect(
            clippy::disallowed_methods,
            reason = "the child is this very test binary"
        )]
        let mut process = Command::new(line[0])
            .args(&line[1..])
            .env(TASK, task)
            .env(PLACE, place)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            orders: process.stdin.take().unwrap(),
            lines: BufReader::new(process.stderr.take().unwrap()).lines(),
            process,
        }
    }

    /// What it says next, `None` once it has ended.
    pub(crate) fn hear(&mut self) -> Option<String> {
        self.lines.next().map(Result::unwrap)
    }

    /// Waits until it says `line`.
    pub(crate) fn expect(&mut self, line: &str) {
        assert_eq!(self.hear().as_deref(), Some(line));
    }

    pub(crate) fn go(&mut self) {
        self.orders.write_all(b"go\n").unwrap();
    }

    /// SIGKILL, at whatever it is doing; what it had still said.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.lines.map(Result::unwrap).collect()
    }

    /// Waits for its end; how it ended and what it had still said.
    pub(crate) fn end(mut self) -> (ExitStatus, Vec<String>) {
        let rest = self.lines.map(Result::unwrap).collect();
        (self.process.wait().unwrap(), rest)
    }

    /// Waits for its end, which must be a good one.
    pub(crate) fn succeeds(self) {
        let (status, rest) = self.end();
        assert!(status.success(), "{status}: {rest:#?}");
    }
}
