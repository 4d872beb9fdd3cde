//! The built program, run so that what it prints depends on nothing but itself.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use crate::process::{Captured, Child};
use crate::workspace::Workspace;

/// The width help texts are wrapped at.
const COLUMNS: &str = "100";

/// The debug binary with an empty home of its own, gone when this is dropped.
pub(crate) struct Program {
    binary: PathBuf,
    home: TempDir,
}

impl Program {
    /// Takes the binary that cargo has just built.
    pub(crate) fn new(workspace: &Workspace) -> Result<Self> {
        let home = tempfile::tempdir().context("could not make an empty home")?;
        Ok(Self {
            binary: workspace.debug_binary(),
            home,
        })
    }

    /// The `--help` of a command.
    pub(crate) fn help(&self, command: &[String]) -> Result<String> {
        let words = command.iter().map(String::as_str).chain(["--help"]);
        self.text(&words.collect::<Vec<_>>())
    }

    /// What a command prints; a failure is an error.
    pub(crate) fn text(&self, args: &[&str]) -> Result<String> {
        Ok(self.without_home(&self.child(args).text()?))
    }

    /// What a command prints, whether it succeeds or not.
    pub(crate) fn capture(&self, args: &[&str]) -> Result<Captured> {
        let mut captured = self.child(args).capture()?;
        captured.stdout = self.without_home(&captured.stdout);
        Ok(captured)
    }

    fn child(&self, args: &[&str]) -> Child {
        Child::new(&self.binary, args, self.home.path())
            .sealed(self.home.path())
            .env("COLUMNS", COLUMNS)
            .env("NO_COLOR", "1")
    }

    /// Defaults below the home are shown as the reader knows them.
    fn without_home(&self, text: &str) -> String {
        text.replace(&*self.home.path().to_string_lossy(), "~")
    }
}
