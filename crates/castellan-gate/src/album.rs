//! Where pictures lie that belong to results and messages: one file each, named by its digest.

use std::io::{self, Write as _};
use std::path::PathBuf;

use castellan_core::text::hexadecimal;
use castellan_core::{Picture, PictureRef, PictureType};
use sha2::{Digest as _, Sha256};

use crate::overflow::create;

/// The largest picture a model is shown, in bytes.
pub const PICTURE_LIMIT: usize = 4 * 1024 * 1024;
/// The most pictures one result or message carries.
pub const PICTURES: usize = 20;

/// The folder of pictures.
#[derive(Debug, Clone)]
pub struct Album {
    folder: PathBuf,
}

impl Album {
    pub(crate) const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Keeps a picture, unless it is there already.
    ///
    /// # Errors
    /// What the system says, and what keeps it from being a picture for a model.
    pub fn add(&self, picture: &Picture) -> io::Result<PictureRef> {
        let refuse = |what: &str| Err(io::Error::other(what.to_owned()));
        if picture.bytes.len() > PICTURE_LIMIT {
            return refuse(&format!("it is larger than {} MiB", PICTURE_LIMIT >> 20));
        }
        if PictureType::of(&picture.bytes) != Some(picture.kind) {
            return refuse("its bytes are not what it is said to be");
        }
        let digest = hexadecimal(&Sha256::digest(&picture.bytes));
        let name = format!("{digest}.{}", picture.kind.extension());
        let path = self.folder.join(&name);
        if !path
            .metadata()
            .is_ok_and(|kept| kept.len() == picture.bytes.len() as u64)
        {
            // Whole or not at all: another process may read it at once.
            let partial = self.folder.join(format!("{name}.{}", std::process::id()));
            let written = create(&partial).and_then(|mut file| file.write_all(&picture.bytes));
            written
                .and_then(|()| std::fs::rename(&partial, &path))
                .inspect_err(|_| {
                    drop(std::fs::remove_file(&partial));
                })?;
        }
        Ok(PictureRef {
            media_type: picture.kind,
            width: picture.width,
            height: picture.height,
            bytes: picture.bytes.len() as u64,
            digest,
            path,
        })
    }

    /// A picture that was kept.
    ///
    /// # Errors
    /// What the system says.
    pub fn read(&self, kept: &PictureRef) -> io::Result<Picture> {
        Ok(Picture {
            kind: kept.media_type,
            width: kept.width,
            height: kept.height,
            bytes: std::fs::read(&kept.path)?.into(),
        })
    }

    /// Keeps the pictures of a result; `text` says which of them are not shown, and why.
    pub(crate) fn keep(&self, pictures: &[Picture], text: &mut String) -> Vec<PictureRef> {
        let mut kept = Vec::with_capacity(pictures.len().min(PICTURES));
        for (number, picture) in (1..).zip(pictures.iter().take(PICTURES)) {
            match self.add(picture) {
                Ok(picture) => kept.push(picture),
                Err(error) => text.push_str(&format!("\n[picture {number} is not shown: {error}]")),
            }
        }
        if pictures.len() > PICTURES {
            let total = pictures.len();
            text.push_str(&format!(
                "\n[only {PICTURES} of {total} pictures are shown]"
            ));
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn picture(bytes: &[u8]) -> Picture {
        Picture {
            kind: PictureType::Gif,
            width: 1,
            height: 2,
            bytes: Arc::from(bytes),
        }
    }

    #[test]
    fn a_picture_is_kept_once_and_named_by_its_digest() {
        let folder = tempfile::tempdir().unwrap();
        let album = Album::new(folder.path().join("pictures"));
        let first = album.add(&picture(b"GIF89a..")).unwrap();
        assert_eq!(album.add(&picture(b"GIF89a..")).unwrap(), first);
        assert_eq!(std::fs::read(&first.path).unwrap(), b"GIF89a..");
        assert_eq!(first.path.parent().unwrap().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_picture_is_said_and_never_kept() {
        let folder = tempfile::tempdir().unwrap();
        let album = Album::new(folder.path().join("pictures"));
        let mut text = "two".to_owned();
        let mut many = vec![picture(b"<html>"), picture(&[0; PICTURE_LIMIT + 1])];
        assert!(album.keep(&many, &mut text).is_empty());
        assert!(text.contains("picture 1 is not shown: its bytes"), "{text}");
        assert!(
            text.contains("picture 2 is not shown: it is larger"),
            "{text}"
        );
        many = vec![picture(b"GIF89a.."); PICTURES + 1];
        assert_eq!(album.keep(&many, &mut text).len(), PICTURES);
        assert!(
            text.ends_with("[only 20 of 21 pictures are shown]"),
            "{text}"
        );
    }
}
