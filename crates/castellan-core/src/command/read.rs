//! From a checked syntax tree to its parts.

use std::ops::ControlFlow;
use std::sync::Arc;

use tree_sitter::{Node, ParseOptions, Parser, Tree};

use super::check::{check, text};
use super::simple::Draft;
use super::word::{Piece, Word};
use super::{
    Assignment, DEEPEST, Flow, LEVELS, LONGEST, MOST_PARTS, Part, Redirection, SetBy, Unread,
};

/// How often the parser may report that it works: every hundred steps. Ordinary text takes a step
/// or two a byte; text made to be ambiguous takes far more.
const MOST_REPORTS: usize = 5_000;
/// What is said of a text the grammar has no tree for.
const UNREADABLE: &str = "the shell's grammar does not read it from here on";
/// How many brackets may stand open at once, quoted ones and those of patterns included.
const MOST_OPEN: usize = 400;
/// How many `|` a text may have, quoted ones and those of here-documents included.
const MOST_PIPES: usize = 1000;
/// The most here-documents in a text; the grammar's own memory of them is small.
const MOST_HEREDOCS: usize = 32;
/// The parts of `source`, which stands `level` texts deep in others.
pub(super) fn read(source: &str, level: usize) -> Result<Vec<Part>, Unread> {
    if source.len() > LONGEST {
        return Err(Unread::new(LONGEST, "the text is longer than any command"));
    }
    if level > LEVELS {
        return Err(Unread::new(0, "too many texts inside one another"));
    }
    if source.matches("<<").count() > MOST_HEREDOCS {
        return Err(Unread::new(0, "too many here-documents"));
    }
    if let Some(place) = source.find(['\0', '\r', '\u{b}', '\u{c}']) {
        return Err(Unread::new(place, "a letter the grammar takes for a blank"));
    }
    if let Some(place) = too_deep(source) {
        return Err(Unread::new(place, "nested too deeply"));
    }
    let tree = parse(source)?;
    let root = tree.root_node();
    if root.has_error() {
        return Err(Unread::new(first_error(root), UNREADABLE));
    }
    check(root, source)?;
    let mut reader = Reader {
        source,
        parts: Vec::new(),
        level,
        depth: 0,
        shells: 0,
        at: Place::default(),
        waiting: Vec::new(),
    };
    reader.visit(root)?;
    Ok(reader.parts)
}

/// Where more brackets stand open, or more pipes stand, than any command needs. The grammar's way
/// to get over an error takes time by the square of these, so they are counted before it begins.
fn too_deep(source: &str) -> Option<usize> {
    let (mut open, mut pipes) = (0_usize, 0_usize);
    for (place, byte) in source.bytes().enumerate() {
        match byte {
            b'(' | b'{' | b'[' => open += 1,
            b')' | b'}' | b']' => open = open.saturating_sub(1),
            b'|' => pipes += 1,
            _ => {}
        }
        if open > MOST_OPEN || pipes > MOST_PIPES {
            return Some(place);
        }
    }
    None
}

fn parse(source: &str) -> Result<Tree, Unread> {
    let broken = Unread::new(0, "the grammar could not be used");
    let mut parser = Parser::new();
    parser
        .set_language(&tree_sitter_bash::LANGUAGE.into())
        .map_err(|_unusable| broken)?;
    let mut reports = 0;
    let mut place = 0;
    let mut broken_off = false;
    let mut report = |state: &tree_sitter::ParseState| {
        reports += 1;
        place = state.current_byte_offset();
        // Every way to read it has met an error: mending the tree would cost more than reading it,
        // and a mended tree is of no use here.
        broken_off = state.has_error();
        if broken_off || reports > MOST_REPORTS {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let bytes = source.as_bytes();
    let tree = parser.parse_with_options(
        &mut |at, _| bytes.get(at..).unwrap_or_default(),
        None,
        Some(ParseOptions::new().progress_callback(&mut report)),
    );
    let reason = if broken_off {
        UNREADABLE
    } else {
        "reading it takes too long"
    };
    tree.ok_or(Unread::new(place, reason))
}

/// Where the first place is that the grammar could not read.
pub(super) fn first_error(root: Node<'_>) -> usize {
    let mut cursor = root.walk();
    loop {
        let node = cursor.node();
        if node.is_error() || node.is_missing() {
            return node.start_byte();
        }
        if node.has_error() && cursor.goto_first_child() {
            continue;
        }
        if !cursor.goto_next_sibling() {
            return node.start_byte();
        }
    }
}

/// What a part is made of, but for where it stands.
#[derive(Default)]
pub(super) struct Draftless {
    pub(super) words: Vec<Word>,
    pub(super) assignments: Vec<Assignment>,
    pub(super) redirections: Vec<Redirection>,
    pub(super) text: String,
}

/// Where in the program the reader is.
#[derive(Debug, Clone, Default)]
pub(super) struct Place {
    pub(super) flow: Flow,
    pub(super) scope: Vec<u32>,
    pub(super) substituted: bool,
    pub(super) function: Option<Arc<str>>,
}

pub(super) struct Reader<'t> {
    pub(super) source: &'t str,
    pub(super) parts: Vec<Part>,
    pub(super) level: usize,
    pub(super) depth: usize,
    pub(super) shells: u32,
    pub(super) at: Place,
    /// Redirections that the grammar has read before it comes to the node they belong to.
    pub(super) waiting: Vec<(usize, Vec<Node<'t>>)>,
}

impl<'t> Reader<'t> {
    pub(super) fn text(&self, node: Node<'_>) -> &'t str {
        text(node, self.source)
    }

    pub(super) fn unread<T>(node: Node<'_>, reason: &'static str) -> Result<T, Unread> {
        Err(Unread::new(node.start_byte(), reason))
    }

    /// Runs `read` at another place of the program and comes back.
    pub(super) fn elsewhere<T>(
        &mut self,
        change: impl FnOnce(&mut Place),
        read: impl FnOnce(&mut Self) -> Result<T, Unread>,
    ) -> Result<T, Unread> {
        let here = self.at.clone();
        change(&mut self.at);
        let result = read(self);
        self.at = here;
        result
    }

    pub(super) fn subshell(&mut self) -> u32 {
        self.shells += 1;
        self.shells
    }

    pub(super) fn push(&mut self, node: Node<'_>, part: Draftless) -> Result<usize, Unread> {
        if self.parts.len() >= MOST_PARTS {
            return Self::unread(node, "too many commands");
        }
        self.parts.push(Part {
            words: part.words,
            assignments: part.assignments,
            redirections: part.redirections,
            substituted: self.at.substituted,
            text: part.text,
            flow: self.at.flow,
            scope: self.at.scope.clone(),
            function: self.at.function.clone(),
        });
        Ok(self.parts.len() - 1)
    }

    pub(super) fn visit(&mut self, node: Node<'t>) -> Result<(), Unread> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Self::unread(node, "nested too deeply");
        }
        let result = self.visit_kind(node);
        self.depth -= 1;
        result
    }

    pub(super) fn visit_kind(&mut self, node: Node<'t>) -> Result<(), Unread> {
        match node.kind() {
            kind if is_simple(kind) => self.simple(node),
            "redirected_statement" => self.redirected(node),
            "test_command" => self.test(node),
            "subshell" => {
                let shell = self.subshell();
                self.elsewhere(
                    |at| {
                        at.scope.push(shell);
                        at.flow.background = false;
                    },
                    |reader| reader.children(node),
                )
            }
            "pipeline" => self.pipeline(node),
            "list" => self.list(node),
            "function_definition" => self.function(node),
            "for_statement" => self.for_loop(node),
            "program"
            | "negated_command"
            | "if_statement"
            | "while_statement"
            | "elif_clause"
            | "else_clause"
            | "do_group"
            | "compound_statement"
            | "case_statement"
            | "case_item"
            | "c_style_for_statement" => {
                self.keyword_gap(node)?;
                self.children(node)
            }
            "comment" => Ok(()),
            kind if is_word(kind) || is_expression(kind) => self.substitutions(node),
            _ => Self::unread(node, "a construct that is not known here"),
        }
    }

    /// `!` and `{` are only what they seem with a blank after them.
    pub(super) fn keyword_gap(&self, node: Node<'_>) -> Result<(), Unread> {
        let apart = |next: char| next.is_whitespace() || next == '(';
        match node.child(0) {
            Some(first) if matches!(first.kind(), "!" | "{") => {
                let after = self.source.get(first.end_byte()..).unwrap_or_default();
                if after.starts_with(apart) {
                    Ok(())
                } else {
                    Self::unread(first, "a word that begins like a keyword")
                }
            }
            _ => Ok(()),
        }
    }

    /// Statements in a row; one before `&` runs in the background.
    pub(super) fn children(&mut self, node: Node<'t>) -> Result<(), Unread> {
        let mut cursor = node.walk();
        let children: Vec<Node<'t>> = node.children(&mut cursor).collect();
        for (index, child) in children.iter().enumerate() {
            if !child.is_named() {
                continue;
            }
            if children
                .get(index + 1)
                .is_some_and(|next| next.kind() == "&")
            {
                let shell = self.subshell();
                self.elsewhere(
                    |at| {
                        at.flow.background = true;
                        at.scope.push(shell);
                    },
                    |reader| reader.visit(*child),
                )?;
            } else {
                self.visit(*child)?;
            }
        }
        Ok(())
    }

    pub(super) fn pipeline(&mut self, node: Node<'t>) -> Result<(), Unread> {
        let mut cursor = node.walk();
        let children: Vec<Node<'t>> = node.named_children(&mut cursor).collect();
        for (index, child) in children.into_iter().enumerate() {
            let shell = self.subshell();
            self.elsewhere(
                |at| {
                    at.flow.piped = true;
                    at.flow.fed |= index > 0;
                    at.scope.push(shell);
                },
                |reader| reader.visit(child),
            )?;
        }
        Ok(())
    }

    /// `a && b && c` leans to the left as deep as it is long.
    pub(super) fn list(&mut self, node: Node<'t>) -> Result<(), Unread> {
        let mut spine = vec![node];
        while let Some(left) = spine.last().and_then(|list| list.named_child(0)) {
            if left.kind() != "list" {
                break;
            }
            spine.push(left);
        }
        for (turn, list) in spine.into_iter().rev().enumerate() {
            let mut cursor = list.walk();
            for child in list.named_children(&mut cursor).skip(usize::from(turn > 0)) {
                self.visit(child)?;
            }
        }
        Ok(())
    }

    pub(super) fn function(&mut self, node: Node<'t>) -> Result<(), Unread> {
        let name: Arc<str> = node
            .child_by_field_name("name")
            .map(|name| self.text(name))
            .unwrap_or_default()
            .into();
        let mut cursor = node.walk();
        let children: Vec<Node<'t>> = node.named_children(&mut cursor).collect();
        self.elsewhere(
            |at| at.function = Some(name),
            |reader| {
                for child in children.into_iter().skip(1) {
                    if child.kind().ends_with("_redirect") {
                        reader.simple_of(Draft::default(), vec![child], child)?;
                    } else {
                        reader.visit(child)?;
                    }
                }
                Ok(())
            },
        )
    }

    pub(super) fn for_loop(&mut self, node: Node<'t>) -> Result<(), Unread> {
        let mut cursor = node.walk();
        let children: Vec<Node<'t>> = node.named_children(&mut cursor).collect();
        let mut name = String::new();
        let mut values = Draft::default();
        let mut bodies = Vec::new();
        for (index, child) in children.into_iter().enumerate() {
            match child.kind() {
                "do_group" => bodies.push(child),
                "comment" => {}
                _ if index == 0 => self.text(child).clone_into(&mut name),
                _ => values.word(child),
            }
        }
        let mut plain = true;
        let mut raw = Vec::new();
        let mut values_read = Vec::new();
        for run in values.words {
            let word = self.word(&run)?;
            plain &= word.pieces().iter().all(|piece| match piece {
                Piece::Text(text) => !text.contains(['[', '$', '`']),
                Piece::Pattern(_) | Piece::Brace(_) | Piece::Tilde(_) => true,
                Piece::Variable { .. } | Piece::Filled { .. } | Piece::Unknown { .. } => false,
            });
            raw.push(word.raw().to_owned());
            values_read.push(word);
        }
        let by = if plain { SetBy::PlainLoop } else { SetBy::Loop };
        let value = Word::unknown(raw.join(" "));
        let text = format!("for {name} in {}", value.raw());
        let part = Draftless {
            assignments: vec![Assignment {
                name,
                value,
                appends: false,
                values: values_read,
                by,
            }],
            text,
            ..Draftless::default()
        };
        self.push(node, part)?;
        bodies.into_iter().try_for_each(|body| self.visit(body))
    }
}

pub(super) fn is_word(kind: &str) -> bool {
    matches!(
        kind,
        "word"
            | "string"
            | "raw_string"
            | "ansi_c_string"
            | "translated_string"
            | "number"
            | "expansion"
            | "simple_expansion"
            | "command_substitution"
            | "process_substitution"
            | "arithmetic_expansion"
            | "brace_expression"
            | "concatenation"
    )
}

pub(super) fn is_expression(kind: &str) -> bool {
    matches!(
        kind,
        "unary_expression"
            | "binary_expression"
            | "ternary_expression"
            | "postfix_expression"
            | "parenthesized_expression"
            | "variable_name"
            | "subscript"
            | "extglob_pattern"
            | "regex"
            | "array"
    )
}

pub(super) fn is_simple(kind: &str) -> bool {
    matches!(
        kind,
        "command"
            | "declaration_command"
            | "unset_command"
            | "variable_assignment"
            | "variable_assignments"
    )
}

pub(super) fn is_statement(kind: &str) -> bool {
    is_simple(kind)
        || matches!(
            kind,
            "redirected_statement"
                | "test_command"
                | "subshell"
                | "pipeline"
                | "list"
                | "function_definition"
                | "for_statement"
                | "c_style_for_statement"
                | "while_statement"
                | "if_statement"
                | "case_statement"
                | "compound_statement"
                | "negated_command"
        )
}
