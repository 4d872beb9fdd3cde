//! A search word by word, for text that can't be read as commands.

use super::scene::Scene;
use super::{Refusal, rule};
use crate::command::{Flow, Part, Piece, Redirection, Word, quote};

/// How many words behind a command's name are looked at.
const MOST_WORDS: usize = 64;
/// How many words of a text are looked at, counted again for each command they may belong to.
const MOST_LOOKS: usize = 10_000;

/// The first destructive command that could be meant by some words of `text`.
pub(super) fn scan(text: &str, scene: &mut Scene<'_>) -> Option<Refusal> {
    if let Some(found) = bomb(text) {
        return Some(found);
    }
    let joined = text.replace("\\\n", "");
    let ends = |letter: char| ";|&()\n{}`".contains(letter) && letter != '{' && letter != '}';
    let mut looks = 0;
    for segment in joined.split(ends) {
        let words: Vec<Word> = segment.split_whitespace().map(word).collect();
        if let Some(found) = redirections(segment, scene) {
            return Some(found);
        }
        for from in 0..words.len() {
            let to = words.len().min(from + MOST_WORDS);
            let name = words.get(from).map(Word::raw).unwrap_or_default();
            if from > 0 && !rule::concerns(name) {
                continue;
            }
            looks += to - from;
            if looks > MOST_LOOKS {
                return None;
            }
            let part = scene.resolved(&part(words.get(from..to).unwrap_or_default().to_vec()));
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
    let bare: String = raw
        .chars()
        .filter(|letter| !"'\"".contains(*letter))
        .collect();
    let bare = bare.trim_start_matches('$').len();
    let text: String = raw
        .chars()
        .filter(|letter| !"'\"".contains(*letter))
        .collect();
    let name = text
        .strip_prefix("${")
        .and_then(|rest| rest.split_once('}'))
        .or_else(|| {
            text.strip_prefix('$')
                .map(|rest| rest.split_once('/').unwrap_or((rest, "")))
        });
    if let Some((name, rest)) = name.filter(|(name, _)| quote::is_name(name) && bare > 0) {
        let rest = if text.starts_with("${") || rest.is_empty() {
            rest.to_owned()
        } else {
            format!("/{rest}")
        };
        let mut pieces = vec![Piece::Variable {
            name: name.to_owned(),
            quoted: true,
        }];
        pieces.extend(quote::unquoted(&rest, false, true).unwrap_or_default());
        return Word::of(raw, pieces);
    }
    match quote::unquoted(&text, true, true) {
        Some(pieces) => Word::of(raw, pieces),
        None => Word::plain(text),
    }
}

fn part(words: Vec<Word>) -> Part {
    Part {
        words,
        assignments: Vec::new(),
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
fn bomb(text: &str) -> Option<Refusal> {
    let bare: String = text
        .chars()
        .filter(|letter| !letter.is_whitespace())
        .collect();
    for (place, _) in bare.match_indices("(){").take(100) {
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
