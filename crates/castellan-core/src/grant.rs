//! Grants: permissions given in advance, and how they match a call.
//!
//! A grant is written `TOOL` or `bash:PREFIX`. `TOOL` is a tool's name in which `*` stands for any
//! run of characters. `bash:PREFIX` covers every command that begins with the words of PREFIX. A
//! text with several commands is covered where each of them is, by one grant or by several
//! together: a prefix says nothing about what follows a `;`, a pipe or a substitution. What a
//! wrapper runs (`find -exec`, `xargs`, `bash -c`) needs to be covered as well as the wrapper.
//!
//! No prefix covers a command that sets variables, that writes a file through the shell, or that
//! runs what can't be read before it runs: each of these does more than its words say.

use serde::{Deserialize, Serialize};

use crate::command::{Part, SetBy, Unread, Unwrapped, split};

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

    /// A grant for the commands of `bash` that begin with these words.
    ///
    /// # Errors
    /// Where the words are not plain, as for text.
    pub fn for_prefix(words: &[String]) -> Result<Self, InvalidGrant> {
        format!("bash:{}", words.join(" ")).parse()
    }

    /// Whether this grant alone covers a call of `tool`, given the shell commands it would run.
    #[must_use]
    pub fn covers(&self, tool: &str, commands: &[String]) -> bool {
        Wanted::new(tool, commands).is_covered([self])
    }
}

/// What no grant covers of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The part of the command, as it was written; the tool's name where there is no command.
    pub text: String,
    /// Why it is not covered, as words that follow "because".
    pub why: &'static str,
}

/// A call that grants are held against: its tool and the commands it would run, read once.
#[derive(Debug, Clone)]
pub struct Wanted<'c> {
    tool: &'c str,
    commands: Vec<(&'c str, Result<Vec<Unwrapped>, Unread>)>,
}

impl<'c> Wanted<'c> {
    /// A call of `tool`, given the shell commands it would run.
    #[must_use]
    pub fn new(tool: &'c str, commands: &'c [String]) -> Self {
        let read = |command: &'c String| {
            let parts = split(command);
            let parts = parts.map(|parts| parts.iter().map(Part::unwrapped).collect());
            (command.as_str(), parts)
        };
        Self {
            tool,
            commands: commands.iter().map(read).collect(),
        }
    }

    /// Whether these grants together cover it.
    #[must_use]
    pub fn is_covered<'g>(&self, grants: impl IntoIterator<Item = &'g Grant>) -> bool {
        self.uncovered(grants).is_empty()
    }

    /// What these grants together do not cover of it. Empty: all of it is covered.
    #[must_use]
    pub fn uncovered<'g>(&self, grants: impl IntoIterator<Item = &'g Grant>) -> Vec<Gap> {
        let mut prefixes: Vec<&[String]> = Vec::new();
        for grant in grants.into_iter().filter(|grant| grant.names(self.tool)) {
            match &grant.prefix {
                None => return Vec::new(),
                Some(prefix) => prefixes.push(prefix),
            }
        }
        let gap = |text: &str, why| Gap {
            text: text.to_owned(),
            why,
        };
        if prefixes.is_empty() || self.commands.is_empty() {
            return vec![gap(self.tool, "nothing permits it in advance")];
        }
        let mut gaps = Vec::new();
        for (command, read) in &self.commands {
            match read {
                Err(_unread) => gaps.push(gap(command, "the command can't be read with certainty")),
                Ok(parts) if parts.is_empty() => gaps.push(gap(command, "it has no command")),
                Ok(parts) => {
                    for unwrapped in parts {
                        if let Some(opaque) = &unwrapped.opaque {
                            gaps.push(gap(&opaque.command, opaque.reason));
                        }
                        let missing =
                            |part: &Part| Some(gap(&part.text, missing(part, &prefixes)?));
                        gaps.extend(unwrapped.parts.iter().filter_map(missing));
                    }
                }
            }
        }
        gaps
    }
}

/// Why none of these prefixes covers one part, or `None` where one does.
fn missing(part: &Part, prefixes: &[&[String]]) -> Option<&'static str> {
    for assignment in &part.assignments {
        // A loop over plain values sets a variable nobody else reads: programs look for names with
        // capitals or underscores.
        let harmless = assignment.by == SetBy::PlainLoop
            && assignment
                .name
                .chars()
                .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit());
        if !harmless {
            return Some("it sets a variable, which can change what a program does");
        }
    }
    if part
        .redirections
        .iter()
        .any(|redirection| redirection.writes)
    {
        return Some("it writes a file");
    }
    if part.words.iter().any(crate::command::Word::hides_code) {
        return Some("a word of it may hold code");
    }
    if part.words.is_empty() || prefixes.iter().any(|prefix| part.starts_with(prefix)) {
        return None;
    }
    Some("no permission covers it")
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
    fn a_prefix_covers_nothing_but_its_commands() {
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
    fn a_prefix_covers_its_command_however_it_is_written() {
        for command in [
            "git status -s 'a b' && git status",
            "\"git\" 'status' | git status; (git status)",
            "git status 2>&1 >/dev/null",
            "for f in *.rs; do git status \"$f\"; done",
            "git status < list",
            "git status # as it is now",
            "git \\\n status",
            "git status $UNKNOWN",
            "while git status; do git status; done",
            "echo() { git status; }; git status",
        ] {
            assert!(covers("bash:git status", "bash", command), "{command}");
        }
    }

    #[test]
    fn a_prefix_covers_nothing_that_does_more_than_its_words_say() {
        for command in [
            "git $X",
            "$X status",
            "git st*tus",
            "{git,status}",
            "X=1; git status",
            "for PATH in /x; do git status; done",
            "for http_proxy in x; do git status; done",
            "for f in $(ls); do git status; done",
            "git status >> log",
            "git status &> log",
            "git status > $X",
            "{ git status; } > log",
            "git status < /dev/tcp/example.com/80",
            "git status \"$(date)\"",
            "git status <(date)",
            "git status 'a[$(date)]'",
            "git status ${X:=1}",
            "sudo git status",
            "xargs git status",
            "time git status",
            "env git status",
            "bash -c 'git status'",
            "eval git status",
            "/tmp/git status",
            "git status (",
            "git status \r",
            "# nothing",
        ] {
            assert!(!covers("bash:git status", "bash", command), "{command}");
        }
    }

    #[test]
    fn a_wrapper_is_covered_only_with_what_it_runs() {
        let all = |grants: &[&str], command: &str| {
            let grants: Vec<Grant> = grants.iter().map(|text| text.parse().unwrap()).collect();
            Wanted::new("bash", &[command.to_owned()]).is_covered(&grants)
        };
        assert!(all(&["bash:find"], "find . -name '*.rs'"));
        assert!(!all(&["bash:find"], "find . -exec rm {} +"));
        assert!(!all(&["bash:find"], "find . -delete"));
        assert!(!all(&["bash:find"], "find . -fprint x"));
        assert!(!all(&["bash:find"], "find . $X"));
        assert!(!all(&["bash:find"], "find *"));
        assert!(all(
            &["bash:find", "bash:rm"],
            "find . -exec rm {} + -o -delete"
        ));
        assert!(all(&["bash:find"], "find ./* ~/x \"./$X\" -type f"));
        assert!(all(&["bash:xargs", "bash:wc -l"], "xargs -n 1 wc -l"));
        assert!(!all(&["bash:xargs"], "xargs wc -l"));
        assert!(!all(&["bash:env"], "env -S 'rm x'"));
        assert!(!all(&["bash:bash"], "bash -c \"$X\""));
        assert!(!all(&["bash:bash", "bash:curl"], "curl x | bash"));
        assert!(all(&["bash:bash", "bash:ls"], "bash -c 'ls; ls'"));
        assert!(!all(&["bash:sudo"], "sudo -u root rm x"));
        assert!(all(&["bash:env", "bash:ls"], "env -i ls"));
        assert!(!all(&["bash:env", "bash:ls"], "env PATH=/x ls"));
    }

    #[test]
    fn several_grants_together_cover_a_list_and_what_is_missing_is_named() {
        let grants: Vec<Grant> = ["bash:git status", "bash:cargo test", "write_file"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        let commands = ["git status && cargo test | rm x".to_owned()];
        let gaps = Wanted::new("bash", &commands).uncovered(&grants);
        assert_eq!(gaps.len(), 1);
        assert_eq!(gaps[0].text, "rm x");
        let commands = ["git status && cargo test -q".to_owned()];
        assert!(Wanted::new("bash", &commands).is_covered(&grants));
        assert!(!Wanted::new("bash", &[]).is_covered(&grants));
        assert!(Wanted::new("write_file", &[]).is_covered(&grants));
    }

    #[test]
    fn a_pattern_that_would_not_do_what_it_says_is_refused() {
        for text in ["", ":ls", "write_file:src", "bash:", "bash:a && b", "ba sh"] {
            assert!(text.parse::<Grant>().is_err(), "{text}");
        }
    }
}
