//! The prefix a person is offered for "always" on a command.
//!
//! A prefix permits every command that begins with it. So it is offered only where the first words
//! say what will be done, and where it would cover the very command that was asked about.

use super::inner::is_wrapper;
use super::{Part, split};
use crate::grant::Grant;

/// Commands that say with their name what they do, whatever their arguments.
const PLAIN: &[&str] = &[
    "ls",
    "cat",
    "head",
    "tail",
    "wc",
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "find",
    "echo",
    "printf",
    "pwd",
    "date",
    "whoami",
    "id",
    "uname",
    "hostname",
    "which",
    "type",
    "file",
    "stat",
    "du",
    "df",
    "tree",
    "sort",
    "uniq",
    "cut",
    "tr",
    "diff",
    "cmp",
    "comm",
    "jq",
    "basename",
    "dirname",
    "realpath",
    "readlink",
    "nproc",
    "free",
    "ps",
    "uptime",
    "sleep",
    "md5sum",
    "sha1sum",
    "sha256sum",
    "xxd",
    "od",
    "hexdump",
    "strings",
    "nl",
    "column",
    "seq",
    "mkdir",
    "touch",
    "rustfmt",
    "pytest",
    "tsc",
    "eslint",
    "prettier",
    "black",
    "ruff",
    "mypy",
    "shellcheck",
];

/// Commands whose first words say too little of what they do.
const NEVER: &[&str] = &[
    // What is lost or overwritten is in the arguments.
    "rm", "rmdir", "mv", "cp", "dd", "shred", "truncate", "unlink", "ln", "install", "tee",
    // What is changed is in the arguments.
    "chmod", "chown", "chgrp", "chattr", "setfacl", "kill", "pkill", "killall", "mount", "umount",
    // Where it goes to and what it sends is in the arguments.
    "curl", "wget", "ssh", "scp", "sftp", "rsync", "nc", "ncat", "socat", "telnet", "ftp",
    // It runs code that stands in the arguments.
    "eval", "source", ".", "trap", "su", "runuser", "script", "parallel", "awk", "gawk", "mawk",
    "sed", "ed", "ex", "vi", "vim", "nvim", "emacs", "less", "more", "man", "gdb", "tmux",
    "screen", "expect", "at", "batch", "crontab", "nsenter", "bwrap", "entr",
    // It changes what later commands mean.
    "export", "declare", "typeset", "readonly", "local", "alias", "unalias", "set", "shopt",
    "enable", "hash", "read", "mapfile", "let", "unset", "cd", "pushd", "popd",
];

/// Interpreters: what they run is their first operand or their code.
const INTERPRETERS: &[&str] = &[
    "bash",
    "sh",
    "dash",
    "zsh",
    "ksh",
    "mksh",
    "ash",
    "rbash",
    "fish",
    "python",
    "python2",
    "python3",
    "perl",
    "ruby",
    "node",
    "nodejs",
    "php",
    "lua",
    "Rscript",
    "osascript",
    "tclsh",
    "bun",
    "deno",
    "ts-node",
    "tsx",
    "java",
];

/// Two words that say nothing: the third names what is done.
const NEEDS_THIRD: &[(&str, &[&str])] = &[
    ("npm", &["run", "run-script"]),
    ("yarn", &["run"]),
    ("pnpm", &["run"]),
    ("bun", &["run"]),
    ("deno", &["task"]),
    ("gh", &["pr", "issue", "run", "repo", "release", "workflow"]),
    (
        "docker",
        &["compose", "image", "container", "volume", "network"],
    ),
    ("cargo", &["xtask"]),
    ("git", &["stash", "remote", "worktree", "notes", "bundle"]),
    ("go", &["mod", "tool", "run"]),
];

/// Two words behind which anything may stand.
const NEVER_SECOND: &[(&str, &[&str])] = &[
    (
        "git",
        &[
            "config",
            "bisect",
            "submodule",
            "filter-branch",
            "rebase",
            "difftool",
            "mergetool",
        ],
    ),
    ("docker", &["run", "exec", "cp"]),
    ("podman", &["run", "exec", "cp"]),
    ("kubectl", &["exec", "run", "cp", "delete", "apply"]),
    ("npm", &["exec", "x", "config"]),
    ("pnpm", &["exec", "dlx"]),
    ("yarn", &["exec", "dlx"]),
    ("bun", &["x"]),
    ("uv", &["run", "tool"]),
    ("poetry", &["run"]),
    ("pipenv", &["run"]),
    ("conda", &["run"]),
    ("bundle", &["exec"]),
    ("gh", &["api", "alias", "extension"]),
    ("systemctl", &["poweroff", "reboot", "halt", "kexec"]),
];

/// The words a person would be offered for "always" on this command, or `None` where no prefix
/// says enough: several different commands, wrappers, code in arguments, and what removes,
/// overwrites or sends.
///
/// `cargo test --workspace` → `cargo test`; `ls -la` → `ls`; `git push origin x` → `git push`.
#[must_use]
pub fn suggest_prefix(text: &str) -> Option<Vec<String>> {
    let parts = split(text).ok()?;
    let mut found: Option<Vec<String>> = None;
    for part in parts.iter().filter(|part| !part.words.is_empty()) {
        let prefix = of_part(part)?;
        if found.as_ref().is_some_and(|found| *found != prefix) {
            return None;
        }
        found = Some(prefix);
    }
    let found = found?;
    let grant = Grant::for_prefix(&found).ok()?;
    grant.covers("bash", &[text.to_owned()]).then_some(found)
}

fn of_part(part: &Part) -> Option<Vec<String>> {
    let written = part.literal(0)?;
    let name = part.name()?;
    let never = NEVER.contains(&name);
    if never || (is_wrapper(name) && name != "find") || name.starts_with("mkfs") {
        return None;
    }
    let words = |count: usize| -> Option<Vec<String>> {
        (0..count)
            .map(|index| Some(part.literal(index)?.to_owned()))
            .collect()
    };
    if PLAIN.contains(&name) {
        return words(1);
    }
    let second = part.literal(1);
    if INTERPRETERS.contains(&name) && !NEEDS_THIRD.iter().any(|(of, _)| *of == name) {
        return match second {
            Some("-m") if name.starts_with("python") => words(3),
            Some(script) if !script.starts_with('-') => words(2),
            _ => None,
        };
    }
    let Some(second) = second else {
        // An unknown word may become a subcommand or vanish.
        return (part.words.len() == 1 && !INTERPRETERS.contains(&name)).then(|| words(1))?;
    };
    let listed = |table: &[(&str, &[&str])]| {
        table
            .iter()
            .any(|(of, seconds)| *of == name && seconds.contains(&second))
    };
    if listed(NEVER_SECOND) {
        return None;
    }
    if listed(NEEDS_THIRD) {
        return match part.literal(2) {
            Some(third) if is_subcommand(third) || third.starts_with("./") => words(3),
            _ => None,
        };
    }
    if INTERPRETERS.contains(&name) {
        return if second.starts_with('-') {
            None
        } else {
            words(2)
        };
    }
    if is_subcommand(second) {
        return words(2);
    }
    // Options before a subcommand may change all that follows: `git -c …`.
    if second.starts_with('-') && !written.contains('/') && has_subcommands(name) {
        return None;
    }
    words(1)
}

/// Whether a word reads like the name of an action: `test`, `build:prod`, `fmt-check`.
fn is_subcommand(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_ascii_lowercase())
        && word
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "-_:".contains(letter))
}

fn has_subcommands(name: &str) -> bool {
    const MORE: &[&str] = &[
        "git",
        "cargo",
        "pip",
        "pip3",
        "kubectl",
        "systemctl",
        "rustup",
        "dotnet",
        "terraform",
        "helm",
        "podman",
        "uv",
        "poetry",
        "conda",
        "bundle",
        "just",
        "make",
    ];
    MORE.contains(&name) || NEEDS_THIRD.iter().any(|(of, _)| *of == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_offered_where_its_words_say_what_is_done() {
        for (command, prefix) in [
            ("cargo test --workspace", "cargo test"),
            ("cargo", "cargo"),
            ("ls -la", "ls"),
            ("git push origin x", "git push"),
            ("git status && git status -s", "git status"),
            ("git stash list", "git stash list"),
            ("npm run build -- --watch", "npm run build"),
            ("npm test", "npm test"),
            ("python3 -m pytest -q", "python3 -m pytest"),
            ("python3 tools/gen.py x", "python3 tools/gen.py"),
            ("bash ./build.sh", "bash ./build.sh"),
            ("make test", "make test"),
            ("make", "make"),
            ("grep -rn 'a b' src 2>/dev/null", "grep"),
            ("find . -name '*.rs'", "find"),
            ("./run.sh --fast", "./run.sh"),
            ("gh pr view 3", "gh pr view"),
            ("terraform plan -out x", "terraform plan"),
        ] {
            let words: Vec<String> = prefix.split(' ').map(str::to_owned).collect();
            assert_eq!(suggest_prefix(command), Some(words), "{command}");
        }
    }

    #[test]
    fn no_prefix_is_offered_where_its_words_say_too_little() {
        for command in [
            "rm -rf x",
            "sudo ls",
            "env A=b ls",
            "A=b cargo test",
            "xargs ls",
            "timeout 5 cargo test",
            "bash -c 'ls'",
            "bash",
            "python3 -c 'print(1)'",
            "perl -e 1",
            "node -e 1",
            "eval ls",
            "cargo test && git push",
            "cargo test | tail",
            "cargo test > log",
            "cargo $X",
            "$X test",
            "find . -exec rm {} +",
            "git -c core.pager=x log",
            "git config alias.x y",
            "docker run x",
            "curl https://example.com",
            "sed -n 1p x",
            "echo $(date)",
            "cargo test (",
            "",
            "# nothing",
            "'a b' c",
        ] {
            assert_eq!(suggest_prefix(command), None, "{command}");
        }
    }
}
