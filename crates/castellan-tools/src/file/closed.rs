//! Places that no file tool enters: our own state. A model that could write the database could
//! rewrite the record of what it did, and one that could read it would see every session.

use std::path::{Path, PathBuf};

use super::Problem;

/// Folders and files that are closed to file tools, and exceptions within them.
#[derive(Debug, Clone, Default)]
pub struct Closed {
    closed: Vec<PathBuf>,
    open: Vec<PathBuf>,
}

impl Closed {
    /// Closes everything at and below `closed`, but for what is at and below `open`. Links in the
    /// paths are followed once, now.
    #[must_use]
    pub fn new(closed: Vec<PathBuf>, open: Vec<PathBuf>) -> Self {
        let resolved = |paths: Vec<PathBuf>| {
            paths
                .into_iter()
                .map(|path| super::resolve(&path).unwrap_or(path))
                .collect()
        };
        Self {
            closed: resolved(closed),
            open: resolved(open),
        }
    }

    /// Whether anything at or below `folder`, links followed, may be closed.
    pub(crate) fn concerns(&self, folder: &Path) -> bool {
        self.closed
            .iter()
            .any(|closed| closed.starts_with(folder) || folder.starts_with(closed))
    }

    /// Refuses a path, links followed, that is closed.
    ///
    /// # Errors
    /// [`Problem::Unusable`].
    pub fn refuse(&self, path: &Path) -> Result<(), Problem> {
        let within = |folders: &[PathBuf]| folders.iter().any(|folder| path.starts_with(folder));
        if !within(&self.closed) || within(&self.open) {
            return Ok(());
        }
        let text = format!(
            "{} is part of castellan's own state, which tools don't touch",
            super::shown(path)
        );
        Err(Problem::Unusable(text))
    }
}
