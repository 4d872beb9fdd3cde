//! From a query to a matcher, or to words that say what in the query is not of this dialect.

use castellan_core::Outcome;
use castellan_core::text::shorten;
use grep_regex::{ErrorKind as BuildErrorKind, RegexMatcher, RegexMatcherBuilder};
use regex_syntax::ast::{ErrorKind as AstErrorKind, Span};
use regex_syntax::hir::{Hir, HirKind};
use schemars::JsonSchema;
use serde::Deserialize;

/// Bytes a compiled pattern may take; `\w{500}` and its like ask for more.
const COMPILED: usize = 10 * 1024 * 1024;
/// How deep groups may nest; parsing recurses.
const NESTED: u32 = 100;

/// How upper and lower case letters compare.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Case {
    #[default]
    Sensitive,
    Insensitive,
    Smart,
}

/// Compiles a query.
///
/// # Errors
/// The outcome that names what is not valid in it, where, and what to use instead.
pub(super) fn compile(query: &str, case: Case) -> Result<RegexMatcher, Outcome> {
    parse(query)?;
    let mut builder = RegexMatcherBuilder::new();
    match case {
        Case::Sensitive => {}
        Case::Insensitive => {
            builder.case_insensitive(true);
        }
        Case::Smart => {
            builder.case_smart(true);
        }
    }
    builder
        .size_limit(COMPILED)
        .dfa_size_limit(COMPILED)
        .nest_limit(NESTED)
        // `$` is also before `\r\n`.
        .crlf(true)
        .ban_byte(Some(0))
        .build(query)
        .map_err(|error| unbuildable(&error))
}

/// Checks the syntax of a query.
///
/// # Errors
/// As [`compile`].
pub(super) fn parse(query: &str) -> Result<(), Outcome> {
    if query.is_empty() {
        return Err(Outcome::invalid(
            "`query` is empty, which would match every line",
            "send the regex to search for",
        ));
    }
    if query.contains('\u{8}') {
        return Err(Outcome::invalid(
            "`query` has a backspace character: `\\b` in a JSON string is one",
            r"for a word boundary write `\\b` in the JSON string",
        ));
    }
    if query.contains('\n') {
        return Err(several_lines());
    }
    match tree(query) {
        Ok(_) => Ok(()),
        Err(regex_syntax::Error::Parse(error)) => {
            let remedy = remedy(error.kind(), query);
            let what = name(error.kind(), query, error.span());
            Err(Outcome::invalid(what, remedy))
        }
        Err(regex_syntax::Error::Translate(error)) => {
            let what = place(&error.kind().to_string(), query, error.span());
            Err(Outcome::invalid(what, DIALECT))
        }
        // The type is open; whatever comes names itself.
        Err(error) => Err(Outcome::invalid(format!("`query`: {error}"), DIALECT)),
    }
}

#[expect(
    clippy::result_large_err,
    reason = "the parser's own error, made once for a query that is wrong"
)]
fn tree(query: &str) -> Result<Hir, regex_syntax::Error> {
    regex_syntax::ParserBuilder::new()
        .utf8(false)
        .nest_limit(NESTED)
        .build()
        .parse(query)
}

/// How many places of a query a search may have to follow at once, at worst: for each byte of a
/// line it may take as many steps. Counted repetitions make it large.
pub(super) fn width(query: &str) -> usize {
    tree(query).map_or(1, |tree| width_of(&tree)).max(1)
}

fn width_of(tree: &Hir) -> usize {
    match tree.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Class(_) => 1,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Capture(capture) => width_of(&capture.sub),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1);
            usize::try_from(times)
                .unwrap_or(usize::MAX)
                .saturating_mul(width_of(&repetition.sub))
        }
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(width_of).fold(0, usize::saturating_add)
        }
    }
}

const DIALECT: &str =
    "the dialect is that of Rust's regex crate; `bash` with `grep -P` takes Perl's";

fn several_lines() -> Outcome {
    Outcome::invalid(
        "`query` has a line break, and a search looks at one line at a time",
        "search for a part of one line; `context` shows the lines around it",
    )
}

fn unbuildable(error: &grep_regex::Error) -> Outcome {
    match error.kind() {
        BuildErrorKind::NotAllowed(_) => several_lines(),
        BuildErrorKind::Banned(_) => Outcome::invalid(
            "`query` has a NUL byte, and files with NUL bytes are not searched as text",
            "search binary files with `bash`",
        ),
        _ if error.to_string().contains("size limit") => Outcome::invalid(
            "`query` is too large once compiled; a large repetition count does that",
            r"use a smaller count, `*` or `+`, or an ASCII class such as `[0-9]` for `\d`",
        ),
        _ => Outcome::invalid(format!("`query` can't be compiled: {error}"), DIALECT),
    }
}

/// What is wrong, with the words of the query it is about and their place.
fn name(kind: &AstErrorKind, query: &str, span: &Span) -> String {
    match kind {
        AstErrorKind::UnsupportedLookAround => {
            let behind = query.get(span.start.offset..span.end.offset);
            let behind = behind.is_some_and(|text| text.contains('<'));
            let word = if behind { "lookbehind" } else { "lookahead" };
            place(&format!("{word} is not supported"), query, span)
        }
        AstErrorKind::UnsupportedBackreference => {
            place("backreferences are not supported", query, span)
        }
        kind => place(&kind.to_string(), query, span),
    }
}

fn place(what: &str, query: &str, span: &Span) -> String {
    let at = query
        .get(..span.start.offset)
        .map_or(0, |before| before.chars().count())
        + 1;
    let rest = query.get(span.start.offset..).unwrap_or_default();
    let marked = query.get(span.start.offset..span.end.offset);
    let text: String = match marked {
        Some(text) if !text.is_empty() => shorten(text, 40),
        _ => rest.chars().take(1).collect(),
    };
    let text = if text.is_empty() {
        text
    } else {
        format!(", `{text}`")
    };
    format!("`query` is not a valid regex at character {at}{text}: {what}")
}

/// What to write instead.
fn remedy(kind: &AstErrorKind, query: &str) -> &'static str {
    match kind {
        AstErrorKind::UnsupportedLookAround => {
            "search for the plain text and pick from the hits, or use `bash` with `grep -P`"
        }
        AstErrorKind::UnsupportedBackreference => {
            "write the alternatives out, or use `bash` with `grep -E`"
        }
        AstErrorKind::GroupUnclosed | AstErrorKind::GroupUnopened => {
            r"for the parenthesis itself write `\(` or `\)`; in a JSON string `\\(` or `\\)`"
        }
        AstErrorKind::ClassUnclosed => r"for the bracket itself write `\[`; in a JSON string `\\[`",
        AstErrorKind::RepetitionMissing if query.starts_with('*') => {
            r"for file names use `glob`; for the star itself write `\*`"
        }
        AstErrorKind::RepetitionMissing => {
            r"for the character itself put a backslash before it; in a JSON string `\\`"
        }
        AstErrorKind::RepetitionCountUnclosed
        | AstErrorKind::RepetitionCountDecimalEmpty
        | AstErrorKind::RepetitionCountInvalid
        | AstErrorKind::DecimalEmpty
        | AstErrorKind::DecimalInvalid => {
            r"for the brace itself write `\{`; in a JSON string `\\{`"
        }
        AstErrorKind::EscapeUnexpectedEof => r"for the backslash itself write `\\`",
        _ => DIALECT,
    }
}

/// The query with grep's basic alternation `\|` as this dialect writes it; `None` where it has
/// none. `\(` and `\)` mean groups in the same tradition and are taken along.
pub(super) fn basic_alternation(query: &str) -> Option<String> {
    let mut translated = String::with_capacity(query.len());
    let mut any = false;
    let mut letters = query.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            translated.push(letter);
            continue;
        }
        match letters.next() {
            Some('|') => {
                any = true;
                translated.push('|');
            }
            Some(group @ ('(' | ')')) => translated.push(group),
            Some(other) => translated.extend(['\\', other]),
            None => translated.push('\\'),
        }
    }
    any.then_some(translated)
}
