//! Writing a file so that at every moment either the old or the new content is there whole, and
//! everything else about the file stays as it was.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use castellan_core::{EffectStatus, Outcome};

use super::open::{Problem, explain, require_regular};

/// Why a file does not have the content it should have, and what it has instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsaved {
    /// Why.
    pub problem: Problem,
    /// What of it was done all the same.
    pub effect: EffectStatus,
}

impl From<Problem> for Unsaved {
    fn from(problem: Problem) -> Self {
        Self {
            problem,
            effect: EffectStatus::None,
        }
    }
}

impl From<Unsaved> for Outcome {
    fn from(unsaved: Unsaved) -> Self {
        let mut outcome = Self::from(unsaved.problem);
        if let Self::Failed { effect, next, .. } = &mut outcome {
            *effect = unsaved.effect;
            if unsaved.effect != EffectStatus::None {
                "look at what the file has now".clone_into(next);
            }
        }
        outcome
    }
}

/// What is written relative to what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addition {
    /// The content replaces the file's.
    Replace,
    /// The content goes behind the file's.
    Append,
}

/// Writes `content` to the file at `target`, a path without links.
///
/// A replacement goes to a temporary file in the same folder, is synced and renamed onto the
/// target; mode and owner stay. A file with several hard links, or in a folder that takes no new
/// file, is written in place instead, since a rename would part it from its other names.
/// Missing parents are created.
///
/// # Errors
/// [`Unsaved`]. The file then has its old content, but where writing in place broke off, or where only the last step, making the folder durable, failed.
pub fn save(target: &Path, content: &[u8], addition: Addition) -> Result<(), Unsaved> {
    let unsaved = |effect| {
        move |error: io::Error| Unsaved {
            problem: explain(target, &error),
            effect,
        }
    };
    let failed = unsaved(EffectStatus::None);
    let broken = |Broken { error, effect }| unsaved(effect)(error);
    let existing = match fs::metadata(target) {
        Ok(metadata) => {
            require_regular(target, metadata.file_type())?;
            require_writable(target, &metadata)?;
            Some(metadata)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    let Some(folder) = target.parent() else {
        let text = format!("{} does not name a file", target.display());
        return Err(Problem::Unusable(text).into());
    };
    if existing.is_none() {
        fs::create_dir_all(folder).map_err(|error| explain(folder, &error))?;
    }
    match (&existing, addition) {
        (Some(_), Addition::Append) => append(target, content).map_err(broken),
        (Some(metadata), Addition::Replace) if metadata.nlink() > 1 => {
            in_place(target, content).map_err(broken)
        }
        _ => match replace(folder, target, content, existing.as_ref()) {
            Err(error) if existing.is_some() && takes_no_new_file(&error) => {
                in_place(target, content).map_err(broken)
            }
            Err(error) => Err(failed(error)),
            Ok(()) => File::open(folder)
                .and_then(|folder| folder.sync_all())
                .map_err(unsaved(EffectStatus::Committed)),
        },
    }
}

fn takes_no_new_file(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
    )
}

/// Root may write anything; a file without write permission is still meant to stay as it is.
///
/// # Errors
/// [`Problem::Unusable`].
pub fn require_writable(path: &Path, metadata: &Metadata) -> Result<(), Problem> {
    if metadata.permissions().mode() & 0o222 == 0 {
        let mode = metadata.permissions().mode() & 0o7777;
        let text = format!(
            "{} is read-only (mode {mode:04o}); nothing was written",
            path.display()
        );
        return Err(Problem::Unusable(text));
    }
    Ok(())
}

/// Adds to the end. Where that breaks off, what was added is taken away again.
fn append(target: &Path, content: &[u8]) -> Result<(), Broken> {
    let whole = |error| Broken {
        error,
        effect: EffectStatus::None,
    };
    let mut file = OpenOptions::new()
        .append(true)
        .open(target)
        .map_err(whole)?;
    let length = file.metadata().map_err(whole)?.len();
    file.write_all(content)
        .and_then(|()| file.sync_all())
        .map_err(|error| Broken {
            error,
            effect: undone(&file.set_len(length)),
        })
}

/// Writes over what is there. Room is reserved first, so that a full disk is met while the old
/// content is still whole.
fn in_place(target: &Path, content: &[u8]) -> Result<(), Broken> {
    let whole = |error| Broken {
        error,
        effect: EffectStatus::None,
    };
    let half = |error| Broken {
        error,
        effect: EffectStatus::Partial,
    };
    let mut file = OpenOptions::new().write(true).open(target).map_err(whole)?;
    let old = file.metadata().map_err(whole)?;
    let length = content.len() as u64;
    if length > old.len()
        && let Err(error) = reserve(&file, length)
    {
        return Err(Broken {
            error,
            effect: undone(&file.set_len(old.len())),
        });
    }
    file.write_all(content).map_err(half)?;
    file.set_len(length).map_err(half)?;
    // Writing clears the set-id bits.
    let same = file
        .metadata()
        .map(|new| new.permissions() == old.permissions());
    if !matches!(same, Ok(true)) {
        file.set_permissions(old.permissions()).unwrap_or_default();
    }
    file.sync_all().map_err(half)
}

/// A write that did not come to its end.
struct Broken {
    error: io::Error,
    effect: EffectStatus,
}

fn undone(result: &io::Result<()>) -> EffectStatus {
    if result.is_ok() {
        EffectStatus::None
    } else {
        EffectStatus::Partial
    }
}

/// Room for `length` bytes; file systems that can't reserve any are taken at their word.
fn reserve(file: &File, length: u64) -> io::Result<()> {
    use nix::errno::Errno;
    let length = i64::try_from(length).map_err(io::Error::other)?;
    match nix::fcntl::posix_fallocate(file, 0, length) {
        Ok(()) | Err(Errno::EOPNOTSUPP | Errno::EINVAL | Errno::ENOSYS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn replace(
    folder: &Path,
    target: &Path,
    content: &[u8],
    existing: Option<&Metadata>,
) -> io::Result<()> {
    // The mode of a new file is what the process's mask leaves of 0666, as for any program.
    let mut temporary = tempfile::Builder::new()
        .prefix(".castellan-")
        .make_in(folder, |path| {
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o666)
                .open(path)
        })?;
    temporary.write_all(content)?;
    if let Some(metadata) = existing {
        keep_owner(temporary.as_file(), metadata)?;
        let mode = metadata.permissions().mode() & 0o7777;
        temporary
            .as_file()
            .set_permissions(Permissions::from_mode(mode))?;
    }
    temporary.as_file().sync_all()?;
    temporary.persist(target).map_err(|error| error.error)?;
    Ok(())
}

/// Only root may give files away. Where the owner can't be kept, the error makes the file be
/// written in place instead.
fn keep_owner(file: &File, metadata: &Metadata) -> io::Result<()> {
    let new = file.metadata()?;
    if (new.uid(), new.gid()) == (metadata.uid(), metadata.gid()) {
        return Ok(());
    }
    std::os::unix::fs::fchown(file, Some(metadata.uid()), Some(metadata.gid()))
}
