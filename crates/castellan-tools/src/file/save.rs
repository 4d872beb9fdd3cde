//! Writing a file so that at every moment either the old or the new content is there whole, and
//! everything else about the file stays as it was.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use super::open::{Problem, explain, require_regular};

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
/// [`Problem`]; the file then has its old content, but for a failure while writing in place.
pub fn save(target: &Path, content: &[u8], addition: Addition) -> Result<(), Problem> {
    let failed = |error: io::Error| explain(target, &error);
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
        return Err(Problem::Unusable(format!(
            "{} does not name a file",
            target.display()
        )));
    };
    if existing.is_none() {
        fs::create_dir_all(folder).map_err(|error| explain(folder, &error))?;
    }
    match (&existing, addition) {
        (Some(_), Addition::Append) => append(target, content).map_err(failed),
        (Some(metadata), Addition::Replace) if metadata.nlink() > 1 => {
            in_place(target, content).map_err(failed)
        }
        _ => match replace(folder, target, content, existing.as_ref()) {
            Err(error) if existing.is_some() && takes_no_new_file(&error) => {
                in_place(target, content).map_err(failed)
            }
            result => result.map_err(failed),
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
fn require_writable(path: &Path, metadata: &Metadata) -> Result<(), Problem> {
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

fn append(target: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).open(target)?;
    file.write_all(content)?;
    file.sync_all()
}

fn in_place(target: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).truncate(true).open(target)?;
    file.write_all(content)?;
    file.sync_all()
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
        keep_owner(temporary.as_file(), metadata);
        let mode = metadata.permissions().mode() & 0o7777;
        temporary
            .as_file()
            .set_permissions(Permissions::from_mode(mode))?;
    }
    temporary.as_file().sync_all()?;
    temporary.persist(target).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()
}

/// Only root may give files away; for anyone else the owner is already right, or can't be kept.
fn keep_owner(file: &File, metadata: &Metadata) {
    if let Ok(new) = file.metadata()
        && (new.uid(), new.gid()) != (metadata.uid(), metadata.gid())
    {
        std::os::unix::fs::fchown(file, Some(metadata.uid()), Some(metadata.gid()))
            .unwrap_or_default();
    }
}
