//! Rule: a source file opens with what it is for.

use super::{Source, Tree, Violation};

/// Lists the files that begin without a word about their purpose.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    tree.own()
        .filter(|source| !source.text.trim().is_empty() || source.extension() == "rs")
        .filter_map(|source| {
            let missing = missing_opening(source)?;
            Some(Violation::new(
                &source.path,
                1,
                "the file does not open with its purpose",
                format!("begin it with {missing}"),
            ))
        })
        .collect()
}

/// What the head of the file should have been, when it isn't.
fn missing_opening(source: &Source) -> Option<&'static str> {
    let is_script = source.text.starts_with("#!/") && source.extension().is_empty();
    let (good, wanted) = match source.extension() {
        "rs" => (
            has_text(source.text.lines().next(), &["//!"]),
            "a `//!` line",
        ),
        "py" => {
            let openings = ["\"\"\"", "r\"\"\"", "'''", "#"];
            (has_text(first_line(source), &openings), "a docstring")
        }
        "sql" => (has_text(first_line(source), &["--"]), "a `--` comment"),
        "sh" => (
            has_text(first_line(source), &["#"]),
            "a comment below the `#!` line",
        ),
        _ if is_script => (
            has_text(first_line(source), &["#", "\"\"\""]),
            "a comment below the `#!` line",
        ),
        _ => return None,
    };
    (!good).then_some(wanted)
}

/// The first line with something on it, the `#!` line and the encoding aside.
fn first_line(source: &Source) -> Option<&str> {
    source
        .text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with("#!") && !line.starts_with("# -*-"))
}

/// Whether the line opens with one of the marks. Text may follow on the next line in a docstring,
/// so a bare mark counts there.
fn has_text(line: Option<&str>, marks: &[&str]) -> bool {
    let Some(line) = line else { return false };
    marks.iter().any(|mark| {
        line.strip_prefix(mark)
            .is_some_and(|rest| !rest.trim().is_empty() || mark.ends_with(['"', '\'']))
    })
}

#[cfg(test)]
mod tests {
    use super::super::source::sample;
    use super::*;

    fn fails(path: &str, text: &str) -> bool {
        !check(&sample::file(path, text)).is_empty()
    }

    #[test]
    fn a_rust_file_opens_with_its_purpose() {
        assert!(fails("a.rs", "use std::fs;\n"));
        assert!(fails("a.rs", "\n//! Late.\n"));
        assert!(fails("a.rs", "//!\nfn main() {}\n"));
        assert!(fails("a.rs", ""));
        assert!(!fails("a.rs", "//! Purpose.\n"));
    }

    #[test]
    fn a_script_says_its_purpose_below_the_interpreter() {
        assert!(fails("a.py", "#!/usr/bin/env python3\nimport os\n"));
        assert!(!fails(
            "a.py",
            "#!/usr/bin/env python3\n\"\"\"\nPurpose.\n\"\"\"\n"
        ));
        assert!(!fails("a.py", "\"\"\"Purpose.\"\"\"\n"));
        assert!(!fails("pkg/__init__.py", ""));
        assert!(fails("a.sh", "#!/bin/bash\nset -e\n"));
        assert!(!fails("a.sh", "#!/bin/bash\n# Purpose.\n"));
        assert!(fails(".ci/run", "#!/usr/bin/env bash\nset -e\n"));
        assert!(!fails(".ci/run", "#!/usr/bin/env bash\n# Purpose.\n"));
    }

    #[test]
    fn a_migration_says_its_purpose() {
        assert!(fails("1.sql", "CREATE TABLE a (b);\n"));
        assert!(!fails("1.sql", "-- Purpose.\nCREATE TABLE a (b);\n"));
    }

    #[test]
    fn other_files_are_free() {
        assert!(!fails("README.md", "Text\n"));
        assert!(!fails("LICENSE", "Text\n"));
    }
}
