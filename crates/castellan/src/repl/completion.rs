//! What Tab offers: the commands, and files for the one that takes a file.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use reedline::{Completer, CompletionResult, Span, Suggestion};

use super::keyboard::SharedStatus;
use super::slash::COMMANDS;

/// How many files are offered.
const FILES: usize = 100;

pub(crate) struct Completion {
    /// Knows where paths begin.
    pub(crate) status: SharedStatus,
}

impl Completer for Completion {
    fn complete(&mut self, line: &str, pos: usize) -> CompletionResult {
        let typed = line.get(..pos).unwrap_or(line);
        let offered = match typed.strip_prefix("/attach ") {
            Some(path) => {
                let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
                let (folder, home) = (status.folder.clone(), status.home.clone());
                drop(status);
                files(path, &folder, home.as_deref())
                    .into_iter()
                    .map(|(file, told)| suggestion(file, told, (pos - path.len(), pos), false))
                    .collect()
            }
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

/// The path that is typed so, where paths begin at `folder`.
pub(crate) fn place(typed: &str, folder: &Path, home: Option<&Path>) -> PathBuf {
    match (typed.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => folder.join(typed),
    }
}

/// Files and folders whose path begins so, by name; the last one tells how many more there are,
/// where they are too many.
fn files(typed: &str, folder: &Path, home: Option<&Path>) -> Vec<(String, Option<String>)> {
    let start = typed.rfind('/').map_or(0, |slash| slash + 1);
    let (before, name) = typed.split_at(start);
    let Ok(entries) = std::fs::read_dir(place(before, folder, home)) else {
        return Vec::new();
    };
    let mut found: Vec<(String, std::fs::DirEntry)> = entries
        .flatten()
        .filter_map(|entry| {
            let file = entry.file_name().into_string().ok()?;
            let is_hidden = file.starts_with('.') && !name.starts_with('.');
            let fits = file.starts_with(name) && !is_hidden && !file.chars().any(char::is_control);
            fits.then_some((file, entry))
        })
        .collect();
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    let more = found.len().saturating_sub(FILES);
    let mut offered: Vec<(String, Option<String>)> = found
        .into_iter()
        .take(FILES)
        .map(|(file, entry)| {
            let end = if entry.path().is_dir() { "/" } else { "" };
            (format!("{before}{file}{end}"), None)
        })
        .collect();
    if let (1.., Some((_, told))) = (more, offered.last_mut()) {
        *told = Some(format!("and {more} more"));
    }
    offered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repl::status::Status;
    use std::sync::Mutex;

    fn offered_in(folder: &Path, line: &str) -> Vec<String> {
        let status = Status {
            folder: folder.to_owned(),
            home: Some(folder.join("home")),
            ..Status::default()
        };
        let mut completion = Completion {
            status: SharedStatus::new(Mutex::new(status)),
        };
        let result = completion.complete(line, line.len());
        result
            .suggestions()
            .iter()
            .map(|one| one.value.clone())
            .collect()
    }

    fn offered(line: &str) -> Vec<String> {
        offered_in(Path::new("/nowhere"), line)
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
            [at("notes/"), at("notes.md")]
        );
        assert_eq!(offered(&format!("/attach {}", at("."))), [at(".hidden")]);
    }

    #[test]
    fn paths_begin_in_the_folder_of_the_session_or_at_home() {
        let home = castellan_testkit::Home::new();
        home.write("notes.md", "");
        home.write("deep/er.md", "");
        home.write("home/mine.md", "");
        let folder = home.workspace();
        let offered = |typed: &str| offered_in(&folder, &format!("/attach {typed}"));
        assert_eq!(offered("no"), ["notes.md"]);
        assert_eq!(offered("deep/"), ["deep/er.md"]);
        assert_eq!(offered("~/m"), ["~/mine.md"]);
        assert_eq!(offered("none/at/"), Vec::<String>::new());
    }

    #[test]
    fn of_too_many_files_the_first_by_name_are_offered_and_the_rest_is_counted() {
        let home = castellan_testkit::Home::new();
        for number in (0..FILES + 20).rev() {
            home.write(format!("{number:03}"), "");
        }
        let found = files("", &home.workspace(), None);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        let first: Vec<String> = (0..FILES).map(|number| format!("{number:03}")).collect();
        assert_eq!(names, first);
        assert_eq!(found[FILES - 1].1.as_deref(), Some("and 20 more"));
        assert_eq!(found[0].1, None);
    }
}
