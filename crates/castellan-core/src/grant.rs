//! Grants: permissions given in advance, and how they match a call.
//!
//! A grant is written `TOOL` or `bash:PREFIX`. `TOOL` is a tool's name in which `*` stands for any
//! run of characters. `bash:PREFIX` covers a command that begins with the words of PREFIX and is
//! one simple command: anything a shell would read as more than plain words is not covered,
//! because a prefix says nothing about what follows a `;`, a pipe or a substitution.

use serde::{Deserialize, Serialize};

/// A permission given in advance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Grant {
    tool: String,
    prefix: Option<Vec<String>>,
}

/// Text that is not a grant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a grant: {reason}")]
pub struct InvalidGrant {
    text: String,
    reason: &'static str,
}

impl Grant {
    /// Whether it can cover calls of a tool of this name.
    #[must_use]
    pub fn names(&self, tool: &str) -> bool {
        glob(&self.tool, tool)
    }

    /// Whether it is for exactly this name and says nothing about commands.
    #[must_use]
    pub fn is_exactly(&self, name: &str) -> bool {
        self.tool == name && self.prefix.is_none()
    }

    /// Whether this grant covers a call of `tool`, given the shell commands it would run.
    #[must_use]
    pub fn covers(&self, tool: &str, commands: &[String]) -> bool {
        glob(&self.tool, tool)
            && self.prefix.as_ref().is_none_or(|prefix| {
                !commands.is_empty()
                    && commands.iter().all(|command| {
                        simple_words(command).is_some_and(|words| words.starts_with(prefix))
                    })
            })
    }
}

impl std::fmt::Display for Grant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.tool)?;
        self.prefix
            .as_ref()
            .map_or(Ok(()), |words| write!(f, ":{}", words.join(" ")))
    }
}

impl From<Grant> for String {
    fn from(grant: Grant) -> Self {
        grant.to_string()
    }
}

impl TryFrom<String> for Grant {
    type Error = InvalidGrant;

    fn try_from(text: String) -> Result<Self, InvalidGrant> {
        text.parse()
    }
}

impl std::str::FromStr for Grant {
    type Err = InvalidGrant;

    fn from_str(text: &str) -> Result<Self, InvalidGrant> {
        let invalid = |reason| InvalidGrant {
            text: text.to_owned(),
            reason,
        };
        let (tool, prefix) = match text.split_once(':') {
            None => (text, None),
            Some((tool, prefix)) => (tool, Some(prefix)),
        };
        let named = |letter: char| letter.is_ascii_alphanumeric() || "_-.*".contains(letter);
        if tool.is_empty() || !tool.chars().all(named) {
            return Err(invalid(
                "a tool's name has letters, digits, `_`, `-`, `.` and `*` only; write TOOL or \
                 bash:PREFIX",
            ));
        }
        let prefix = match prefix {
            None => None,
            Some(_) if tool != "bash" => {
                return Err(invalid(
                    "only `bash` takes a command prefix; write TOOL or bash:PREFIX",
                ));
            }
            Some(prefix) => match simple_words(prefix) {
                Some(words) if !words.is_empty() => Some(words),
                _ => {
                    return Err(invalid(
                        "the prefix must be the plain words of one command, such as bash:git status",
                    ));
                }
            },
        };
        Ok(Self {
            tool: tool.to_owned(),
            prefix,
        })
    }
}

/// The words of a command that a shell reads as nothing but words, or `None`.
///
/// Deliberately narrow: quoting, expansion, redirection, globs, comments, assignments and every
/// operator make it `None`.
#[must_use]
pub fn simple_words(command: &str) -> Option<Vec<String>> {
    let plain = |letter: char| letter.is_alphanumeric() || " \t_-./:,=+@%^".contains(letter);
    let command = command.trim_matches([' ', '\t', '\n']);
    if !command.chars().all(plain) {
        return None;
    }
    let words: Vec<String> = command
        .split([' ', '\t'])
        .filter(|w| !w.is_empty())
        .map(str::to_owned)
        .collect();
    // `A=b cmd` runs `cmd`: the first word would not say what runs.
    words
        .first()
        .is_none_or(|first| !first.contains('='))
        .then_some(words)
}

/// Whether `name` matches `pattern`, where `*` stands for any run of characters.
#[must_use]
pub fn glob(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(grant: &str, tool: &str, command: &str) -> bool {
        grant
            .parse::<Grant>()
            .unwrap()
            .covers(tool, &[command.to_owned()])
    }

    #[test]
    fn a_tool_name_and_its_globs_cover_that_tool() {
        assert!(covers("bash", "bash", "anything; at all"));
        assert!(covers("*_file", "write_file", ""));
        assert!(covers("*", "bash", ""));
        assert!(covers("mcp__*__read*", "mcp__git__read_log", ""));
        assert!(!covers("*_file", "bash", ""));
        assert!(!covers("bash", "bash_output", ""));
        assert!(!covers("a*a", "a", ""));
    }

    #[test]
    fn a_prefix_covers_simple_commands_only() {
        assert!(covers("bash:git status", "bash", "git  status -s\n"));
        for command in [
            "git push",
            "git statusx",
            "git",
            "git status && git push",
            "git status; rm -rf x",
            "git status\nrm x",
            "git status | sh",
            "git status $(rm x)",
            "git status `rm x`",
            "git status > x",
            "git status & rm x",
            "PAGER=evil git status",
        ] {
            assert!(!covers("bash:git status", "bash", command), "{command}");
        }
    }

    #[test]
    fn a_pattern_that_would_not_do_what_it_says_is_refused() {
        for text in ["", ":ls", "write_file:src", "bash:", "bash:a && b", "ba sh"] {
            assert!(text.parse::<Grant>().is_err(), "{text}");
        }
    }
}
