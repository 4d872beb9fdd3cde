//! Rule: a module says what it holds; names that fit anything are refused.

use super::{Tree, Violation};

const REFUSED: &[&str] = &[
    "utils", "util", "common", "helpers", "misc", "manager", "managers", "handler", "handlers",
];

const REMEDY: &str = "name it after what it holds";

/// Lists files, folders and modules with a name that says nothing.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in tree.own().filter(|source| source.is_code()) {
        let stem = source.path.split('.').next().unwrap_or_default();
        for part in stem.split('/').filter(|part| REFUSED.contains(part)) {
            let what = format!("a file or folder is called `{part}`");
            violations.push(Violation::new(&source.path, 1, what, REMEDY));
        }
    }
    for (source, code) in tree.rust() {
        for (index, line) in code.lines().enumerate() {
            if let Some(name) = module_name(line).filter(|name| REFUSED.contains(name)) {
                let what = format!("a module is called `{name}`");
                violations.push(Violation::new(&source.path, index + 1, what, REMEDY));
            }
        }
    }
    violations
}

/// The name in `mod name;`, `pub(crate) mod name {` and the like.
fn module_name(line: &str) -> Option<&str> {
    let mut words = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    words.find(|word| *word == "mod")?;
    words.next()
}

#[cfg(test)]
mod tests {
    use super::super::source::sample;
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&sample::file(path, text)).len()
    }

    #[test]
    fn a_file_or_folder_with_an_empty_name_is_refused() {
        assert_eq!(count("crates/a/src/utils.rs", "//! X.\n"), 1);
        assert_eq!(count("crates/a/tests/common/mod.rs", "//! X.\n"), 1);
        assert_eq!(count("web/helpers.test.js", ""), 1);
        assert_eq!(count("crates/a/src/grant.rs", "//! X.\n"), 0);
        assert_eq!(count("crates/a/src/uncommon.rs", "//! X.\n"), 0);
    }

    #[test]
    fn a_module_with_an_empty_name_is_refused_at_its_line() {
        let tree = sample::file("a.rs", "//! X.\npub(crate) mod helpers {}\n");
        let violations = check(&tree);
        assert_eq!(violations.len(), 1);
        assert!(violations[0].to_string().starts_with("a.rs:2: "));
        assert_eq!(count("a.rs", "//! X.\nmod misc;\n"), 1);
    }

    #[test]
    fn prose_about_such_a_module_is_free() {
        assert_eq!(
            count(
                "a.rs",
                "//! Never write `mod utils;`.\nlet x = \"mod utils;\";\n"
            ),
            0
        );
    }
}
