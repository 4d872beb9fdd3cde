//! What the shell fills in: the values of variables, what expansions make of them, and what plain
//! words print.

use std::collections::HashSet;

use super::expansion::{self, Change, Expansion};
use super::path::{ANY, ONE, UNKNOWN, UNSEEN};
use super::scene::{Scene, is_open};
use crate::command::{Filling, Part, Piece, Word};

/// Stands for a blank at which the shell splits what it has filled in.
pub(super) const SPLIT: char = '\u{5}';
/// The longest value that is cut by a pattern, in bytes.
const LONGEST_CUT: usize = 256;

/// Variables that the shell itself sets, or may set, before or while a command runs.
const OF_THE_SHELL: &[&str] = &[
    "_",
    "COLUMNS",
    "COPROC",
    "DIRSTACK",
    "EPOCHREALTIME",
    "EPOCHSECONDS",
    "EUID",
    "FUNCNAME",
    "GROUPS",
    "HISTCMD",
    "HOME",
    "HOSTNAME",
    "HOSTTYPE",
    "IFS",
    "LINENO",
    "LINES",
    "MACHTYPE",
    "MAPFILE",
    "OLDPWD",
    "OPTARG",
    "OPTERR",
    "OPTIND",
    "OSTYPE",
    "PATH",
    "PIPESTATUS",
    "PPID",
    "PS4",
    "PWD",
    "RANDOM",
    "REPLY",
    "SECONDS",
    "SHELL",
    "SHELLOPTS",
    "SHLVL",
    "SRANDOM",
    "TERM",
    "UID",
];

impl Scene<'_> {
    /// What a variable may have, as one text each; empty text where it is not set.
    pub(super) fn values(&self, name: &str, part: &Part) -> Vec<String> {
        let is_argument = name == "@" || name.starts_with(|letter: char| letter.is_ascii_digit());
        // A function has arguments of its own.
        if is_argument && part.function.is_some() {
            return vec![UNKNOWN.to_string()];
        }
        if let Some(values) = self.variables.get(name) {
            return values.clone();
        }
        if self.full {
            return vec![UNSEEN.to_string()];
        }
        let known = match name {
            "HOME" => self.home().map(str::to_owned),
            "PWD" => self.folder(part).map(str::to_owned),
            _ => self.given(name),
        };
        vec![known.unwrap_or_else(|| UNKNOWN.to_string())]
    }

    /// What the command's environment has of a variable that nothing in the command sets; empty
    /// where it has none.
    fn given(&self, name: &str) -> Option<String> {
        let environment = self.homes.environment.as_ref().filter(|_| !self.loose)?;
        if let Some((_, value)) = environment.iter().find(|(given, _)| given == name) {
            return Some(value.clone()).filter(|value| !value.chars().any(char::is_control));
        }
        let own = name.starts_with("BASH") || OF_THE_SHELL.contains(&name);
        let unset = !own && crate::command::quote::is_name(name) && !self.is_named(name);
        unset.then(String::new)
    }

    /// Whether the whole text has this name anywhere but behind a dollar sign: then something may
    /// set it in a way that is not followed.
    fn is_named(&self, name: &str) -> bool {
        self.names.get_or_init(|| named(self.text)).contains(name)
    }

    /// The value of a variable as it stands in a word.
    pub(super) fn variable(&self, name: &str, quoted: bool, part: &Part) -> Vec<String> {
        let values = self.values(name, part);
        if quoted { values } else { unquoted(&values) }
    }

    /// What stands in a word for something filled in.
    pub(super) fn filled(&self, with: &Filling, quoted: bool, part: &Part) -> Vec<String> {
        let values = match with {
            Filling::Expansion(inside) => self.expansion(inside, quoted, part),
            Filling::Output(words) => vec![self.output(words, part)],
        };
        if quoted { values } else { unquoted(&values) }
    }

    /// What `echo` or `printf` writes.
    fn output(&self, words: &[Word], part: &Part) -> String {
        let unknown = || UNKNOWN.to_string();
        let Some((name, arguments)) = words.split_first() else {
            return unknown();
        };
        let name = name.literal().unwrap_or_default();
        let name = name.rsplit_once('/').map_or(name, |(_, name)| name);
        let arguments: Vec<String> = arguments
            .iter()
            .flat_map(|word| self.expand(word, part))
            .collect();
        if arguments.iter().any(|text| text.contains(UNSEEN)) {
            return UNSEEN.to_string();
        }
        // A pattern stays one: the names it fits are what is written.
        if arguments.iter().any(|text| text.contains(UNKNOWN)) {
            return unknown();
        }
        let written = expansion::output(name, &arguments);
        written.map_or_else(unknown, |text| text.trim_end_matches('\n').to_owned())
    }

    /// The values that `${inside}` may have.
    pub(super) fn expansion(&self, inside: &str, quoted: bool, part: &Part) -> Vec<String> {
        let Some(Expansion { name, change }) = expansion::parse(inside) else {
            return vec![UNKNOWN.to_string()];
        };
        let values = self.values(name, part);
        let instead = |word| self.inner(word, quoted, part);
        match change {
            Change::Same => values,
            Change::Default { word, empty } => {
                let mut all = Vec::new();
                for value in values {
                    let open = value.is_empty() || is_open(&value);
                    if !value.is_empty() || !empty {
                        all.push(value);
                    }
                    if open {
                        all.extend(instead(word));
                    }
                }
                all
            }
            Change::Alternate { word } => {
                let mut all = Vec::new();
                if values.iter().any(|value| !value.is_empty()) {
                    all.extend(instead(word));
                }
                if values
                    .iter()
                    .any(|value| value.is_empty() || is_open(value))
                {
                    all.push(String::new());
                }
                all
            }
            Change::Demand => {
                let mut values = values;
                values.retain(|value| !value.is_empty());
                values
            }
            Change::Without {
                pattern,
                end,
                longest,
            } => {
                let patterns = self.inner(pattern, quoted, part);
                let cut = |value: String| match patterns.as_slice() {
                    [pattern] => self.cut(&value, pattern, end, longest),
                    _ => UNKNOWN.to_string(),
                };
                values.into_iter().map(cut).collect()
            }
            Change::Slice { from, length } => {
                let cut = |value: String| {
                    if is_open(&value) {
                        return value;
                    }
                    let letters = value.chars().skip(from);
                    letters.take(length.unwrap_or(usize::MAX)).collect()
                };
                values.into_iter().map(cut).collect()
            }
            Change::Other => vec![UNKNOWN.to_string()],
        }
    }

    /// What a word inside an expansion may be; at least one text.
    fn inner(&self, text: &str, quoted: bool, part: &Part) -> Vec<String> {
        let Some(pieces) = expansion::pieces(text, quoted) else {
            return vec![UNKNOWN.to_string()];
        };
        let mut texts = self.expand(&Word::of(text, pieces), part);
        if texts.is_empty() {
            texts.push(String::new());
        }
        texts
    }

    fn cut(&self, value: &str, pattern: &str, end: expansion::End, longest: bool) -> String {
        if value.contains(UNSEEN) || pattern.contains(UNSEEN) {
            return UNSEEN.to_string();
        }
        if is_open(value) || pattern.contains(UNKNOWN) {
            return UNKNOWN.to_string();
        }
        let size = value.len().max(pattern.len());
        if size > LONGEST_CUT || !self.spend(value.len() * pattern.len()) {
            return UNSEEN.to_string();
        }
        expansion::without(value, pattern, end, longest).to_owned()
    }

    /// Takes note of what the words of a part set by themselves: `${x:=…}`.
    pub(super) fn enter(&mut self, part: &Part) {
        for piece in part.words.iter().flat_map(Word::pieces) {
            let Piece::Filled {
                with: Filling::Expansion(inside),
                quoted,
            } = piece
            else {
                continue;
            };
            let Some(Expansion {
                name,
                change: Change::Default { .. },
            }) = expansion::parse(inside)
            else {
                continue;
            };
            let sets = inside
                .get(name.len()..)
                .is_some_and(|rest| rest.starts_with(['=']) || rest.starts_with(":="));
            if sets {
                let values = self.expansion(inside, *quoted, part);
                self.set(name, values);
            }
        }
    }

    /// `set -- …`: the arguments of the shell.
    pub(super) fn set_arguments(&mut self, part: &Part) {
        let options =
            |word: &&Word| word.head().starts_with(['-', '+']) && word.literal() != Some("--");
        let behind = part.words.iter().skip(1).skip_while(options);
        let mut words = behind.peekable();
        if words.next_if(|word| word.literal() == Some("--")).is_none() && words.peek().is_none() {
            return;
        }
        let each: Vec<Vec<String>> = words.map(|word| self.expand(word, part)).collect();
        let all = each.concat();
        for number in 1..=9_usize {
            // Behind a word that may be several, every one may come next.
            let sure = each.iter().take(number).all(|texts| texts.len() == 1);
            let values = if sure {
                each.get(number - 1).cloned().unwrap_or_default()
            } else {
                all.clone()
            };
            self.set(&number.to_string(), values);
        }
        self.set("@", all);
    }

    /// `shift`: any of the arguments may be any of them.
    pub(super) fn shift(&mut self) {
        if let Some(all) = self.variables.get("@").cloned() {
            for number in 1..=9 {
                self.set(&number.to_string(), all.clone());
            }
        }
    }

    /// `printf -v NAME FORMAT …`; whether it is one.
    pub(super) fn prints_into(&mut self, part: &Part) -> bool {
        let (Some("-v"), Some(name)) = (part.literal(1), part.literal(2)) else {
            return false;
        };
        let mut words = vec![Word::plain("printf")];
        words.extend(part.words.iter().skip(3).cloned());
        let value = self.output(&words, part);
        let name = name.split_once('[').map_or(name, |(name, _)| name);
        if crate::command::quote::is_name(name) {
            self.set(name, vec![value]);
        }
        true
    }
}

/// Values as an unquoted word has them: split at blanks, with their patterns in force.
fn unquoted(values: &[String]) -> Vec<String> {
    let marked = |value: &String| {
        value
            .chars()
            .map(|letter| match letter {
                ' ' | '\t' | '\n' => SPLIT,
                '*' => ANY,
                '?' => ONE,
                other => other,
            })
            .collect()
    };
    values.iter().map(marked).collect()
}

/// The words of a text that may be names, but for those behind a dollar sign.
fn named(text: &str) -> HashSet<&str> {
    let apart = |letter: char| !(letter.is_ascii_alphanumeric() || letter == '_');
    let mut names = HashSet::new();
    let mut at = 0;
    for word in text.split(apart) {
        let before = text.get(..at).unwrap_or_default();
        if !before.ends_with('$') && !before.ends_with("${") {
            names.insert(word);
        }
        at += word.len();
        at += text
            .get(at..)
            .and_then(|rest| rest.chars().next())
            .map_or(0, char::len_utf8);
    }
    names
}
