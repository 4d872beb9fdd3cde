//! What a call's edits make of a text: all of them, or the reason why none.

use std::ops::Range;

use castellan_core::Outcome;
use castellan_core::secret::Redaction;
use castellan_core::text::shorten;

use super::locate::{self, Found, Miss, Wanted, Which};
use super::nearest::nearest;
use crate::file::concealed;
use crate::file::diff::{self, CONTEXT, Style, Unified};
use crate::file::text::{Replacement, Text, Unencodable};

/// Lines of the nearest text that an error shows.
const NEAREST_LINES: usize = 6;
/// Characters of such a line.
const NEAREST_LINE: usize = 200;

/// One edit, as a model asks for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    pub(super) which: Which,
}

/// All edits of a call, located.
#[derive(Debug)]
pub(super) struct Change {
    /// In order, apart from each other.
    pub(super) replacements: Vec<Replacement>,
    /// What a careful reader should know.
    pub(super) notes: Vec<String>,
}

impl Change {
    /// Locates every edit in the text as it is; edits don't see each other. None may write the mark
    /// of a secret of `redaction` over one.
    pub(super) fn of(
        text: &Text,
        requests: &[Request<'_>],
        redaction: &Redaction,
    ) -> Result<Self, Outcome> {
        let mut all: Vec<(usize, Replacement)> = Vec::new();
        let mut notes = Vec::new();
        for (number, request) in requests.iter().enumerate() {
            let name = if requests.len() > 1 {
                format!("edits[{number}]: ")
            } else {
                String::new()
            };
            let found = locate_one(text, request)
                .and_then(|found| keep_secrets(text, request, redaction, found))
                .map_err(|problem| problem.outcome(text, request, &name, redaction))?;
            all.extend(found.replacements.into_iter().map(|one| (number, one)));
            notes.extend(found.note.map(|note| format!("{name}{note}")));
        }
        let ranges: Vec<_> = all
            .iter()
            .map(|(number, one)| (*number, one.range.clone()))
            .collect();
        if let Some((first, second)) = locate::overlap(&ranges) {
            let what = format!(
                "edits[{first}] and edits[{second}] change the same text; nothing was written"
            );
            return Err(Outcome::failed(what, "join them into one edit"));
        }
        all.sort_by_key(|(_, one)| one.range.start);
        if let Some(note) = text.encoding().note() {
            notes.push(note.to_owned());
        }
        Ok(Self {
            replacements: all.into_iter().map(|(_, one)| one).collect(),
            notes,
        })
    }

    /// The change as a diff of about `limit` bytes.
    pub(super) fn diff(&self, text: &Text, limit: usize) -> Unified {
        let style = Style {
            context: CONTEXT,
            limit,
            old: text.encoding(),
            new: text.encoding(),
        };
        diff::unified(diff::regions(text.content(), &self.replacements), style)
    }
}

/// Why an edit can't be made.
enum Problem {
    Unencodable(&'static str, Unencodable),
    Same,
    Secret,
    Miss(Miss, Vec<u8>),
}

fn locate_one(text: &Text, request: &Request<'_>) -> Result<Found, Problem> {
    let encode = |name, string| {
        text.encode(string)
            .map_err(|problem| Problem::Unencodable(name, problem))
    };
    let wanted = Wanted {
        old: encode("old_string", request.old)?,
        new: encode("new_string", request.new)?,
        which: request.which,
    };
    if wanted.old == wanted.new {
        return Err(Problem::Same);
    }
    locate::locate(text.content(), &wanted).map_err(|miss| Problem::Miss(miss, wanted.old))
}

/// Whether the lines of no place have a secret where the new text has the mark of one.
fn keep_secrets(
    text: &Text,
    request: &Request<'_>,
    redaction: &Redaction,
    found: Found,
) -> Result<Found, Problem> {
    let content = text.content();
    let hurts = |range: &Range<usize>| {
        let lines = content.get(diff::whole_lines(content, range));
        redaction.finds(&text.show(lines.unwrap_or_default()))
    };
    if concealed::is_marked(request.new) && found.replacements.iter().any(|one| hurts(&one.range)) {
        return Err(Problem::Secret);
    }
    Ok(found)
}

impl Problem {
    /// In words for a model.
    fn outcome(
        self,
        text: &Text,
        request: &Request<'_>,
        name: &str,
        redaction: &Redaction,
    ) -> Outcome {
        let (what, next) = match self {
            Self::Unencodable(property, Unencodable(what)) => (
                format!("`{property}`: {what}; nothing was written"),
                "change only what the file can hold, or convert the file first".to_owned(),
            ),
            Self::Same => (
                "old_string and new_string are the same (line ends are always the file's own)"
                    .to_owned(),
                "say what should change".to_owned(),
            ),
            Self::Secret => concealed::overwritten(&text.show(text.content()), redaction),
            Self::Miss(Miss::Absent, _)
                if concealed::is_marked(request.old)
                    && redaction.finds(&text.show(text.content())) =>
            {
                concealed::unquotable(&text.show(text.content()), redaction)
            }
            Self::Miss(Miss::Absent, old) => absent(text, request, &old),
            Self::Miss(Miss::Several { lines, total }, _) => (
                format!(
                    "old_string is in the file {total} times, {}",
                    listed(&lines, total)
                ),
                "add lines around it until it is unique, give near_line, or use replace_all"
                    .to_owned(),
            ),
            Self::Miss(
                Miss::SeveralAlike {
                    lines,
                    total,
                    given_up,
                },
                _,
            ) => (
                format!(
                    "old_string is not in the file exactly, and with other blanks it is there \
                     {}{total} times, {}",
                    if given_up { "at least " } else { "" },
                    listed(&lines, total),
                ),
                "copy the text with its exact indentation".to_owned(),
            ),
            Self::Miss(Miss::GivenUp, _) => (
                "old_string is not in the file exactly, and its lines are there so often with \
                 other blanks that the search for the one place was given up"
                    .to_owned(),
                "copy the text with its exact indentation, or a part that is not repeated"
                    .to_owned(),
            ),
            Self::Miss(Miss::Tie(first, second), _) => (
                format!("lines {first} and {second} are equally near to near_line"),
                "give the line itself as near_line".to_owned(),
            ),
            Self::Miss(Miss::TooMany, _) => (
                "old_string is in the file more than a million times".to_owned(),
                "use `bash` with `sed`".to_owned(),
            ),
        };
        Outcome::failed(format!("{name}{what}"), next)
    }
}

fn listed(lines: &[u64], total: usize) -> String {
    let numbers: Vec<String> = lines.iter().map(u64::to_string).collect();
    let more = if total > lines.len() { ", …" } else { "" };
    format!("on lines {}{more}", numbers.join(", "))
}

fn absent(text: &Text, request: &Request<'_>, old: &[u8]) -> (String, String) {
    let again = "copy the text from the file as read_file shows it, without line numbers";
    let content = text.content();
    let Some(near) = nearest(content, old) else {
        let what = format!(
            "old_string is not in the file, nor anything like it: {}",
            shorten(&castellan_core::text::one_line(request.old), 100)
        );
        return (what, again.to_owned());
    };
    let there = content.get(near.start..).unwrap_or_default();
    let mut shown = String::new();
    let height = near.height.min(NEAREST_LINES);
    for (number, line) in (near.line..).zip(there.split(|byte| *byte == b'\n').take(height)) {
        let line = line.get(..NEAREST_LINE * 4).unwrap_or(line);
        let line = text.show(line);
        shown.push_str(&format!("\n{number:>6}\t{}", shorten(&line, NEAREST_LINE)));
    }
    let which = if near.height > 1 {
        format!(
            " (line {} of old_string is the first that differs)",
            near.differs
        )
    } else {
        String::new()
    };
    let what = format!(
        "old_string is not in the file; the nearest text is at line {}{which}",
        near.line
    );
    (what, format!("{again}:{shown}\n"))
}
