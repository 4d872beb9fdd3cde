//! A session as Markdown for people.

use std::fmt::Write as _;

use castellan_core::PictureRef;
use castellan_core::event::Summarizer;
use castellan_core::text::{fenced, one_line, plain};

use super::story::{Call, Came, Part, Story, Told};
use crate::output::{counted, word};

/// The whole document.
pub(super) fn written(story: &Story) -> String {
    let mut page = format!("# Session {}\n\n", story.session);
    let began = story.began.map_or_else(String::new, |ts| ts.to_string());
    for (name, value) in [
        ("began", began),
        ("folder", story.cwd.display().to_string()),
        ("by", story.caller.clone()),
        ("models", story.models.join(", ")),
        (
            "tokens",
            format!(
                "{} read, {} written",
                story.prompt_tokens, story.completion_tokens
            ),
        ),
        ("castellan", story.version.clone()),
    ] {
        line(&mut page, &format!("- {name}: {}", one_line(&value)));
    }
    for part in &story.parts {
        tell(&mut page, part);
    }
    page
}

fn tell(page: &mut String, Part { ts, told }: &Part) {
    match told {
        Told::User {
            text,
            pictures: shown,
        } => {
            line(page, &format!("\n## User · {ts}\n"));
            // What was typed may look like anything, so it can't pass for a part of this page.
            line(page, &quoted(text));
            pictures(page, shown);
        }
        Told::Assistant { text, reasoning } => {
            line(page, &format!("\n## Assistant · {ts}\n"));
            if let Some(reasoning) = reasoning.as_ref().filter(|text| !text.trim().is_empty()) {
                let fenced = block(reasoning.trim());
                line(
                    page,
                    &format!("<details><summary>Reasoning</summary>\n\n{fenced}\n\n</details>\n"),
                );
            }
            if !text.trim().is_empty() {
                line(page, plain(text).trim());
            }
        }
        Told::Call(call) => tell_call(page, call),
        Told::Notice { text } => line(page, &format!("\n> notice: {}", one_line(text))),
        Told::Error { code, message } => {
            line(page, &format!("\n> error {code}: {}", one_line(message)));
        }
        Told::TurnEnd { reason } => line(page, &format!("\n*turn over: {}*", word(reason))),
        Told::Compaction {
            cause,
            summary,
            by,
            tokens_before,
            tokens_after,
        } => {
            let who = match by {
                Summarizer::Model => "the model",
                Summarizer::Program => "castellan",
            };
            let cause = word(cause);
            line(
                page,
                &format!(
                    "\n## Compaction · {ts}\n\nFrom here on the model was shown less \
                     ({cause}): about {tokens_before} → {tokens_after} tokens."
                ),
            );
            if !summary.is_empty() {
                line(
                    page,
                    &format!("The summary, by {who}:\n\n{}", quoted(summary)),
                );
            }
        }
    }
}

fn tell_call(page: &mut String, call: &Call) {
    let header = if call.header.is_empty() {
        "not understood"
    } else {
        &call.header
    };
    let heading = format!("\n### {} · {}\n", one_line(&call.name), one_line(header));
    line(page, &heading);
    line(page, &block(&call.arguments));
    for decision in &call.decisions {
        line(page, &format!("\n- {}", one_line(decision)));
    }
    match &call.result {
        None => line(page, "\nNo result was recorded."),
        Some(came) => tell_result(page, came),
    }
}

fn tell_result(page: &mut String, came: &Came) {
    let mut heading = format!(
        "\n**{}** in {} ms, effect {}, {}",
        came.outcome,
        came.duration_ms,
        word(&came.effect),
        counted(came.bytes, "byte")
    );
    if let Some(code) = came.code {
        heading.push_str(&format!(", {code}"));
    }
    if let Some(whole) = &came.whole {
        let whole = one_line(&whole.display().to_string());
        heading.push_str(&format!("; the whole output is in `{whole}`"));
    }
    line(page, &format!("{heading}\n\n{}", block(&came.output)));
    pictures(page, &came.pictures);
}

fn line(page: &mut String, text: &str) {
    // Writing to a string can't fail.
    writeln!(page, "{text}").unwrap_or_default();
}

fn quoted(text: &str) -> String {
    let text = plain(text);
    let lines = text.trim().lines().map(|line| format!("> {line}"));
    lines.collect::<Vec<_>>().join("\n")
}

fn block(text: &str) -> String {
    fenced(plain(text).trim_end())
}

fn pictures(page: &mut String, pictures: &[PictureRef]) {
    for picture in pictures {
        let path = one_line(&picture.path.display().to_string());
        line(page, &format!("\n- picture: {picture}, in `{path}`"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_keeps_every_line_inside() {
        assert_eq!(quoted("# a\n\n## b\n"), "> # a\n> \n> ## b");
    }
}
