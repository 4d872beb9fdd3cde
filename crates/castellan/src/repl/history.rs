//! The lines typed before, kept in the data folder: readable by nobody else, bounded, and without
//! secrets that this process knows.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use castellan_core::secret::Redaction;
use reedline::{
    FileBackedHistory, History, HistoryItem, HistoryItemId, HistorySessionId, Result, SearchQuery,
};

/// How many lines are kept.
const LINES: usize = 1000;
/// A longer line is something pasted, and not kept.
const LONGEST: usize = 4 * 1024;

pub(crate) struct Kept {
    history: FileBackedHistory,
    secrets: Redaction,
}

impl Kept {
    /// The history in `file`, which is made where it is missing.
    ///
    /// # Errors
    /// What keeps the file from being read or made.
    pub(crate) fn open(file: &Path, secrets: Redaction) -> io::Result<Self> {
        if let Some(folder) = file.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
        }
        let made = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(file)?;
        // A file that was there before may be open to others.
        made.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        let history =
            FileBackedHistory::with_file(LINES, file.to_owned()).map_err(io::Error::other)?;
        Ok(Self { history, secrets })
    }

    /// A history that is not kept.
    pub(crate) fn forgetful() -> Self {
        Self {
            history: FileBackedHistory::default(),
            secrets: Redaction::default(),
        }
    }
}

impl History for Kept {
    fn save(&mut self, item: HistoryItem) -> Result<HistoryItem> {
        let line = &item.command_line;
        if line.len() > LONGEST || self.secrets.apply(line.clone()) != *line {
            return Ok(HistoryItem { id: None, ..item });
        }
        let saved = self.history.save(item)?;
        // At once, so that a program that is killed has kept it.
        self.history.sync()?;
        Ok(saved)
    }

    fn load(&self, id: HistoryItemId) -> Result<HistoryItem> {
        self.history.load(id)
    }

    fn count(&self, query: SearchQuery) -> Result<i64> {
        self.history.count(query)
    }

    fn search(&self, query: SearchQuery) -> Result<Vec<HistoryItem>> {
        self.history.search(query)
    }

    fn update(
        &mut self,
        id: HistoryItemId,
        updater: &dyn Fn(HistoryItem) -> HistoryItem,
    ) -> Result<()> {
        self.history.update(id, updater)
    }

    fn clear(&mut self) -> Result<()> {
        self.history.clear()
    }

    fn delete(&mut self, id: HistoryItemId) -> Result<()> {
        self.history.delete(id)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.history.sync()
    }

    fn session(&self) -> Option<HistorySessionId> {
        self.history.session()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kept_for_their_owner_alone_and_without_secrets() {
        let folder = castellan_testkit::Home::new();
        let file = folder.root().join("deep/history.txt");
        let secrets = Redaction::new(["sk-very-secret".to_owned()]);
        let mut kept = Kept::open(&file, secrets).unwrap();
        for line in [
            "one\ntwo",
            "the key is sk-very-secret",
            &"x".repeat(LONGEST + 1),
        ] {
            kept.save(HistoryItem::from_command_line(line)).unwrap();
        }
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text, "one<\\n>two\n");
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
