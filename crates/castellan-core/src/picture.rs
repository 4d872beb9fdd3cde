//! Pictures that a model may be shown: what they are told apart by, and how a record names them.
//!
//! The bytes of a picture are in no event: they lie in a file of their own, named by their digest.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kinds of picture that models take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PictureType {
    /// Portable Network Graphics.
    #[serde(rename = "image/png")]
    Png,
    /// JPEG.
    #[serde(rename = "image/jpeg")]
    Jpeg,
    /// Graphics Interchange Format.
    #[serde(rename = "image/gif")]
    Gif,
    /// WebP.
    #[serde(rename = "image/webp")]
    Webp,
}

impl PictureType {
    /// The kind that bytes with this beginning claim to be.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            [
                b'R',
                b'I',
                b'F',
                b'F',
                _,
                _,
                _,
                _,
                b'W',
                b'E',
                b'B',
                b'P',
                ..,
            ] => Some(Self::Webp),
            _ => None,
        }
    }

    /// The media type, such as `image/png`.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }

    /// What a file of this kind is called after the dot.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpg",
            Self::Gif => "gif",
            Self::Webp => "webp",
        }
    }

    /// The kind in a word, such as `PNG`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Png => "PNG",
            Self::Jpeg => "JPEG",
            Self::Gif => "GIF",
            Self::Webp => "WebP",
        }
    }
}

/// A picture that has been decoded once, so that it is what it says.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    /// What it is.
    pub kind: PictureType,
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
    /// The encoded picture.
    pub bytes: Arc<[u8]>,
}

impl fmt::Debug for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Picture({}, {} x {}, {} bytes)",
            self.kind.word(),
            self.width,
            self.height,
            self.bytes.len()
        )
    }
}

/// A picture as a record names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PictureRef {
    /// What it is.
    pub media_type: PictureType,
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of the bytes in hexadecimal.
    pub digest: String,
    /// The file that has the bytes.
    pub path: PathBuf,
}

impl fmt::Display for PictureRef {
    /// `PNG, 640 x 480 pixels, 12345 bytes`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, width, height) = (self.media_type.word(), self.width, self.height);
        write!(f, "{kind}, {width} x {height} pixels, {} bytes", self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_told_by_the_first_bytes_and_by_nothing_else() {
        assert_eq!(
            PictureType::of(b"\x89PNG\r\n\x1a\n...."),
            Some(PictureType::Png)
        );
        assert_eq!(
            PictureType::of(b"\xff\xd8\xff\xe0"),
            Some(PictureType::Jpeg)
        );
        assert_eq!(PictureType::of(b"GIF89a"), Some(PictureType::Gif));
        assert_eq!(
            PictureType::of(b"RIFF\0\0\0\0WEBPVP8 "),
            Some(PictureType::Webp)
        );
        for other in [
            &b""[..],
            b"\x89PNG",
            b"GIF99a",
            b"RIFF\0\0\0\0WAVE",
            b"<svg>",
        ] {
            assert_eq!(PictureType::of(other), None, "{other:?}");
        }
    }
}
