//! Whether a command failed because it wanted an answer from somebody: there is nobody, and the
//! words programs use for that rarely say what to do instead.

use castellan_host::shell::End;

/// Bytes of output that are looked at, from the end.
const LOOKED_AT: usize = 8 * 1024;

/// Words, in lower case, and what to do instead. The first that is found counts.
const SIGNS: &[(&[&str], &str)] = &[
    (
        &[
            "terminal prompts disabled",
            "could not read username",
            "could not read password",
            "authentication failed for 'http",
        ],
        "Git wanted a name or a password; a credential helper, a token in the configuration or an \
         SSH remote with a key works without",
    ),
    (
        &[
            "no editor: this shell is not interactive",
            "problem with the editor",
            "terminal is dumb, but editor unset",
            "please supply the message using either -m or -f",
        ],
        "it wanted an editor; give the text as an argument (`git commit -m`, `git tag -m`, \
         `git merge --no-edit`)",
    ),
    (
        &[
            "a password is required",
            "a terminal is required to read the password",
            "no askpass program specified",
            "no tty present and no askpass",
            "sudo: no password was provided",
            "must be run from a terminal",
            "polkit-agent-helper",
        ],
        "it wanted the user's password; ask the user to run it, or do it without these rights",
    ),
    (
        &[
            "host key verification failed",
            "read_passphrase: can't open /dev/tty",
            "permission denied (publickey",
            "permission denied, please try again",
        ],
        "SSH wanted a confirmation or a password; a host key that is known and a key in the agent \
         work without",
    ),
    (
        &[
            "pinentry",
            "gpg: cannot open '/dev/tty'",
            "gpg: signing failed",
        ],
        "GnuPG wanted a passphrase; an agent that holds it already, or an unsigned variant, works \
         without",
    ),
    (
        &[
            "/dev/tty: no such device",
            "no such device or address: '/dev/tty'",
            "/dev/tty'",
            "not a tty",
            "not a terminal",
            "is not a tty",
            "inappropriate ioctl for device",
            "error opening terminal",
            "standard in must be a tty",
            "stdin is not a",
        ],
        "it wanted a terminal; look for an option that does without (`--yes`, `--batch`, `-T`)",
    ),
    (
        &[
            "eoferror: eof when reading a line",
            "[y/n] abort",
            "(y/n) abort",
            "[y/n]: abort",
            "aborted by user",
            "end of file from stdin",
            "non-interactive",
            "noninteractive",
        ],
        "it wanted an answer; give it as an option (`--yes`, `-y`), or pipe it in",
    ),
];

/// What to say of a command that ended like that, if it failed for want of an answer.
pub(super) fn unanswered(output: &str, end: &End) -> Option<String> {
    if matches!(end, End::Exited(0) | End::Unended | End::HelperLost { .. }) {
        return None;
    }
    let from = output.floor_char_boundary(output.len().saturating_sub(LOOKED_AT));
    let tail = output.get(from..).unwrap_or_default().to_lowercase();
    let (_, remedy) = SIGNS
        .iter()
        .find(|(words, _)| words.iter().any(|words| tail.contains(words)))?;
    Some(format!(
        "[nobody can answer here: there is no terminal and no input; {remedy}]\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_for_want_of_an_answer_is_recognised() {
        for (output, part) in [
            (
                "[stderr] fatal: could not read Username for 'http://x': terminal prompts disabled\n",
                "credential helper",
            ),
            ("[stderr] sudo: a password is required\n", "user's password"),
            (
                "[stderr] OSError: [Errno 6] No such device or address: '/dev/tty'\n",
                "terminal",
            ),
            ("[stderr] Host key verification failed.\n", "SSH"),
            ("[stderr] EOFError: EOF when reading a line\n", "--yes"),
            ("Do you want to continue? [Y/n] Abort.\n", "--yes"),
        ] {
            let said = unanswered(output, &End::Exited(1)).unwrap_or_default();
            assert!(said.contains(part), "{output}: {said}");
        }
    }

    #[test]
    fn success_and_ordinary_failures_get_no_hint() {
        let words = "the input device is not a TTY\n";
        assert!(unanswered(words, &End::Exited(1)).is_some());
        assert_eq!(unanswered(words, &End::Exited(0)), None);
        assert_eq!(unanswered("test failed: 3 != 4\n", &End::Exited(1)), None);
        let long_ago = format!("not a tty\n{}", "x\n".repeat(LOOKED_AT));
        assert_eq!(unanswered(&long_ago, &End::Exited(1)), None);
    }
}
