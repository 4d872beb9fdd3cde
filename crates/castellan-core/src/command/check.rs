//! Holds a syntax tree against the text it was made from.
//!
//! The grammar skips, and lumps together, more than bash does: any blank is a gap to it, a `#`
//! after a quote begins a comment, one token of a pattern may reach over an operator. Each such
//! place could hide a command. What is checked here: between the tokens of a tree stands nothing
//! but blanks and line continuations, and no token holds the beginning of a substitution, a quote
//! or an operator that its kind can't have.

use tree_sitter::Node;

use super::{Unread, quote};

/// Checks the whole tree of `source`.
pub(super) fn check(root: Node<'_>, source: &str) -> Result<(), Unread> {
    gap(source, 0, root.start_byte(), true)?;
    gap(source, root.end_byte(), source.len(), true)?;
    let mut cursor = root.walk();
    // For each level whether a single quote is an ordinary letter there.
    let mut inside_quotes = vec![false];
    loop {
        let here = cursor.node();
        let quoted = match here.kind() {
            "string" | "heredoc_body" => true,
            "command_substitution" | "process_substitution" => false,
            _ => inside_quotes.last().copied().unwrap_or_default(),
        };
        node(here, source, quoted)?;
        if cursor.goto_first_child() {
            inside_quotes.push(quoted);
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return Ok(());
            }
            inside_quotes.pop();
        }
    }
}

/// The text of a node.
pub(super) fn text<'a>(node: Node<'_>, source: &'a str) -> &'a str {
    source.get(node.byte_range()).unwrap_or_default()
}

/// What may stand between two tokens: blanks, and line ends where `lines` says so.
fn gap(source: &str, from: usize, to: usize, lines: bool) -> Result<(), Unread> {
    if from >= to {
        return Ok(());
    }
    let between = source.get(from..to).unwrap_or("?");
    let blanks = between.replace("\\\n", "");
    let continued = blanks.len() < between.len();
    // A continued line alone joins what stands at its ends to one word.
    let joins = blanks.is_empty() && from > 0 && to < source.len();
    let ends = blanks.contains('\n') && (continued || !lines);
    if joins || ends || !blanks.trim_start_matches([' ', '\t', '\n']).is_empty() {
        return Err(Unread::new(from, "text that the grammar leaves out"));
    }
    Ok(())
}

fn node(node: Node<'_>, source: &str, quoted: bool) -> Result<(), Unread> {
    let at = node.start_byte();
    match node.kind() {
        "string" => return string(node, source),
        "heredoc_body" => return heredoc_body(node, source),
        "expansion" => expansion(node, source, quoted)?,
        "comment" => return comment(node, source),
        "raw_string" => {
            return quote::single_quoted(text(node, source))
                .map(drop)
                .ok_or(Unread::new(at, "a quote that ends elsewhere"));
        }
        "ansi_c_string" => {
            return quote::ansi_c(text(node, source))
                .map(drop)
                .ok_or(Unread::new(at, "a quote that ends elsewhere"));
        }
        _ => {}
    }
    if node.child_count() == 0 {
        return leaf(node, source);
    }
    let joined = matches!(
        node.kind(),
        "concatenation" | "simple_expansion" | "subscript" | "variable_assignment"
    );
    // A line end is the end of a command, and the grammar now and then reads on.
    let lines = !matches!(
        node.kind(),
        "command"
            | "declaration_command"
            | "unset_command"
            | "variable_assignments"
            | "file_redirect"
            | "herestring_redirect"
            | "redirected_statement"
            | "negated_command"
    );
    let mut cursor = node.walk();
    let mut end = node.start_byte();
    for child in node.children(&mut cursor) {
        if joined && end != child.start_byte() {
            return Err(Unread::new(end, "a gap inside a word"));
        }
        gap(source, end, child.start_byte(), lines)?;
        end = child.end_byte();
    }
    gap(source, end, node.end_byte(), lines)
}

/// Text of a node outside its children, piece by piece, as (place, text).
fn outside<'a>(node: Node<'_>, source: &'a str) -> Vec<(usize, &'a str)> {
    let mut cursor = node.walk();
    let mut pieces = Vec::new();
    let mut end = node.start_byte();
    for child in node.children(&mut cursor) {
        if !matches!(child.kind(), "string_content" | "heredoc_content" | "$") {
            pieces.push((end, source.get(end..child.start_byte()).unwrap_or("`")));
            end = child.end_byte();
        }
    }
    pieces.push((end, source.get(end..node.end_byte()).unwrap_or("`")));
    pieces
}

fn string(node: Node<'_>, source: &str) -> Result<(), Unread> {
    let whole = text(node, source);
    if whole.len() < 2 || !whole.starts_with('"') || !whole.ends_with('"') {
        return Err(Unread::new(
            node.start_byte(),
            "a quote that ends elsewhere",
        ));
    }
    for (place, piece) in outside(node, source) {
        if quote::double_quoted(piece).is_none() {
            return Err(Unread::new(place, "a string the grammar reads otherwise"));
        }
    }
    Ok(())
}

fn heredoc_body(node: Node<'_>, source: &str) -> Result<(), Unread> {
    // A quoted delimiter makes a body without children, which `read.rs` has checked by its end.
    if node.child_count() == 0 {
        return Ok(());
    }
    for (place, piece) in outside(node, source) {
        if quote::heredoc(piece).is_none() {
            return Err(Unread::new(
                place,
                "a here-document the grammar reads otherwise",
            ));
        }
    }
    Ok(())
}

/// `${…}`: where it ends is found by bash in its own way, so what could make a difference is not
/// taken: quotes inside a string, escapes, further braces.
fn expansion(node: Node<'_>, source: &str, quoted: bool) -> Result<(), Unread> {
    let unread = Err(Unread::new(
        node.start_byte(),
        "an expansion with unusual text in it",
    ));
    let whole = text(node, source);
    let Some(inside) = whole
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'))
    else {
        return unread;
    };
    let mut plain = String::with_capacity(inside.len());
    let mut cursor = node.walk();
    let mut quotes = false;
    let mut end = node.start_byte() + 2;
    let mut depth = 0;
    // Texts outside nested strings and substitutions; those are checked by themselves.
    let mut descend = cursor.goto_first_child();
    while descend {
        let child = cursor.node();
        let nested = match child.kind() {
            "string"
            | "expansion"
            | "command_substitution"
            | "simple_expansion"
            | "arithmetic_expansion" => true,
            "raw_string" | "ansi_c_string" => {
                quotes = true;
                true
            }
            "process_substitution" => return unread,
            _ => false,
        };
        if nested {
            quotes |= child.kind() == "string";
            plain.push_str(source.get(end..child.start_byte()).unwrap_or("`"));
            end = child.end_byte();
        } else if cursor.goto_first_child() {
            depth += 1;
            continue;
        }
        while !cursor.goto_next_sibling() {
            if depth == 0 || !cursor.goto_parent() {
                descend = false;
                break;
            }
            depth -= 1;
        }
    }
    plain.push_str(source.get(end..node.end_byte() - 1).unwrap_or("`"));
    if plain.contains(['\'', '"', '`', '\\', '{', '}', '$', '<', '>', '\n']) {
        return unread;
    }
    // Inside double quotes or a here-document a single quote is a letter, and pairs differ.
    if quotes && quoted {
        return unread;
    }
    Ok(())
}

fn comment(node: Node<'_>, source: &str) -> Result<(), Unread> {
    let before = source.get(..node.start_byte()).unwrap_or("?");
    let after = source.get(node.end_byte()..).unwrap_or("?");
    let begins = before.is_empty() || before.ends_with([' ', '\t', '\n', ';', '&', '|', '(', ')']);
    let escaped = before.trim_end_matches([' ', '\t']).ends_with('\\');
    if begins && !escaped && (after.is_empty() || after.starts_with('\n')) {
        return Ok(());
    }
    Err(Unread::new(
        node.start_byte(),
        "a `#` that may be no comment",
    ))
}

/// A token without children.
fn leaf(node: Node<'_>, source: &str) -> Result<(), Unread> {
    let token = text(node, source);
    let fine = match node.kind() {
        // Their own readers look at every letter.
        "word" | "heredoc_start" | "heredoc_end" | "string_content" | "heredoc_content" => true,
        "regex" | "extglob_pattern" => {
            let mut letters = token.chars().peekable();
            let mut fine = true;
            while let Some(letter) = letters.next() {
                fine &= match letter {
                    '\\' => letters.next().is_some_and(|next| !next.is_whitespace()),
                    '$' => letters.peek().is_none_or(|next| matches!(next, '|' | ')')),
                    '\'' | '"' | '`' | '<' | '>' | ';' | '&' => false,
                    other => !other.is_whitespace(),
                };
            }
            fine
        }
        _ => node.is_named() || !token.contains(['\\', '\'']),
    };
    if fine {
        Ok(())
    } else {
        Err(Unread::new(
            node.start_byte(),
            "a pattern with unusual text in it",
        ))
    }
}
