//! The text layer: what is text, and that nothing but the edited place changes.

use castellan_testkit::Home;
use castellan_tools::file::Closed;
use castellan_tools::file::text::{Encoding, Replacement, Text};
use castellan_tools::write_file::WriteFile;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::drive::{call, reader, text, view};

async fn read(home: &Home, path: &str) -> String {
    let arguments = json!({"path": path});
    text(
        call(
            reader(Closed::default()),
            arguments,
            &view(&home.workspace()),
        )
        .await,
    )
}

async fn write(home: &Home, arguments: Value) -> String {
    text(
        call(
            WriteFile::new(Closed::default()),
            arguments,
            &view(&home.workspace()),
        )
        .await,
    )
}

fn wide(text: &str, big: bool) -> Vec<u8> {
    text.encode_utf16()
        .flat_map(|unit| {
            if big {
                unit.to_be_bytes()
            } else {
                unit.to_le_bytes()
            }
        })
        .collect()
}

#[tokio::test]
async fn utf_16_is_shown_as_text_and_named() {
    let home = Home::new();
    let content = "hello\r\nwörld 中文";
    home.write(
        "marked",
        [b"\xff\xfe".to_vec(), wide(content, false)].concat(),
    );
    home.write("big", [b"\xfe\xff".to_vec(), wide(content, true)].concat());
    home.write("bare", wide(content, false));
    for (path, name) in [("marked", "little"), ("big", "big"), ("bare", "little")] {
        let shown = read(&home, path).await;
        assert!(
            shown.starts_with("     1\thello\n     2\twörld 中文\n"),
            "{shown}"
        );
        assert!(
            shown.contains(&format!("UTF-16 ({name} endian)")),
            "{shown}"
        );
    }
    let long = [
        b"\xff\xfe".to_vec(),
        wide(&"wörld 中文\r\n".repeat(500_000), false),
    ]
    .concat();
    home.write("long", long);
    let shown = read(&home, "long").await;
    assert!(shown.contains("     9\twörld 中文\n") && shown.contains("of 500000 lines"));
}

#[tokio::test]
async fn single_byte_text_is_shown_with_its_characters() {
    let home = Home::new();
    home.write("latin", b"caf\xe9\n");
    let shown = read(&home, "latin").await;
    assert!(
        shown.starts_with("     1\tcafé\n") && shown.contains("single-byte text"),
        "{shown}"
    );
}

#[tokio::test]
async fn numbers_of_16_bits_are_no_text() {
    let home = Home::new();
    let mut data = Vec::new();
    for number in 0..20_000_usize {
        let byte = [1, 2, 3, 7, 200, 255][number * 7 % 6];
        data.extend([if number % 5 == 4 { b'k' } else { byte }, 0]);
    }
    home.write("small", &data);
    home.write("large", data.repeat(1000));
    for path in ["small", "large"] {
        let shown = read(&home, path).await;
        assert!(shown.contains("a binary file"), "{}", shown.len());
    }
    for bytes in [
        &b"\xff\xfe\0\0a\0\0\0"[..],
        b"a\0",
        b"\x89PNG\r\n\x1a\n",
        b"\xff\xfea",
    ] {
        assert!(Text::decode(bytes.to_vec()).is_err(), "{bytes:?}");
    }
}

/// Large text is looked at block by block.
#[test]
fn a_character_may_stand_anywhere_in_a_large_text() {
    for before in 65_530..65_540 {
        let mut bytes = "x".repeat(before).into_bytes();
        bytes.extend("😀é".as_bytes());
        bytes.extend("x".repeat(70_000).as_bytes());
        let encoding = |bytes: &[u8]| Text::decode(bytes.to_vec()).map(|text| text.encoding());
        assert_eq!(encoding(&bytes), Ok(Encoding::Utf8));
        bytes.push(0xf0);
        assert_eq!(encoding(&bytes), Ok(Encoding::DamagedUtf8));
        bytes.push(0);
        assert!(encoding(&bytes).is_err(), "{before}");
    }
}

/// Case R06.
#[tokio::test]
async fn a_notebook_is_shown_as_cells_without_its_pictures() {
    let home = Home::new();
    let outputs = json!([
        {"output_type": "stream", "name": "stdout", "text": ["printed\n", "twice\n"]},
        {"output_type": "error", "ename": "ValueError", "evalue": "bad", "traceback": ["\u{1b}[0;31mline 1\u{1b}[0m", "line 2"]},
        {"output_type": "display_data", "data": {"image/png": "QUJD".repeat(100_000), "text/plain": "<Figure>"}},
    ]);
    let notebook = json!({"nbformat": 4, "metadata": {"language_info": {"name": "python"}}, "cells": [
        {"cell_type": "markdown", "source": "# Title"},
        {"cell_type": "code", "execution_count": 3, "source": ["x = 1\n", "plot(x)"], "outputs": outputs},
    ]});
    home.write("four.ipynb", notebook.to_string());
    let shown = read(&home, "four.ipynb").await;
    for part in [
        "cell 1: markdown",
        "# Title",
        "cell 2: code [3] python",
        "plot(x)\n",
        "output (stdout)",
        "twice",
        "error: ValueError: bad",
        "\tline 1\n",
        "<Figure>",
        "[image/png, about 300000 bytes, not shown]",
        "bash",
    ] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    assert!(shown.len() < 2000, "{}", shown.len());
    let old = json!({"nbformat": 3, "worksheets": [{"cells": [
        {"cell_type": "code", "language": "python", "prompt_number": 1, "input": ["print(1)"], "outputs": [
            {"output_type": "stream", "stream": "stdout", "text": ["1\n"]},
            {"output_type": "pyout", "prompt_number": 1, "text": ["one"], "png": "QUJD"},
        ]},
    ]}]});
    home.write("three.ipynb", old.to_string());
    let shown = read(&home, "three.ipynb").await;
    for part in [
        "cell 1: code [1] python",
        "print(1)",
        "output (stdout)",
        "\tone\n",
        "[png, about 3 bytes",
    ] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    home.write("broken.ipynb", "{\"cells\": [");
    let shown = read(&home, "broken.ipynb").await;
    assert!(
        shown.starts_with("     1\t{\"cells\": [\n") && shown.contains("shown as text"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_rewrite_keeps_encoding_mark_and_uniform_line_ends() {
    let cases: &[(&[u8], &str, &[u8])] = &[
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n"),
        (b"a\r\nb\n", "x\ny\n", b"x\ny\n"),
        (b"a\nb\n", "x\r\ny\r\n", b"x\r\ny\r\n"),
        (b"\xff\xfea\0\r\0\n\0", "é\n", b"\xff\xfe\xe9\0\r\0\n\0"),
        (b"\xef\xbb\xbfa\r\n", "b\nc", b"\xef\xbb\xbfb\r\nc"),
        (b"caf\xe9\n", "th\u{e9}\n", b"th\xe9\n"),
        (b"caf\xe9\n", "中\n", "中\n".as_bytes()),
        (b"caf\xe9\n", "caf\u{fffd}\n", b"caf\xe9\n"),
        (b"\0\x01", "x\n", b"x\n"),
        (b"", "x\n", b"x\n"),
    ];
    for (before, content, wanted) in cases {
        let home = Home::new();
        home.write("f", before);
        let said = write(&home, json!({"path": "f", "content": content})).await;
        let after = std::fs::read(home.workspace().join("f")).unwrap();
        assert_eq!(after, *wanted, "{before:?} {said}");
    }
    let home = Home::new();
    home.write("f", b"\xff\xfea\0\r\0\n\0");
    write(
        &home,
        json!({"path": "f", "content": "b\n", "mode": "append"}),
    )
    .await;
    let after = std::fs::read(home.workspace().join("f")).unwrap();
    assert_eq!(after, b"\xff\xfea\0\r\0\n\0b\0\r\0\n\0");
}

/// Bytes of text: lines of letters of several encodings with all kinds of ends.
fn soup() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => "[ -~\t]{0,6}".prop_map(String::into_bytes),
        3 => prop_oneof![Just(b"\n".to_vec()), Just(b"\r\n".to_vec()), Just(b"\r".to_vec())],
        1 => "[é中😀\u{301}]{0,3}".prop_map(String::into_bytes),
        1 => prop::collection::vec(0x80_u8..=0xff, 0..3),
    ];
    let text = prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat());
    let wide = (
        "[a-z \r\n]{4,30}[é中😀\r\n]{0,4}",
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(text, big, marked)| {
            let mark = if marked { "\u{feff}" } else { "" };
            wide(&format!("{mark}{text}"), big)
        });
    let marked = "[a-zé\r\n]{0,20}".prop_map(|text| format!("\u{feff}{text}").into_bytes());
    prop_oneof![4 => text, 1 => wide, 1 => marked]
}

/// Places of whole characters in content.
fn boundary(text: &Text, place: usize) -> usize {
    let content = text.content();
    let mut place = place.min(content.len());
    if text.encoding() != Encoding::SingleByte {
        // Damaged text may begin in the middle of a character.
        while place > 0 && content.get(place).is_some_and(|byte| byte & 0xc0 == 0x80) {
            place -= 1;
        }
    }
    place
}

proptest! {
    #[test]
    fn an_edit_changes_only_the_bytes_of_its_place(
        bytes in soup(), a in 0_usize..120, b in 0_usize..120, new in "[x\n]{0,4}",
    ) {
        let Ok(text) = Text::decode(bytes.clone()) else { return Ok(()) };
        prop_assert_eq!(&text.replaced(&[]), &bytes);
        let (a, b) = (boundary(&text, a.min(b)), boundary(&text, a.max(b)));
        let new_bytes = text.encode(&new).unwrap();
        let edited = text.replaced(&[Replacement { range: a..b, new: new_bytes.into() }]);
        let before = text.replaced(&[Replacement { range: a..text.content().len(), new: Vec::new().into() }]);
        let behind = text.replaced(&[Replacement { range: 0..b, new: Vec::new().into() }]);
        let mark = text.replaced(&[Replacement { range: 0..text.content().len(), new: Vec::new().into() }]).len();
        prop_assert!(bytes.starts_with(&before) && edited.starts_with(&before));
        prop_assert!(bytes.ends_with(&behind[mark..]) && edited.ends_with(&behind[mark..]));
        let middle = &edited[before.len()..edited.len() - (behind.len() - mark)];
        let letters = middle.iter().filter(|byte| **byte == b'x').count();
        prop_assert_eq!(letters, new.matches('x').count());
    }

    #[test]
    fn what_is_shown_can_be_sent_back(bytes in soup()) {
        let Ok(text) = Text::decode(bytes) else { return Ok(()) };
        let shown = text.show(text.content()).into_owned();
        // Two CRs before an LF: one of them is content, and can't be told from a line end.
        prop_assume!(!shown.contains("\r\n"));
        match text.encode(&shown) {
            Ok(encoded) => prop_assert_eq!(encoded, text.content()),
            Err(_) => prop_assert_eq!(text.encoding(), Encoding::DamagedUtf8),
        }
    }
}
