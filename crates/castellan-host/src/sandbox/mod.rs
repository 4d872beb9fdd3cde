//! The sandbox: which rung of the ladder works on this machine, and what it lets a command do.
//!
//! The ladder is bubblewrap, then Landlock with seccomp, then nothing. [`Sandbox::find`] climbs
//! down it once, trying each rung on a real command (`probe`), and from then on makes a
//! [`SandboxPolicy`] for each command. The helper under which the command runs puts that into force
//! (`helper::enclosed`); where it can't, the command is not run.

mod caches;
mod gaps;
mod notice;
mod policy;
mod probe;

use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use crate::env::Environment;
use crate::error::Error;
use crate::shell::Shell;

use policy::resolved;
pub use policy::{HiddenFolder, Network, Rung, SandboxPolicy};

/// Whether commands are to be enclosed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// By the best rung that works here, and where none does by nothing.
    #[default]
    Auto,
    /// By a rung that works here; where none does, nothing is run.
    Require,
    /// By nothing.
    Off,
}

/// What is wanted of a sandbox.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// Whether commands are to be enclosed.
    pub mode: Mode,
    /// Whether they reach other machines.
    pub network: Network,
    /// Folders they may write beside their workspace and the temporary folder, absolute.
    pub write: Vec<PathBuf>,
    /// Whether they may also write the build caches of this user.
    pub caches: bool,
    /// Folders they neither read nor write.
    pub hidden: Vec<PathBuf>,
    /// What of these they may read all the same.
    pub shown: Vec<PathBuf>,
    /// What they don't change in their workspace, relative to it.
    pub kept: Vec<PathBuf>,
}

/// What encloses the commands of this process.
#[derive(Debug, Clone)]
pub struct Sandbox {
    mode: Mode,
    rung: Rung,
    network: Network,
    write: Vec<PathBuf>,
    hidden: Vec<HiddenFolder>,
    /// What commands don't change, relative to their workspace.
    kept: Vec<PathBuf>,
    /// Rungs that were tried before, with the reasons for not taking them.
    passed: Vec<String>,
    /// Folders that were asked for and can't be written, with the reasons.
    unwritable: Vec<String>,
}

impl Sandbox {
    /// No sandbox, for this reason.
    #[must_use]
    pub fn off(why: impl Into<String>) -> Self {
        Self::none(Mode::Off, why.into())
    }

    /// Nothing has been looked for yet: no command is run.
    pub(crate) fn undecided() -> Self {
        Self::none(Mode::Require, "it was not looked for".to_owned())
    }

    const fn none(mode: Mode, why: String) -> Self {
        Self {
            mode,
            rung: Rung::None { why },
            network: Network::Allow,
            write: Vec::new(),
            hidden: Vec::new(),
            kept: Vec::new(),
            passed: Vec::new(),
            unwritable: Vec::new(),
        }
    }

    /// Finds the best rung that works here, by trying each on a command of `shell`. Takes a few
    /// milliseconds, and ten seconds where a rung hangs: what shows nothing is tried twice.
    pub async fn find(wish: &Wish, shell: &Shell, environment: &Environment) -> Self {
        let mut sandbox = Self::unproven(wish, environment);
        if sandbox.mode == Mode::Off {
            sandbox.rung = Rung::None {
                why: "switched off in the configuration".to_owned(),
            };
            return sandbox;
        }
        let (rung, passed) = probe::ladder(&sandbox, shell, environment).await;
        sandbox.rung = rung;
        sandbox.passed = passed;
        sandbox
    }

    /// Everything but the rung.
    fn unproven(wish: &Wish, environment: &Environment) -> Self {
        let hidden: Vec<HiddenFolder> = wish
            .hidden
            .iter()
            .map(|path| HiddenFolder::new(path, &wish.shown))
            .collect();
        let mut sandbox = Self {
            mode: wish.mode,
            rung: Rung::None { why: String::new() },
            network: wish.network,
            write: temporary(environment),
            hidden,
            kept: wish.kept.clone(),
            passed: Vec::new(),
            unwritable: Vec::new(),
        };
        for path in &wish.write {
            match sandbox.writable(path) {
                Ok(path) => sandbox.write.push(path),
                Err(reason) => sandbox.unwritable.push(reason),
            }
        }
        if wish.caches {
            sandbox.write.extend(caches::existing(environment));
        }
        sandbox
    }

    /// A folder somebody asked for, links followed.
    fn writable(&self, path: &Path) -> Result<PathBuf, String> {
        let shown = path.display();
        let real = path
            .canonicalize()
            .map_err(|error| format!("{shown} can't be opened: {error}"))?;
        if !real.is_dir() {
            return Err(format!("{shown} is not a folder"));
        }
        if let Some(hidden) = self
            .hidden
            .iter()
            .find(|hidden| real.starts_with(&hidden.path))
        {
            return Err(format!(
                "{shown} is part of castellan's own folder {}",
                hidden.path.display()
            ));
        }
        access(&real, AccessFlags::W_OK)
            .map_err(|error| format!("you can't write in {shown}: {}", error.desc()))?;
        Ok(real)
    }

    /// The rung that is used.
    #[must_use]
    pub const fn rung(&self) -> &Rung {
        &self.rung
    }

    /// What people are shown: `bubblewrap 0.8.0`, `Landlock ABI 7`, `none`.
    #[must_use]
    pub fn name(&self) -> String {
        self.rung.name()
    }

    /// Whether commands must be enclosed.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.mode == Mode::Require
    }

    /// Whether commands reach other machines.
    #[must_use]
    pub const fn network(&self) -> Network {
        self.network
    }

    /// Why better rungs are not used, one line each.
    #[must_use]
    pub fn passed_over(&self) -> &[String] {
        &self.passed
    }

    /// Folders that were asked for and can't be made writable, one line each.
    #[must_use]
    pub fn unwritable(&self) -> &[String] {
        &self.unwritable
    }

    /// One line that says what encloses commands that work in `workspace`.
    #[must_use]
    pub fn line(&self, workspace: &Path) -> String {
        match &self.rung {
            Rung::None { why } => format!("none ({why})"),
            rung => {
                let network = match self.network {
                    Network::Allow => "network allowed",
                    Network::Deny => "network denied",
                };
                let mut line = format!("{}; {network}", rung.name());
                for gap in self.gaps(workspace).iter().chain(&self.unwritable) {
                    line.push_str("; ");
                    line.push_str(gap);
                }
                line
            }
        }
    }

    /// The folders commands may write that work in `workspace`.
    #[must_use]
    pub fn write(&self, workspace: &Path) -> Vec<PathBuf> {
        let mut all = vec![workspace.to_owned()];
        all.extend(self.write.iter().cloned());
        let mut kept: Vec<PathBuf> = Vec::new();
        for path in all {
            if !kept.iter().any(|known| path.starts_with(known)) {
                kept.retain(|known| !known.starts_with(&path));
                kept.push(path);
            }
        }
        kept
    }

    /// What a command that works in `workspace` may do; `None` where nothing encloses commands and
    /// nothing has to. `workspace` is absolute and without links in it.
    ///
    /// # Errors
    /// [`Error::Sandbox`] where a sandbox is required and can't give what is asked of it. What it
    /// says is what [`demand`](Self::demand) says at the start.
    pub fn policy(&self, workspace: &Path) -> Result<Option<SandboxPolicy>, Error> {
        self.demand(workspace)?;
        if !self.rung.is_some() {
            return Ok(None);
        }
        Ok(Some(SandboxPolicy {
            rung: self.rung.clone(),
            writable: self.write(workspace),
            hidden: self.hidden.clone(),
            kept: self.kept(workspace),
            network: self.network,
        }))
    }

    /// Makes sure that what is required is given.
    ///
    /// # Errors
    /// [`Error::Sandbox`] where a sandbox is required and there is none, or it leaves a hidden folder
    /// or a denied network open, or a folder that was asked for can't be made writable.
    pub fn demand(&self, workspace: &Path) -> Result<(), Error> {
        if !self.is_required() {
            return Ok(());
        }
        let refuse = |reason: String| {
            Err(Error::Sandbox {
                rung: self.name(),
                reason,
            })
        };
        if let Rung::None { why } = &self.rung {
            return refuse(format!("a sandbox is required and none works here: {why}"));
        }
        let missing = [self.ungiven(workspace), self.unwritable.clone()].concat();
        if missing.is_empty() {
            return Ok(());
        }
        refuse(format!(
            "a sandbox is required and this one can't give all that is asked of it: {}",
            missing.join("; ")
        ))
    }
}

/// The temporary folders of commands: the one they are told of, or the usual two.
fn temporary(environment: &Environment) -> Vec<PathBuf> {
    let named = environment
        .get("TMPDIR")
        .map(Path::new)
        .filter(|path| path.is_absolute());
    let folders = named.map_or_else(
        || vec![PathBuf::from("/tmp"), PathBuf::from("/var/tmp")],
        |named| vec![named.to_owned()],
    );
    folders
        .iter()
        .map(|folder| resolved(folder))
        .filter(|folder| folder.is_dir())
        .collect()
}
