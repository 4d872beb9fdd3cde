//! Where build tools keep what they download and build: writable by default, because a sandbox in
//! which nothing builds would be turned off.
//!
//! Only the parts that hold what can be made anew. Programs and settings beside them
//! (`~/.cargo/bin`, `~/.gradle/init.d`) stay closed: what is planted there runs outside the
//! sandbox the next time a person builds.

use std::path::{Path, PathBuf};

use crate::env::Environment;

/// Below the folder a variable names, or below the home where it is not set: the variable, the
/// place in the home, the parts. No part means all of it.
const PLACES: &[(&str, &str, &[&str])] = &[
    ("CARGO_HOME", ".cargo", &["registry", "git"]),
    ("CARGO_TARGET_DIR", "", &[]),
    ("GOPATH", "go", &["pkg"]),
    ("GOCACHE", ".cache/go-build", &[]),
    ("GOMODCACHE", "go/pkg/mod", &[]),
    (
        "GRADLE_USER_HOME",
        ".gradle",
        &[
            "caches",
            "daemon",
            "native",
            "notifications",
            "workers",
            ".tmp",
        ],
    ),
    ("DENO_DIR", ".cache/deno", &[]),
    ("BUN_INSTALL", ".bun", &["install/cache"]),
    (
        "XDG_CACHE_HOME",
        ".cache",
        &[
            "bazel",
            "ccache",
            "composer",
            "coursier",
            "go-build",
            "golangci-lint",
            "huggingface",
            "mypy",
            "pip",
            "pnpm",
            "poetry",
            "pypoetry",
            "ruff",
            "sccache",
            "typescript",
            "uv",
            "yarn",
            "zig",
        ],
    ),
    ("", ".npm", &[]),
    ("", ".local/share/pnpm/store", &[]),
    ("", ".yarn/berry/cache", &[]),
    ("", ".m2", &["repository"]),
    ("", ".ivy2", &["cache", "local"]),
    ("", ".sbt/boot", &[]),
    ("", ".nuget/packages", &[]),
    ("", ".ccache", &[]),
    ("", ".node-gyp", &[]),
    ("", ".bundle/cache", &[]),
];

/// The build caches of this user that exist.
pub(super) fn existing(environment: &Environment) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = PLACES
        .iter()
        .flat_map(|(variable, place, parts)| {
            let named = environment
                .get(variable)
                .filter(|path| path.starts_with('/'));
            let below_home = || {
                let place = Some(place).filter(|place| !place.is_empty())?;
                Some(environment.home()?.join(place))
            };
            let base = named.map(PathBuf::from).or_else(below_home);
            base.map(|base| within(&base, parts)).unwrap_or_default()
        })
        .filter_map(|path| path.canonicalize().ok())
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found.dedup();
    found
}

fn within(base: &Path, parts: &[&str]) -> Vec<PathBuf> {
    if parts.is_empty() {
        return vec![base.to_owned()];
    }
    parts.iter().map(|part| base.join(part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_writable_and_what_lies_beside_them_is_not() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        for folder in [".cargo/registry", ".cargo/bin", ".npm", "elsewhere/pkg"] {
            std::fs::create_dir_all(home.join(folder)).unwrap();
        }
        let text = |path: &str| home.join(path).to_str().unwrap().to_owned();
        let vars = [
            ("HOME".to_owned(), text("")),
            ("GOPATH".to_owned(), text("elsewhere")),
        ];
        let found = existing(&Environment::new(vars, "/".into()));
        assert_eq!(
            found,
            [".cargo/registry", ".npm", "elsewhere/pkg"].map(|path| home.join(path))
        );
    }
}
