//! Rule: what the whole graph resolves to has one TLS provider, ring.

use super::manifest::BANNED;
use super::source::line_where;
use super::{Tree, Violation};

const LOCK_FILE: &str = "Cargo.lock";

/// Lists banned packages, however deep in the graph, and a rustls that lost ring.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let text = tree.text(LOCK_FILE);
    let Ok(lock) = text.parse::<toml::Table>() else {
        return vec![Violation::new(
            LOCK_FILE,
            1,
            "not readable",
            "make it anew with cargo",
        )];
    };
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let Some(packages) = packages.filter(|packages| !packages.is_empty()) else {
        return vec![Violation::new(
            LOCK_FILE,
            1,
            "missing or empty",
            "commit it",
        )];
    };
    packages
        .iter()
        .filter_map(|package| check_one(package, text))
        .collect()
}

fn check_one(package: &toml::Value, text: &str) -> Option<Violation> {
    let name = package.get("name").and_then(toml::Value::as_str)?;
    let line = line_where(text, |line| line == format!("name = \"{name}\""));
    if BANNED.contains(&name) {
        let remedy = format!("find who asks for it with `cargo tree -i {name}`, drop that feature");
        return Some(Violation::new(
            LOCK_FILE,
            line,
            format!("`{name}` is banned"),
            remedy,
        ));
    }
    if name == "rustls" && !depends_on(package, "ring") {
        return Some(Violation::new(
            LOCK_FILE,
            line,
            "rustls without ring",
            "turn on its ring",
        ));
    }
    None
}

fn depends_on(package: &toml::Value, wanted: &str) -> bool {
    let names = package.get("dependencies").and_then(toml::Value::as_array);
    // Where two versions are in the graph, an entry reads `name version`.
    names
        .into_iter()
        .flatten()
        .filter_map(toml::Value::as_str)
        .any(|entry| entry.split(' ').next() == Some(wanted))
}

#[cfg(test)]
mod tests {
    use super::super::source::sample;
    use super::*;

    fn violations(text: &str) -> Vec<String> {
        check(&sample::file(LOCK_FILE, text))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_banned_package_is_listed_at_its_line() {
        let found = violations("version = 4\n\n[[package]]\nname = \"aws-lc-rs\"\n");
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("Cargo.lock:4: `aws-lc-rs`"),
            "{found:?}"
        );
    }

    #[test]
    fn rustls_needs_ring() {
        let rustls = "[[package]]\nname = \"rustls\"\ndependencies = [\"once_cell\"";
        assert_eq!(violations(&format!("{rustls}]\n")).len(), 1);
        assert_eq!(violations(&format!("{rustls}, \"ring\"]\n")).len(), 0);
    }

    #[test]
    fn a_missing_or_broken_lock_file_is_listed() {
        assert_eq!(check(&Tree::default()).len(), 1);
        assert_eq!(violations("[[package\n").len(), 1);
    }
}
