//! The text of a PDF file.

use pdf_extract::{Document, OutputError, PlainTextOutput, output_doc_page};

use super::{PDF_PAGES, Parsed};

/// The most bytes of text that come back.
const TEXT: usize = 8 * 1024 * 1024;

/// Reads the text, page by page.
pub(super) fn parse(bytes: &[u8]) -> Result<(Parsed, Vec<u8>), String> {
    let mut document = Document::load_mem(bytes)
        .map_err(|error| format!("it begins like a PDF, but can't be read as one: {error}"))?;
    // Many files are encrypted with an empty password, only to say what may be done with them.
    if document.is_encrypted() && document.decrypt("").is_err() {
        return Err("it is a PDF that needs a password".to_owned());
    }
    let numbers: Vec<u32> = document.get_pages().into_keys().collect();
    let mut text = String::new();
    let mut read = 0;
    for number in numbers.iter().take(PDF_PAGES) {
        if text.len() > TEXT {
            break;
        }
        if read > 0 {
            text.push('\u{c}');
        }
        match page(&document, *number) {
            Ok(page) => text.push_str(&page),
            Err(error) => text.push_str(&format!("(page {number} can't be read: {error})")),
        }
        read += 1;
    }
    let pages = numbers.len();
    Ok((Parsed::Pdf { pages, read }, text.into_bytes()))
}

fn page(document: &Document, number: u32) -> Result<String, OutputError> {
    let mut text = String::new();
    let mut output = PlainTextOutput::new(&mut text);
    output_doc_page(document, &mut output, number)?;
    Ok(text)
}
