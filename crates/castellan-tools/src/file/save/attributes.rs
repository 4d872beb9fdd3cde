//! What a file has besides its content, given to the file that takes its place: owner, extended
//! attributes (access control lists are one), mode.

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;

/// Bytes of all names, and of one value, at most; the kernel has no larger ones.
const LARGEST: usize = 64 * 1024;

/// Gives `new` what `old` has.
///
/// # Errors
/// What the system says. Permission denied, where it is not ours to give: then the old file must be
/// written in place.
pub(super) fn keep(old: (&File, &Metadata), new: &File) -> io::Result<()> {
    let (old, metadata) = old;
    keep_owner(new, metadata)?;
    keep_extended(old, new)?;
    // Last, since a new owner takes the set-id bits away and a list takes part in the mode.
    let mode = metadata.permissions().mode() & 0o7777;
    new.set_permissions(Permissions::from_mode(mode))
}

/// Only root may give files away.
fn keep_owner(new: &File, metadata: &Metadata) -> io::Result<()> {
    let own = new.metadata()?;
    if (own.uid(), own.gid()) == (metadata.uid(), metadata.gid()) {
        return Ok(());
    }
    std::os::unix::fs::fchown(new, Some(metadata.uid()), Some(metadata.gid()))
}

fn keep_extended(old: &File, new: &File) -> io::Result<()> {
    let (wanted, given) = (names(old)?, names(new)?);
    // A folder may give its new files a list that the old one did not have.
    for name in given.iter().filter(|name| !wanted.contains(*name)) {
        fremovexattr(new, name.as_slice()).map_err(denied)?;
    }
    for name in &wanted {
        let value = value(old, name)?;
        // Labels of the system are often there already, and not ours to set.
        if given.contains(name) && self::value(new, name)? == value {
            continue;
        }
        fsetxattr(new, name.as_slice(), &value, XattrFlags::empty()).map_err(denied)?;
    }
    Ok(())
}

fn names(file: &File) -> io::Result<Vec<Vec<u8>>> {
    let mut list = vec![0; LARGEST];
    match flistxattr(file, &mut list) {
        Ok(length) => {
            list.truncate(length);
            let names = list.split(|byte| *byte == 0);
            Ok(names
                .filter(|name| !name.is_empty())
                .map(<[u8]>::to_vec)
                .collect())
        }
        // A file system without.
        Err(Errno::NOTSUP | Errno::NOSYS) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

fn value(file: &File, name: &[u8]) -> io::Result<Vec<u8>> {
    let mut value = vec![0; LARGEST];
    let length = fgetxattr(file, name, &mut value).map_err(denied)?;
    value.truncate(length);
    Ok(value)
}

/// An attribute that can't be carried over is one more reason to keep the old file.
fn denied(error: Errno) -> io::Error {
    match error {
        Errno::NOSPC | Errno::DQUOT => error.into(),
        _ => io::Error::from(io::ErrorKind::PermissionDenied),
    }
}
