//! `cargo xtask tidy`: holds the source tree against the rules of the house.
//!
//! A rule is a pure function from the [`Tree`] to the places that break it, one module each, with
//! tests that feed it a bad sample. Generated pages are compared last, as that needs a build.

mod edges;
mod leftovers;
mod length;
mod lockfile;
mod machine;
mod manifest;
mod naming;
mod opening;
mod rust_text;
mod source;

use std::fmt;

use anyhow::Result;

use crate::docs;
use crate::say;
use crate::workspace::Workspace;

pub(crate) use self::source::{Source, Tree};

/// One place that breaks a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    file: String,
    line: usize,
    what: String,
    remedy: String,
}

impl Violation {
    /// Says what is wrong at a line (counted from 1) and what to do about it.
    pub(crate) fn new(
        file: &str,
        line: usize,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            file: file.to_owned(),
            line,
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}, {}",
            self.file, self.line, self.what, self.remedy
        )
    }
}

type Rule = fn(&Tree) -> Vec<Violation>;

const RULES: &[(&str, Rule)] = &[
    ("crate edges follow the layers", edges::check),
    ("manifests are complete", manifest::check),
    ("the lock file holds no banned crate", lockfile::check),
    ("source files are short", length::check),
    ("source files open with their purpose", opening::check),
    ("modules say what they hold", naming::check),
    ("nothing is left unfinished or silenced", leftovers::check),
    ("nothing is tied to one machine", machine::check),
];

/// Runs every rule and lists what breaks them.
pub(crate) fn run(workspace: &Workspace) -> Result<u8> {
    let tree = Tree::read(workspace)?;
    let mut count = 0;
    for (name, rule) in RULES {
        let mut violations = rule(&tree);
        violations.sort_unstable();
        say::line(&format!(
            "{}: {name}",
            if violations.is_empty() {
                "ok"
            } else {
                "FAILED"
            }
        ));
        for violation in &violations {
            say::line(&violation.to_string());
        }
        count += violations.len();
    }
    if count > 0 {
        // The comparison below compiles the product; what is known by now is cheaper to mend first.
        say::line(&format!(
            "tidy: {count} violations; the generated pages were not compared"
        ));
        return Ok(1);
    }
    let code = docs::check(workspace)?;
    if code == 0 {
        say::line(&format!("tidy: {} files, no violation", tree.sources.len()));
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_reads_as_place_fault_remedy() {
        let violation = Violation::new("a/b.rs", 3, "too long", "split it");
        assert_eq!(violation.to_string(), "a/b.rs:3: too long, split it");
    }
}
