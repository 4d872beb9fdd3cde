//! Rule: each crate says what it is for, takes the lints of the workspace, and keeps TLS on ring.

use crate::workspace::{Crate, Dependency};

use super::source::line_where;
use super::{Tree, Violation};

/// Crates that would bring a second TLS or a C library with it.
pub(crate) const BANNED: &[&str] = &["aws-lc-rs", "aws-lc-sys", "openssl-sys"];

/// Features of rustls that choose another provider than ring.
const OTHER_PROVIDERS: &[&str] = &["aws_lc_rs", "aws-lc-rs", "fips", "default"];

/// Lists what the manifests lack.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    tree.crates
        .iter()
        .flat_map(|member| check_one(member, tree.text(&member.manifest)))
        .collect()
}

fn check_one(member: &Crate, text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut report = |line: usize, what: &str, remedy: &str| {
        violations.push(Violation::new(&member.manifest, line, what, remedy));
    };
    if member.description.trim().is_empty() {
        report(
            1,
            "the crate has no description",
            "say in one line what it is for",
        );
    }
    if !inherits_lints(text) {
        report(
            1,
            "the crate is outside the workspace's lints",
            "add `[lints] workspace = true`",
        );
    }
    for dependency in &member.dependencies {
        let line = line_where(text, |line| line.trim_start().starts_with(&dependency.name));
        if BANNED.contains(&dependency.name.as_str()) {
            report(line, "a banned crate", "use rustls with ring");
        }
        if dependency.name == "rustls" && !is_ring(dependency) {
            report(
                line,
                "rustls without ring, or with more",
                "take `rustls.workspace = true`",
            );
        }
    }
    violations
}

fn inherits_lints(text: &str) -> bool {
    let manifest = text.parse::<toml::Table>().unwrap_or_default();
    let lints = manifest
        .get("lints")
        .and_then(|lints| lints.get("workspace"));
    lints.and_then(toml::Value::as_bool) == Some(true)
}

fn is_ring(rustls: &Dependency) -> bool {
    let has = |feature: &str| rustls.features.iter().any(|name| name == feature);
    has("ring") && !rustls.default_features && !OTHER_PROVIDERS.iter().any(|name| has(name))
}

#[cfg(test)]
mod tests {
    use super::super::source::sample;
    use super::*;

    const LINTS: &str = "[lints]\nworkspace = true\n";

    fn violations(description: &str, text: &str, dependencies: Vec<Dependency>) -> Vec<String> {
        let manifest = "crates/a/Cargo.toml";
        let member = Crate {
            name: "a".to_owned(),
            description: description.to_owned(),
            manifest: manifest.to_owned(),
            dependencies,
            benches: Vec::new(),
        };
        let tree = Tree {
            sources: vec![sample::source(manifest, text)],
            crates: vec![member],
        };
        check(&tree).iter().map(ToString::to_string).collect()
    }

    fn dependency(name: &str, features: &[&str], default_features: bool) -> Dependency {
        Dependency {
            name: name.to_owned(),
            features: features
                .iter()
                .map(|feature| (*feature).to_owned())
                .collect(),
            default_features,
            ..Dependency::default()
        }
    }

    #[test]
    fn a_complete_manifest_passes() {
        let rustls = dependency("rustls", &["ring", "std"], false);
        assert_eq!(violations("x", LINTS, vec![rustls]), [] as [String; 0]);
    }

    #[test]
    fn a_crate_without_purpose_or_lints_is_listed() {
        assert_eq!(violations("", LINTS, vec![]).len(), 1);
        assert_eq!(violations("x", "[package]\n", vec![]).len(), 1);
        assert_eq!(
            violations("x", "[lints]\nworkspace = false\n", vec![]).len(),
            1
        );
    }

    #[test]
    fn tls_without_ring_is_listed_at_its_line() {
        let text = format!("{LINTS}[dependencies]\nrustls = \"0.23\"\n");
        let found = violations("x", &text, vec![dependency("rustls", &["ring"], true)]);
        assert!(found[0].starts_with("crates/a/Cargo.toml:4: "), "{found:?}");
        assert_eq!(
            violations("x", LINTS, vec![dependency("rustls", &[], false)]).len(),
            1
        );
        let both = dependency("rustls", &["ring", "aws_lc_rs"], false);
        assert_eq!(violations("x", LINTS, vec![both]).len(), 1);
    }

    #[test]
    fn a_banned_dependency_is_listed() {
        assert_eq!(
            violations("x", LINTS, vec![dependency("openssl-sys", &[], true)]).len(),
            1
        );
    }
}
