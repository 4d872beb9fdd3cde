//! Our own servers, started for a while: the fixtures of the official suite, and the product.

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use crate::process::{Child, Running, cargo};
use crate::say;
use crate::workspace::Workspace;

/// What both say first, before their address.
const LISTENING: &str = "listening at ";

/// A server that answers until this is dropped.
pub(crate) struct Served {
    pub(crate) url: String,
    _running: Running,
    _home: TempDir,
}

impl Served {
    /// The fixtures of the official suite.
    pub(crate) fn fixtures(workspace: &Workspace) -> Result<Self> {
        Self::start(workspace, "castellan-conformance", &[])
    }

    /// `castellan serve` in an empty home.
    pub(crate) fn product(workspace: &Workspace) -> Result<Self> {
        Self::start(
            workspace,
            "castellan",
            &["serve", "--listen", "127.0.0.1:0"],
        )
    }

    fn start(workspace: &Workspace, program: &str, arguments: &[&str]) -> Result<Self> {
        let home = tempfile::tempdir().context("could not make an empty home")?;
        let binary = workspace.target.join("debug").join(program);
        let child = Child::new(binary, arguments, home.path()).sealed(home.path());
        let mut running = Running::start(child)?;
        let line = running.line_that_starts_with(LISTENING)?;
        Ok(Self {
            url: line.trim_start_matches(LISTENING).to_owned(),
            _running: running,
            _home: home,
        })
    }
}

/// Builds the debug programs that these start; what is built already takes a moment.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    let arguments = [
        "build",
        "-q",
        "-p",
        "castellan",
        "-p",
        "castellan-conformance",
    ];
    let build = cargo(&arguments, &workspace.root);
    say::heading(&format!("building: {}", build.shown()));
    build.succeed()
}
