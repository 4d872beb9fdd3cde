//! `cargo xtask docs`: pages of `docs/` that the program and its source tell by themselves.
//!
//! A page is a pure function from what the program prints to Markdown, one module each; this one
//! runs the program, in an empty home and without the caller's environment, and compares or writes.

mod catalog;
mod cli;
mod error_codes;
mod program;

use std::fs;

use anyhow::{Context as _, Result};

use crate::process::cargo;
use crate::say;
use crate::workspace::Workspace;

use self::program::Program;

/// Where the error codes are declared.
const CODES: &str = "crates/castellan-core/src/code.rs";

const MARK: &str =
    "<!-- Made by `cargo xtask docs`; change the source it tells of, not this page. -->";

/// One generated page.
struct Page {
    /// Its path below the root.
    path: &'static str,
    text: String,
}

/// Writes every page.
pub(crate) fn write(workspace: &Workspace) -> Result<u8> {
    for page in pages(workspace)? {
        let path = workspace.root.join(page.path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&path, page.text).with_context(|| format!("could not write {}", page.path))?;
        say::line(&format!("wrote {}", page.path));
    }
    Ok(0)
}

/// Compares every page with what is on disk and names those that differ.
pub(crate) fn check(workspace: &Workspace) -> Result<u8> {
    let mut stale = 0;
    for page in pages(workspace)? {
        let there = fs::read_to_string(workspace.root.join(page.path)).unwrap_or_default();
        if let Some(line) = first_difference(&there, &page.text) {
            say::line(&format!(
                "{}:{line}: the page is not what the program says, run `cargo xtask docs`",
                page.path
            ));
            stale += 1;
        }
    }
    say::line(&match stale {
        0 => "docs: every generated page is in step".to_owned(),
        stale => format!("docs: {stale} generated pages are out of step"),
    });
    Ok(u8::from(stale > 0))
}

/// Builds the API documentation; a warning fails it.
pub(crate) fn api(workspace: &Workspace) -> Result<u8> {
    cargo(&["doc", "--no-deps", "--workspace"], &workspace.root)
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()
}

fn pages(workspace: &Workspace) -> Result<Vec<Page>> {
    cargo(&["build", "-p", "castellan"], &workspace.root).succeed()?;
    let program = Program::new(workspace)?;
    let codes = fs::read_to_string(workspace.root.join(CODES))
        .with_context(|| format!("could not read {CODES}"))?;

    let help = cli::collect(|words| program.help(words))?;
    let tools = program.text(&["tools", "--all", "--json"])?;
    let mut pages = vec![
        page("docs/cli.md", &cli::page(&help)),
        page("docs/catalog.md", &catalog::page(&tools)?),
        page("docs/error-codes.md", &error_codes::page(&codes)?),
    ];
    // The program writes this one itself, once it can.
    let events = program.capture(&["__events"])?;
    if events.success {
        pages.push(Page {
            path: "docs/events.md",
            text: events.stdout,
        });
    }
    Ok(pages)
}

fn page(path: &'static str, body: &str) -> Page {
    Page {
        path,
        text: format!("{MARK}\n\n{}\n", body.trim_end()),
    }
}

/// The first line (from 1) in which two texts differ.
fn first_difference(left: &str, right: &str) -> Option<usize> {
    if left == right {
        return None;
    }
    let same = left
        .lines()
        .zip(right.lines())
        .take_while(|(a, b)| a == b)
        .count();
    Some(same + 1)
}

/// Text made fit for one cell of a Markdown table.
fn cell(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_found_at_any_place() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some(2));
        assert_eq!(first_difference("", "a\n"), Some(1));
        assert_eq!(first_difference("a\n", "a\nb\n"), Some(2));
        assert_eq!(first_difference("a", "a\n"), Some(2));
    }

    #[test]
    fn a_cell_stays_in_its_column_and_row() {
        assert_eq!(cell("a | b\n  c"), "a \\| b c");
    }
}
