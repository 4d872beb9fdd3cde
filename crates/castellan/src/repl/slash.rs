//! What a line at the prompt is: words for the model, or a command that begins with `/`.

use castellan_core::nearest::likely;

/// A command of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Model,
    Tools,
    Grants,
    Shells,
    Mcp,
    Resume,
    New,
    Continue,
    Compact,
    Trace,
    Attach,
    Cost,
    Quit,
}

/// A command as it is listed.
pub(crate) struct Listed {
    pub(crate) command: Command,
    pub(crate) name: &'static str,
    pub(crate) arguments: &'static str,
    pub(crate) what: &'static str,
}

const fn listed(
    command: Command,
    name: &'static str,
    arguments: &'static str,
    what: &'static str,
) -> Listed {
    Listed {
        command,
        name,
        arguments,
        what,
    }
}

/// Every command there is, in the order of `/help`.
pub(crate) const COMMANDS: &[Listed] = &[
    listed(Command::Help, "help", "", "what can be typed here"),
    listed(
        Command::Model,
        "model",
        "[NAME]",
        "the models there are, or another one from now on",
    ),
    listed(
        Command::Tools,
        "tools",
        "[NAME or words]",
        "the tools of this session, one in full, or those that fit",
    ),
    listed(
        Command::Grants,
        "grants",
        "[revoke ID]",
        "permissions given for good, or take one back",
    ),
    listed(
        Command::Shells,
        "shells",
        "",
        "commands that run in the background",
    ),
    listed(Command::Mcp, "mcp", "", "external MCP servers"),
    listed(
        Command::Resume,
        "resume",
        "[ID]",
        "stored sessions, or go on with one",
    ),
    listed(Command::New, "new", "", "begin a new session"),
    listed(
        Command::Continue,
        "continue",
        "",
        "go on with a turn that was broken off",
    ),
    listed(
        Command::Compact,
        "compact",
        "[what matters]",
        "have the older part of the conversation summarised",
    ),
    listed(
        Command::Trace,
        "trace",
        "",
        "where the record of this session is, and its last events",
    ),
    listed(
        Command::Attach,
        "attach",
        "FILE",
        "put a file into the next message: text, or a picture for a model that sees",
    ),
    listed(
        Command::Cost,
        "cost",
        "",
        "tokens used in this session, and what they cost",
    ),
    listed(Command::Quit, "quit", "", "leave; the session is kept"),
];

/// What a line is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// There is nothing in it.
    Blank,
    /// Words for the model.
    Say(String),
    /// A command and what follows it.
    Command(Command, String),
    /// No command has this name; the nearest that has.
    Unknown(String, Option<&'static str>),
}

/// Understands a line. `//` at its beginning stands for a `/` that is said.
pub(crate) fn parse(line: &str) -> Line {
    // A backslash at the end of a line only lets the line go on.
    let text = line.replace("\\\n", "\n");
    let text = text.trim();
    if text.is_empty() {
        return Line::Blank;
    }
    let Some(rest) = text.strip_prefix('/') else {
        return Line::Say(text.to_owned());
    };
    if rest.starts_with('/') {
        return Line::Say(rest.to_owned());
    }
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (name, arguments) = rest.split_at(end);
    let named = name.to_lowercase();
    match COMMANDS.iter().find(|listed| listed.name == named) {
        Some(listed) => Line::Command(listed.command, arguments.trim().to_owned()),
        None => {
            let near = likely(&named, COMMANDS.iter().map(|listed| listed.name));
            Line::Unknown(name.to_owned(), near)
        }
    }
}

/// The line that says `text`: what [`parse`] makes words for the model of.
pub(crate) fn to_say(text: String) -> String {
    if text.starts_with('/') {
        format!("/{text}")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_said_unless_it_begins_with_one_slash() {
        let said = |text: &str| Line::Say(text.to_owned());
        assert_eq!(parse("  "), Line::Blank);
        assert_eq!(parse(" hello "), said("hello"));
        assert_eq!(
            parse("//etc/passwd is a path"),
            said("/etc/passwd is a path")
        );
        assert_eq!(parse("one\\\ntwo\nthree"), said("one\ntwo\nthree"));
        assert_eq!(parse("/help"), Line::Command(Command::Help, String::new()));
        assert_eq!(
            parse("/Model  local two "),
            Line::Command(Command::Model, "local two".into())
        );
    }

    #[test]
    fn a_line_that_says_a_text_is_understood_as_that_text() {
        for text in ["hello", "/help", "//x", "a /b", "one\n/two"] {
            assert_eq!(parse(&to_say(text.into())), Line::Say(text.into()));
        }
    }

    #[test]
    fn an_unknown_command_is_told_with_the_nearest() {
        assert_eq!(parse("/halp"), Line::Unknown("halp".into(), Some("help")));
        assert_eq!(parse("/zzzzzzzz"), Line::Unknown("zzzzzzzz".into(), None));
        assert_eq!(parse("/"), Line::Unknown(String::new(), None));
    }

    #[test]
    fn every_listed_command_is_understood() {
        for listed in COMMANDS {
            let line = parse(&format!("/{}", listed.name));
            assert_eq!(line, Line::Command(listed.command, String::new()));
        }
    }
}
