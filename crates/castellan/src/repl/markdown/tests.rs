//! What arrives in any pieces is drawn the same.

use proptest::prelude::*;

use super::*;

fn drawn_in(pieces: &[&str], width: usize, looks: Looks) -> String {
    let mut markdown = Markdown::new(width, looks);
    let mut rows = Vec::new();
    for piece in pieces {
        rows.extend(markdown.push(piece));
        // Looking ahead changes nothing.
        drop(markdown.preview());
    }
    rows.extend(markdown.finish());
    let lines: Vec<String> = rows.iter().map(|row| row.paint(looks)).collect();
    lines.join("\n")
}

fn drawn(text: &str, width: usize) -> String {
    drawn_in(&[text], width, Looks::Bare)
}

const ALL: &str = "# Title\nSome **bold**, *slanted* and `code` with [a link](http://x.y/z).\n\n\
    - one\n- two with a long tail that has to be wrapped\n  - deeper\n\n  more of two\n\n\
    1. first\n2. second\n\n> quoted\n> twice\n\n```rust\nfn main() {\n    let x = 1;\n}\n```\n\n\
    | name | what it does |\n|---|--:|\n| a | does a thing |\n| b | 2 |\n\n---\n- [x] done\n\
    <b>html</b> &amp; http://bare.url\nend";

#[test]
fn every_kind_of_block_is_legible_without_looks() {
    insta::assert_snapshot!(drawn(ALL, 40));
}

#[test]
fn looks_take_the_place_of_signs() {
    let text = "## Big\n**b** *i* `c` ~~s~~\n\n- x\n";
    insta::assert_snapshot!(drawn_in(&[text], 40, Looks::Drawn).replace('\u{1b}', "^"));
}

#[test]
fn a_table_that_is_too_wide_is_told_cell_by_cell() {
    let text = "| alpha | beta | gamma | delta | epsilon |\n|-|-|-|-|-|\n\
                | one value | two values | three values | four values | five values |\n\
                | 1 | 2 | 3 | 4 | 5 |\n";
    insta::assert_snapshot!(drawn(text, 40));
    insta::assert_snapshot!(drawn(text, 64));
}

#[test]
fn no_sequence_of_a_model_reaches_the_terminal() {
    let text = "a\u{1b}[2Jb\u{1b}]0;t\u{7}c\n\n```\u{1b}[1mx\n\u{1b}[31mred\u{9b}0m\n```\n\
                | \u{1b}[5mq |\n|---|\n| &#27;[7mz |\n\n[t\u{202e}x](http://\u{1b}[4m) &#x202e; &#155;m";
    for cut in 0..text.len() {
        let Some((head, tail)) = text.split_at_checked(cut) else {
            continue;
        };
        let drawn = drawn_in(&[head, tail], 40, Looks::Bare);
        assert!(
            !drawn
                .chars()
                .any(|letter| letter != '\n' && letter.is_control()),
            "{drawn:?}"
        );
        assert!(!drawn.contains('\u{202e}'), "{drawn:?}");
    }
}

#[test]
fn a_preview_shows_what_has_not_ended() {
    let mut markdown = Markdown::new(40, Looks::Bare);
    assert!(markdown.push("half a **sent").is_empty());
    assert_eq!(markdown.preview()[0].paint(Looks::Bare), "half a **sent");
    let rows = markdown.push("ence**\n\n");
    assert_eq!(rows[0].paint(Looks::Bare), "half a **sentence**");
    markdown.push("```sh\nls");
    assert_eq!(markdown.preview()[0].paint(Looks::Bare), "ls");
}

#[test]
fn a_block_without_an_end_is_drawn_as_it_grows() {
    let mut markdown = Markdown::new(40, Looks::Bare);
    let rows = markdown.push(&"- item\n".repeat(1000));
    assert!(rows.len() >= 1000 - BLOCK_LINES, "{}", rows.len());
}

proptest! {
    #[test]
    fn cuts_make_no_difference(cuts in proptest::collection::vec(0_usize..ALL.len(), 0..12), width in 20_usize..90) {
        let mut cuts = cuts;
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let (mut from, mut rest) = (0, ALL);
        for cut in cuts {
            if let Some((piece, after)) = rest.split_at_checked(cut - from) {
                pieces.push(piece);
                (from, rest) = (cut, after);
            }
        }
        pieces.push(rest);
        prop_assert_eq!(drawn_in(&pieces, width, Looks::Drawn), drawn_in(&[ALL], width, Looks::Drawn));
    }

    #[test]
    fn whatever_arrives_is_drawn_within_the_width(
        pieces in proptest::collection::vec("[ -~\n\t\u{1b}é日`*_|#>\\[\\]()-]{0,30}", 0..12), width in 12_usize..60,
    ) {
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let whole = pieces.concat();
        let text = drawn_in(&pieces, width, Looks::Bare);
        prop_assert_eq!(&text, &drawn(&whole, width));
        for line in text.lines() {
            prop_assert!(crate::repl::style::columns(line) <= width, "{:?}", line);
        }
    }
}
