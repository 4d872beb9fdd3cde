//! Simple commands: their words, assignments and redirections.

use tree_sitter::Node;

use super::read::{Draftless, Reader, is_simple, is_word};
use super::{Assignment, Part, Redirection, SetBy, Unread, Word, quote};

/// Words that, unquoted and first, are no command's name.
const RESERVED: &[&str] = &[
    "!", "{", "}", "[[", "]]", "if", "then", "elif", "else", "fi", "do", "done", "case", "esac",
    "while", "until", "for", "select", "in", "function", "((", "))",
];

/// A command as it is put together.
#[derive(Default)]
pub(super) struct Draft<'t> {
    /// Runs of nodes without a gap: each is one word.
    pub(super) words: Vec<Vec<Node<'t>>>,
    pub(super) assignments: Vec<Node<'t>>,
    pub(super) redirects: Vec<Node<'t>>,
    pub(super) end: usize,
}

/// What the redirections of a command amount to.
#[derive(Default)]
pub(super) struct Redirects<'t> {
    pub(super) redirections: Vec<Redirection>,
    /// Words that the grammar puts behind a redirection's file and that are the command's.
    pub(super) words: Vec<Node<'t>>,
    /// Statements that follow on the line of a here-document.
    pub(super) statements: Vec<Node<'t>>,
    /// The end of what belongs to the command, without the bodies of here-documents.
    pub(super) end: usize,
}

impl<'t> Draft<'t> {
    pub(super) fn word(&mut self, node: Node<'t>) {
        match self.words.last_mut() {
            Some(run)
                if run
                    .last()
                    .is_some_and(|last| last.end_byte() == node.start_byte()) =>
            {
                run.push(node);
            }
            _ => self.words.push(vec![node]),
        }
    }
}

impl<'t> Reader<'t> {
    /// A simple command, a declaration, or assignments alone.
    pub(super) fn simple(&mut self, node: Node<'t>) -> Result<(), Unread> {
        let waiting = self.waiting.iter().position(|(id, _)| *id == node.id());
        let outer = waiting.map(|place| self.waiting.swap_remove(place).1);
        let mut draft = Draft::default();
        let mut groups = Vec::new();
        if node.kind() == "variable_assignment" {
            draft.assignments.push(node);
        } else {
            let declares = node.kind() != "command";
            let mut cursor = node.walk();
            for child in node.children(&mut cursor) {
                match child.kind() {
                    "variable_assignment" if !declares => {
                        if !draft.words.is_empty() {
                            return Self::unread(child, "an assignment after a command");
                        }
                        draft.assignments.push(child);
                    }
                    "command_name" => {
                        let mut names = child.walk();
                        for name in child.children(&mut names) {
                            draft.word(name);
                        }
                    }
                    "file_redirect" | "herestring_redirect" => draft.redirects.push(child),
                    "subshell" => groups.push(child),
                    "comment" => {}
                    _ => draft.word(child),
                }
            }
        }
        let end = node.end_byte();
        draft.end = end;
        self.simple_of(draft, outer.unwrap_or_default(), node)?;
        groups.into_iter().try_for_each(|group| self.visit(group))
    }

    /// Makes a part of a draft and of redirections that stand outside the command's own node.
    pub(super) fn simple_of(
        &mut self,
        mut draft: Draft<'t>,
        outer: Vec<Node<'t>>,
        node: Node<'t>,
    ) -> Result<(), Unread> {
        draft.redirects.extend(outer);
        let mut read = Redirects {
            end: draft.end.max(node.start_byte()),
            ..Redirects::default()
        };
        for redirect in std::mem::take(&mut draft.redirects) {
            if let Some(run) = draft.words.last()
                && run
                    .last()
                    .is_some_and(|last| last.end_byte() == redirect.start_byte())
            {
                let raw = run.iter().map(|node| self.text(*node)).collect::<String>();
                if raw.bytes().all(|byte| byte.is_ascii_digit()) || raw.ends_with('}') {
                    return Self::unread(redirect, "a descriptor the grammar takes for a word");
                }
            }
            self.redirect(redirect, &mut read)?;
            for word in read.words.drain(..) {
                draft.word(word);
            }
        }
        let mut assignments = Vec::new();
        for assignment in &draft.assignments {
            let touching = |run: &Vec<Node<'_>>| {
                run.first()
                    .is_some_and(|first| first.start_byte() == assignment.end_byte())
            };
            if draft.words.iter().any(touching) {
                return Self::unread(*assignment, "an assignment that ends elsewhere");
            }
            assignments.push(self.assignment(*assignment)?);
        }
        let mut words = Vec::with_capacity(draft.words.len());
        for run in &draft.words {
            words.push(self.word(run)?);
        }
        let keyword = words.first().is_some_and(|first| {
            RESERVED.contains(&first.raw()) || quote::looks_like_assignment(first.raw())
        });
        if keyword || words.iter().any(|word| quote::opens_subscript(word.raw())) {
            return Self::unread(
                node,
                "a keyword or assignment the grammar takes for a command",
            );
        }
        let text = self
            .source
            .get(node.start_byte()..read.end)
            .unwrap_or_default();
        let part = Draftless {
            words,
            assignments,
            redirections: read.redirections,
            text: text.trim_end().to_owned(),
        };
        self.push(node, part)?;
        read.statements
            .into_iter()
            .try_for_each(|statement| self.visit(statement))
    }

    /// A statement with redirections behind it. Those of a list or pipeline are its last command's,
    /// as bash has it; the grammar gives them to the whole.
    pub(super) fn redirected(&mut self, node: Node<'t>) -> Result<(), Unread> {
        let mut cursor = node.walk();
        let redirects: Vec<Node<'t>> = node
            .named_children(&mut cursor)
            .filter(|child| child.kind().ends_with("_redirect"))
            .collect();
        let Some(body) = node.child_by_field_name("body") else {
            return self.simple_of(Draft::default(), redirects, node);
        };
        let mut tail = body;
        while matches!(tail.kind(), "list" | "pipeline" | "negated_command") {
            let last = u32::try_from(tail.named_child_count()).unwrap_or_default();
            match last.checked_sub(1).and_then(|last| tail.named_child(last)) {
                Some(child) => tail = child,
                None => break,
            }
        }
        if is_simple(tail.kind()) {
            self.waiting.push((tail.id(), redirects));
            let result = self.visit(body);
            if self.waiting.iter().any(|(id, _)| *id == tail.id()) {
                return Self::unread(node, "a redirection without a command");
            }
            return result;
        }
        let first = self.parts.len();
        self.simple_of(Draft::default(), redirects, node)?;
        let own = |part: &Part| part.substituted == self.at.substituted && !part.words.is_empty();
        if self.parts.iter().skip(first).any(own) {
            return Self::unread(node, "words behind a redirection");
        }
        self.visit(body)
    }

    pub(super) fn redirect(
        &mut self,
        node: Node<'t>,
        into: &mut Redirects<'t>,
    ) -> Result<(), Unread> {
        if node.kind() == "heredoc_redirect" {
            return self.heredoc(node, into);
        }
        let mut cursor = node.walk();
        let children: Vec<Node<'t>> = node.children(&mut cursor).collect();
        let mut operator = String::new();
        let mut runs = Draft::default();
        let mut closing_end = 0;
        for child in children {
            match child.kind() {
                "file_descriptor" => {
                    let digits = self.text(child).bytes().all(|byte| byte.is_ascii_digit());
                    let joined = child.next_sibling().map(|next| next.start_byte());
                    if !digits || joined != Some(child.end_byte()) {
                        return Self::unread(child, "a descriptor with a name");
                    }
                }
                "comment" => {}
                kind if !child.is_named() && operator.is_empty() => {
                    kind.clone_into(&mut operator);
                    closing_end = child.end_byte();
                }
                _ => runs.word(child),
            }
        }
        let closes = operator.ends_with("&-");
        let first_run = runs.words.first().and_then(|run| run.first());
        if closes && first_run.is_some_and(|word| word.start_byte() == closing_end) {
            return Self::unread(node, "a descriptor the grammar reads otherwise");
        }
        let mut runs = runs.words.into_iter();
        let target = if closes {
            Word::plain("-")
        } else {
            match runs.next() {
                Some(run) => self.word(&run)?,
                None => return Self::unread(node, "a redirection without a file"),
            }
        };
        into.words.extend(runs.flatten());
        into.end = into.end.max(node.end_byte());
        let writes = writes(&operator, &target);
        into.redirections.push(Redirection {
            operator,
            target,
            writes,
        });
        Ok(())
    }

    pub(super) fn heredoc(
        &mut self,
        node: Node<'t>,
        into: &mut Redirects<'t>,
    ) -> Result<(), Unread> {
        let mut cursor = node.walk();
        let children: Vec<Node<'t>> = node.children(&mut cursor).collect();
        let mut behind = Vec::new();
        let mut bounds = (None, None, None);
        let mut operator = String::new();
        for child in children {
            match child.kind() {
                "<<" | "<<-" => child.kind().clone_into(&mut operator),
                "heredoc_start" => bounds.0 = Some(child),
                "heredoc_body" => bounds.1 = Some(child),
                "heredoc_end" => bounds.2 = Some(child),
                "file_descriptor" | "comment" => {}
                "file_redirect" | "herestring_redirect" => behind.push(child),
                "&&" | "||" | "\n" => {}
                kind if is_word(kind) => into.words.push(child),
                _ if child.is_named() => into.statements.push(child),
                _ => return Self::unread(child, "an operator behind a here-document's name"),
            }
        }
        let (Some(start), Some(body), Some(end)) = bounds else {
            return Self::unread(node, "a here-document without an end");
        };
        let quoted = self.heredoc_bounds(&operator, start, body, end)?;
        self.substitutions(body)?;
        let text = self.text(body);
        let raw = if operator == "<<-" {
            text.lines()
                .flat_map(|line| [line.trim_start_matches('\t'), "\n"])
                .collect()
        } else {
            text.to_owned()
        };
        let target = if quoted {
            Word::plain(raw)
        } else {
            quote::heredoc(&raw).map_or_else(|| Word::unknown(text), Word::plain)
        };
        into.redirections.push(Redirection {
            operator,
            target,
            writes: false,
        });
        into.end = into.end.max(start.end_byte());
        behind
            .into_iter()
            .try_for_each(|child| self.redirect(child, into))
    }

    /// Checks that bash finds the body of a here-document where the grammar does, and answers
    /// whether its delimiter is quoted.
    pub(super) fn heredoc_bounds(
        &self,
        operator: &str,
        start: Node<'_>,
        body: Node<'_>,
        end: Node<'_>,
    ) -> Result<bool, Unread> {
        let unread = Unread::new(
            start.start_byte(),
            "a here-document the grammar reads otherwise",
        );
        let name = self.text(start);
        let unquoted = [("'", "'"), ("\"", "\""), ("\\", "")]
            .iter()
            .find_map(|(open, close)| name.strip_prefix(open)?.strip_suffix(close));
        let (quoted, delimiter) = unquoted.map_or((false, name), |inside| (true, inside));
        let simple = |letter: char| letter.is_ascii_alphanumeric() || "_-.+%@".contains(letter);
        if delimiter.is_empty() || !delimiter.chars().all(simple) {
            return Err(unread);
        }
        // The body begins on the next line, and nothing in between may reach over a line end.
        let rest = self.source.get(start.end_byte()..).unwrap_or_default();
        let first = rest
            .find('\n')
            .map(|place| start.end_byte() + place + 1)
            .ok_or(unread)?;
        let tabs = operator == "<<-";
        let mut line_start = first;
        let mut continued = false;
        for line in self
            .source
            .get(first..)
            .unwrap_or_default()
            .split_inclusive('\n')
        {
            let bare = line.strip_suffix('\n').unwrap_or(line);
            let bare = if tabs {
                bare.trim_start_matches('\t')
            } else {
                bare
            };
            if bare == delimiter {
                let shown = self.text(end).trim_start_matches('\t');
                let there = (line_start..=line_start + line.len()).contains(&end.start_byte());
                let within = body.start_byte() + 1 >= first && body.end_byte() <= end.start_byte();
                let fits = !continued && there && within && shown.trim_end() == delimiter;
                return if fits { Ok(quoted) } else { Err(unread) };
            }
            let slashes = bare.len() - bare.trim_end_matches('\\').len();
            continued = !quoted && slashes % 2 == 1;
            line_start += line.len();
        }
        Err(unread)
    }

    pub(super) fn assignment(&mut self, node: Node<'t>) -> Result<Assignment, Unread> {
        let mut cursor = node.walk();
        let children: Vec<Node<'t>> = node.children(&mut cursor).collect();
        let mut name = String::new();
        let mut run: Vec<Node<'t>> = Vec::new();
        let mut value = None;
        let mut appends = false;
        let mut values = Vec::new();
        let mut element = false;
        for child in children {
            match child.kind() {
                "=" => {}
                "+=" => appends = true,
                "variable_name" if name.is_empty() => self.text(child).clone_into(&mut name),
                "subscript" if name.is_empty() => {
                    let of = child.child_by_field_name("name");
                    of.map(|of| self.text(of))
                        .unwrap_or_default()
                        .clone_into(&mut name);
                    element = true;
                    self.substitutions(child)?;
                }
                "array" => {
                    values = self.elements(child)?;
                    value = Some(Word::unknown(self.text(child)));
                }
                _ => run.push(child),
            }
        }
        if !quote::is_name(&name) {
            return Self::unread(node, "a variable's name the shell would not take");
        }
        let value = match value {
            Some(value) if run.is_empty() => value,
            Some(_) => return Self::unread(node, "an assignment that ends elsewhere"),
            None => self.word(&run)?,
        };
        if element {
            // The others are there as well.
            appends = true;
            values = vec![value.clone()];
        }
        let by = SetBy::Assignment;
        Ok(Assignment {
            name,
            value,
            appends,
            values,
            by,
        })
    }

    /// The elements of an array; none where they have keys of their own.
    fn elements(&mut self, node: Node<'t>) -> Result<Vec<Word>, Unread> {
        if self.text(node).contains("]=") {
            self.substitutions(node)?;
            return Ok(Vec::new());
        }
        let mut cursor = node.walk();
        let mut draft = Draft::default();
        for child in node.named_children(&mut cursor) {
            if is_word(child.kind()) {
                draft.word(child);
            } else if child.kind() != "comment" {
                self.substitutions(node)?;
                return Ok(Vec::new());
            }
        }
        draft.words.iter().map(|run| self.word(run)).collect()
    }
}

/// Whether a redirection may change a file or open a connection.
pub(super) fn writes(operator: &str, target: &Word) -> bool {
    let file = target.literal();
    let harmless = matches!(file, Some("/dev/null" | "/dev/stdout" | "/dev/stderr"));
    match operator {
        "<" | "<<<" => target.raw().contains("/dev/") && !harmless,
        "<&" | "<&-" | ">&-" => false,
        ">&" => {
            let descriptor = |text: &str| {
                let digits = text.strip_suffix('-').unwrap_or(text);
                digits.bytes().all(|byte| byte.is_ascii_digit())
            };
            !harmless && !file.is_some_and(descriptor)
        }
        _ => !harmless,
    }
}
