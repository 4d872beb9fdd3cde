//! A file that is not there yet: it has no name until its content is whole, so that a process that
//! is killed in the middle leaves nothing behind.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempPath;

/// How names of temporary files begin. They are rarely seen: only where the file system can't do
/// without, or for the moment between getting a name and getting the right one.
const PREFIX: &str = ".castellan-";

/// A file on its way.
pub(super) struct Draft {
    file: File,
    /// Its name, where it needs one. Dropped, the file is removed.
    name: Option<TempPath>,
}

impl Draft {
    /// An empty one in `folder`. Its mode is what the process's mask leaves of 0666, as for any
    /// program.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        let nameless = OpenOptions::new()
            .write(true)
            .mode(0o666)
            .custom_flags(libc::O_TMPFILE)
            .open(folder);
        match nameless {
            Ok(file) if linkable(&file).symlink_metadata().is_ok() => Ok(Self { file, name: None }),
            // Without /proc it would stay nameless; not every file system has such files.
            Ok(_) => Self::named(folder),
            Err(error) if is_unknown(&error) => Self::named(folder),
            Err(error) => Err(error),
        }
    }

    fn named(folder: &Path) -> io::Result<Self> {
        let temporary = tempfile::Builder::new()
            .prefix(PREFIX)
            .make_in(folder, |path| {
                OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .mode(0o666)
                    .open(path)
            })?;
        let (file, name) = temporary.into_parts();
        Ok(Self {
            file,
            name: Some(name),
        })
    }

    pub(super) const fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Gives it the name `target`, which nothing may have.
    pub(super) fn put_new(&mut self, target: &Path) -> io::Result<()> {
        match self.name.take() {
            Some(name) => name.persist_noclobber(target).map_err(|error| error.error),
            None => link(&self.file, target),
        }
    }

    /// Puts it in the place of what is at `target` in `folder`.
    pub(super) fn put_over(&mut self, folder: &Path, target: &Path) -> io::Result<()> {
        let name = match self.name.take() {
            Some(name) => name,
            None => tempfile::Builder::new()
                .prefix(PREFIX)
                .make_in(folder, |path| link(&self.file, path))?
                .into_temp_path(),
        };
        name.persist(target).map_err(|error| error.error)
    }
}

/// Errors of a file system, or a kernel, that knows no nameless files.
fn is_unknown(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL | libc::ENOENT)
    )
}

/// A path that leads to an open file without a name.
fn linkable(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn link(file: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    Ok(linkat(
        CWD,
        linkable(file),
        CWD,
        path,
        AtFlags::SYMLINK_FOLLOW,
    )?)
}
