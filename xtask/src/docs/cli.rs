//! `docs/cli.md`: the help of the program and of every command below it.

use anyhow::{Result, bail};

/// Commands nest no deeper than this; more means that the help was misread.
const MAX_DEPTH: usize = 4;

/// The help of one command, with the words that lead to it.
pub(crate) struct Help {
    words: Vec<String>,
    text: String,
}

/// Asks for the help of the program, then of each command it names, and so on.
pub(crate) fn collect(ask: impl Fn(&[String]) -> Result<String>) -> Result<Vec<Help>> {
    let mut found = Vec::new();
    let mut waiting = vec![Vec::new()];
    while let Some(words) = waiting.pop() {
        if words.len() > MAX_DEPTH {
            bail!("commands nest deeper than {MAX_DEPTH}: {}", words.join(" "));
        }
        let text = ask(&words)?;
        // Reversed, as the last one in is asked first: pages keep the order of the help.
        for name in commands(&text).into_iter().rev() {
            let mut longer = words.clone();
            longer.push(name);
            waiting.push(longer);
        }
        found.push(Help { words, text });
    }
    Ok(found)
}

/// The names under `Commands:`.
fn commands(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| line.trim_end() != "Commands:")
        .skip(1)
        .take_while(|line| !line.trim().is_empty())
        .filter_map(|line| {
            line.strip_prefix("  ")
                .filter(|rest| !rest.starts_with(' '))
        })
        .filter_map(|rest| rest.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(|name| name.trim_end_matches(',').to_owned())
        .collect()
}

/// The page.
pub(crate) fn page(helps: &[Help]) -> String {
    let mut page = String::from("# The command line\n");
    for help in helps {
        let title = [&["castellan".to_owned()], help.words.as_slice()]
            .concat()
            .join(" ");
        page.push_str("\n## `");
        page.push_str(&title);
        page.push_str("`\n\n```text\n");
        for line in help.text.trim().lines() {
            page.push_str(line.trim_end());
            page.push('\n');
        }
        page.push_str("```\n");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "The gate\n\nUsage: castellan [COMMAND]\n\nCommands:\n  tools  List tools\n  \
                        relay, r  Agents\n         and more\n  help   Print this\n\nOptions:\n  -h  x\n";

    #[test]
    fn commands_are_read_from_their_section_only() {
        assert_eq!(commands(ROOT), ["tools", "relay"]);
        assert_eq!(commands("Usage: castellan\n"), [] as [String; 0]);
    }

    #[test]
    fn the_page_holds_every_command_in_order() {
        let ask = |words: &[String]| {
            Ok(match words.join(" ").as_str() {
                "" => ROOT.to_owned(),
                "relay" => "Agents\n\nCommands:\n  send  Send  \n".to_owned(),
                other => format!("help of {other}"),
            })
        };
        let page = page(&collect(ask).unwrap());
        let titles: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with("## "))
            .collect();
        assert_eq!(
            titles,
            [
                "## `castellan`",
                "## `castellan tools`",
                "## `castellan relay`",
                "## `castellan relay send`"
            ]
        );
        assert!(
            page.contains("\n  send  Send\n"),
            "trailing spaces stay: {page}"
        );
    }

    #[test]
    fn help_that_names_itself_forever_is_an_error() {
        assert!(collect(|_| Ok("Commands:\n  again  x\n".to_owned())).is_err());
    }
}
