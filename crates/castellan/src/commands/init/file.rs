//! A client's settings file: read whole, kept as it was beside itself, and written whole or not at
//! all.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use castellan_core::EffectStatus;
use castellan_tools::file::text::{Encoding, Replacement, Text};
use castellan_tools::file::{
    Identity, Problem, diff, load, open, replace, require_writable, resolve,
};

use super::syntax::changed_part;
use crate::error::CommandError;

/// Bytes of the largest settings that are read. Some clients keep histories in theirs.
const LARGEST: u64 = 64 * 1024 * 1024;
/// What the name of a file has behind it that holds settings as they were.
const KEPT: &str = ".castellan-backup";
/// How many different ones of them there may be.
const MOST_KEPT: usize = 100;
/// The permissions of a new file: clients come to keep keys in theirs.
const NEW: u32 = 0o600;
/// About how many bytes of a diff are shown.
const SHOWN: usize = 64 * 1024;

/// A settings file, or the place of one that is not there yet.
#[derive(Debug)]
pub(super) struct File {
    /// As the client names it.
    pub(super) path: PathBuf,
    /// Where it is, links followed.
    target: PathBuf,
    text: Text,
    before: Option<Before>,
}

/// What was there.
#[derive(Debug)]
struct Before {
    bytes: Vec<u8>,
    metadata: fs::Metadata,
}

impl File {
    /// Reads it.
    ///
    /// # Errors
    /// What is not a readable file of UTF-8 text.
    pub(super) fn read(path: PathBuf) -> Result<Self, CommandError> {
        if path.is_dir() {
            return Err(CommandError::failed(format!(
                "{} is a folder, where the settings file should be",
                path.display()
            ))
            .hint("see what put it there; the client can't read it either"));
        }
        let mut opened = match open(&path) {
            Ok(opened) => opened,
            Err(Problem::Missing(_)) => return Self::to_be(path),
            Err(problem) => return Err(failed(problem)),
        };
        let loaded = load(&mut opened.file, &opened.metadata, LARGEST);
        let loaded = loaded.map_err(|error| {
            CommandError::failed(format!("failed to read {}: {error}", path.display()))
                .hint("quit the client and try again")
        })?;
        let Some((bytes, _)) = loaded else {
            return Err(CommandError::failed(format!(
                "{} has more than {} MiB, which is too much for settings",
                path.display(),
                LARGEST / 1024 / 1024
            )));
        };
        let unfit = |what: &str| {
            let text = format!("{} is {what}; nothing was changed", path.display());
            CommandError::failed(text).hint("save it as UTF-8 text in an editor, and try again")
        };
        let text = Text::decode(bytes.clone()).map_err(|binary| unfit(binary.0))?;
        if text.encoding() != Encoding::Utf8 {
            return Err(unfit(text.encoding().name()));
        }
        Ok(Self {
            target: opened.path,
            text,
            before: Some(Before {
                bytes,
                metadata: opened.metadata,
            }),
            path,
        })
    }

    /// One that is not there, or a link that leads to none.
    fn to_be(path: PathBuf) -> Result<Self, CommandError> {
        let target = resolve(&path).map_err(failed)?;
        let text = Text::decode(Vec::new()).map_err(|binary| CommandError::failed(binary.0))?;
        Ok(Self {
            path,
            target,
            text,
            before: None,
        })
    }

    /// Its text, without byte order mark and with LF line ends.
    pub(super) fn content(&self) -> &str {
        str::from_utf8(self.text.content()).unwrap_or_default()
    }

    /// How it would differ with this content.
    pub(super) fn diff(&self, content: &str) -> String {
        let (from, to) = (self.path.display(), self.path.display());
        let replacements = [self.replacement(content)];
        let style = diff::Style {
            context: diff::CONTEXT,
            limit: SHOWN,
            old: Encoding::Utf8,
            new: Encoding::Utf8,
        };
        let regions = diff::regions(self.text.content(), &replacements);
        let diff = diff::unified(regions, style);
        let from = match self.before {
            Some(_) => from.to_string(),
            None => "/dev/null".to_owned(),
        };
        format!("--- {from}\n+++ {to}\n{}{}", diff.text, diff.cut_note())
    }

    /// Gives it this content; what it had is kept beside it, in the file whose path is returned.
    /// Byte order mark, line ends, permissions and links stay.
    ///
    /// # Errors
    /// What kept it from being written. It then is as it was, unless the error says otherwise.
    pub(super) fn write(&self, content: &str) -> Result<Option<PathBuf>, CommandError> {
        let bytes = self.text.replaced(&[self.replacement(content)]);
        let Some(before) = &self.before else {
            replace(&self.target, &[&bytes], None).map_err(|unsaved| failed(unsaved.problem))?;
            let permitted = fs::set_permissions(&self.target, Permissions::from_mode(NEW));
            permitted.map_err(crate::error::io(&format!(
                "make {} readable for you alone",
                self.target.display()
            )))?;
            return Ok(None);
        };
        require_writable(&self.target, &before.metadata).map_err(failed)?;
        let kept = self.keep(before)?;
        let identity = Identity::of(&before.metadata);
        match replace(&self.target, &[&bytes], Some(&identity)) {
            Ok(_) => Ok(Some(kept)),
            // What was kept stays: another run, which was faster, may have told of it by now.
            Err(unsaved) if unsaved.effect == EffectStatus::None => {
                Err(failed(unsaved.problem).hint("quit the client, if it is that, and try again"))
            }
            Err(unsaved) => Err(failed(unsaved.problem).hint(format!(
                "look at what it has now; as it was, it is in {}",
                kept.display()
            ))),
        }
    }

    /// The part that changes.
    fn replacement(&self, content: &str) -> Replacement {
        let (old, new) = (self.text.content(), content.as_bytes());
        let range = changed_part(old, new);
        let behind = old.len() - range.end;
        let part = new.get(range.start..new.len() - behind);
        Replacement {
            range,
            new: part.unwrap_or_default().into(),
        }
    }

    /// Keeps what is there beside it, under the first name that is free or has just that.
    fn keep(&self, before: &Before) -> Result<PathBuf, CommandError> {
        let named = self.path.file_name().unwrap_or_default();
        for number in 1..=MOST_KEPT {
            let mut name = named.to_owned();
            name.push(KEPT);
            if number > 1 {
                name.push(format!("-{number}"));
            }
            let path = self.path.with_file_name(name);
            match put_new(&path, before) {
                Ok(()) => return Ok(path),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    if holds(&path, &before.bytes) {
                        return Ok(path);
                    }
                }
                Err(error) => {
                    return Err(CommandError::failed(format!(
                        "failed to keep the file as it was in {}: {error}; nothing was changed",
                        path.display()
                    )));
                }
            }
        }
        Err(CommandError::failed(format!(
            "{MOST_KEPT} older versions are kept beside {} already; nothing was changed",
            self.path.display()
        ))
        .hint(format!(
            "take those you don't need away: their names end with {KEPT} and a number"
        )))
    }
}

/// Whether a regular file has just these bytes. Whatever else has the name is not opened.
fn holds(path: &Path, bytes: &[u8]) -> bool {
    let alike = path
        .symlink_metadata()
        .is_ok_and(|there| there.is_file() && there.len() == bytes.len() as u64);
    alike && fs::read(path).is_ok_and(|there| there == bytes)
}

/// A new file with the same bytes and permissions, which at no time has wider ones.
fn put_new(path: &Path, before: &Before) -> io::Result<()> {
    let mode = before.metadata.permissions().mode() & 0o777;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(NEW & mode)
        .open(path)?;
    let written = file
        .write_all(&before.bytes)
        .and_then(|()| file.set_permissions(Permissions::from_mode(mode)))
        .and_then(|()| file.sync_all());
    if written.is_err() {
        fs::remove_file(path).unwrap_or_default();
    }
    written
}

fn failed(problem: Problem) -> CommandError {
    match problem {
        Problem::Missing(what) | Problem::Unusable(what) => CommandError::failed(what),
    }
}
