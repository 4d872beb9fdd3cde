//! What a call would do, shown before a person is asked: the whole of it, letter by letter, with
//! what is hidden made visible.

use castellan_core::event::Scope;
use castellan_core::tool::Preview;
use castellan_runtime::Question;

use super::answer::{default_grant, scope_words};
use super::safe::exact;
use super::style::{Break, Indent, Row, Span, Style, Tone, span, wrap};
use crate::output::counted;

/// Rows of a preview that are shown at once; the rest is shown on request.
pub(crate) const SHOWN: usize = 40;
/// How many of [`SHOWN`] are the last ones of a longer preview. Its end says as much of what it does
/// as its beginning.
const END: usize = 15;

/// How much of a preview is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// At most [`SHOWN`] rows.
    Short,
    /// All there is.
    Whole,
}

/// The question `asked`, up to the line to answer in.
pub(crate) fn question(asked: &Question, width: usize, extent: Extent) -> Vec<Row> {
    let mut rows = Vec::new();
    for (item, number) in asked.items.iter().zip(&asked.numbers) {
        let number = match asked.asked {
            1 => String::new(),
            _ => format!("{number}. "),
        };
        let title = Style {
            bold: true,
            ..Tone::Warn.into()
        };
        let head = Span {
            text: exact(&format!("? {number}{}", item.header)),
            style: title,
        };
        rows.extend(wrap(&[head], width, &hanging("  "), Break::Words));
        if !item.reason.is_empty() {
            rows.extend(text(
                Tone::Dim,
                &format!("why it asks: {}", item.reason),
                width,
            ));
        }
        let preview = rows_of(&item.preview, width);
        rows.extend(match extent {
            Extent::Short => shortened(preview, width),
            Extent::Whole => preview,
        });
    }
    rows
}

/// The beginning and the end of what is too long to be shown at once.
fn shortened(mut preview: Vec<Row>, width: usize) -> Vec<Row> {
    let hidden = preview.len().saturating_sub(SHOWN);
    if hidden == 0 {
        return preview;
    }
    let end = preview.split_off(preview.len() - END);
    preview.truncate(SHOWN - END);
    let more = format!("… {} here; v shows all of it", counted(hidden, "more line"));
    preview.push(Row::of(Tone::Warn, format!("  {more}")).cut(width));
    preview.extend(end);
    preview
}

/// What can be answered.
pub(crate) fn choices(asked: &Question, width: usize) -> Vec<Row> {
    let items = &asked.items;
    let several = match asked.numbers.as_slice() {
        [first, .., last] => format!(", `y {first},{last}` for some"),
        _ => String::new(),
    };
    let mut rows = text(
        Tone::Dim,
        &format!("y yes · n no · words may follow: `n use another name`{several}"),
        width,
    );
    let mut defaults: Vec<&String> = items.iter().filter_map(default_grant).collect();
    defaults.dedup();
    if !defaults.is_empty() {
        let names: Vec<&str> = defaults.iter().map(|grant| grant.as_str()).collect();
        let mut line = format!(
            "a always: {} {}",
            names.join(", "),
            scope_words(Scope::Session)
        );
        let mut narrower: Vec<&str> = items
            .iter()
            .flat_map(|item| item.grants.iter().map(String::as_str))
            .filter(|grant| !names.contains(grant))
            .collect();
        narrower.dedup();
        if let Some(first) = narrower.first() {
            line.push_str(&format!("; or `a SCOPE GRANT`, as in `a project {first}`"));
        } else {
            line.push_str("; `a project` or `a everywhere` reach further");
        }
        if narrower.len() > 1 {
            line.push_str(&format!(" (offered: {})", narrower.join(", ")));
        }
        rows.extend(text(Tone::Dim, &line, width));
    }
    rows
}

fn hanging(blanks: &str) -> Indent {
    Indent {
        first: Vec::new(),
        rest: vec![span(Tone::Plain, blanks)],
    }
}

fn text(tone: Tone, text: &str, width: usize) -> Vec<Row> {
    wrap(
        &[span(tone, exact(text))],
        width,
        &Indent::both("  "),
        Break::Words,
    )
}

/// Lines whose every letter counts.
fn literal(tone: Tone, lines: &str, mark: &str, width: usize) -> Vec<Row> {
    let indent = Indent {
        first: vec![span(Tone::Dim, mark)],
        rest: vec![span(Tone::Dim, " ".repeat(mark.chars().count()))],
    };
    let line = |line: &str| wrap(&[span(tone, exact(line))], width, &indent, Break::Anywhere);
    lines.split('\n').flat_map(line).collect()
}

fn note(note: &str, width: usize) -> Vec<Row> {
    if note.is_empty() {
        return Vec::new();
    }
    text(Tone::Warn, &format!("! {note}"), width)
}

fn rows_of(preview: &Preview, width: usize) -> Vec<Row> {
    match preview {
        Preview::Command { command, cwd } => {
            let mut rows = literal(Tone::Code, command.trim_end_matches('\n'), "  $ ", width);
            rows.extend(text(Tone::Dim, &format!("in {}", cwd.display()), width));
            rows
        }
        Preview::File {
            path,
            action,
            bytes,
            beginning,
            note: more,
            ..
        } => {
            let mut rows = text(
                Tone::Dim,
                &format!("{action} {} ({})", path.display(), counted(*bytes, "byte")),
                width,
            );
            rows.extend(note(more, width));
            rows.extend(literal(
                Tone::Good,
                beginning.trim_end_matches('\n'),
                "  + ",
                width,
            ));
            if (beginning.len() as u64) < *bytes {
                let rest = bytes - beginning.len() as u64;
                rows.extend(text(
                    Tone::Warn,
                    &format!("… {} not shown", counted(rest, "more byte")),
                    width,
                ));
            }
            rows
        }
        Preview::Diff {
            path,
            unified,
            added,
            removed,
            note: more,
            ..
        } => {
            let head = format!("{} (+{added} -{removed})", path.display());
            let mut rows = text(Tone::Dim, &head, width);
            rows.extend(note(more, width));
            rows.extend(diff(unified, width));
            rows
        }
        Preview::None => Vec::new(),
    }
}

/// The hunks of a diff, each line with its sign.
pub(crate) fn diff(unified: &str, width: usize) -> Vec<Row> {
    let line = |line: &str| {
        let tone = match line.chars().next() {
            Some('+') => Tone::Good,
            Some('-') => Tone::Bad,
            Some('@') => Tone::Accent,
            _ => Tone::Plain,
        };
        wrap(
            &[span(tone, exact(line))],
            width,
            &Indent::both("  "),
            Break::Anywhere,
        )
    };
    unified
        .trim_end_matches('\n')
        .split('\n')
        .flat_map(line)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repl::style::Looks;
    use castellan_core::event::ApprovalItem;
    use castellan_core::{CallId, CycleId};
    use castellan_testkit::SequentialIds;

    fn shown(preview: Preview, extent: Extent) -> String {
        let ids = SequentialIds::new();
        let item = ApprovalItem {
            call_id: CallId::mint(&ids),
            name: "bash".into(),
            header: "bash ls\u{1b}[2K".into(),
            label: "bash".into(),
            preview,
            reason: "bash asks".into(),
            grants: vec!["bash:ls".into(), "bash".into()],
        };
        let asked = Question {
            cycle_id: CycleId::mint(&ids),
            items: vec![item],
            numbers: vec![1],
            asked: 1,
        };
        let mut rows = question(&asked, 60, extent);
        rows.extend(choices(&asked, 60));
        let rows: Vec<String> = rows.iter().map(|row| row.paint(Looks::Bare)).collect();
        rows.join("\n")
    }

    #[test]
    fn a_command_is_shown_letter_by_letter() {
        let command = "ls -l\u{202e}\necho \u{1b}[31mred \u{200b}".to_owned();
        insta::assert_snapshot!(shown(
            Preview::Command {
                command,
                cwd: "/w".into()
            },
            Extent::Short
        ));
    }

    #[test]
    fn a_diff_keeps_its_signs() {
        let preview = Preview::Diff {
            path: "/w/a".into(),
            unified: "@@ -1,2 +1,2 @@\n-old\n+new\n same\n".into(),
            added: 1,
            removed: 1,
            note: "it is a link".into(),
            before: None,
        };
        insta::assert_snapshot!(shown(preview, Extent::Short));
    }

    #[test]
    fn a_long_preview_says_how_to_see_the_rest() {
        let command = (0..100).map(|n| format!("line {n}\n")).collect::<String>();
        let preview = Preview::Command {
            command,
            cwd: "/w".into(),
        };
        let short = shown(preview.clone(), Extent::Short);
        assert!(
            short.contains("… 61 more lines here; v shows all of it"),
            "{short}"
        );
        // Both ends are seen, since what matters may stand at either.
        for (line, is_seen) in [(0, true), (24, true), (25, false), (85, false), (86, true)] {
            let line = format!("line {line}\n");
            assert_eq!(short.contains(&line), is_seen, "{line}: {short}");
        }
        assert!(short.contains("line 99") && shown(preview, Extent::Whole).contains("line 60"));
    }
}
