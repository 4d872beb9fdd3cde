//! Writing a file so that at every moment either the old or the new content is there whole, and
//! everything else about the file stays as it was.

mod attributes;
mod draft;
mod lock;

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use castellan_core::{EffectStatus, Outcome};

use castellan_core::tool::FileMark;

use super::mark::{Identity, mark_of_written};
use super::open::{Problem, explain, require_kept, require_regular, shown};
use draft::Draft;

/// Pieces that are shorter are written together.
const TOGETHER: usize = 256 * 1024;

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

/// A write that did not come to its end.
enum Broken {
    /// The system said so.
    Io(io::Error, EffectStatus),
    /// The file is not the one that was judged. It was not touched.
    Changed,
    /// It must not be written. It was not touched.
    Refused(Problem),
}

impl From<io::Error> for Broken {
    /// Before anything was done.
    fn from(error: io::Error) -> Self {
        Self::Io(error, EffectStatus::None)
    }
}

impl Broken {
    fn unsaved(self, target: &Path) -> Unsaved {
        match self {
            Self::Io(error, effect) => Unsaved {
                problem: explain(target, &error),
                effect,
            },
            Self::Changed => {
                let text = format!(
                    "{} changed while it was being written; nothing was written",
                    shown(target)
                );
                Problem::Unusable(text).into()
            }
            Self::Refused(problem) => problem.into(),
        }
    }
}

/// Makes `content`, piece after piece, the content of the file at `target`, a path without links.
/// `before` is what was there when it was decided, `None` for nothing; where something else is
/// there by now, that stays.
///
/// The new content goes to a file without a name in the same folder (or, where the file system has
/// none, a temporary one), is synced and takes the target's place; mode, owner and extended
/// attributes stay. A file with several hard links, or in a folder that takes no new file, or that
/// is a mount of its own, is written in place instead, since a new file would part it from its
/// other names. Missing parents are created.
///
/// Returns the mark of just this content.
///
/// # Errors
/// [`Unsaved`]. The file then has its old content, but where writing in place broke off, or where
/// only the last step, making the folder durable, failed.
pub fn replace(
    target: &Path,
    content: &[&[u8]],
    before: Option<&Identity>,
) -> Result<FileMark, Unsaved> {
    let Some(folder) = target.parent() else {
        return Err(Problem::Unusable(format!("{} does not name a file", shown(target))).into());
    };
    let done = match before {
        None => {
            fs::create_dir_all(folder).map_err(|error| explain(folder, &error))?;
            create(folder, target, content)
        }
        Some(before) => overwrite(folder, target, content, before),
    };
    let metadata = done.map_err(|broken| broken.unsaved(target))?;
    Ok(mark_of_written(content, &metadata))
}

/// Adds to the end of the file at `target`, a path without links. Where that breaks off, what was
/// added is taken away again. Returns what the file was just before, and what it is now.
///
/// # Errors
/// [`Unsaved`].
pub fn append(target: &Path, content: &[u8]) -> Result<(Identity, Metadata), Unsaved> {
    let mut file = OpenOptions::new()
        .append(true)
        .custom_flags(NO_SURPRISE)
        .open(target)
        .map_err(|error| explain(target, &error))?;
    let metadata = file.metadata().map_err(|error| explain(target, &error))?;
    require_regular(target, metadata.file_type())?;
    require_writable(target, &metadata)?;
    let added = file.write_all(content).and_then(|()| file.sync_all());
    let now = added.and_then(|()| file.metadata()).map_err(|error| {
        let effect = undone(&file.set_len(metadata.len()));
        Broken::Io(error, effect).unsaved(target)
    })?;
    Ok((Identity::of(&metadata), now))
}

/// What was judged was a regular file: a FIFO that took its place must not block the open, and a
/// link that did is not followed.
const NO_SURPRISE: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK;

/// Root may write anything; a file without write permission is still meant to stay as it is.
///
/// # Errors
/// [`Problem::Unusable`].
pub fn require_writable(path: &Path, metadata: &Metadata) -> Result<(), Problem> {
    require_kept(path)?;
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o222 == 0 {
        let text = format!(
            "{} is read-only (mode {mode:04o}); nothing was written",
            shown(path)
        );
        return Err(Problem::Unusable(text));
    }
    Ok(())
}

/// This and the following return what the written file is.
fn create(folder: &Path, target: &Path, content: &[&[u8]]) -> Result<Metadata, Broken> {
    let mut draft = Draft::new(folder)?;
    write_pieces(draft.file(), content)?;
    draft.file().sync_all()?;
    match draft.put_new(target) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(Broken::Changed),
        Err(error) => Err(error.into()),
        Ok(()) => make_durable(folder, draft.file()),
    }
}

fn overwrite(
    folder: &Path,
    target: &Path,
    content: &[&[u8]],
    before: &Identity,
) -> Result<Metadata, Broken> {
    let existing = File::options()
        .read(true)
        .custom_flags(NO_SURPRISE)
        .open(target)
        .map_err(|error| match error.raw_os_error() {
            // A link, or nothing at all, is there now.
            Some(libc::ELOOP | libc::ENOENT) => Broken::Changed,
            _ => error.into(),
        })?;
    let metadata = existing.metadata()?;
    if Identity::of(&metadata) != *before {
        return Err(Broken::Changed);
    }
    require_writable(target, &metadata).map_err(Broken::Refused)?;
    if metadata.nlink() > 1 {
        return in_place(target, content, before);
    }
    match renewed(folder, target, content, (&existing, &metadata), before) {
        Err(Broken::Io(error, _)) if must_be_in_place(&error) => in_place(target, content, before),
        Err(broken) => Err(broken),
        Ok(mut draft) => make_durable(folder, draft.file()),
    }
}

/// Errors of a folder that takes no new file, of an owner or attribute that can't be given to one,
/// and of a file that is a mount.
fn must_be_in_place(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::ResourceBusy
            | ErrorKind::CrossesDevices
    )
}

/// A new file in the place of the existing one.
fn renewed(
    folder: &Path,
    target: &Path,
    content: &[&[u8]],
    existing: (&File, &Metadata),
    before: &Identity,
) -> Result<Draft, Broken> {
    let mut draft = Draft::new(folder)?;
    write_pieces(draft.file(), content)?;
    attributes::keep(existing, draft.file())?;
    draft.file().sync_all()?;
    let _held = lock::take(existing.0);
    // Somebody may have been faster while the new content was written and synced.
    match fs::symlink_metadata(target) {
        Ok(there) if Identity::of(&there) == *before => {
            draft.put_over(folder, target)?;
            Ok(draft)
        }
        Ok(_) => Err(Broken::Changed),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(Broken::Changed),
        Err(error) => Err(error.into()),
    }
}

fn make_durable(folder: &Path, written: &File) -> Result<Metadata, Broken> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .and_then(|()| written.metadata())
        .map_err(|error| Broken::Io(error, EffectStatus::Committed))
}

/// Writes over what is there. Room is reserved first, so that a full disk is met while the old
/// content is still whole.
fn in_place(target: &Path, content: &[&[u8]], before: &Identity) -> Result<Metadata, Broken> {
    let half = |error| Broken::Io(error, EffectStatus::Partial);
    let mut file = OpenOptions::new()
        .write(true)
        .custom_flags(NO_SURPRISE)
        .open(target)?;
    let _held = lock::take(&file);
    let old = file.metadata()?;
    if Identity::of(&old) != *before {
        return Err(Broken::Changed);
    }
    let length = content.iter().map(|piece| piece.len() as u64).sum();
    if length > old.len()
        && let Err(error) = reserve(&file, length)
    {
        return Err(Broken::Io(error, undone(&file.set_len(old.len()))));
    }
    write_pieces(&mut file, content).map_err(half)?;
    file.set_len(length).map_err(half)?;
    // Writing clears the set-id bits.
    let same = file
        .metadata()
        .map(|new| new.permissions() == old.permissions());
    if !matches!(same, Ok(true)) {
        file.set_permissions(old.permissions()).unwrap_or_default();
    }
    file.sync_all().and_then(|()| file.metadata()).map_err(half)
}

/// The pieces one after the other; many small ones in few writes.
fn write_pieces(file: &mut impl Write, pieces: &[&[u8]]) -> io::Result<()> {
    let mut gathered = Vec::new();
    for piece in pieces {
        if gathered.len() + piece.len() > TOGETHER {
            file.write_all(&gathered)?;
            gathered.clear();
        }
        if piece.len() > TOGETHER {
            file.write_all(piece)?;
        } else {
            gathered.extend_from_slice(piece);
        }
    }
    file.write_all(&gathered)
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
