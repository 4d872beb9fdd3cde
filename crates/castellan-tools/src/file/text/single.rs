//! Single-byte text, shown as Windows-1252: each of the 256 bytes is one character and comes back
//! from it.

use std::borrow::Cow;

use super::Unencodable;

/// What the bytes 0x80 to 0x9f are; the five that Windows-1252 leaves free are control characters
/// as in Latin-1, so that none is lost.
const HIGH: [char; 32] = [
    '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}',
    '\u{2c6}', '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}',
    '\u{90}', '\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}',
    '\u{2dc}', '\u{2122}', '\u{161}', '\u{203a}', '\u{153}', '\u{9d}', '\u{17e}', '\u{178}',
];

/// The characters of the bytes.
pub(super) fn show(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.is_ascii() => Cow::Borrowed(text),
        _ => bytes.iter().map(|byte| letter(*byte)).collect(),
    }
}

fn letter(byte: u8) -> char {
    byte.checked_sub(0x80)
        .and_then(|high| HIGH.get(usize::from(high)))
        .copied()
        .unwrap_or(char::from(byte))
}

/// The bytes of the characters.
pub(super) fn encode(text: &str) -> Result<Vec<u8>, Unencodable> {
    text.chars().map(byte).collect()
}

fn byte(letter: char) -> Result<u8, Unencodable> {
    let direct = u8::try_from(letter)
        .ok()
        .filter(|byte| !(0x80..0xa0).contains(byte));
    direct
        .or_else(|| {
            let (at, _) = (0x80_u8..).zip(HIGH).find(|(_, high)| *high == letter)?;
            Some(at)
        })
        .ok_or_else(|| {
            Unencodable(format!(
                "the text contains {letter:?}, which the file can't hold: it is single-byte text \
                 (Windows-1252/Latin-1 or another old encoding), not UTF-8"
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back_from_its_character() {
        let all: Vec<u8> = (0..=255).collect();
        let shown = show(&all);
        assert_eq!(shown.chars().count(), 256);
        assert_eq!(encode(&shown).unwrap(), all);
        assert!(encode("中").unwrap_err().0.contains('中'));
    }
}
