//! How the bytes of a file are known again: by their hash, or for a large file by its identity.

use std::fs::{File, Metadata};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;

use castellan_core::text::{counted, hexadecimal};
use castellan_core::tool::FileMark;
use sha2::{Digest as _, Sha256};

/// Larger files are known by device, inode, size and times instead of by content.
pub const HASHED_UP_TO: u64 = 8 * 1024 * 1024;

/// The mark of an open file.
///
/// # Errors
/// What the system says on reading.
pub fn mark(file: &mut File, metadata: &Metadata) -> io::Result<FileMark> {
    beginning(file, metadata, 0).map(|beginning| beginning.mark)
}

/// A file of which not more was read than its mark takes, or than was wanted.
pub(crate) struct Beginning {
    /// At least as many bytes as were wanted, where the file has them.
    pub(crate) bytes: Vec<u8>,
    pub(crate) mark: FileMark,
    /// Where the mark is one of content.
    hash: Option<Hash>,
}

/// At least the first `wanted` bytes of an open file, and the mark of the whole.
///
/// # Errors
/// What the system says on reading.
pub(crate) fn beginning(
    file: &mut File,
    metadata: &Metadata,
    wanted: u64,
) -> io::Result<Beginning> {
    let is_large = metadata.len() > HASHED_UP_TO;
    let limit = if is_large {
        wanted
    } else {
        wanted.max(HASHED_UP_TO + 1)
    };
    file.seek(SeekFrom::Start(0))?;
    let room = usize::try_from(metadata.len().min(limit)).unwrap_or(0);
    let mut bytes = Vec::with_capacity(room + 1);
    (&mut *file).take(limit).read_to_end(&mut bytes)?;
    let (mark, hash) = if is_large {
        (identity(metadata), None)
    } else if bytes.len() as u64 > HASHED_UP_TO {
        // It has grown since its size was taken.
        (identity(&file.metadata()?), None)
    } else {
        let hash = Hash::default().and(&bytes);
        (hash.clone().mark(), Some(hash))
    };
    Ok(Beginning { bytes, mark, hash })
}

impl Beginning {
    /// The mark of the file with `added` behind what it had, by which it became what `now` says.
    pub(crate) fn grown(self, added: &[u8], now: &Metadata) -> FileMark {
        match self.hash {
            Some(hash) if now.len() <= HASHED_UP_TO => hash.and(added).mark(),
            _ => identity(now),
        }
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
    Hash::default().and(bytes).mark()
}

/// The SHA-256 of `bytes`, in hexadecimal, of a file with this mark. Taken from the mark where that
/// has it.
pub(crate) fn digest(bytes: &[u8], mark: &FileMark) -> String {
    if mark.size <= HASHED_UP_TO {
        mark.digest.clone()
    } else {
        hexadecimal(&Sha256::digest(bytes))
    }
}

/// The hash of some content that may go on.
#[derive(Clone, Default)]
struct Hash {
    digest: Sha256,
    size: u64,
}

impl Hash {
    fn and(mut self, more: &[u8]) -> Self {
        self.digest.update(more);
        self.size += more.len() as u64;
        self
    }

    fn mark(self) -> FileMark {
        FileMark {
            digest: hexadecimal(&self.digest.finalize()),
            size: self.size,
        }
    }
}

/// The mark of a file to which just these pieces were written. It is not read again: somebody else
/// may have written it since.
pub(super) fn mark_of_written(pieces: &[&[u8]], metadata: &Metadata) -> FileMark {
    let size: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
    if size <= HASHED_UP_TO {
        let start = Hash::default();
        pieces
            .iter()
            .fold(start, |hash, piece| hash.and(piece))
            .mark()
    } else {
        identity(metadata)
    }
}

/// How two marks of a file differ, in words.
pub(crate) fn difference(before: &FileMark, now: &FileMark) -> String {
    if before.size == now.size {
        format!("same size, {}, other content", counted(now.size, "byte"))
    } else {
        format!(
            "{} then, {} now",
            counted(before.size, "byte"),
            counted(now.size, "byte")
        )
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
