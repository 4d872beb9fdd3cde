//! A call in the pieces that rules speak of.

use std::path::PathBuf;

use castellan_core::command::{Part, split, suggest_prefix};
use castellan_core::text::shorten;
use castellan_core::tool::Inspection;

use super::pattern::Known;

/// A piece of a call.
#[derive(Debug, Clone)]
pub(super) enum Piece {
    /// A call that has none of the others.
    Whole,
    /// A command that would run.
    Command(Command),
    /// A shell text that can't be read with certainty; its words, in case one is recognised.
    Unreadable { reason: String, words: Vec<String> },
    /// A command that is known only when it runs.
    Hidden { reason: String },
    /// A path that would be touched.
    Path(PathBuf),
    /// A host that would be talked to.
    Host(String),
}

impl Piece {
    /// The piece in an explanation.
    pub(super) fn described(&self) -> String {
        match self {
            Self::Whole => "this call".to_owned(),
            Self::Command(command) => format!("`{}`", shorten(&command.0.text, 100)),
            Self::Unreadable { .. } | Self::Hidden { .. } => "such a command".to_owned(),
            Self::Path(path) => path.display().to_string(),
            Self::Host(host) => host.clone(),
        }
    }

    /// Why it is in doubt whether a rule speaks of it.
    pub(super) fn doubt(&self) -> String {
        match self {
            Self::Unreadable { reason, .. } => format!("the command can't be read ({reason})"),
            Self::Hidden { reason } => format!("what would run can't be seen ({reason})"),
            Self::Path(path) => format!("{} may hold what a rule is about", path.display()),
            Self::Whole | Self::Command(_) | Self::Host(_) => format!(
                "whether a rule is about {} is known only when it runs",
                self.described()
            ),
        }
    }
}

/// One simple command.
#[derive(Debug, Clone)]
pub(super) struct Command(Part);

impl Command {
    /// Its words, as far as they are known before it runs.
    pub(super) fn words(&self) -> Vec<Known<'_>> {
        self.0.words.iter().map(|word| word.literal()).collect()
    }

    /// Whether it does something beside running its program: sets variables, writes to files.
    pub(super) fn has_side_effects(&self) -> bool {
        !self.0.assignments.is_empty() || self.0.redirections.iter().any(|one| one.writes)
    }
}

/// The pieces of a call.
pub(super) fn pieces(inspection: &Inspection) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for text in &inspection.commands {
        match split(text) {
            Ok(parts) => parts.iter().for_each(|part| add(part, &mut pieces)),
            Err(unread) => pieces.push(Piece::Unreadable {
                reason: unread.to_string(),
                words: loose_words(text),
            }),
        }
    }
    pieces.extend(inspection.paths.iter().cloned().map(Piece::Path));
    pieces.extend(inspection.hosts.iter().cloned().map(Piece::Host));
    if pieces.is_empty() {
        pieces.push(Piece::Whole);
    }
    pieces
}

/// A command, and what it would run in turn.
fn add(part: &Part, pieces: &mut Vec<Piece>) {
    let unwrapped = part.unwrapped();
    pieces.extend(
        unwrapped
            .parts
            .into_iter()
            .map(|part| Piece::Command(Command(part))),
    );
    if let Some(opaque) = unwrapped.opaque {
        pieces.push(Piece::Hidden {
            reason: opaque.to_string(),
        });
    }
}

/// What look like words in a text that can't be read: quotes and backslashes are nothing, and
/// whatever may separate words does.
fn loose_words(text: &str) -> Vec<String> {
    let plain: String = text
        .chars()
        .filter(|letter| !matches!(letter, '\'' | '"' | '\\'))
        .collect();
    plain
        .split(|letter: char| letter.is_whitespace() || ";|&<>(){}$`".contains(letter))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The narrowest grant that covers a command and others like it.
pub(crate) fn narrow_grant(text: &str) -> Option<String> {
    suggest_prefix(text).map(|words| format!("bash:{}", words.join(" ")))
}
