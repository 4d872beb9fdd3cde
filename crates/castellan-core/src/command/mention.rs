//! Whether a command names a certain file or folder.

use super::destructive::{ANY, ONE, SET, UNKNOWN, matches};
use super::{Part, Piece, Word, split};

/// How many words braces make of a word at most; past that a word counts as naming anything.
const MOST_WORDS: usize = 64;

/// Whether something in `text` may name the file or folder `name`, wherever it lies: the name as
/// such, also in quotes, code and comments, or a pattern that it fits. A word of which nothing is
/// known before it runs names nothing.
///
/// `name` begins with a dot; as for bash, only a pattern that does so too fits it.
#[must_use]
pub fn mentions(text: &str, name: &str) -> bool {
    let bare = text.replace("\\\n", "").replace(['\'', '"', '\\'], "");
    if spelled(&bare, name) {
        return true;
    }
    match split(text) {
        Ok(parts) => parts.iter().any(|part| {
            let inner = part.unwrapped().parts;
            inner.iter().any(|part| names(part, name))
        }),
        // Whatever looks like a word of it.
        Err(_unread) => bare
            .split(|letter: char| letter.is_whitespace() || ";|&<>(){}$`=,".contains(letter))
            .any(|word| {
                let marked = word.replace('*', &ANY.to_string());
                let marked = marked.replace('?', &ONE.to_string());
                fits(&marked.replace('[', &SET.to_string()), name)
            }),
    }
}

/// Whether the name stands in the text as a name of its own.
fn spelled(text: &str, name: &str) -> bool {
    let part_of_name = |letter: char| letter.is_alphanumeric() || "_-".contains(letter);
    text.match_indices(name).any(|(place, _)| {
        let before = text.get(..place).and_then(|text| text.chars().next_back());
        let after = text.get(place + name.len()..);
        let after = after.and_then(|text| text.chars().next());
        !before.is_some_and(part_of_name) && !after.is_some_and(part_of_name)
    })
}

fn names(part: &Part, name: &str) -> bool {
    let targets = part.redirections.iter().map(|one| &one.target);
    let values = part.assignments.iter().map(|one| &one.value);
    part.words
        .iter()
        .chain(targets)
        .chain(values)
        .any(|word| may_be(word, name))
}

fn may_be(word: &Word, name: &str) -> bool {
    if word.literal().is_some() {
        // Looked for in the text already.
        return false;
    }
    let alternatives = word.alternatives(MOST_WORDS);
    alternatives.len() > MOST_WORDS
        || alternatives.iter().any(|word| {
            let marked: String = word.pieces().iter().map(marked).collect();
            fits(&marked, name)
        })
}

fn marked(piece: &Piece) -> String {
    match piece {
        Piece::Text(text) => text.clone(),
        Piece::Pattern('*') => ANY.to_string(),
        Piece::Pattern('?') => ONE.to_string(),
        Piece::Pattern(_) => SET.to_string(),
        Piece::Brace(letter) => letter.to_string(),
        Piece::Tilde(_) => "~".to_owned(),
        Piece::Variable { .. } | Piece::Filled { .. } | Piece::Unknown { .. } => {
            UNKNOWN.to_string()
        }
    }
}

/// Whether a part of the path fits the name, which more than unknown stretches must speak for.
fn fits(path: &str, name: &str) -> bool {
    path.split('/').any(|part| {
        let known = part.contains(|letter| ![ANY, ONE, SET, UNKNOWN].contains(&letter));
        known
            && part.starts_with(['.', UNKNOWN])
            && matches(&part.replace(UNKNOWN, &ANY.to_string()), name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_what_it_spells_or_has_a_pattern_for() {
        for text in [
            "rm -rf .castellan",
            "rm .castellan/policy.toml",
            "mv ./.castellan x",
            "cat '.castellan'/policy.toml",
            "rm .cas''tellan/*",
            "rm -rf .c*",
            "rm -rf ./.*",
            "rm -rf {a,.castell}an",
            "rm -rf .caste??an/",
            "rm -rf .[b-d]astellan",
            "rm -rf .caste$X",
            "echo x > .castellan/policy.toml",
            "bash -c 'rm -r .castellan'",
            "D=.castellan; rm -r $D",
            "python3 -c \"import shutil; shutil.rmtree('.castellan')\"",
            "sh <<END\nrm -r .castellan\nEND",
            "rm -rf .castellan (",
            "rm -rf .c* (",
        ] {
            assert!(mentions(text, ".castellan"), "{text}");
        }
        for text in [
            "ls",
            "ls -a *",
            "rm -rf * ./*",
            "rm -rf \"$DIR\"/$X",
            "cat .castellanrc my.castellan",
            "grep -r castellan src",
            "ls .git* .github/*",
            "grep '.c*' x",
            "$X/y (",
        ] {
            assert!(!mentions(text, ".castellan"), "{text}");
        }
    }
}
