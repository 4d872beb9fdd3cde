//! Telling whether a command that failed was probably stopped by its sandbox.
//!
//! The kernel does not say why it refused, and bash passes on only words. So this goes by the words
//! of the usual errors and by the paths in them, and asks whether the same would have been allowed
//! outside. It says "may", and it is never asked about a command that succeeded.

use std::path::{Component, Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use super::policy::resolved;
use super::{Network, SandboxPolicy};

/// How many lines at the end of an output are looked at.
const LINES: usize = 400;
/// How many words of a line may be paths.
const WORDS: usize = 40;
/// How many folders a notice names.
const NAMED: usize = 6;

/// Words of an error about writing where nothing may be written, in small letters.
const REFUSED: &[&str] = &[
    "permission denied",
    "operation not permitted",
    "eacces",
    "eperm",
];
/// The same, where no path is needed to believe it: hardly anything else says so.
const CLOSED: &[&str] = &["read-only file system", "erofs"];
/// Words of an error about moving or linking across the border of a writable folder.
const BORDER: &[&str] = &["invalid cross-device link", "exdev"];
/// Words of an error about a network that is not there.
const CUT: &[&str] = &[
    "network is unreachable",
    "could not resolve",
    "name resolution",
    "name or service not known",
    "no address associated",
    "enetunreach",
    "eai_again",
    "getaddrinfo",
    "address family not supported",
    "socket: operation not permitted",
    "socket: permission denied",
    "connection refused",
    "failed to connect",
    "couldn't connect",
    "dns error",
    "network unreachable",
    "errno 1] operation not permitted",
];

impl SandboxPolicy {
    /// What to say of a failed command with this output that ran in `cwd`, where the sandbox has
    /// probably stopped it.
    #[must_use]
    pub fn notice(&self, output: &str, cwd: &Path) -> Option<String> {
        let lines: Vec<String> = output
            .lines()
            .rev()
            .take(LINES)
            .map(str::to_owned)
            .collect();
        let lines = lines.iter().rev();
        let mut found = None;
        for line in lines {
            found = self.suspect(line, cwd).or(found);
            if found.is_some() {
                break;
            }
        }
        let name = self.rung.name();
        Some(match found? {
            Suspect::Write(Some(path)) if self.keeps(&path) => format!(
                "the sandbox ({name}) has stopped this: commands don't change {}",
                path.display()
            ),
            Suspect::Write(path) => {
                let place = path.map_or_else(String::new, |path| format!(" at {}", path.display()));
                format!(
                    "the sandbox ({name}) may have stopped this{place}: writes are allowed only in \
                     {}",
                    self.places()
                )
            }
            Suspect::Hidden(path) => format!(
                "the sandbox ({name}) has probably stopped this: {} is castellan's own state, which \
                 commands don't see",
                path.display()
            ),
            Suspect::Network => format!(
                "the sandbox ({name}) may have stopped this: commands reach no network here"
            ),
        })
    }

    fn suspect(&self, line: &str, cwd: &Path) -> Option<Suspect> {
        let small = line.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| small.contains(word));
        let (closed, refused, border) = (says(CLOSED), says(REFUSED), says(BORDER));
        if closed || refused || border {
            let paths = paths(line, cwd);
            if let Some(hidden) = paths.iter().find(|path| self.hides(path)) {
                return Some(Suspect::Hidden(hidden.clone()));
            }
            let outside = paths.iter().find(|path| {
                // The kernel's own files refuse much by themselves, but never by being read-only.
                let is_kernels = path.starts_with("/proc") || path.starts_with("/sys");
                let fits = if is_kernels {
                    closed
                } else {
                    border || would_be_allowed(path)
                };
                // A writable folder itself can't be removed or renamed.
                fits && (!self.allows_writing(path) || self.writable.contains(path))
            });
            if let Some(path) = outside {
                return Some(Suspect::Write(Some(path.clone())));
            }
            if closed && paths.is_empty() {
                return Some(Suspect::Write(None));
            }
        }
        (self.network == Network::Deny && says(CUT)).then_some(Suspect::Network)
    }

    /// The writable folders in words.
    fn places(&self) -> String {
        let mut names: Vec<String> = self
            .writable
            .iter()
            .take(NAMED)
            .map(|path| path.display().to_string())
            .collect();
        if self.writable.len() > NAMED {
            names.push(format!("{} more folders", self.writable.len() - NAMED));
        }
        names.join(", ")
    }
}

/// What a line gives reason to think.
#[derive(Debug, PartialEq, Eq)]
enum Suspect {
    Write(Option<PathBuf>),
    Hidden(PathBuf),
    Network,
}

/// Whether this process, which is not in the sandbox, could write there: else the sandbox is not
/// what stopped it.
fn would_be_allowed(path: &Path) -> bool {
    let existing = path
        .ancestors()
        .find(|one| one.symlink_metadata().is_ok())
        .unwrap_or(path);
    access(existing, AccessFlags::W_OK).is_ok()
}

/// The paths in a line of an error message, made absolute.
fn paths(line: &str, cwd: &Path) -> Vec<PathBuf> {
    let line = line.strip_prefix("[stderr] ").unwrap_or(line);
    let quotes = |letter: char| "'\"`‘’“”".contains(letter);
    // What is quoted may have spaces in it; so quotes split first.
    let quoted = line.split(quotes).skip(1).step_by(2);
    let bare = line.split(|letter: char| letter.is_whitespace() || quotes(letter) || letter == '(');
    quoted
        .chain(bare)
        .map(|word| word.trim_end_matches([':', ',', '.', ')', ';', ']']))
        // A name alone may be any word, so it counts only as that of a link, which leads elsewhere.
        .filter(|word| word.contains('/') && !word.contains("://") || cwd.join(word).is_symlink())
        .take(WORDS)
        // With links followed, as the kernel did.
        .map(|word| resolved(&normal(&cwd.join(word))))
        // The program that speaks is named first in many messages, and is not what it speaks of.
        .filter(|path| !is_program(path))
        .collect()
}

fn is_program(path: &Path) -> bool {
    ["/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin"]
        .iter()
        .any(|folder| path.parent() == Some(Path::new(folder)))
}

/// A path without `.` and `..`, textually.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            part @ (Component::RootDir | Component::Normal(_) | Component::Prefix(_)) => {
                normal.push(part);
            }
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::{HiddenFolder, Rung};

    /// A policy for a workspace in a new folder, beside which `outside` is writable to us.
    fn world() -> (tempfile::TempDir, SandboxPolicy, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for part in ["ws", "outside", "state"] {
            std::fs::create_dir(root.join(part)).unwrap();
        }
        let policy = SandboxPolicy {
            rung: Rung::Landlock { abi: 7 },
            writable: vec![root.join("ws")],
            hidden: vec![HiddenFolder::new(&root.join("state"), &[])],
            kept: Vec::new(),
            network: Network::Allow,
        };
        (folder, policy, root)
    }

    #[test]
    fn a_write_outside_is_told_of_in_the_words_of_many_programs() {
        let (_folder, policy, root) = world();
        let outside = root.join("outside/x y");
        let outside = outside.display();
        for line in [
            format!("[stderr] touch: cannot touch '{outside}': Permission denied"),
            format!(
                "[stderr] bash: line 1: {}/outside/f: Read-only file system",
                root.display()
            ),
            format!("OSError: [Errno 30] Read-only file system: '{outside}'"),
            format!("Error: EACCES: permission denied, open '{outside}'"),
            format!("open {}/outside/go: read-only file system", root.display()),
            format!("cp: cannot create regular file '{outside}': Operation not permitted"),
            "[stderr] mkdir: cannot create directory ‘../outside/dir’: Read-only file system"
                .into(),
            "something failed: Read-only file system (os error 30)".into(),
            format!(
                "rmdir: failed to remove '{}/ws': Read-only file system",
                root.display()
            ),
        ] {
            let notice = policy.notice(&format!("working\n{line}\n"), &root.join("ws"));
            let notice = notice.unwrap_or_else(|| panic!("nothing said of: {line}"));
            assert!(
                notice.contains("may have stopped") && notice.contains("/ws"),
                "{notice}"
            );
        }
    }

    #[test]
    fn what_the_sandbox_did_not_do_is_not_laid_at_its_door() {
        let (_folder, policy, root) = world();
        let inside = root.join("ws/f");
        for line in [
            "git@host: Permission denied (publickey).".to_owned(),
            format!("bash: {}: Permission denied", inside.display()),
            "bash: ./f: Permission denied".to_owned(),
            "cat: /nowhere: No such file or directory".to_owned(),
            "curl: (6) Could not resolve host: example.invalid".to_owned(),
            "touch: cannot touch '/proc/version': Permission denied".to_owned(),
            String::new(),
        ] {
            let found = policy.notice(&line, &root.join("ws"));
            assert_eq!(found, None, "{line}");
        }
    }

    #[test]
    fn hidden_folders_and_a_missing_network_are_named_as_such() {
        let (_folder, mut policy, root) = world();
        let line = format!("cat: {}/state/db: Permission denied", root.display());
        let notice = policy.notice(&line, &root).unwrap();
        assert!(notice.contains("castellan's own state"), "{notice}");
        policy.network = Network::Deny;
        for line in [
            "curl: (6) Could not resolve host: example.invalid",
            "OSError: [Errno 101] Network is unreachable",
            "PermissionError: [Errno 1] Operation not permitted",
        ] {
            let notice = policy.notice(line, &root).unwrap();
            assert!(notice.contains("no network"), "{notice}");
        }
    }
}
