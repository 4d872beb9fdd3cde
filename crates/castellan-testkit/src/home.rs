//! A sealed home: everything a run of the program reads and writes lies in one temporary folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use tempfile::TempDir;

/// The search path of commands run in a sealed home.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What [`Home::scrub`] puts where the path of the sealed home stood.
const ROOT_MARK: &str = "[ROOT]";

/// A temporary folder with a home, a workspace and a data folder; removed when dropped.
#[derive(Debug)]
pub struct Home {
    root: PathBuf,
    folder: TempDir,
}

impl Home {
    /// A new, empty one.
    #[must_use]
    pub fn new() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("castellan-test-")
            .tempdir()
            .unwrap();
        // Resolved, because the program resolves its paths and some systems' temporary folder is a
        // link.
        let root = folder.path().canonicalize().unwrap();
        let home = Self { root, folder };
        for part in [
            home.user_home(),
            home.castellan_home(),
            home.workspace(),
            home.temp(),
        ] {
            fs::create_dir(part).unwrap();
        }
        home
    }

    /// The folder that holds everything.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What `HOME` names.
    #[must_use]
    pub fn user_home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// What `CASTELLAN_HOME` names.
    #[must_use]
    pub fn castellan_home(&self) -> PathBuf {
        self.root.join("castellan")
    }

    /// Where commands run.
    #[must_use]
    pub fn workspace(&self) -> PathBuf {
        self.root.join("workspace")
    }

    /// What `TMPDIR` names.
    #[must_use]
    pub fn temp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// Writes `config.toml` in the data folder.
    pub fn write_config(&self, toml: &str) {
        fs::write(self.castellan_home().join("config.toml"), toml).unwrap();
    }

    /// Writes a file of the workspace, with the folders on its way.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.workspace().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// The text of a file of the workspace; `None` where there is none.
    #[must_use]
    pub fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        let path = self.workspace().join(path);
        match fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => panic!("failed to read {}: {error}", path.display()),
        }
    }

    /// A command in the workspace with nothing of this process's environment: `PATH`, `LANG`,
    /// `HOME`, `TMPDIR` and `CASTELLAN_HOME` only, and no standard input.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "the program under test is the test's own child, which waits for it"
    )]
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .env_clear()
            .env("PATH", PATH)
            .env("LANG", "C.UTF-8")
            .env("HOME", self.user_home())
            .env("TMPDIR", self.temp())
            .env("CASTELLAN_HOME", self.castellan_home())
            .current_dir(self.workspace())
            .stdin(Stdio::null());
        command
    }

    /// `text` with the path of this home replaced, so that it is the same in every run.
    #[must_use]
    pub fn scrub(&self, text: &str) -> String {
        let unresolved = self.folder.path().to_string_lossy();
        text.replace(&*self.root.to_string_lossy(), ROOT_MARK)
            .replace(&*unresolved, ROOT_MARK)
    }
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_sees_only_the_sealed_environment() {
        let home = Home::new();
        let output = home.command("/usr/bin/env").output().unwrap();
        let text = home.scrub(&String::from_utf8(output.stdout).unwrap());
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            [
                "CASTELLAN_HOME=[ROOT]/castellan",
                "HOME=[ROOT]/home",
                "LANG=C.UTF-8",
                "PATH=/usr/local/bin:/usr/bin:/bin",
                "TMPDIR=[ROOT]/tmp",
            ]
        );
    }

    #[test]
    fn a_dropped_home_leaves_nothing() {
        let home = Home::new();
        home.write("deep/file.txt", "x");
        assert_eq!(home.read("deep/file.txt").as_deref(), Some("x"));
        assert_eq!(home.read("none"), None);
        let root = home.root().to_owned();
        drop(home);
        assert!(!root.exists());
    }
}
