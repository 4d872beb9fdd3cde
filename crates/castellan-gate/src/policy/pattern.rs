//! The patterns of rules: commands, paths, hosts.

use std::cell::OnceCell;
use std::path::{Component, Path, PathBuf};

use castellan_core::grant::glob;
use globset::{GlobBuilder, GlobMatcher};

use super::Match;
use super::commands::Command;

/// What is wrong with a pattern, and what was expected.
type Problem = (String, &'static str);

/// How a command begins. `*` inside a word stands for any run of characters, alone for any number
/// of words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommandPattern(Vec<String>);

/// A word of a command: known, or filled in when it runs.
pub(super) type Known<'a> = Option<&'a str>;

/// How many steps one comparison may take; past that it counts as a doubt.
const STEPS: usize = 20_000;

impl CommandPattern {
    pub(super) fn new(text: &str) -> Result<Self, Problem> {
        const HINT: &str = "write how a command begins, such as \"git push\" or \"npm run *\"";
        if let Some(letter) = text
            .chars()
            .find(|letter| "\"'`$;|&<>(){}\\\n".contains(*letter))
        {
            let what = format!("`{text}` has `{letter}`, which is no plain word");
            return Err((what, HINT));
        }
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        if words.is_empty() {
            return Err(("it is empty".to_owned(), HINT));
        }
        Ok(Self(words))
    }

    /// Whether the command begins with just these words, all of them known, and does nothing beside.
    pub(super) fn exactly(&self, command: &Command) -> Match {
        if command.has_side_effects() {
            return Match::No;
        }
        let words = command.words();
        let mut steps = STEPS;
        if begins(&self.0, &words, &mut steps) {
            Match::Yes
        } else {
            Match::No
        }
    }

    /// Whether the command is of this kind, in any spelling: by whatever path it is called, with
    /// options before its words, and with options of the pattern wherever they stand. Doubtful
    /// where that depends on words that are filled in when it runs.
    pub(super) fn generously(&self, words: &[Known<'_>]) -> Match {
        let mut steps = STEPS;
        let plainly = follows(&self.0, words, Doubt::Excluded, &mut steps);
        if plainly {
            return Match::Yes;
        }
        if follows(&self.0, words, Doubt::Admitted, &mut steps) || steps == 0 {
            Match::Maybe
        } else {
            Match::No
        }
    }

    /// Whether such a command begins at any of these words.
    pub(super) fn anywhere(&self, words: &[String]) -> Match {
        let known: Vec<Known<'_>> = words.iter().map(|word| Some(word.as_str())).collect();
        let from = |start: usize| {
            let mut steps = STEPS;
            let rest = known.get(start..).unwrap_or_default();
            follows(&self.0, rest, Doubt::Excluded, &mut steps)
        };
        if (0..known.len()).any(from) {
            Match::Yes
        } else {
            Match::No
        }
    }
}

/// Takes one step off the budget; false where it is used up.
const fn step(steps: &mut usize) -> bool {
    if *steps == 0 {
        return false;
    }
    *steps -= 1;
    true
}

/// Whether `words` begin as `pattern` says, to the letter.
fn begins(pattern: &[String], words: &[Known<'_>], steps: &mut usize) -> bool {
    if !step(steps) {
        return false;
    }
    let Some((wanted, pattern)) = pattern.split_first() else {
        return true;
    };
    if wanted == "*" {
        // Nothing comes after it, or it takes any number of words.
        return pattern.is_empty()
            || (0..=words.len())
                .any(|taken| begins(pattern, words.get(taken..).unwrap_or_default(), steps));
    }
    match words.split_first() {
        Some((Some(word), rest)) if glob(wanted, word) => begins(pattern, rest, steps),
        _ => false,
    }
}

/// Whether a word that is filled in later may be what a pattern wants.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doubt {
    Admitted,
    Excluded,
}

/// Whether `words` are a command of the kind `pattern` says.
fn follows(pattern: &[String], words: &[Known<'_>], doubt: Doubt, steps: &mut usize) -> bool {
    let Some((wanted, rest)) = pattern.split_first() else {
        return true;
    };
    match words.split_first() {
        _ if wanted == "*" => later(pattern, words, doubt, steps),
        // The program goes by its name, wherever it lies.
        Some((Some(program), after)) => {
            let name = program.rsplit_once('/').map_or(*program, |(_, name)| name);
            (glob(wanted, name) || glob(wanted, program)) && later(rest, after, doubt, steps)
        }
        Some((None, _)) => doubt == Doubt::Admitted,
        None => false,
    }
}

/// The words after the program's name.
fn later(pattern: &[String], words: &[Known<'_>], doubt: Doubt, steps: &mut usize) -> bool {
    if !step(steps) {
        return false;
    }
    let Some((wanted, rest)) = pattern.split_first() else {
        return true;
    };
    if wanted == "*" {
        return rest.is_empty()
            || (0..=words.len())
                .any(|taken| later(rest, words.get(taken..).unwrap_or_default(), doubt, steps));
    }
    let is_option = wanted.starts_with('-');
    // Whether the word before was an option, whose value the next one may be.
    let mut after_option = false;
    for (position, word) in words.iter().enumerate() {
        let after = words.get(position + 1..).unwrap_or_default();
        match word {
            // It may be several words or none: whatever is still wanted may be in it.
            None if doubt == Doubt::Admitted => return true,
            None => after_option = false,
            Some(word) => {
                if glob(wanted, word) && later(rest, after, doubt, steps) {
                    return true;
                }
                let skipped = is_option || word.starts_with('-') || after_option;
                if !skipped {
                    return false;
                }
                after_option = word.starts_with('-');
            }
        }
    }
    false
}

/// Paths. A folder stands for all that is in it.
#[derive(Debug, Clone)]
pub(super) struct PathPattern {
    root: Root,
    /// The folders before the first glob, below the root.
    fixed: PathBuf,
    /// The whole, below the root.
    whole: GlobMatcher,
    /// What comes after `fixed`; `None` where nothing does.
    rest: Option<GlobMatcher>,
    /// Whether the rest reaches any depth.
    deep: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Root {
    Workspace,
    Home,
    File,
}

/// The folders that patterns are relative to.
#[derive(Debug)]
pub(super) struct Bases<'w> {
    workspace: Base<'w>,
    home: Base<'w>,
}

impl<'w> Bases<'w> {
    pub(super) fn new(workspace: &'w Path, home: Option<&'w Path>) -> Self {
        Self {
            workspace: Base::new(workspace),
            home: Base::new(home.unwrap_or_else(|| Path::new("/"))),
        }
    }
}

/// A folder as it is written, and where it is: paths come resolved, so what they are held against
/// must be. It is looked up when it is first needed, and only then.
#[derive(Debug)]
struct Base<'w> {
    written: &'w Path,
    real: OnceCell<PathBuf>,
}

impl<'w> Base<'w> {
    const fn new(written: &'w Path) -> Self {
        Self {
            written,
            real: OnceCell::new(),
        }
    }

    fn path(&self) -> &Path {
        let written = self.written;
        let real = || {
            written
                .canonicalize()
                .unwrap_or_else(|_error| written.to_owned())
        };
        self.real.get_or_init(real)
    }
}

impl PathPattern {
    pub(super) fn new(text: &str, home: Option<&Path>) -> Result<Self, Problem> {
        const HINT: &str = "write a path with globs: `src/**` is below the project, `~/…` below \
                            your home, `/…` anywhere";
        let (root, below) = if let Some(below) = text.strip_prefix('/') {
            (Root::File, below)
        } else if text == "~" {
            (Root::Home, "")
        } else if let Some(below) = text.strip_prefix("~/") {
            (Root::Home, below)
        } else if text.starts_with('~') {
            return Err((format!("`{text}` names another user's home"), HINT));
        } else {
            (Root::Workspace, text)
        };
        if root == Root::Home && home.is_none() {
            return Err((format!("`{text}`: this user has no home folder"), HINT));
        }
        let parts: Vec<&str> = below
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".")
            .collect();
        if parts.contains(&"..") {
            return Err((format!("`{text}` has `..`"), HINT));
        }
        let is_glob = |part: &&str| part.contains(['*', '?', '[', '{', '\\']);
        let literal = parts.iter().position(is_glob).unwrap_or(parts.len());
        let (fixed, rest) = parts.split_at(literal);
        let deep = rest.iter().any(|part| part.contains("**"));
        let compile = |parts: &[&str]| {
            let pattern = parts.join("/");
            let built = GlobBuilder::new(&pattern)
                .literal_separator(true)
                .backslash_escape(true)
                .build();
            built
                .map(|glob| glob.compile_matcher())
                .map_err(|error| (format!("`{text}` is not a glob: {}", error.kind()), HINT))
        };
        Ok(Self {
            root,
            fixed: fixed.iter().collect(),
            whole: compile(&parts)?,
            rest: if rest.is_empty() {
                None
            } else {
                Some(compile(rest)?)
            },
            deep,
        })
    }

    /// The folder it is relative to.
    pub(super) fn base<'b>(&self, bases: &'b Bases<'_>) -> &'b Path {
        match self.root {
            Root::File => Path::new("/"),
            Root::Workspace => bases.workspace.path(),
            Root::Home => bases.home.path(),
        }
    }

    /// Whether the resolved path is one of these. Links that someone put into the pattern's own
    /// folders meanwhile widen nothing.
    pub(super) fn exactly(&self, path: &Path, base: &Path) -> Match {
        let below = path.strip_prefix(base).ok().filter(|_| is_plain(path));
        if below.is_some_and(|below| holds(&self.whole, below)) {
            Match::Yes
        } else {
            Match::No
        }
    }

    /// The same, but a link in the pattern's folders is followed too; doubtful for a folder in which
    /// such paths may lie.
    pub(super) fn generously(&self, path: &Path, base: &Path) -> Match {
        if self.exactly(path, base) == Match::Yes {
            return Match::Yes;
        }
        let written = base.join(&self.fixed);
        let real = resolved(&written);
        for root in [&written, &real] {
            let matches = path
                .strip_prefix(root)
                .is_ok_and(|below| self.rest.as_ref().is_none_or(|rest| holds(rest, below)));
            if matches {
                return Match::Yes;
            }
        }
        if !is_plain(path) {
            return Match::Maybe;
        }
        let above = written.starts_with(path) || real.starts_with(path);
        let inside = self.deep && (path.starts_with(&written) || path.starts_with(&real));
        if (above || inside) && path.is_dir() {
            Match::Maybe
        } else {
            Match::No
        }
    }
}

/// Whether the glob matches the path or a folder it lies in.
fn holds(glob: &GlobMatcher, path: &Path) -> bool {
    path.ancestors().any(|part| glob.is_match(part))
}

/// Whether a path goes straight to where it leads.
fn is_plain(path: &Path) -> bool {
    path.is_absolute()
        && path
            .components()
            .all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}

/// The path with the links of its existing part followed.
fn resolved(path: &Path) -> PathBuf {
    for part in path.ancestors() {
        if let Ok(real) = part.canonicalize() {
            return path
                .strip_prefix(part)
                .map_or_else(|_error| real.clone(), |rest| real.join(rest));
        }
    }
    path.to_owned()
}

/// A host, or all hosts below a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostPattern(String);

impl HostPattern {
    pub(super) fn new(text: &str) -> Result<Self, Problem> {
        const HINT: &str = "write a host such as example.org, or *.example.org for all below it";
        let name = text.strip_prefix("*.").unwrap_or(text);
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-._:[]".contains(letter);
        if text != "*" && (name.is_empty() || !name.chars().all(plain)) {
            return Err((format!("`{text}` is not a host"), HINT));
        }
        Ok(Self(text.to_ascii_lowercase()))
    }

    pub(super) fn matches(&self, host: &str) -> Match {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let found = self.0 == "*"
            || self.0 == host
            || self
                .0
                .strip_prefix('*')
                .is_some_and(|domain| host.strip_suffix(domain).is_some_and(|sub| !sub.is_empty()));
        if found { Match::Yes } else { Match::No }
    }
}
