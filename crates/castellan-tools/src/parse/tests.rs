//! Files as they are, broken, mislabelled and hostile.

use std::io::Cursor;

use image::{DynamicImage, ImageFormat};

use super::*;

fn encoded(format: ImageFormat) -> Vec<u8> {
    let picture = match format {
        // The one form that is written.
        ImageFormat::Ico => DynamicImage::new_rgba8(20, 10),
        _ => DynamicImage::new_rgb8(20, 10),
    };
    written(&picture, format)
}

fn written(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Vec::new();
    picture
        .write_to(&mut Cursor::new(&mut bytes), format)
        .unwrap();
    bytes
}

fn parsed(bytes: &[u8]) -> Answer {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let format = Format::of(bytes).unwrap();
    let mut output = Vec::new();
    let path = file.path().to_str().unwrap().to_owned();
    work(&[format.argument().to_owned(), path], &mut output).unwrap();
    answer(&output).unwrap()
}

/// A PDF of one page with this content stream, with a right cross-reference table.
pub(super) fn pdf(content: &str) -> Vec<u8> {
    let objects = [
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        "<</Type/Pages/Kids[3 0 R]/Count 1>>".to_owned(),
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Contents 4 0 R\
         /Resources<</Font<</F1 5 0 R>>>>>>"
            .to_owned(),
        format!("<</Length {}>>stream\n{content}\nendstream", content.len()),
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>".to_owned(),
    ];
    let mut text = "%PDF-1.4\n".to_owned();
    let mut places = Vec::new();
    for (number, object) in (1..).zip(&objects) {
        places.push(text.len());
        text.push_str(&format!("{number} 0 obj{object}endobj\n"));
    }
    let table = text.len();
    text.push_str("xref\n0 6\n0000000000 65535 f \n");
    for place in places {
        text.push_str(&format!("{place:010} 00000 n \n"));
    }
    text.push_str(&format!(
        "trailer<</Size 6/Root 1 0 R>>\nstartxref\n{table}\n%%EOF"
    ));
    text.into_bytes()
}

#[test]
fn a_picture_that_models_take_is_shown_as_it_is() {
    for (format, word) in [
        (ImageFormat::Png, "PNG"),
        (ImageFormat::Jpeg, "JPEG"),
        (ImageFormat::Gif, "GIF"),
        (ImageFormat::WebP, "WebP"),
    ] {
        let answer = parsed(&encoded(format));
        let Parsed::Picture {
            found,
            width,
            height,
            converted,
            ..
        } = answer.parsed
        else {
            unreachable!("{word}: {answer:?}")
        };
        assert_eq!(
            (found.as_str(), width, height, converted),
            (word, 20, 10, false)
        );
        assert!(answer.body.is_empty());
    }
}

#[test]
fn other_pictures_become_png() {
    for (format, word) in [
        (ImageFormat::Bmp, "BMP"),
        (ImageFormat::Tiff, "TIFF"),
        (ImageFormat::Ico, "ICO"),
    ] {
        let answer = parsed(&encoded(format));
        assert!(
            matches!(&answer.parsed, Parsed::Picture { found, kind: PictureType::Png, converted: true, .. } if found == word),
            "{answer:?}"
        );
        assert_eq!(PictureType::of(&answer.body), Some(PictureType::Png));
    }
}

#[test]
fn a_picture_that_becomes_too_large_as_png_is_made_smaller_and_that_is_said() {
    // Noise, which no format can make smaller.
    let mut seed = 1_u64;
    let noise = std::iter::repeat_with(|| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed.to_le_bytes()[0]
    });
    let (width, height) = (1200, 1160);
    let pixels: Vec<u8> = noise.take(1200 * 1160 * 3).collect();
    let picture = image::RgbImage::from_raw(width, height, pixels).unwrap();
    let answer = parsed(&written(&picture.into(), ImageFormat::Bmp));
    let Parsed::Picture {
        width: shown,
        height: high,
        shrunk_from,
        ..
    } = answer.parsed
    else {
        unreachable!("{answer:?}")
    };
    assert_eq!((shown, high), (width / 2, height / 2));
    assert_eq!(shrunk_from, Some((width, height)));
}

#[test]
fn an_icon_without_transparency_is_shown_too() {
    let small = written(&DynamicImage::new_rgb8(1, 1), ImageFormat::Png);
    let large = written(&DynamicImage::new_rgb8(20, 10), ImageFormat::Png);
    let mut icons = vec![0, 0, 1, 0, 2, 0];
    let mut start = icons.len() + 2 * 16;
    for (png, width, height) in [(&small, 1, 1), (&large, 20, 10)] {
        icons.extend([width, height, 0, 0, 1, 0, 24, 0]);
        icons.extend(u32::try_from(png.len()).unwrap().to_le_bytes());
        icons.extend(u32::try_from(start).unwrap().to_le_bytes());
        start += png.len();
    }
    icons.extend([small, large].concat());
    let answer = parsed(&icons);
    assert!(
        matches!(
            &answer.parsed,
            Parsed::Picture { found, width: 20, height: 10, converted: true, .. } if found == "ICO"
        ),
        "{answer:?}"
    );
    // An entry that leads out of the file.
    icons.truncate(40);
    let answer = parsed(&icons);
    assert!(matches!(answer.parsed, Parsed::Broken { .. }), "{answer:?}");
}

#[test]
fn a_picture_that_is_cut_or_only_begins_like_one_is_broken() {
    for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif] {
        let whole = encoded(format);
        let cut = &whole[..whole.len() / 2];
        let answer = parsed(cut);
        assert!(matches!(answer.parsed, Parsed::Broken { .. }), "{answer:?}");
    }
    let answer = parsed(b"\x89PNG\r\n\x1a\n<html>not a picture</html>");
    assert!(matches!(answer.parsed, Parsed::Broken { .. }), "{answer:?}");
}

#[test]
fn a_picture_that_would_take_all_memory_is_refused() {
    // The header of a PNG of 60,000 x 60,000 pixels.
    let mut bomb = encoded(ImageFormat::Png);
    bomb[16..20].copy_from_slice(&60_000_u32.to_be_bytes());
    bomb[20..24].copy_from_slice(&60_000_u32.to_be_bytes());
    let answer = parsed(&bomb);
    assert!(matches!(answer.parsed, Parsed::Broken { .. }), "{answer:?}");
}

#[test]
fn text_that_begins_like_a_bitmap_is_none() {
    assert_eq!(Format::of(b"BMW builds cars and motorcycles"), None);
    assert_eq!(Format::of(b"II is two"), None);
    assert_eq!(Format::of(b""), None);
}

#[test]
fn the_text_of_a_pdf_is_read() {
    let answer = parsed(&pdf("BT /F1 12 Tf 20 100 Td (Hello from page one) Tj ET"));
    assert_eq!(answer.parsed, Parsed::Pdf { pages: 1, read: 1 });
    let text = String::from_utf8(answer.body).unwrap();
    assert!(text.contains("Hello from page one"), "{text}");
}

#[test]
fn a_broken_pdf_is_said() {
    let answer = parsed(b"%PDF-1.7\nnothing of the kind");
    assert!(matches!(answer.parsed, Parsed::Broken { .. }), "{answer:?}");
}

#[test]
fn an_answer_that_is_none_is_an_error() {
    for output in [&b""[..], b"no line", b"{}\n", b"\xff\n"] {
        assert!(answer(output).is_err());
    }
}
