//! What cargo and git know of this workspace: crates, their edges, the files that belong to it.
//!
//! `cargo metadata` is read as JSON by hand: the crate that wraps it turns on features of
//! `serde_json` that the product does not have.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::process::{self, Child};

/// The workspace this command was called in.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) crates: Vec<Crate>,
}

/// One member of the workspace.
#[derive(Debug, Default, Clone)]
pub(crate) struct Crate {
    pub(crate) name: String,
    pub(crate) description: String,
    /// The path of its Cargo.toml below the root.
    pub(crate) manifest: String,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) benches: Vec<String>,
}

/// One edge as a manifest declares it, with what it inherits from the workspace.
#[derive(Debug, Default, Clone)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) features: Vec<String>,
    pub(crate) default_features: bool,
}

/// In which table a dependency stands.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Normal,
    Dev,
    Build,
}

impl Workspace {
    /// Asks cargo. Works in any folder below the root.
    pub(crate) fn load() -> Result<Self> {
        let args = ["metadata", "--no-deps", "--format-version", "1"];
        let text = process::cargo(&args, Path::new(".")).text()?;
        let json = serde_json::from_str(&text).context("cargo metadata is not JSON")?;
        Self::from_metadata(&json)
    }

    fn from_metadata(json: &Value) -> Result<Self> {
        let path = |key: &str| -> Result<PathBuf> {
            let text = json.get(key).and_then(Value::as_str);
            Ok(PathBuf::from(
                text.with_context(|| format!("cargo metadata has no {key}"))?,
            ))
        };
        let root = path("workspace_root")?;
        let packages = json.get("packages").and_then(Value::as_array);
        let packages = packages.context("cargo metadata has no packages")?;
        let crates = packages
            .iter()
            .map(|package| crate_of(package, &root))
            .collect();
        Ok(Self {
            root,
            target: path("target_directory")?,
            crates,
        })
    }

    /// The debug binary of the product.
    pub(crate) fn debug_binary(&self) -> PathBuf {
        self.target.join("debug").join("castellan")
    }

    /// Every file that is tracked or would be, below the root and in order.
    pub(crate) fn files(&self) -> Result<Vec<String>> {
        let args = [
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ];
        let text = Child::new("git", &args, &self.root).text()?;
        let mut files: Vec<String> = text
            .split('\0')
            .filter(|path| !path.is_empty())
            .map(str::to_owned)
            .collect();
        files.sort_unstable();
        files.dedup();
        Ok(files)
    }
}

fn crate_of(package: &Value, root: &Path) -> Crate {
    let manifest = PathBuf::from(text_of(package, "manifest_path"));
    let manifest = manifest.strip_prefix(root).unwrap_or(&manifest);
    let benches = list_of(package, "targets")
        .filter(|target| list_of(target, "kind").any(|kind| kind == "bench"))
        .map(|target| text_of(target, "name"))
        .collect();
    Crate {
        name: text_of(package, "name"),
        description: text_of(package, "description"),
        manifest: manifest.to_string_lossy().into_owned(),
        dependencies: list_of(package, "dependencies")
            .map(dependency_of)
            .collect(),
        benches,
    }
}

fn dependency_of(json: &Value) -> Dependency {
    Dependency {
        name: text_of(json, "name"),
        kind: match json.get("kind").and_then(Value::as_str) {
            Some("dev") => Kind::Dev,
            Some("build") => Kind::Build,
            _ => Kind::Normal,
        },
        features: list_of(json, "features")
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        default_features: json.get("uses_default_features") == Some(&Value::Bool(true)),
    }
}

fn text_of(json: &Value, key: &str) -> String {
    json.get(key)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn list_of<'a>(json: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    json.get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn crates_edges_and_benches_are_read_from_metadata() {
        let json = json!({
            "workspace_root": "/base",
            "target_directory": "/base/target",
            "packages": [{
                "name": "castellan-gate",
                "description": "the gate",
                "manifest_path": "/base/crates/castellan-gate/Cargo.toml",
                "targets": [{"name": "search", "kind": ["bench"]}, {"name": "it", "kind": ["test"]}],
                "dependencies": [
                    {"name": "rustls", "kind": null, "features": ["ring"],
                     "uses_default_features": false},
                    {"name": "castellan-testkit", "kind": "dev", "features": [],
                     "uses_default_features": true},
                ],
            }],
        });
        let workspace = Workspace::from_metadata(&json).unwrap();
        let gate = &workspace.crates[0];
        assert_eq!(gate.manifest, "crates/castellan-gate/Cargo.toml");
        assert_eq!(gate.benches, ["search"]);
        assert_eq!(gate.dependencies[0].features, ["ring"]);
        assert!(!gate.dependencies[0].default_features);
        assert_eq!(gate.dependencies[1].kind, Kind::Dev);
    }

    #[test]
    fn metadata_without_a_root_is_refused() {
        assert!(Workspace::from_metadata(&json!({"packages": []})).is_err());
    }
}
