//! What a search found, in words.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use castellan_core::text::one_line;
use castellan_core::{EffectStatus, Outcome};

use super::scan::{MATCHES, Scanned};
use super::stop::Cause;
use super::walk::{Found, LISTED};

/// Bytes of a result kept free for what is said about the search.
pub(super) const NOTES: usize = 4 * 1024;
/// Paths named of those that could not be searched.
const NAMED: usize = 5;

/// All there is to say.
pub(super) struct Answer<'a> {
    /// What was searched for.
    pub(super) query: &'a str,
    /// A word on how the query was taken.
    pub(super) note: Option<String>,
    /// What paths are shown under.
    pub(super) shown: &'a Path,
    pub(super) found: &'a Found,
    pub(super) scanned: &'a Scanned,
    pub(super) cause: Option<Cause>,
    /// How long a search may take, in seconds.
    pub(super) seconds: u64,
    /// Bytes of hits.
    pub(super) room: usize,
    /// Whether lines around hits are shown.
    pub(super) context: bool,
    /// Whether hits are counted instead of shown.
    pub(super) files_only: bool,
    /// What files had to be named by, where a folder was searched.
    pub(super) glob: Option<&'a str>,
}

impl Answer<'_> {
    /// The outcome.
    pub(super) fn outcome(&self) -> Outcome {
        if self.scanned.searched == 0
            && self.cause.is_none()
            && let Some((path, error)) = self.unreadable().next()
        {
            let number = self.unreadable().count();
            let what = if number == 1 {
                format!("{path} can't be read: {}", reason(error))
            } else {
                format!(
                    "none of {number} paths can be read; {path}: {}",
                    reason(error)
                )
            };
            return Outcome::failed(what, "nothing was searched; choose another path");
        }
        if self.scanned.searched == 0 && self.cause.is_none() && self.is_file() {
            let what = format!("{} is no longer a regular file", self.path(0));
            return Outcome::failed(what, "look at what is there now");
        }
        let mut output = String::new();
        if let Some(note) = &self.note {
            output.push_str(&format!("[{note}]\n"));
        }
        let left_out = if self.files_only {
            self.files(&mut output)
        } else {
            self.hits(&mut output)
        };
        self.totals(&mut output, &left_out);
        self.passed_by(&mut output);
        if self.cause == Some(Cause::Cancelled) {
            return Outcome::Cancelled {
                output,
                effect: EffectStatus::None,
            };
        }
        Outcome::read(output)
    }

    /// The files that have room; says so if these are not all.
    fn files(&self, output: &mut String) -> String {
        for (shown, hits) in self.scanned.hits.iter().enumerate() {
            let line = format!("{}: {}\n", self.path(hits.file), hits.matches);
            let full = shown as u64 == MATCHES || output.len() + line.len() > self.room;
            if full && shown > 0 {
                return format!("; the first {shown} files are shown");
            }
            output.push_str(&line);
        }
        String::new()
    }

    /// The hits that have room; says so if these are not all.
    fn hits(&self, output: &mut String) -> String {
        let shown = self.push_hits(output);
        if shown < self.scanned.matches {
            format!("; the first {shown} are shown")
        } else {
            String::new()
        }
    }

    fn push_hits(&self, output: &mut String) -> u64 {
        let (mut matches, mut first) = (0, true);
        for hits in &self.scanned.hits {
            let path = self.path(hits.file);
            let mut before = None;
            for line in &hits.lines {
                if line.is_hit && matches == MATCHES {
                    return matches;
                }
                let gap = self.context && !first && before.is_none_or(|n| n + 1 < line.number);
                let separator = if gap { "--\n" } else { "" };
                let (left, right) = if line.is_hit {
                    (':', ": ")
                } else {
                    ('-', "- ")
                };
                let text = format!(
                    "{separator}{path}{left}{}{right}{}\n",
                    line.number, line.text
                );
                // One hit is always shown.
                if !first && output.len() + text.len() > self.room {
                    return matches;
                }
                output.push_str(&text);
                matches += u64::from(line.is_hit);
                (before, first) = (Some(line.number), false);
            }
        }
        matches
    }

    fn totals(&self, output: &mut String, left_out: &str) {
        let Scanned {
            matches, searched, ..
        } = *self.scanned;
        let all = self.found.files.len();
        let partial = self.scanned.partial || self.found.cut || self.cause.is_some();
        let matching = self.scanned.hits.len();
        let mut say = |text: String| output.push_str(&text);
        match (partial, matches) {
            (false, 0) => {
                let query = castellan_core::text::shorten(self.query, 200);
                let place = if self.scanned.binary.iter().any(|(_, hit)| *hit) {
                    " in text"
                } else {
                    ""
                };
                let searched = files(searched);
                say(format!("no matches{place} for `{query}` in {searched}"));
            }
            (false, _) => {
                let (matches, searched) = (number(matches, "match", "matches"), files(searched));
                say(format!("[{matches} in {matching} of {searched}"));
            }
            (true, _) => {
                let why = match self.cause {
                    Some(Cause::Time) => format!("stopped after {} s", self.seconds),
                    Some(Cause::Cancelled) => "cancelled".to_owned(),
                    None if self.found.cut => format!("stopped listing at {LISTED} files"),
                    None => "stopped at what a result holds".to_owned(),
                };
                let (matches, more) = (
                    number(matches, "match", "matches"),
                    if self.found.cut { "at least " } else { "" },
                );
                say(format!(
                    "[{why}: at least {matches} in {searched} of {more}{all} files"
                ));
            }
        }
        say(left_out.to_owned());
        if partial && self.cause != Some(Cause::Cancelled) {
            say("; narrow `path`, `glob` or `query`".to_owned());
        }
        say(if !partial && matches == 0 {
            "\n"
        } else {
            "]\n"
        }
        .to_owned());
    }

    /// What was not searched.
    fn passed_by(&self, output: &mut String) {
        let found = self.found;
        if found.files.is_empty()
            && self.cause.is_none()
            && let Some(glob) = self.glob
        {
            let glob = castellan_core::text::shorten(&one_line(glob), 200);
            output.push_str(&format!(
                "[no file that is not skipped fits `glob` `{glob}`]\n"
            ));
        }
        let mut say = |text: String| writeln!(output, "[{text}]").unwrap_or_default();
        let skipped: Vec<String> = [
            (found.skipped_files, "file", "files"),
            (found.skipped_folders, "folder", "folders"),
        ]
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| number(count, one, many))
        .collect();
        if !skipped.is_empty() {
            say(format!(
                "{} skipped as ignored or hidden; include_ignored shows them",
                skipped.join(" and ")
            ));
        }
        let (hits, others): (Vec<_>, Vec<_>) =
            self.scanned.binary.iter().partition(|(_, hit)| *hit);
        let paths = |files: &[(usize, bool)]| {
            let paths = files.iter().map(|(file, _)| self.path(*file));
            named(paths, files.len())
        };
        if !hits.is_empty() {
            let count = number(
                hits.len() as u64,
                "binary file matches",
                "binary files match",
            );
            say(format!("{count}, not shown: {}", paths(&hits)));
        }
        if !others.is_empty() {
            let count = number(others.len() as u64, "binary file", "binary files");
            let how = if self.found.files.len() == 1 && self.is_file() {
                "searched, no match"
            } else {
                "not searched as text"
            };
            say(format!("{count} {how}: {}", paths(&others)));
        }
        if !self.scanned.long.is_empty() {
            let paths = self.scanned.long.iter().map(|file| self.path(*file));
            let long = self.scanned.long.len();
            say(format!(
                "not searched to the end, a line is too long: {}",
                named(paths, long)
            ));
        }
        let unreadable = self.unreadable().count();
        if unreadable > 0 {
            let paths = self
                .unreadable()
                .map(|(path, error)| format!("{path} ({})", reason(error)));
            let count = number(unreadable as u64, "path", "paths");
            say(format!(
                "{count} not readable: {}",
                named(paths, unreadable)
            ));
        }
        if found.special > 0 {
            let count = number(
                found.special,
                "link or special file",
                "links or special files",
            );
            say(format!("{count} not followed"));
        }
        if found.closed > 0 {
            say("castellan's own state is in there; tools don't touch it".to_owned());
        }
    }

    fn is_file(&self) -> bool {
        self.found
            .files
            .first()
            .is_some_and(|path| path.as_os_str().is_empty())
    }

    fn unreadable(&self) -> impl Iterator<Item = (String, &io::Error)> {
        let folders = self.found.unreadable.iter();
        let folders = folders.map(|(path, error)| (self.name(path), error));
        let files = self.scanned.unreadable.iter();
        folders.chain(files.map(|(file, error)| (self.path(*file), error)))
    }

    fn path(&self, file: usize) -> String {
        let path = self.found.files.get(file);
        self.name(path.map_or(Path::new(""), PathBuf::as_path))
    }

    fn name(&self, path: &Path) -> String {
        let whole = if path.as_os_str().is_empty() {
            self.shown.to_owned()
        } else {
            self.shown.join(path)
        };
        if whole.as_os_str().is_empty() {
            return ".".to_owned();
        }
        one_line(&whole.to_string_lossy())
    }
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        // Only what the kernel makes up while it is read can't be waited for.
        io::ErrorKind::WouldBlock => "a stream, not a regular file".to_owned(),
        _ => error.to_string(),
    }
}

fn named(paths: impl Iterator<Item = String>, count: usize) -> String {
    let mut text = paths.take(NAMED).collect::<Vec<_>>().join(", ");
    if count > NAMED {
        text.push_str(&format!(" and {} more", count - NAMED));
    }
    text
}

fn files(count: u64) -> String {
    number(count, "file searched", "files searched")
}

fn number(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
