//! The built-in file and shell tools. One file a tool: its spec, its parameters, its handler; what
//! only it needs is in a folder of its name.
//!
//! This crate must not know the gate, the store or any surface: a tool is given a view of its
//! session and hands back an outcome.
//!
//! Start reading at [`kill_shell`], the shortest one, then [`write_file`]. [`mod@file`] is the ground
//! all file tools share, [`parse`] where hostile files are read, [`bash`] has the commands.

pub mod bash;
pub mod bash_output;
pub mod diff_file;
pub mod edit_file;
pub mod file;
pub mod kill_shell;
pub mod parse;
pub mod read_file;
pub mod search;
pub mod write_file;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use castellan_core::tool::Typed;
use castellan_core::{Outcome, Tool};
use castellan_host::shell::Shell;

use crate::bash::Background;
use crate::file::{Closed, Recent};
use crate::parse::Parser;

/// What the tools of this crate need.
#[derive(Clone)]
pub struct Needs {
    /// Where commands run.
    pub shell: Shell,
    /// The commands that run in the background.
    pub background: Background,
    /// The whole environment of commands.
    pub environment: Vec<(String, String)>,
    /// How long a command may run that sets no timeout.
    pub timeout: Duration,
    /// What file tools don't touch.
    pub closed: Closed,
    /// Where hostile files are parsed.
    pub parser: Arc<dyn Parser>,
}

impl fmt::Debug for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Needs")
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Every tool of this crate, in the order a model is shown them.
#[must_use]
pub fn all(needs: Needs) -> Vec<Arc<dyn Tool>> {
    let Needs {
        shell,
        background,
        environment,
        timeout,
        closed,
        parser,
    } = needs;
    let recent = Recent::default();
    vec![
        Arc::new(Typed::new(bash::Bash::new(
            shell,
            background.clone(),
            environment,
            timeout,
        ))),
        Arc::new(Typed::new(bash_output::BashOutput::new(background.clone()))),
        Arc::new(Typed::new(kill_shell::KillShell::new(background))),
        Arc::new(Typed::new(
            read_file::ReadFile::new(closed.clone(), parser).remembering(&recent),
        )),
        Arc::new(Typed::new(
            write_file::WriteFile::new(closed.clone()).remembering(&recent),
        )),
        Arc::new(Typed::new(
            edit_file::EditFile::new(closed.clone()).remembering(&recent),
        )),
        Arc::new(Typed::new(
            diff_file::DiffFile::new(closed.clone()).remembering(&recent),
        )),
        Arc::new(Typed::new(search::Search::new(closed))),
    ]
}

/// Runs work that may wait for a disk beside everything else.
async fn blocking<T: Send + 'static>(
    doing: &str,
    work: impl FnOnce() -> Result<T, Outcome> + Send + 'static,
) -> Result<T, Outcome> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Outcome::failed(format!("{doing} broke down: {error}"), "")))
}

/// The domain of these tools.
const DOMAIN: &str = "workspace";
