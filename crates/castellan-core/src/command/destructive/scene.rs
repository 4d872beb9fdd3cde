//! What is known while the parts of a command are gone through: the folder it has come to and the
//! variables it has set.
//!
//! All of it is bounded. What lies past a bound is not forgotten but marked: where a rule comes to
//! look at it, the scene has something unseen, and the command can't be called harmless.

use std::cell::{Cell, OnceCell};
use std::collections::{HashMap, HashSet};

use super::Homes;
use super::fill::SPLIT;
use super::path::{ANY, ONE, Path, SET, UNKNOWN, UNSEEN, path};
use crate::command::{Part, Piece, Word};

/// How many words braces make of a word at most.
const MOST_WORDS: usize = 64;
/// How many texts a word may stand for, and how many values of a variable are remembered.
const MOST_VALUES: usize = 1024;
/// How many texts are made of the words of a command in all.
const MOST_TEXTS: usize = 100_000;
/// The longest word or path that is followed, in bytes; what matters here is short.
const LONGEST_WORD: usize = 1024;
/// How many variables, and folders of subshells, are remembered.
const MOST_REMEMBERED: usize = 256;

pub(super) struct Scene<'h> {
    pub(super) homes: &'h Homes,
    /// The whole text that is gone through.
    pub(super) text: &'h str,
    /// Its words that may be names of variables that something sets.
    pub(super) names: OnceCell<HashSet<&'h str>>,
    /// Where `cd` has gone to, by the subshells it was done in.
    folders: Vec<(Vec<u32>, Option<String>)>,
    pub(super) variables: HashMap<String, Vec<String>>,
    /// Whether some variable is set that is not remembered.
    pub(super) full: bool,
    /// Whether something has run that may have set any variable.
    pub(super) loose: bool,
    /// How many texts may still be made.
    texts: Cell<usize>,
    /// Whether a rule came to what lies past a bound.
    unseen: Cell<bool>,
}

impl<'h> Scene<'h> {
    pub(super) fn new(text: &'h str, homes: &'h Homes) -> Self {
        let reads = |(name, _): &(String, String)| name == "BASH_ENV";
        Self {
            homes,
            text,
            names: OnceCell::new(),
            folders: vec![(Vec::new(), Some(homes.cwd.clone()))],
            variables: HashMap::new(),
            full: false,
            loose: homes.environment.iter().flatten().any(reads),
            texts: Cell::new(MOST_TEXTS),
            unseen: Cell::new(false),
        }
    }

    pub(super) fn homes(&self) -> &[String] {
        &self.homes.homes
    }

    /// Whether something was passed by that could be destructive.
    pub(super) const fn has_unseen(&self) -> bool {
        self.unseen.get()
    }

    /// Takes note that something is passed by.
    pub(super) fn pass_by(&self) {
        self.unseen.set(true);
    }

    /// Takes note that any variable may have been set.
    pub(super) fn loosen(&mut self) {
        self.loose = true;
    }

    /// Takes so much from what may still be made; `false` where it is used up.
    pub(super) fn spend(&self, texts: usize) -> bool {
        let left = self.texts.get();
        self.texts.set(left.saturating_sub(texts));
        left >= texts
    }

    pub(super) fn home(&self) -> Option<&str> {
        self.homes.homes.first().map(String::as_str)
    }

    /// The folder a part runs in, if that is known.
    pub(super) fn folder(&self, part: &Part) -> Option<&str> {
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
        let declares = part.name().is_some_and(declares);
        let mut words = Vec::with_capacity(part.words.len());
        for word in std::mem::take(&mut part.words) {
            let variable = |piece: &Piece| match piece {
                Piece::Variable { name, .. } => {
                    self.full
                        || self.variables.contains_key(name)
                        || self.values(name, &part).iter().all(|value| !is_open(value))
                }
                Piece::Filled { .. } => true,
                _ => false,
            };
            // The value of a declaration is not split into words.
            let kept = declares && word.head().contains('=');
            let variables = word.pieces().iter().any(variable);
            let expanded = if !kept && variables {
                self.expand(&word, &part)
            } else {
                Vec::new()
            };
            if words.is_empty() && expanded.iter().any(|text| text.contains(UNSEEN)) {
                self.pass_by();
            }
            let known = |text: &String| !is_open(text);
            let only = |piece: &Piece| matches!(piece, Piece::Variable { quoted: false, .. });
            if expanded.is_empty() && !kept && word.pieces().iter().all(only) && variables {
                // Nothing is left of it.
                continue;
            }
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
        let alternatives = word.alternatives(MOST_WORDS);
        // Past its limit braces are given up.
        let mut cut = alternatives.len() > MOST_WORDS;
        for word in alternatives {
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
                    Piece::Filled { with, quoted } => self.filled(with, *quoted, part),
                    Piece::Unknown { .. } => vec![UNKNOWN.to_string()],
                };
                open = self.products(&open, &values);
            }
            all.extend(open);
            if all.len() > MOST_VALUES {
                cut = true;
                all.truncate(MOST_VALUES);
                break;
            }
        }
        if cut {
            all.push(UNSEEN.to_string());
        }
        let split = |text: &String| -> Vec<String> {
            // Blanks come from unquoted values only; those in quotes stand as they are.
            text.split(SPLIT)
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect()
        };
        all.iter().flat_map(split).collect()
    }

    /// Each beginning with each value behind it.
    fn products(&self, begins: &[String], values: &[String]) -> Vec<String> {
        let left = self.texts.get();
        let wanted = begins.len().saturating_mul(values.len());
        let most = left.min(MOST_VALUES);
        self.texts.set(left.saturating_sub(wanted.min(most)));
        let mut products: Vec<String> = begins
            .iter()
            .flat_map(|begin| values.iter().map(move |value| joined(begin, value)))
            .take(most)
            .collect();
        if wanted > most {
            products.push(UNSEEN.to_string());
        }
        products
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

    /// The texts that the word may stand for to this part.
    pub(super) fn texts(&self, word: &Word, part: &Part) -> Vec<String> {
        let mut texts = self.expand(word, part);
        if texts.iter().any(|text| text.contains(UNSEEN)) {
            self.pass_by();
            texts.retain(|text| !text.contains(UNSEEN));
        }
        texts
    }

    /// The paths that the word may mean to this part.
    pub(super) fn paths(&self, word: &Word, part: &Part) -> Vec<Path> {
        let folder = self.folder(part);
        let texts = self.texts(word, part);
        let relative = |text: &String| !text.starts_with('/');
        if folder.is_some_and(|folder| folder.contains(UNSEEN)) && texts.iter().any(relative) {
            self.pass_by();
        }
        texts.iter().filter_map(|text| path(text, folder)).collect()
    }

    /// Takes note of what the part changes for those after it.
    pub(super) fn follow(&mut self, part: &Part) {
        for assignment in &part.assignments {
            let mut values: Vec<String> = if assignment.values.is_empty() {
                self.expand(&assignment.value, part)
            } else {
                let each = assignment.values.iter();
                each.flat_map(|value| self.expand(value, part)).collect()
            };
            if assignment.appends && !assignment.values.is_empty() {
                values.extend(self.variable(&assignment.name, true, part));
            } else if assignment.appends {
                values = self.products(&self.variable(&assignment.name, true, part), &values);
            }
            if !part.words.is_empty() {
                // Set for what this command runs, and as before for what comes after it.
                values.extend(self.variable(&assignment.name, true, part));
            }
            self.set(&assignment.name, values);
        }
        let name = part.name().unwrap_or_default().to_owned();
        match name.as_str() {
            "set" => self.set_arguments(part),
            "shift" => self.shift(),
            "source" | "." => self.loosen(),
            "printf" if self.prints_into(part) => {}
            name if declares(name) => self.declare(part),
            "unset" => {
                let functions = part.literal(1) == Some("-f");
                for name in self.named(part).into_iter().filter(|_| !functions) {
                    self.set(&name, Vec::new());
                }
            }
            "read" | "mapfile" | "readarray" | "getopts" => {
                for name in self.named(part) {
                    self.set(&name, vec![UNKNOWN.to_string()]);
                }
            }
            "cd" | "pushd" | "chdir" => {
                let folder = self.went_to(part);
                self.move_to(part, folder);
            }
            "popd" => self.move_to(part, None),
            _ => {}
        }
    }

    /// The arguments of a part that may be names of variables.
    fn named(&self, part: &Part) -> Vec<String> {
        let arguments = part.words.iter().skip(1);
        arguments
            .flat_map(|word| self.expand(word, part))
            .filter(|text| crate::command::quote::is_name(text))
            .collect()
    }

    /// `export NAME=value` and its kind.
    fn declare(&mut self, part: &Part) {
        let refers = part
            .words
            .iter()
            .skip(1)
            .filter_map(Word::literal)
            .any(|word| word.starts_with('-') && word.contains('n'));
        let local = part.name() == Some("local");
        for word in part.words.iter().skip(1) {
            for word in word.alternatives(MOST_WORDS) {
                let Some((name, appends, value)) = word.as_assignment() else {
                    // A name alone is kept, but for that of a function's own variable.
                    if let Some(name) = word.literal().filter(|_| local)
                        && crate::command::quote::is_name(name)
                    {
                        self.set(name, Vec::new());
                    }
                    continue;
                };
                let mut values = self.expand(&value, part);
                if refers && part.name() != Some("export") {
                    let of = |name: &String| self.variable(name, true, part);
                    values = values.iter().flat_map(of).collect();
                }
                if appends {
                    values = self.products(&self.variable(name, true, part), &values);
                }
                self.set(name, values);
            }
        }
    }

    /// Where `cd` goes, if that is known.
    fn went_to(&self, part: &Part) -> Option<String> {
        let mut operands = part.words.iter().skip(1);
        let to = operands.find(|word| !word.head().starts_with('-'));
        if part.literal(1) == Some("-") {
            return None;
        }
        let Some(to) = to else {
            return self.home().map(str::to_owned);
        };
        if self
            .expand(to, part)
            .iter()
            .any(|text| text.contains(UNSEEN))
        {
            return Some(UNSEEN.to_string());
        }
        let from = self.folder(part);
        let texts = self.expand(to, part);
        let splits = |piece: &Piece| matches!(piece, Piece::Variable { quoted: false, .. });
        if texts.is_empty() && to.pieces().iter().all(splits) {
            // Nothing is left of it.
            return self.home().map(str::to_owned);
        }
        let [text] = texts.as_slice() else {
            return None;
        };
        let to = path(text, from)?;
        let folder = format!("/{}", to.parts.join("/"));
        if folder.contains(UNSEEN) || folder.len() > LONGEST_WORD {
            return Some(UNSEEN.to_string());
        }
        (!to.contents && !is_open(&folder)).then_some(folder)
    }

    fn move_to(&mut self, part: &Part, folder: Option<String>) {
        // Where this shell and those inside it were before is over.
        self.folders
            .retain(|(scope, _)| !scope.starts_with(&part.scope));
        self.folders.push((part.scope.clone(), folder));
        if self.folders.len() > MOST_REMEMBERED {
            self.folders = vec![(Vec::new(), Some(UNSEEN.to_string()))];
        }
    }

    pub(super) fn set(&mut self, name: &str, mut values: Vec<String>) {
        if values.len() > MOST_VALUES {
            values.truncate(MOST_VALUES);
            values.push(UNSEEN.to_string());
        }
        if values.is_empty() {
            values.push(String::new());
        }
        if self.variables.len() < MOST_REMEMBERED || self.variables.contains_key(name) {
            self.variables.insert(name.to_owned(), values);
        } else {
            self.full = true;
        }
    }
}

/// Whether a command of this name takes `NAME=value` for arguments, and sets them.
fn declares(name: &str) -> bool {
    matches!(
        name,
        "export" | "declare" | "typeset" | "readonly" | "local"
    )
}

/// Two stretches of a word; one that grows past any path is not followed.
fn joined(begin: &str, value: &str) -> String {
    if begin.len() + value.len() > LONGEST_WORD {
        UNSEEN.to_string()
    } else {
        format!("{begin}{value}")
    }
}

pub(super) fn is_open(part: &str) -> bool {
    part.contains([ANY, ONE, SET, UNKNOWN, UNSEEN])
}
