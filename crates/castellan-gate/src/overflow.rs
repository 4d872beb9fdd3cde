//! Where the whole of an output goes that is too long for a model: a file that the outcome names.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use castellan_core::port::Overflow;
use castellan_core::secret::{RedactedStream, Redaction};
use castellan_core::text::plain;

/// The most bytes of one output that are kept; the file says where it ends.
const KEPT: usize = 256 * 1024 * 1024;
/// Lines are made plain whole; a longer one is taken in pieces.
const LINE: usize = 64 * 1024;

/// A file that is made once there is something to keep.
pub(crate) struct Spill {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    file: Option<io::Result<File>>,
    redacted: RedactedStream,
    line: String,
    written: usize,
}

impl Spill {
    pub(crate) fn new(path: PathBuf, redaction: Redaction) -> Self {
        let redacted = RedactedStream::new(redaction);
        let state = State {
            file: None,
            redacted,
            line: String::new(),
            written: 0,
        };
        Self {
            path,
            state: Mutex::new(state),
        }
    }

    /// Writes what is still held back. The file, where there is one that has the whole output.
    pub(crate) fn finish(&self) -> Option<PathBuf> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.file.as_ref()?;
        let rest = state.redacted.finish();
        state.line.push_str(&rest);
        let line = std::mem::take(&mut state.line);
        state.write(&line);
        matches!(state.file, Some(Ok(_))).then(|| self.path.clone())
    }
}

impl State {
    fn write(&mut self, text: &str) {
        let Some(Ok(file)) = &mut self.file else {
            return;
        };
        if self.written > KEPT {
            return;
        }
        let text = plain(text);
        self.written += text.len();
        let result = if self.written > KEPT {
            file.write_all(format!("[kept only up to here: {KEPT} bytes]\n").as_bytes())
        } else {
            file.write_all(text.as_bytes())
        };
        if let Err(error) = result {
            self.file = Some(Err(error));
        }
    }
}

impl Overflow for Spill {
    fn push(&self, text: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.file.is_none() {
            state.file = Some(create(&self.path));
        }
        let clean = state.redacted.push(text);
        state.line.push_str(&clean);
        let whole = match state.line.rfind('\n') {
            Some(end) => end + 1,
            None if state.line.len() > LINE => state.line.len(),
            None => return,
        };
        let rest = state.line.split_off(whole);
        let lines = std::mem::replace(&mut state.line, rest);
        state.write(&lines);
    }

    fn place(&self) -> Option<String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.file.as_ref()? {
            Ok(_) => Some(self.path.display().to_string()),
            Err(error) => Some(format!("no file, since writing one failed ({error})")),
        }
    }
}

/// A file that only its owner may read, in a folder that only its owner may enter.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(path)
}
