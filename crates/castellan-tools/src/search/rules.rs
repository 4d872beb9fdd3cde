//! The rules by which files are ignored: `.gitignore`, `.ignore` and `.git/info/exclude`.
//!
//! Read without git: rules hold whether or not there is a repository, because a copy of a tree
//! is as full of build output as the tree itself. Within a repository those of the folders above
//! hold too, up to its root. A person's global excludes are not read: what is found should not
//! depend on who looks.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::file;

/// Bytes read of a file of rules.
const READ: u64 = 1024 * 1024;

/// The rules of a folder and of those above it.
#[derive(Debug, Default)]
pub(super) struct Rules {
    above: Option<Arc<Self>>,
    own: Option<Gitignore>,
    git: Option<Gitignore>,
    exclude: Option<Gitignore>,
    /// Git's rules from above end here.
    repository: bool,
}

/// What a folder's listing says of its rules.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Signs {
    /// It has a `.ignore`.
    pub(super) own: bool,
    /// It has a `.gitignore`.
    pub(super) git: bool,
    /// It has a `.git`.
    pub(super) repository: bool,
}

/// What the rules say of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    Nothing,
    Ignore,
    Keep,
}

impl Rules {
    /// The rules for what is in `folder`, given those that hold for the folder itself.
    pub(super) fn within(above: &Arc<Self>, folder: &Path, signs: Signs) -> Arc<Self> {
        let rules =
            |present: bool, name: &str| present.then(|| read(folder, &folder.join(name))).flatten();
        let own = rules(signs.own, ".ignore");
        let git = rules(signs.git, ".gitignore");
        let exclude = rules(signs.repository, ".git/info/exclude");
        if own.is_none() && git.is_none() && exclude.is_none() && !signs.repository {
            return Arc::clone(above);
        }
        Arc::new(Self {
            above: Some(Arc::clone(above)),
            own,
            git,
            exclude,
            repository: signs.repository,
        })
    }

    /// The rules of the folders above `root` in the repository it is in. None where they would
    /// ignore `root` itself: it was asked for by name.
    pub(super) fn above(root: &Path) -> Arc<Self> {
        let none = Arc::new(Self::default());
        let here = |name: &str, folder: &Path| folder.join(name).symlink_metadata().is_ok();
        if here(".git", root) {
            return none;
        }
        let mut folders: Vec<PathBuf> = Vec::new();
        let found = root.ancestors().skip(1).any(|folder| {
            folders.push(folder.to_owned());
            here(".git", folder)
        });
        if !found {
            return none;
        }
        let mut rules = Arc::clone(&none);
        for (place, folder) in folders.iter().enumerate().rev() {
            let signs = Signs {
                own: here(".ignore", folder),
                git: here(".gitignore", folder),
                repository: here(".git", folder),
            };
            rules = Self::within(&rules, folder, signs);
            let next = place.checked_sub(1).and_then(|place| folders.get(place));
            let next = next.map_or(root, PathBuf::as_path);
            if rules.say(next, true) == Said::Ignore {
                return none;
            }
        }
        rules
    }

    /// What the rules say of `path`. The nearest folder decides, `.ignore` before `.gitignore`.
    pub(super) fn say(&self, path: &Path, is_folder: bool) -> Said {
        let ask = |rules: &Option<Gitignore>, before: Said| match rules {
            Some(rules) if before == Said::Nothing => match rules.matched(path, is_folder) {
                Match::None => Said::Nothing,
                Match::Ignore(_) => Said::Ignore,
                Match::Whitelist(_) => Said::Keep,
            },
            _ => before,
        };
        let (mut own, mut git, mut exclude) = (Said::Nothing, Said::Nothing, Said::Nothing);
        let (mut level, mut within) = (Some(self), true);
        while let Some(rules) = level {
            own = ask(&rules.own, own);
            if within {
                git = ask(&rules.git, git);
                exclude = ask(&rules.exclude, exclude);
                within = !rules.repository;
            }
            level = rules.above.as_deref();
        }
        [own, git, exclude]
            .into_iter()
            .find(|said| *said != Said::Nothing)
            .unwrap_or(Said::Nothing)
    }
}

/// The rules in a file. What can't be read or isn't a rule ignores nothing.
fn read(folder: &Path, path: &Path) -> Option<Gitignore> {
    let file = file::open_listed(path).ok().flatten()?;
    let mut bytes = Vec::new();
    file.take(READ).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let mut builder = GitignoreBuilder::new(folder);
    for line in text.trim_start_matches('\u{feff}').lines() {
        if builder.add_line(None, line).is_err() {
            // A line that is no rule is passed over, as git does.
            continue;
        }
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}
