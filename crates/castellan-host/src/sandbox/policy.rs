//! What a command may do, as data that is handed to the helper which puts it into force.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What encloses commands on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rung {
    /// bubblewrap: a file system, a process table and, where asked for, a network of its own.
    Bubblewrap {
        /// The program, absolute.
        program: PathBuf,
        /// Its version, such as `0.8.0`.
        version: String,
    },
    /// Landlock and seccomp: the kernel refuses what is not allowed.
    Landlock {
        /// The version of Landlock's interface that is in force.
        abi: u32,
    },
    /// Nothing.
    None {
        /// Why nothing does.
        why: String,
    },
}

impl Rung {
    /// What people are shown of it, such as `bubblewrap 0.8.0`.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Bubblewrap { version, .. } => format!("bubblewrap {version}"),
            Self::Landlock { abi } => format!("Landlock ABI {abi}"),
            Self::None { .. } => "none".to_owned(),
        }
    }

    /// Whether it encloses anything.
    #[must_use]
    pub const fn is_some(&self) -> bool {
        !matches!(self, Self::None { .. })
    }
}

/// Whether commands reach other machines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// They do.
    #[default]
    Allow,
    /// They don't; sockets in the file system stay usable.
    Deny,
}

/// A folder that commands neither read nor write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HiddenFolder {
    /// Where it is, links followed.
    pub path: PathBuf,
    /// What is below it and may be read all the same.
    pub shown: Vec<PathBuf>,
    /// Device and inode when it was looked at, `None` where it did not exist.
    identity: Option<(u64, u64)>,
}

impl HiddenFolder {
    /// The folder as it is now.
    #[must_use]
    pub fn new(path: &Path, shown: &[PathBuf]) -> Self {
        let path = resolved(path);
        let shown = shown.iter().map(|shown| resolved(shown));
        Self {
            identity: identity(&path),
            shown: shown.filter(|shown| shown.starts_with(&path)).collect(),
            path,
        }
    }

    /// Whether the folder is another one than it was: hiding the path would not hide it.
    pub(crate) fn has_moved(&self) -> bool {
        self.identity.is_some() && self.identity != identity(&self.path)
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// A path with its links followed as far as it exists.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    if let Ok(resolved) = path.canonicalize() {
        return resolved;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => resolved(parent).join(name),
        _ => path.to_owned(),
    }
}

/// What one command may do. Everything may be read, save what is hidden.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxPolicy {
    /// What encloses it. With [`Rung::None`] the command is refused.
    pub rung: Rung,
    /// Folders, and files, it may write: absolute and without links in them. One that has turned
    /// into a link since is a reason not to run.
    pub writable: Vec<PathBuf>,
    /// Folders it neither reads nor writes, also inside writable ones.
    pub hidden: Vec<HiddenFolder>,
    /// Files and folders in writable ones that it doesn't change: absolute and without links in
    /// them. Landlock can't keep them.
    pub kept: Vec<PathBuf>,
    /// Whether it reaches other machines.
    pub network: Network,
}

impl SandboxPolicy {
    /// Whether a command may write at `path`, which is absolute.
    #[must_use]
    pub fn allows_writing(&self, path: &Path) -> bool {
        let within = |folders: &[PathBuf]| folders.iter().any(|folder| path.starts_with(folder));
        within(&self.writable) && !self.keeps(path) && !self.hides(path)
    }

    /// Whether `path`, which is absolute, stays as it is although a writable folder holds it.
    pub(crate) fn keeps(&self, path: &Path) -> bool {
        let kept = matches!(self.rung, Rung::Bubblewrap { .. });
        kept && self.kept.iter().any(|kept| path.starts_with(kept))
    }

    /// Whether `path`, which is absolute, is hidden from a command.
    #[must_use]
    pub fn hides(&self, path: &Path) -> bool {
        self.hidden.iter().any(|hidden| {
            path.starts_with(&hidden.path)
                && !hidden.shown.iter().any(|shown| path.starts_with(shown))
        })
    }

    /// The writable folders that are there, hidden ones left out.
    ///
    /// # Errors
    /// Says which folder is no longer what it was.
    pub(crate) fn checked_writable(&self) -> Result<Vec<&Path>, String> {
        let mut found = Vec::new();
        for path in &self.writable {
            if self.hides(path) {
                continue;
            }
            match path.canonicalize() {
                Ok(now) if now == *path => found.push(path.as_path()),
                Ok(now) => {
                    return Err(format!(
                        "the writable folder {} now leads to {}",
                        path.display(),
                        now.display()
                    ));
                }
                // What is gone can't be written.
                Err(_) => {}
            }
        }
        Ok(found)
    }

    /// What is kept and still there.
    ///
    /// # Errors
    /// Says what is no longer where it was.
    pub(crate) fn checked_kept(&self) -> Result<Vec<&Path>, String> {
        let mut found = Vec::new();
        for path in &self.kept {
            match path.canonicalize() {
                Ok(now) if now == *path => found.push(path.as_path()),
                _ => {
                    return Err(format!(
                        "{}, which commands may not change, is no longer what it was",
                        path.display()
                    ));
                }
            }
        }
        Ok(found)
    }

    /// Makes sure that the hidden folders are still where they were.
    ///
    /// # Errors
    /// Says which one is not.
    pub(crate) fn check_hidden(&self) -> Result<(), String> {
        match self.hidden.iter().find(|hidden| hidden.has_moved()) {
            Some(moved) => Err(format!(
                "castellan's own folder {} is no longer the one it was at the start",
                moved.path.display()
            )),
            None => Ok(()),
        }
    }
}
