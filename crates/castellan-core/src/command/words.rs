//! Words, tests and substitutions.

use tree_sitter::Node;

use super::check::text;
use super::read::{Draftless, Place, Reader, is_statement, is_word, read};
use super::simple::Draft;
use super::word::{Filling, Piece, Word};
use super::{Assignment, DEEPEST, Flow, MOST_PARTS, Part, SetBy, Unread, quote};

impl<'t> Reader<'t> {
    /// `[ … ]` and `[[ … ]]`.
    pub(super) fn test(&mut self, node: Node<'t>) -> Result<(), Unread> {
        let whole = self.text(node);
        let double = whole.starts_with("[[");
        let (open, close) = if double { ("[[", "]]") } else { ("[", "]") };
        let apart = |letter: char| matches!(letter, ' ' | '\t' | '\n');
        let inside = whole
            .strip_prefix(open)
            .and_then(|rest| rest.strip_suffix(close));
        let after = self.source.get(node.end_byte()..).unwrap_or_default();
        let ends = after.is_empty() || after.starts_with([' ', '\t', '\n', ';', '&', '|', ')']);
        let spaced = inside.is_some_and(|text| text.starts_with(apart) && text.ends_with(apart));
        if !spaced || !ends {
            return Self::unread(node, "brackets the grammar reads otherwise");
        }
        let mut draft = Draft::default();
        self.test_words(node, double, &mut draft)?;
        let mut words = Vec::new();
        for run in &draft.words {
            words.push(match run.as_slice() {
                [only] if matches!(only.kind(), "regex" | "extglob_pattern") => {
                    Word::unknown(self.text(*only))
                }
                [only] if !is_word(only.kind()) => Word::plain(self.text(*only)),
                _ => self.word(run)?,
            });
        }
        let inner = words
            .get(1..words.len().saturating_sub(1))
            .unwrap_or_default();
        if double && inner.iter().any(|word| word.raw().starts_with("]]")) {
            return Self::unread(node, "brackets the grammar reads otherwise");
        }
        let part = Draftless {
            words,
            text: whole.to_owned(),
            ..Draftless::default()
        };
        self.push(node, part).map(drop)
    }

    /// The words between the brackets of a test, in order.
    pub(super) fn test_words(
        &mut self,
        node: Node<'t>,
        double: bool,
        draft: &mut Draft<'t>,
    ) -> Result<(), Unread> {
        let mut open = vec![node];
        while let Some(next) = open.pop() {
            let kind = next.kind();
            if is_word(kind) || matches!(kind, "regex" | "extglob_pattern" | "test_operator") {
                draft.word(next);
            } else if next.child_count() == 0 {
                let plain = next.is_named()
                    || matches!(
                        kind,
                        "[" | "]" | "=" | "==" | "!=" | "=~" | "!" | "-a" | "-o" | "-" | "+"
                    );
                // In single brackets any other operator is the shell's own, and ends the test.
                if !plain && !double {
                    return Self::unread(next, "an operator inside brackets");
                }
                draft.word(next);
            } else if kind == "redirected_statement" || (is_statement(kind) && next != node) {
                return Self::unread(next, "a command inside brackets");
            } else {
                let mut cursor = next.walk();
                let children: Vec<Node<'t>> = next.children(&mut cursor).collect();
                open.extend(children.into_iter().rev());
            }
        }
        if !double && self.text(node).contains('\n') {
            return Self::unread(node, "a line end inside brackets");
        }
        Ok(())
    }

    /// What the shell makes of nodes that stand without a gap between them.
    pub(super) fn word(&mut self, run: &[Node<'t>]) -> Result<Word, Unread> {
        let mut pieces = Vec::new();
        let mut raw = String::new();
        let mut flat = Vec::new();
        for node in run {
            if node.kind() == "concatenation" {
                let mut cursor = node.walk();
                flat.extend(node.children(&mut cursor));
            } else {
                flat.push(*node);
            }
            raw.push_str(self.text(*node));
        }
        let mut end = flat.first().map_or(0, Node::start_byte);
        for (index, node) in flat.iter().enumerate() {
            if end != node.start_byte() {
                return Self::unread(*node, "a gap inside a word");
            }
            end = node.end_byte();
            let place = (pieces.is_empty(), index + 1 == flat.len());
            self.pieces(*node, place, &mut pieces)?;
        }
        Ok(Word::of(raw, pieces))
    }

    pub(super) fn pieces(
        &mut self,
        node: Node<'t>,
        (first, last): (bool, bool),
        pieces: &mut Vec<Piece>,
    ) -> Result<(), Unread> {
        let text = self.text(node);
        let odd = Unread::new(node.start_byte(), "a word the grammar reads otherwise");
        match node.kind() {
            "string" => self.string(node, pieces)?,
            "raw_string" => {
                let inside = quote::single_quoted(text).ok_or(odd)?;
                pieces.push(Piece::Text(inside.to_owned()));
            }
            "ansi_c_string" => pieces.push(match quote::ansi_c(text).ok_or(odd)? {
                Some(known) => Piece::Text(known),
                None => Piece::Unknown { quoted: true },
            }),
            "simple_expansion" | "expansion" => {
                self.substitutions(node)?;
                pieces.push(variable(node, self.source, false));
            }
            "command_substitution" => pieces.push(self.output(node, false)?),
            "process_substitution" | "arithmetic_expansion" | "translated_string" => {
                self.substitutions(node)?;
                pieces.push(Piece::Unknown { quoted: false });
            }
            // The number of the shell's process.
            "$" if text.len() > 1 => pieces.push(Piece::Unknown { quoted: true }),
            // An empty pair of backquotes.
            "``" => pieces.push(Piece::Text(String::new())),
            "number" if node.child_count() > 0 => {
                self.substitutions(node)?;
                pieces.push(Piece::Unknown { quoted: false });
            }
            "variable_assignment" => self.declared(node, pieces)?,
            "subscript" | "array" => {
                self.substitutions(node)?;
                pieces.push(Piece::Unknown { quoted: true });
            }
            _ if node.child_count() > 0 && node.kind() != "brace_expression" => return Err(odd),
            _ => pieces.extend(quote::unquoted(text, first, last).ok_or(odd)?),
        }
        Ok(())
    }

    /// `NAME=value` as an argument of `export` and its kind.
    fn declared(&mut self, node: Node<'t>, pieces: &mut Vec<Piece>) -> Result<(), Unread> {
        let mut cursor = node.walk();
        let children: Vec<Node<'t>> = node.children(&mut cursor).collect();
        let mut flat = Vec::new();
        for child in children {
            match child.kind() {
                "=" | "+=" | "variable_name" => {
                    pieces.push(Piece::Text(self.text(child).to_owned()));
                }
                "concatenation" => {
                    let mut inner = child.walk();
                    flat.extend(child.children(&mut inner));
                }
                _ => flat.push(child),
            }
        }
        let count = flat.len();
        for (index, child) in flat.into_iter().enumerate() {
            let place = (index == 0, index + 1 == count);
            self.pieces(child, place, pieces)?;
        }
        Ok(())
    }

    pub(super) fn string(&mut self, node: Node<'t>, pieces: &mut Vec<Piece>) -> Result<(), Unread> {
        let odd = Unread::new(node.start_byte(), "a string the grammar reads otherwise");
        let mut cursor = node.walk();
        let children: Vec<Node<'t>> = node.children(&mut cursor).collect();
        let mut end = node.start_byte() + 1;
        // So that "" is a word.
        pieces.push(Piece::Text(String::new()));
        for child in children {
            let expands = matches!(
                child.kind(),
                "expansion" | "simple_expansion" | "command_substitution" | "arithmetic_expansion"
            );
            if !expands {
                continue;
            }
            let known = self.source.get(end..child.start_byte()).ok_or(odd)?;
            pieces.push(Piece::Text(quote::double_quoted(known).ok_or(odd)?));
            pieces.push(if child.kind() == "command_substitution" {
                self.output(child, true)?
            } else {
                self.substitutions(child)?;
                variable(child, self.source, true)
            });
            end = child.end_byte();
        }
        let known = self.source.get(end..node.end_byte() - 1).ok_or(odd)?;
        pieces.push(Piece::Text(quote::double_quoted(known).ok_or(odd)?));
        Ok(())
    }

    /// Reads a command substitution: what it is filled with, where that is what plain words say.
    fn output(&mut self, node: Node<'t>, quoted: bool) -> Result<Piece, Unread> {
        let first = self.parts.len();
        self.substitutions(node)?;
        let parts = self.parts.get(first..).unwrap_or_default();
        let words = parts
            .split_last()
            .filter(|(last, before)| {
                let within = |part: &Part| part.scope.len() > last.scope.len();
                matches!(last.name(), Some("echo" | "printf"))
                    && last.words.len() <= MOST_WRITTEN
                    && last.assignments.is_empty()
                    && last.redirections.is_empty()
                    && !last.flow.fed
                    && before.iter().all(within)
            })
            .map(|(last, _)| last.words.clone());
        Ok(match words {
            Some(words) => Piece::Filled {
                with: Filling::Output(words),
                quoted,
            },
            None => Piece::Unknown { quoted },
        })
    }

    /// Reads every substitution at and below `node`.
    pub(super) fn substitutions(&mut self, node: Node<'t>) -> Result<(), Unread> {
        let mut open = vec![node];
        while let Some(next) = open.pop() {
            match next.kind() {
                "command_substitution" | "process_substitution" => self.substitution(next)?,
                // `${x:=…}` and `((x = …))` set a variable.
                "expansion" if sets(next, self.source) => {
                    let name = self.text(next).to_owned();
                    let value = Word::unknown(name.clone());
                    let by = SetBy::Assignment;
                    let part = Draftless {
                        assignments: vec![Assignment {
                            name,
                            value,
                            appends: false,
                            values: Vec::new(),
                            by,
                        }],
                        text: self.text(next).to_owned(),
                        ..Draftless::default()
                    };
                    self.push(next, part)?;
                    let mut cursor = next.walk();
                    let children: Vec<Node<'t>> = next.named_children(&mut cursor).collect();
                    open.extend(children.into_iter().rev());
                }
                kind if is_statement(kind) && next != node && kind != "compound_statement" => {
                    if kind != "variable_assignment" {
                        self.visit(next)?;
                    } else {
                        let mut cursor = next.walk();
                        open.extend(next.named_children(&mut cursor));
                    }
                }
                _ => {
                    let mut cursor = next.walk();
                    let children: Vec<Node<'t>> = next.named_children(&mut cursor).collect();
                    open.extend(children.into_iter().rev());
                }
            }
        }
        Ok(())
    }

    pub(super) fn substitution(&mut self, node: Node<'t>) -> Result<(), Unread> {
        let text = self.text(node);
        let shell = self.subshell();
        let enter = |at: &mut Place| {
            at.substituted = true;
            at.scope.push(shell);
            at.flow = Flow::default();
        };
        if let Some(after) = text.strip_prefix('`') {
            let (inside, length) = quote::backquoted(after).ok_or(Unread::new(
                node.start_byte(),
                "a backquote without its end",
            ))?;
            if length != after.len() || inside.contains("\\\"") {
                return Self::unread(node, "backquotes the grammar reads otherwise");
            }
            let parts = read(&inside, self.level + 1)
                .map_err(|unread| Unread::new(node.start_byte(), unread.reason))?;
            for mut part in parts {
                if self.parts.len() >= MOST_PARTS {
                    return Self::unread(node, "too many commands");
                }
                part.substituted = true;
                // Its shells are its own; one number for all of them is enough.
                part.scope = self.at.scope.clone();
                part.scope.push(shell);
                self.parts.push(part);
            }
            return Ok(());
        }
        if text.starts_with("$`") {
            return Self::unread(node, "backquotes the grammar reads otherwise");
        }
        self.elsewhere(enter, |reader| {
            reader.depth += 1;
            if reader.depth > DEEPEST {
                return Self::unread(node, "nested too deeply");
            }
            let mut cursor = node.walk();
            let only = node.named_children(&mut cursor).next();
            let result = match only {
                Some(redirect) if redirect.kind() == "file_redirect" => {
                    reader.simple_of(Draft::default(), vec![redirect], redirect)
                }
                _ => reader.children(node),
            };
            reader.depth -= 1;
            result
        })
    }
}

/// How many words of an `echo` are kept, to know what it writes.
const MOST_WRITTEN: usize = 64;
/// How long an expansion is that is kept, in bytes.
const LONGEST_EXPANSION: usize = 256;

/// The variable of a `$x` or `${x}`, and what else stands behind a dollar sign as it was written.
pub(super) fn variable(node: Node<'_>, source: &str, quoted: bool) -> Piece {
    let text = text(node, source);
    let inside = text
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'))
        .or_else(|| text.strip_prefix('$'));
    match inside {
        Some(name) if quote::is_name(name) => Piece::Variable {
            name: name.to_owned(),
            quoted,
        },
        Some(inside) if inside.len() <= LONGEST_EXPANSION && !inside.starts_with('(') => {
            Piece::Filled {
                with: Filling::Expansion(inside.to_owned()),
                quoted,
            }
        }
        _ => Piece::Unknown { quoted },
    }
}

/// Whether an expansion assigns: `${x=…}`, `${x:=…}`.
pub(super) fn sets(node: Node<'_>, source: &str) -> bool {
    let mut cursor = node.walk();
    node.children(&mut cursor)
        .any(|child| matches!(text(child, source), "=" | ":="))
}
