//! The tree as the rules see it: every text file that belongs to the project, and the crates.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::workspace::{Crate, Workspace};

use super::rust_text;

/// Folders with the work of others, kept as it came.
const FOREIGN_FOLDER: &str = "vendor";

/// Everything a rule may look at.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) sources: Vec<Source>,
    pub(crate) crates: Vec<Crate>,
}

/// One text file.
#[derive(Debug)]
pub(crate) struct Source {
    /// Its path below the root.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Tree {
    /// Reads the files git knows or would take; binary files and those deleted since are left out.
    pub(crate) fn read(workspace: &Workspace) -> Result<Self> {
        let mut sources = Vec::new();
        for path in workspace.files()? {
            let full = workspace.root.join(&path);
            if !full.is_file() {
                continue;
            }
            let bytes = fs::read(&full).with_context(|| format!("could not read {path}"))?;
            if let Ok(text) = String::from_utf8(bytes) {
                sources.push(Source { path, text });
            }
        }
        Ok(Self {
            sources,
            crates: workspace.crates.clone(),
        })
    }

    /// The text of one file; empty when it is not there.
    pub(crate) fn text(&self, path: &str) -> &str {
        self.sources
            .iter()
            .find(|source| source.path == path)
            .map_or("", |source| source.text.as_str())
    }

    /// The files of this project's own hand.
    pub(crate) fn own(&self) -> impl Iterator<Item = &Source> {
        self.sources
            .iter()
            .filter(|source| !source.path.split('/').any(|f| f == FOREIGN_FOLDER))
    }

    /// The project's own Rust files, each with its code: comments and literals blanked.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&Source, String)> {
        self.own()
            .filter(|source| source.extension() == "rs")
            .map(|source| (source, rust_text::code_only(&source.text)))
    }
}

impl Source {
    /// The ending of the name, without the dot; empty when there is none.
    pub(crate) fn extension(&self) -> &str {
        Path::new(&self.path)
            .extension()
            .and_then(|text| text.to_str())
            .unwrap_or_default()
    }

    /// Whether it is text in a language that people here write by hand.
    pub(crate) fn is_code(&self) -> bool {
        matches!(self.extension(), "rs" | "py" | "sh" | "sql" | "js" | "css")
    }
}

/// The line (from 1) of the first line that `test` accepts; 1 when none does.
pub(crate) fn line_where(text: &str, test: impl Fn(&str) -> bool) -> usize {
    text.lines().position(test).map_or(1, |index| index + 1)
}

#[cfg(test)]
pub(crate) mod sample {
    //! Trees for the tests of the rules.

    use super::*;

    /// A tree of one file.
    pub(crate) fn file(path: &str, text: &str) -> Tree {
        Tree {
            sources: vec![source(path, text)],
            ..Tree::default()
        }
    }

    /// One file.
    pub(crate) fn source(path: &str, text: &str) -> Source {
        Source {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendored_files_are_not_the_projects_own() {
        let tree = sample::file("web/vendor/preact.js", "export {}");
        assert_eq!(tree.own().count(), 0);
        assert_eq!(sample::file("web/app.js", "").own().count(), 1);
    }

    #[test]
    fn a_line_that_is_not_found_is_the_first() {
        assert_eq!(line_where("a\nb\n", |line| line == "b"), 2);
        assert_eq!(line_where("a\nb\n", |line| line == "c"), 1);
    }
}
