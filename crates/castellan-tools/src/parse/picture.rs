//! Decoding a picture, to know that it is one; converting what models don't take.

use std::io::Cursor;

use castellan_core::PictureType;
use image::{ImageFormat, ImageReader, Limits};

use super::Parsed;

/// The most bytes a decoded picture may take.
const DECODED: u64 = 256 * 1024 * 1024;
/// The longest side of a picture, in pixels.
const SIDE: u32 = 16_384;
/// A converted picture is made smaller until it has no more than this many bytes.
const CONVERTED: usize = 4 * 1024 * 1024;

/// The formats of pictures, by their first bytes.
fn format_of(bytes: &[u8]) -> Option<ImageFormat> {
    match PictureType::of(bytes) {
        Some(PictureType::Png) => Some(ImageFormat::Png),
        Some(PictureType::Jpeg) => Some(ImageFormat::Jpeg),
        Some(PictureType::Gif) => Some(ImageFormat::Gif),
        Some(PictureType::Webp) => Some(ImageFormat::WebP),
        None => match bytes {
            // "BM" begins many texts too: the header's size and planes tell.
            [b'B', b'M', ..] if is_bitmap(bytes) => Some(ImageFormat::Bmp),
            [b'I', b'I', 42, 0, ..] | [b'M', b'M', 0, 42, ..] => Some(ImageFormat::Tiff),
            [0, 0, 1, 0, count, 0, ..] if *count > 0 => Some(ImageFormat::Ico),
            _ => None,
        },
    }
}

fn is_bitmap(bytes: &[u8]) -> bool {
    let header = bytes.get(14..18).and_then(|size| size.try_into().ok());
    header
        .map(u32::from_le_bytes)
        .is_some_and(|size| matches!(size, 12 | 16 | 40 | 52 | 56 | 64 | 108 | 124))
}

/// Whether a file that begins like this is taken for a picture.
pub(super) fn is_picture(beginning: &[u8]) -> bool {
    format_of(beginning).is_some()
}

const fn word(format: ImageFormat) -> &'static str {
    match format {
        ImageFormat::Png => "PNG",
        ImageFormat::Jpeg => "JPEG",
        ImageFormat::Gif => "GIF",
        ImageFormat::WebP => "WebP",
        ImageFormat::Bmp => "BMP",
        ImageFormat::Tiff => "TIFF",
        _ => "ICO",
    }
}

/// Decodes the whole picture.
pub(super) fn parse(bytes: &[u8]) -> Result<(Parsed, Vec<u8>), String> {
    let format = format_of(bytes).ok_or("it does not begin like a picture")?;
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(DECODED);
    limits.max_image_width = Some(SIDE);
    limits.max_image_height = Some(SIDE);
    reader.limits(limits);
    let decoded = reader
        .decode()
        .map_err(|error| format!("it begins like a {} picture, but {error}", word(format)))?;
    let (width, height) = (decoded.width(), decoded.height());
    let found = word(format).to_owned();
    if let Some(kind) = PictureType::of(bytes) {
        let parsed = Parsed::Picture {
            found,
            kind,
            width,
            height,
            converted: false,
        };
        return Ok((parsed, Vec::new()));
    }
    let mut picture = decoded;
    loop {
        let mut png = Vec::new();
        picture
            .to_rgba8()
            .write_to(&mut Cursor::new(&mut png), ImageFormat::Png)
            .map_err(|error| format!("it can't be converted to PNG: {error}"))?;
        if png.len() <= CONVERTED {
            let parsed = Parsed::Picture {
                found,
                kind: PictureType::Png,
                width: picture.width(),
                height: picture.height(),
                converted: true,
            };
            return Ok((parsed, png));
        }
        picture = picture.thumbnail(picture.width() / 2, picture.height() / 2);
    }
}
