//! The files a search is about: the `glob` parameter.

use std::path::Path;

use castellan_core::Outcome;
use globset::{GlobBuilder, GlobMatcher};

/// A filter over paths relative to the searched folder.
#[derive(Debug, Default)]
pub(super) struct Filter {
    wanted: Vec<Glob>,
    unwanted: Vec<Glob>,
    /// The parts of wanted globs that begin with a dot: what hidden names they ask for.
    dotted: Vec<GlobMatcher>,
    /// Where the searched folder is below the working folder: globs may begin at either.
    below: Option<std::path::PathBuf>,
}

#[derive(Debug)]
struct Glob {
    matcher: GlobMatcher,
    /// Without a slash, a glob is about names at any depth.
    names: bool,
}

impl Glob {
    fn matches(&self, path: &Path, below: Option<&Path>) -> bool {
        if self.names {
            return path
                .file_name()
                .is_some_and(|name| self.matcher.is_match(name));
        }
        self.matcher.is_match(path)
            || below.is_some_and(|below| self.matcher.is_match(below.join(path)))
    }
}

impl Filter {
    /// The filter of these comma-separated globs.
    ///
    /// # Errors
    /// The outcome that names the glob that isn't one.
    pub(super) fn new(globs: &str) -> Result<Self, Outcome> {
        let mut filter = Self::default();
        for text in split(globs) {
            let (list, text) = match text.strip_prefix('!') {
                Some(text) => (&mut filter.unwanted, text),
                None => (&mut filter.wanted, text),
            };
            let text = text.strip_prefix("./").unwrap_or(text);
            // A folder is all that is in it.
            let (names, pattern) = match text.strip_suffix('/') {
                Some(folder) if folder.contains('/') => (false, format!("{folder}/**")),
                Some(folder) => (false, format!("**/{folder}/**")),
                None => (!text.contains('/'), text.to_owned()),
            };
            let pattern = pattern.strip_prefix('/').unwrap_or(&pattern);
            let matcher = glob(pattern)?;
            list.push(Glob { matcher, names });
        }
        for text in split(globs).iter().filter(|text| !text.starts_with('!')) {
            for part in text.split('/') {
                if part.starts_with('.') && part != "." && part != ".." {
                    // A brace that spans a slash can't be taken apart; then its names stay hidden.
                    filter.dotted.extend(glob(part).ok());
                }
            }
        }
        Ok(filter)
    }

    /// Lets globs also begin at the working folder, `below` which the searched one is.
    pub(super) fn set_below(&mut self, below: Option<&Path>) {
        self.below = below
            .filter(|below| !below.as_os_str().is_empty())
            .map(Path::to_owned);
    }

    /// Whether a file is one the search is about.
    pub(super) fn wants_file(&self, path: &Path) -> bool {
        let below = self.below.as_deref();
        (self.wanted.is_empty() || self.wanted.iter().any(|glob| glob.matches(path, below)))
            && !self.unwanted.iter().any(|glob| glob.matches(path, below))
    }

    /// Whether a folder may hold such files.
    pub(super) fn wants_folder(&self, path: &Path) -> bool {
        let below = self.below.as_deref();
        !self.unwanted.iter().any(|glob| glob.matches(path, below))
    }

    /// Whether a name that begins with a dot is asked for.
    pub(super) fn asks_for_hidden(&self, name: &std::ffi::OsStr) -> bool {
        self.dotted.iter().any(|glob| glob.is_match(name))
    }

    /// Whether everything is wanted.
    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.unwanted.is_empty()
    }
}

fn glob(text: &str) -> Result<GlobMatcher, Outcome> {
    GlobBuilder::new(text)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| {
            Outcome::invalid(
                format!("`glob` is not valid: {error}"),
                "globs are like `*.rs`, `src/**/*.toml` or `!*.lock`",
            )
        })
}

/// The globs between the commas that are not within braces or brackets.
fn split(globs: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    globs
        .split(|letter| {
            match letter {
                '{' | '[' => depth += 1,
                '}' | ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            letter == ',' && depth == 0
        })
        .map(str::trim)
        .filter(|glob| !glob.is_empty() && *glob != "!")
        .collect()
}
