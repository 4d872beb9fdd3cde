//! UTF-16 and back, every sequence of units kept. Unpaired surrogates, which file names and
//! damaged text contain, become the three bytes that UTF-8 would have for them.

use super::Encoding;

/// The units of the bytes; an odd byte at the end is left out.
pub(super) fn units(bytes: &[u8], encoding: Encoding) -> impl Iterator<Item = u16> {
    let (pairs, _) = bytes.as_chunks::<2>();
    pairs.iter().map(move |pair| {
        if encoding == Encoding::Utf16Be {
            u16::from_be_bytes(*pair)
        } else {
            u16::from_le_bytes(*pair)
        }
    })
}

/// UTF-16 without its mark as content.
pub(super) fn to_content(bytes: &[u8], encoding: Encoding) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() / 2 + bytes.len() / 8);
    let mut buffer = [0; 4];
    for letter in char::decode_utf16(units(bytes, encoding)) {
        match letter {
            Ok(letter) => out.extend_from_slice(letter.encode_utf8(&mut buffer).as_bytes()),
            Err(lone) => out.extend_from_slice(&surrogate(lone.unpaired_surrogate())),
        }
    }
    out
}

/// Three bytes, as UTF-8 would have them.
fn surrogate(unit: u16) -> [u8; 3] {
    let [high, low] = unit.to_be_bytes();
    [
        0xe0 | (high >> 4),
        0x80 | ((high & 0x0f) << 2) | (low >> 6),
        0x80 | (low & 0x3f),
    ]
}

/// Content as UTF-16, with a byte order mark where asked for.
pub(super) fn to_file(content: &[u8], encoding: Encoding, marked: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() * 2 + 2);
    let mut push = |unit: u16| {
        out.extend_from_slice(&if encoding == Encoding::Utf16Be {
            unit.to_be_bytes()
        } else {
            unit.to_le_bytes()
        });
    };
    if marked {
        push(0xfeff);
    }
    let mut buffer = [0; 2];
    let mut rest = content;
    while !rest.is_empty() {
        let (text, after) = rest.split_at(next_surrogate(rest));
        // Between surrogates there is only what was encoded from whole characters.
        for letter in String::from_utf8_lossy(text).chars() {
            for unit in letter.encode_utf16(&mut buffer) {
                push(*unit);
            }
        }
        rest = after;
        if let Some(([_, middle, last], behind)) = after.split_first_chunk::<3>() {
            push(0xd000 | (u16::from(middle & 0x3f) << 6) | u16::from(last & 0x3f));
            rest = behind;
        }
    }
    out
}

/// Where the next surrogate is, or the end.
fn next_surrogate(content: &[u8]) -> usize {
    memchr::memchr_iter(0xed, content)
        .find(|at| content.get(at + 1).is_some_and(|next| *next >= 0xa0))
        .unwrap_or(content.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_sequence_of_units_comes_back(
            units in prop::collection::vec(prop_oneof![any::<u16>(), 0xd7f0_u16..0xe010], 0..40),
        ) {
            for encoding in [Encoding::Utf16Le, Encoding::Utf16Be] {
                let bytes: Vec<u8> = units
                    .iter()
                    .flat_map(|unit| match encoding {
                        Encoding::Utf16Be => unit.to_be_bytes(),
                        _ => unit.to_le_bytes(),
                    })
                    .collect();
                let content = to_content(&bytes, encoding);
                prop_assert_eq!(to_file(&content, encoding, false), bytes);
            }
        }
    }
}
