//! Decoding a picture, to know that it is one; converting what models don't take.

use std::io::Cursor;

use castellan_core::PictureType;
use image::{DynamicImage, ImageFormat, ImageReader, ImageResult, Limits};

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
    let decoded = decode(bytes, format)
        .or_else(|error| match enclosed(bytes) {
            Some(png) if format == ImageFormat::Ico => decode(png, ImageFormat::Png),
            _ => Err(error),
        })
        .map_err(|error| format!("it begins like a {} picture, but {error}", word(format)))?;
    let size = (decoded.width(), decoded.height());
    let (kind, shown, png) = match PictureType::of(bytes) {
        Some(kind) => (kind, size, None),
        None => {
            let (shown, png) = converted(decoded)?;
            (PictureType::Png, shown, Some(png))
        }
    };
    let parsed = Parsed::Picture {
        found: word(format).to_owned(),
        kind,
        width: shown.0,
        height: shown.1,
        converted: png.is_some(),
        shrunk_from: (shown != size).then_some(size),
    };
    Ok((parsed, png.unwrap_or_default()))
}

fn decode(bytes: &[u8], format: ImageFormat) -> ImageResult<DynamicImage> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(DECODED);
    limits.max_image_width = Some(SIDE);
    limits.max_image_height = Some(SIDE);
    reader.limits(limits);
    reader.decode()
}

/// A PNG of the picture, small enough, and its size in pixels.
fn converted(mut picture: DynamicImage) -> Result<((u32, u32), Vec<u8>), String> {
    loop {
        let mut png = Vec::new();
        picture
            .to_rgba8()
            .write_to(&mut Cursor::new(&mut png), ImageFormat::Png)
            .map_err(|error| format!("it can't be converted to PNG: {error}"))?;
        if png.len() <= CONVERTED {
            return Ok(((picture.width(), picture.height()), png));
        }
        picture = picture.thumbnail(picture.width() / 2, picture.height() / 2);
    }
}

/// The largest PNG in a file of icons. The decoder of those takes only PNGs with transparency,
/// though many files have others.
fn enclosed(icons: &[u8]) -> Option<&[u8]> {
    let count = u16::from_le_bytes(icons.get(4..6)?.try_into().ok()?);
    let entries = icons.get(6..)?.chunks_exact(16).take(count.into());
    let pngs = entries.filter_map(|entry| {
        let number = |at| Some(u32::from_le_bytes(entry.get(at..at + 4)?.try_into().ok()?));
        let (size, start) = (number(8)?, usize::try_from(number(12)?).ok()?);
        let end = start.checked_add(usize::try_from(size).ok()?)?;
        let icon = icons.get(start..end)?;
        (PictureType::of(icon) == Some(PictureType::Png)).then_some(icon)
    });
    pngs.max_by_key(|png| png.len())
}
