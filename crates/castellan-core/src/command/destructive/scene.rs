//! What is known while the parts of a command are gone through: the folder it has come to and the
//! variables it has set.

use std::collections::HashMap;

use super::Homes;
use super::path::{ANY, ONE, Path, SET, UNKNOWN, path};
use crate::command::{Part, Piece, Word};

/// How many words a word is expanded to at most.
const MOST_WORDS: usize = 64;
/// The longest word or path that is followed, in bytes; what matters here is short.
const LONGEST_WORD: usize = 1024;
/// How many variables, and values of one, are remembered.
const MOST_VARIABLES: usize = 64;

pub(super) struct Scene<'h> {
    homes: &'h Homes,
    /// Where `cd` has gone to, by the subshells it was done in.
    folders: Vec<(Vec<u32>, Option<String>)>,
    variables: HashMap<String, Vec<String>>,
}

impl<'h> Scene<'h> {
    pub(super) fn new(homes: &'h Homes) -> Self {
        Self {
            homes,
            folders: vec![(Vec::new(), Some(homes.cwd.clone()))],
            variables: HashMap::new(),
        }
    }

    pub(super) fn homes(&self) -> &[String] {
        &self.homes.homes
    }

    fn home(&self) -> Option<&str> {
        self.homes.homes.first().map(String::as_str)
    }

    /// The folder a part runs in, if that is known.
    fn folder(&self, part: &Part) -> Option<&str> {
        let (_, folder) = self
            .folders
            .iter()
            .rev()
            .find(|(scope, _)| part.scope.starts_with(scope))?;
        folder.as_deref()
    }

    /// The part with the words in it that its own variables make known.
    pub(super) fn resolved(&self, part: &Part) -> Part {
        let mut part = part.clone();
        if part.words.iter().all(|word| word.literal().is_some()) {
            return part;
        }
        let mut words = Vec::with_capacity(part.words.len());
        for word in std::mem::take(&mut part.words) {
            let variable = |piece: &Piece| match piece {
                Piece::Variable { name, .. } => self.variables.contains_key(name),
                _ => false,
            };
            let expanded = if word.pieces().iter().any(variable) {
                self.expand(&word, &part)
            } else {
                Vec::new()
            };
            let known = |text: &String| !text.contains([ANY, ONE, SET, UNKNOWN]);
            if !expanded.is_empty() && expanded.len() < MOST_WORDS && expanded.iter().all(known) {
                words.extend(expanded.into_iter().map(Word::plain));
            } else if word.literal().is_none() && words.is_empty() {
                // A name such as `{rm,-rf,/}` or `r?`.
                words.extend(word.alternatives(MOST_WORDS));
            } else {
                words.push(word);
            }
        }
        part.words = words;
        part
    }

    /// Every word that `word` may become, patterns and unknown stretches as their marks.
    pub(super) fn expand(&self, word: &Word, part: &Part) -> Vec<String> {
        let mut all = Vec::new();
        for word in word.alternatives(MOST_WORDS) {
            let mut open = vec![String::new()];
            for piece in word.pieces() {
                let values: Vec<String> = match piece {
                    Piece::Text(text) => vec![text.clone()],
                    Piece::Pattern('*') => vec![ANY.to_string()],
                    Piece::Pattern('?') => vec![ONE.to_string()],
                    Piece::Pattern(_) => vec![SET.to_string()],
                    Piece::Brace(letter) => vec![letter.to_string()],
                    Piece::Tilde(user) => vec![self.tilde(user, part)],
                    Piece::Variable { name, quoted } => self.variable(name, *quoted, part),
                    Piece::Unknown { .. } => vec![UNKNOWN.to_string()],
                };
                open = open
                    .iter()
                    .flat_map(|begin| values.iter().map(move |value| joined(begin, value)))
                    .take(MOST_WORDS)
                    .collect();
            }
            all.extend(open);
            if all.len() >= MOST_WORDS {
                break;
            }
        }
        let split = |text: &String| -> Vec<String> {
            // Blanks come from unquoted values only; those in quotes stand as they are.
            text.split('\u{5}')
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect()
        };
        all.iter().flat_map(split).collect()
    }

    fn tilde(&self, user: &str, part: &Part) -> String {
        let unknown = || UNKNOWN.to_string();
        match user {
            "" => self.home().map_or_else(unknown, str::to_owned),
            "+" => self.folder(part).map_or_else(unknown, str::to_owned),
            "-" => unknown(),
            "root" => "/root".to_owned(),
            user => {
                let own =
                    |home: &&String| home.rsplit_once('/').is_some_and(|(_, name)| name == user);
                self.homes()
                    .iter()
                    .find(own)
                    .cloned()
                    .unwrap_or_else(|| format!("/home/{user}"))
            }
        }
    }

    fn variable(&self, name: &str, quoted: bool, part: &Part) -> Vec<String> {
        if let Some(values) = self.variables.get(name) {
            if quoted {
                return values.clone();
            }
            // An unquoted value is split at blanks, and its patterns count.
            let marked = |value: &String| {
                value
                    .chars()
                    .map(|letter| match letter {
                        ' ' | '\t' | '\n' => '\u{5}',
                        '*' => ANY,
                        '?' => ONE,
                        other => other,
                    })
                    .collect()
            };
            return values.iter().map(marked).collect();
        }
        let known = match name {
            "HOME" => self.home(),
            "PWD" => self.folder(part),
            _ => None,
        };
        vec![known.map_or_else(|| UNKNOWN.to_string(), str::to_owned)]
    }

    /// The paths that the word may mean to this part.
    pub(super) fn paths(&self, word: &Word, part: &Part) -> Vec<Path> {
        self.expand(word, part)
            .iter()
            .filter_map(|text| path(text, self.folder(part)))
            .collect()
    }

    /// Takes note of what the part changes for those after it.
    pub(super) fn follow(&mut self, part: &Part) {
        for assignment in &part.assignments {
            let values: Vec<String> = if assignment.values.is_empty() {
                self.expand(&assignment.value, part)
            } else {
                let each = assignment.values.iter();
                each.flat_map(|value| self.expand(value, part)).collect()
            };
            self.set(&assignment.name, values);
        }
        let name = part.name().unwrap_or_default().to_owned();
        match name.as_str() {
            "export" | "declare" | "typeset" | "readonly" | "local" => {
                for word in part.words.iter().skip(1) {
                    if let Some((name, value)) =
                        word.literal().and_then(|text| text.split_once('='))
                    {
                        self.set(name, vec![value.to_owned()]);
                    }
                }
            }
            "cd" | "pushd" | "chdir" => {
                let to = part
                    .words
                    .iter()
                    .skip(1)
                    .find(|word| !word.head().starts_with('-'));
                let goes_back = part.literal(1) == Some("-");
                let folder = match to {
                    _ if goes_back => None,
                    None => self.home().map(str::to_owned),
                    Some(word) => match self.paths(word, part).as_slice() {
                        [one] if !one.contents && !one.parts.iter().any(|part| is_open(part)) => {
                            Some(format!("/{}", one.parts.join("/")))
                                .filter(|folder| folder.len() <= LONGEST_WORD)
                        }
                        _ => None,
                    },
                };
                self.folders.push((part.scope.clone(), folder));
                if self.folders.len() > MOST_VARIABLES {
                    // The first is where everything begins.
                    self.folders.remove(1);
                }
            }
            "popd" => self.folders.push((part.scope.clone(), None)),
            _ => {}
        }
    }

    fn set(&mut self, name: &str, mut values: Vec<String>) {
        values.truncate(MOST_VARIABLES);
        let room = self.variables.len() < MOST_VARIABLES || self.variables.contains_key(name);
        if values.is_empty() {
            values.push(String::new());
        }
        if room {
            self.variables.insert(name.to_owned(), values);
        }
    }
}

/// Two stretches of a word; a word that grows past any path is not known any more.
fn joined(begin: &str, value: &str) -> String {
    if begin.len() + value.len() > LONGEST_WORD {
        UNKNOWN.to_string()
    } else {
        format!("{begin}{value}")
    }
}

fn is_open(part: &str) -> bool {
    part.contains([ANY, ONE, SET, UNKNOWN])
}
