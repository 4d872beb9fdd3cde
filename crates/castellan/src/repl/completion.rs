//! What Tab offers: the commands, and files for the one that takes a file.

use reedline::{Completer, CompletionResult, Span, Suggestion};

use super::slash::COMMANDS;

/// How many files are offered.
const FILES: usize = 100;

pub(crate) struct Completion;

impl Completer for Completion {
    fn complete(&mut self, line: &str, pos: usize) -> CompletionResult {
        let typed = line.get(..pos).unwrap_or(line);
        let offered = match typed.strip_prefix("/attach ") {
            Some(path) => files(path)
                .into_iter()
                .map(|file| suggestion(file, None, (pos - path.len(), pos), false))
                .collect(),
            None => commands(typed, pos),
        };
        CompletionResult::fresh(offered)
    }
}

fn suggestion(
    value: String,
    description: Option<String>,
    (start, end): (usize, usize),
    append_whitespace: bool,
) -> Suggestion {
    Suggestion {
        value,
        description,
        span: Span::new(start, end),
        append_whitespace,
        ..Suggestion::default()
    }
}

fn commands(typed: &str, pos: usize) -> Vec<Suggestion> {
    let Some(name) = typed.strip_prefix('/') else {
        return Vec::new();
    };
    COMMANDS
        .iter()
        .filter(|listed| listed.name.starts_with(name))
        .map(|listed| {
            let takes_more = !listed.arguments.is_empty();
            let value = format!("/{}", listed.name);
            suggestion(value, Some(listed.what.to_owned()), (0, pos), takes_more)
        })
        .collect()
}

/// Files and folders whose path begins so.
fn files(typed: &str) -> Vec<String> {
    let (folder, name) = typed
        .rsplit_once('/')
        .map_or(("", typed), |(folder, name)| (folder, name));
    let look_in = match (folder, typed.starts_with('/')) {
        ("", true) => "/",
        ("", false) => ".",
        (folder, _) => folder,
    };
    let Ok(entries) = std::fs::read_dir(look_in) else {
        return Vec::new();
    };
    let mut found: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            let file = entry.file_name().into_string().ok()?;
            let is_hidden = file.starts_with('.') && !name.starts_with('.');
            let fits = file.starts_with(name) && !is_hidden && !file.chars().any(char::is_control);
            let before = typed.strip_suffix(name).unwrap_or_default();
            let end = if entry.path().is_dir() { "/" } else { "" };
            fits.then(|| format!("{before}{file}{end}"))
        })
        .take(FILES)
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(line: &str) -> Vec<String> {
        let result = Completion.complete(line, line.len());
        result
            .suggestions()
            .iter()
            .map(|one| one.value.clone())
            .collect()
    }

    #[test]
    fn commands_are_offered_and_words_are_left_alone() {
        assert_eq!(offered("/mo"), ["/model"]);
        assert_eq!(offered("/").len(), COMMANDS.len());
        assert_eq!(offered("mo"), Vec::<String>::new());
    }

    #[test]
    fn files_are_offered_where_a_file_is_wanted() {
        let home = castellan_testkit::Home::new();
        home.write("notes.md", "");
        home.write("notes/deep.md", "");
        home.write(".hidden", "");
        let folder = home.workspace();
        let at = |name: &str| format!("{}/{name}", folder.display());
        assert_eq!(
            offered(&format!("/attach {}", at("no"))),
            [at("notes.md"), at("notes/")]
        );
        assert_eq!(offered(&format!("/attach {}", at("."))), [at(".hidden")]);
    }
}
