//! Child processes of the project commands.
//!
//! The product bears children in `castellan-host` only; these commands are not the product and
//! run short foreground programs, so a thin wrapper over `std` is enough.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Lines};
use std::path::Path;
use std::process::{ChildStdout, Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result, bail};

/// Where the system's own programs are; all a sealed child gets to see.
const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A program about to be run, without a standard input.
pub(crate) struct Child {
    command: Command,
    shown: String,
}

/// What a program left behind.
pub(crate) struct Captured {
    pub(crate) success: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Child {
    /// Prepares `program` to run in `directory`.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where xtask makes a process"
    )]
    pub(crate) fn new<A: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        args: &[A],
        directory: &Path,
    ) -> Self {
        let mut shown = program.as_ref().to_string_lossy().into_owned();
        for arg in args {
            shown.push(' ');
            shown.push_str(&arg.as_ref().to_string_lossy());
        }
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(directory)
            .stdin(Stdio::null());
        Self { command, shown }
    }

    /// The same, ended where it has not come to its end by itself in two minutes.
    pub(crate) fn patient<A: AsRef<OsStr>>(program: &Path, args: &[A], directory: &Path) -> Self {
        let mut all: Vec<&OsStr> = vec!["--kill-after=5".as_ref(), "120".as_ref()];
        all.push(program.as_os_str());
        all.extend(args.iter().map(AsRef::as_ref));
        Self::new("timeout", &all, directory)
    }

    /// Sets one variable of the child's environment.
    pub(crate) fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(key, value);
        self
    }

    /// Hides the caller's environment, so that the output depends on the program alone.
    pub(crate) fn sealed(mut self, home: &Path) -> Self {
        self.command
            .env_clear()
            .env("PATH", SYSTEM_PATH)
            .env("HOME", home);
        self
    }

    /// The command line, for people.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// Runs to the end and answers the exit code.
    ///
    /// The child's standard error joins our standard output: the order of lines then stays what it
    /// was, whatever the reader does with the two streams.
    pub(crate) fn run(mut self) -> Result<u8> {
        let status = self
            .command
            .stderr(Stdio::from(std::io::stdout()))
            .status()
            .with_context(|| format!("could not start `{}`", self.shown))?;
        Ok(code_of(status))
    }

    /// Runs to the end; anything but success is an error.
    pub(crate) fn succeed(self) -> Result<()> {
        let shown = self.shown.clone();
        match self.run()? {
            0 => Ok(()),
            code => bail!("`{shown}` failed with exit code {code}"),
        }
    }

    /// Runs to the end and keeps what it printed.
    pub(crate) fn capture(mut self) -> Result<Captured> {
        let output = self
            .command
            .output()
            .with_context(|| format!("could not start `{}`", self.shown))?;
        Ok(Captured {
            success: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Runs to the end and keeps what it printed; anything but success is an error.
    pub(crate) fn text(self) -> Result<String> {
        let shown = self.shown.clone();
        let captured = self.capture()?;
        if captured.success {
            return Ok(captured.stdout);
        }
        bail!("`{shown}` failed: {}", captured.stderr.trim());
    }
}

/// A program in the background. Dropped, it is killed.
pub(crate) struct Running {
    child: std::process::Child,
    said: Lines<BufReader<ChildStdout>>,
    shown: String,
}

impl Running {
    /// Starts `program`, whose standard output can be read.
    pub(crate) fn start(mut program: Child) -> Result<Self> {
        let mut child = program
            .command
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("could not start `{}`", program.shown))?;
        let stdout = child.stdout.take().context("no standard output")?;
        Ok(Self {
            child,
            said: BufReader::new(stdout).lines(),
            shown: program.shown,
        })
    }

    /// The first line of its standard output that starts with `beginning`.
    pub(crate) fn line_that_starts_with(&mut self, beginning: &str) -> Result<String> {
        for line in self.said.by_ref() {
            let line = line?;
            if line.starts_with(beginning) {
                return Ok(line);
            }
        }
        bail!("`{}` ended without a line `{beginning}…`", self.shown);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already can't be killed, and only has to be waited for.
        let _ended = self.child.kill();
        let _code = self.child.wait();
    }
}

/// Prepares a cargo command at the root of the workspace.
pub(crate) fn cargo<A: AsRef<OsStr>>(args: &[A], root: &Path) -> Child {
    Child::new("cargo", args, root)
}

/// Whether `program args` can be run and succeeds.
pub(crate) fn is_there(program: &str, args: &[&str], root: &Path) -> bool {
    Child::new(program, args, root)
        .capture()
        .is_ok_and(|captured| captured.success)
}

/// A child ended by a signal has no code; it failed all the same.
fn code_of(status: ExitStatus) -> u8 {
    status
        .code()
        .map_or(1, |code| u8::try_from(code).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_program_is_an_error_that_carries_its_words() {
        let child = Child::new("sh", &["-c", "echo broken >&2; exit 3"], Path::new("."));
        let error = child.text().unwrap_err().to_string();
        assert!(error.ends_with("broken"), "{error}");
    }

    #[test]
    fn the_exit_code_of_the_program_is_ours() {
        let child = Child::new("sh", &["-c", "exit 7"], Path::new("."));
        assert_eq!(child.run().unwrap(), 7);
    }

    #[test]
    fn a_program_in_the_background_is_gone_once_it_is_dropped() {
        let child = Child::new("sh", &["-c", "echo at $$; exec sleep 600"], Path::new("."));
        let mut running = Running::start(child).unwrap();
        let line = running.line_that_starts_with("at ").unwrap();
        let process = format!("/proc/{}", line.trim_start_matches("at "));
        assert!(Path::new(&process).exists());
        drop(running);
        assert!(!Path::new(&process).exists());
    }

    #[test]
    fn an_absent_program_is_not_there() {
        assert!(!is_there(
            "castellan-no-such-program",
            &["--version"],
            Path::new(".")
        ));
    }

    #[test]
    fn a_sealed_child_sees_nothing_of_the_caller() {
        let child = Child::new("env", &[] as &[&str], Path::new("."));
        let text = child
            .sealed(Path::new("sealed-home"))
            .env("COLUMNS", "100")
            .text()
            .unwrap();
        let mut names: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split('=').next())
            .collect();
        names.sort_unstable();
        assert_eq!(names, ["COLUMNS", "HOME", "PATH"]);
    }
}
