//! A search word by word, for text that can't be read as commands.

use super::scene::Scene;
use super::{Refusal, rule};
use crate::command::{Assignment, Filling, Flow, Part, Piece, Redirection, SetBy, Word, quote};

/// How many words are looked at behind one that no rule is about, in case it changes what those
/// after it mean.
const FOLLOWED: usize = 64;
/// How many words of a text are looked at, counted again for each command they may belong to.
const MOST_LOOKS: usize = 10_000;

/// How many functions of a text are looked at.
const MOST_FUNCTIONS: usize = 1000;

/// The first destructive command that could be meant by some words of `text`.
pub(super) fn scan(text: &str, scene: &mut Scene<'_>) -> Option<Refusal> {
    if let Some(found) = bomb(text, scene) {
        return Some(found);
    }
    let joined = text.replace("\\\n", "");
    let ends = |letter: char| ";|&()\n`".contains(letter);
    let mut looks = 0;
    for segment in joined.split(ends) {
        let words: Vec<Word> = segment.split_whitespace().map(word).collect();
        if let Some(found) = redirections(segment, scene) {
            return Some(found);
        }
        for from in 0..words.len() {
            let name = words.get(from).map(Word::raw).unwrap_or_default();
            let concerns = rule::concerns(name) || (from == 0 && name.contains('$'));
            if from > 0 && !concerns {
                continue;
            }
            let most = if concerns { words.len() } else { FOLLOWED };
            let to = words.len().min(from.saturating_add(most));
            if concerns {
                looks += to - from;
            }
            if looks > MOST_LOOKS {
                scene.pass_by();
                return None;
            }
            let part = part(words.get(from..to).unwrap_or_default().to_vec());
            scene.enter(&part);
            let part = scene.resolved(&part);
            if let Some(reason) = rule::refused(&part, scene) {
                return Some(Refusal::new(segment.trim(), reason));
            }
            if from == 0 {
                scene.follow(&part);
            }
        }
    }
    None
}

/// What a part hides that is no literal code, but may be spelled out in it all the same.
pub(super) fn hidden(part: &Part, scene: &mut Scene<'_>) -> Option<Refusal> {
    // Where not even the name is known, its arguments are anything.
    part.name()?;
    let here_document = part
        .redirections
        .iter()
        .filter(|one| one.operator.starts_with("<<"))
        .map(|one| one.target.raw());
    let code: Vec<&str> = std::iter::once(part.text.as_str())
        .chain(here_document)
        .collect();
    scan(&code.join("\n"), scene)
}

/// A word with its quotes simply taken away.
fn word(raw: &str) -> Word {
    let text: String = raw
        .chars()
        .filter(|letter| !"'\"".contains(*letter))
        .collect();
    match pieces(&text) {
        Some(pieces) => Word::of(raw, pieces),
        None => Word::plain(text),
    }
}

/// The stretches of a word without quotes, variables among them.
fn pieces(text: &str) -> Option<Vec<Piece>> {
    let mut stretches = text.split('$');
    let first = stretches.next().unwrap_or_default();
    let mut pieces = quote::unquoted(first, true, first.len() == text.len())?;
    let mut behind = first.len();
    for stretch in stretches {
        behind += 1 + stretch.len();
        let (name, rest) = match stretch.strip_prefix('{') {
            Some(braced) => braced.split_once('}')?,
            None => {
                let named = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                let end = stretch.find(|letter| !named(letter));
                end.map_or((stretch, ""), |end| stretch.split_at(end))
            }
        };
        pieces.push(if quote::is_name(name) {
            Piece::Variable {
                name: name.to_owned(),
                quoted: true,
            }
        } else if stretch.starts_with('{') {
            Piece::Filled {
                with: Filling::Expansion(name.to_owned()),
                quoted: true,
            }
        } else {
            Piece::Unknown { quoted: true }
        });
        pieces.extend(quote::unquoted(rest, false, behind == text.len())?);
    }
    Some(pieces)
}

/// Words as a command, with the assignments they begin with.
fn part(words: Vec<Word>) -> Part {
    let mut assignments = Vec::new();
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next_if(|word| word.as_assignment().is_some()) {
        if let Some((name, appends, value)) = word.as_assignment() {
            assignments.push(Assignment {
                name: name.to_owned(),
                value,
                appends,
                values: Vec::new(),
                by: SetBy::Assignment,
            });
        }
    }
    Part {
        words: words.collect(),
        assignments,
        redirections: Vec::new(),
        substituted: false,
        text: String::new(),
        flow: Flow::default(),
        scope: Vec::new(),
        function: None,
    }
}

fn redirections(segment: &str, scene: &Scene<'_>) -> Option<Refusal> {
    for (place, _) in segment.match_indices('>') {
        let rest = segment.get(place + 1..).unwrap_or_default();
        let target = rest
            .trim_start_matches(['|', '>', '&', ' '])
            .split_whitespace()
            .next();
        let Some(target) = target.map(word) else {
            continue;
        };
        let appends =
            rest.starts_with('>') || segment.get(..place).is_some_and(|b| b.ends_with('>'));
        let mut writing = part(Vec::new());
        writing.redirections.push(Redirection {
            operator: if appends { ">>" } else { ">" }.to_owned(),
            target,
            writes: true,
        });
        if let Some(reason) = rule::refused(&writing, scene) {
            return Some(Refusal::new(segment.trim(), reason));
        }
    }
    None
}

/// A function that calls itself twice at once, as it is usually written.
fn bomb(text: &str, scene: &Scene<'_>) -> Option<Refusal> {
    let bare: String = text
        .chars()
        .filter(|letter| !letter.is_whitespace())
        .collect();
    for (count, (place, _)) in bare.match_indices("(){").enumerate() {
        if count == MOST_FUNCTIONS {
            scene.pass_by();
            return None;
        }
        let before = bare.get(..place).unwrap_or_default();
        let start = before
            .rfind([';', '&', '|', '\n', '}'])
            .map_or(0, |end| end + 1);
        let name = before.get(start..).unwrap_or_default();
        let name = name.strip_prefix("function").unwrap_or(name);
        let body = bare.get(place + 3..).unwrap_or_default();
        let doubles = [format!("{name}|{name}"), format!("{name}&{name}&")];
        let early: String = body.chars().take(200).collect();
        if !name.is_empty() && doubles.iter().any(|double| early.contains(double)) {
            return Some(rule::bomb(text.trim()));
        }
    }
    None
}
