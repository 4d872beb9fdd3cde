//! How the bytes of a file are known again: by their hash, or for a large file by its identity.

use std::fs::{File, Metadata};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;

use castellan_core::text::hexadecimal;
use castellan_core::tool::FileMark;
use sha2::{Digest as _, Sha256};

/// Larger files are known by device, inode, size and times instead of by content.
pub const HASHED_UP_TO: u64 = 8 * 1024 * 1024;

/// The mark of an open file. Leaves its position at the start.
///
/// # Errors
/// What the system says on reading.
pub fn mark(file: &mut File, metadata: &Metadata) -> io::Result<FileMark> {
    if metadata.len() > HASHED_UP_TO {
        return Ok(identity(metadata));
    }
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    (&mut *file)
        .take(HASHED_UP_TO + 1)
        .read_to_end(&mut bytes)?;
    file.seek(SeekFrom::Start(0))?;
    // It may have grown since its size was taken.
    if bytes.len() as u64 > HASHED_UP_TO {
        Ok(identity(&file.metadata()?))
    } else {
        Ok(mark_of(&bytes))
    }
}

/// All bytes of an open file, at most `limit`, and the mark of just these. `None` where it is larger.
///
/// # Errors
/// What the system says on reading, and where the file changes meanwhile.
pub fn load(
    file: &mut File,
    metadata: &Metadata,
    limit: u64,
) -> io::Result<Option<(Vec<u8>, FileMark)>> {
    if metadata.len() > limit {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0) + 1);
    (&mut *file).take(limit + 1).read_to_end(&mut bytes)?;
    let size = bytes.len() as u64;
    if size > limit {
        return Ok(None);
    }
    if size <= HASHED_UP_TO {
        let mark = mark_of(&bytes);
        return Ok(Some((bytes, mark)));
    }
    let after = file.metadata()?;
    let mark = identity(&after);
    if size == after.len() && mark == identity(metadata) {
        Ok(Some((bytes, mark)))
    } else {
        Err(io::Error::other("it changed while it was read"))
    }
}

/// The mark of a file with this content.
#[must_use]
pub fn mark_of(bytes: &[u8]) -> FileMark {
    mark_of_pieces(&[bytes])
}

fn mark_of_pieces(pieces: &[&[u8]]) -> FileMark {
    let mut digest = Sha256::new();
    let mut size = 0;
    for piece in pieces {
        digest.update(piece);
        size += piece.len() as u64;
    }
    FileMark {
        digest: hexadecimal(&digest.finalize()),
        size,
    }
}

/// The mark of a file to which just these pieces were written. It is not read again: somebody else
/// may have written it since.
pub(super) fn mark_of_written(pieces: &[&[u8]], metadata: &Metadata) -> FileMark {
    let size: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
    if size <= HASHED_UP_TO {
        mark_of_pieces(pieces)
    } else {
        identity(metadata)
    }
}

/// How two marks of a file differ, in words.
pub(crate) fn difference(before: &FileMark, now: &FileMark) -> String {
    if before.size == now.size {
        format!("same size, {} bytes, other content", now.size)
    } else {
        format!("{} bytes then, {} bytes now", before.size, now.size)
    }
}

fn identity(metadata: &Metadata) -> FileMark {
    let Identity {
        device,
        inode,
        size,
        modified,
        changed,
    } = Identity::of(metadata);
    let digest = format!(
        "identity {device} {inode} {size} {}.{} {}.{}",
        modified.0, modified.1, changed.0, changed.1,
    );
    FileMark { digest, size }
}

/// Which file it is and when it last changed: what tells in an instant that it may have other
/// content now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    /// Seconds and nanoseconds.
    changed: (i64, i64),
}

impl Identity {
    /// That of a file.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}
