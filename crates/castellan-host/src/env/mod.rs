//! The process environment: read once, hidden from children, handed on by an allow-list.
//!
//! Everything else in the house reads configuration from an [`Environment`], never from the
//! process. What children may see is in `names`, how the rest is hidden in `hiding`.

mod hiding;
mod names;

use castellan_core::secret::Redaction;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nix::unistd::{User, geteuid};

pub use hiding::Hidden;
pub use names::looks_secret;

/// Makes a secret that was given as an argument unreadable for other processes, which see the
/// arguments of every process. To be called before [`Environment::take`], which closes the way.
///
/// # Errors
/// When the kernel refuses; the secret then stays readable.
pub fn hide_argument(secret: &str) -> std::io::Result<()> {
    hiding::hide_argument(secret)
}

/// A snapshot of the process environment.
#[derive(Clone)]
pub struct Environment {
    vars: BTreeMap<String, String>,
    home: Option<PathBuf>,
    cwd: PathBuf,
    hidden: Hidden,
}

impl Environment {
    /// Takes the snapshot, then makes the process's own copy unreadable. To be called first thing
    /// in a main function, before other threads exist, and once: a second snapshot would find
    /// blanked values.
    ///
    /// Variables that are not Unicode are left out; no setting of ours may be anything else.
    #[must_use]
    pub fn take() -> Self {
        let vars = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        let mut environment = Self::new(vars, std::env::current_dir().unwrap_or_default());
        environment.hidden = hiding::hide(&environment.vars);
        environment
    }

    /// An environment made of these variables. Nothing is hidden: there is nothing to hide.
    pub fn new(vars: impl IntoIterator<Item = (String, String)>, cwd: PathBuf) -> Self {
        let vars: BTreeMap<String, String> = vars.into_iter().collect();
        let home = vars
            .get("HOME")
            .filter(|home| !home.is_empty())
            .map(PathBuf::from)
            .or_else(|| Some(User::from_uid(geteuid()).ok()??.dir));
        Self {
            vars,
            home,
            cwd,
            hidden: Hidden::Yes,
        }
    }

    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.vars.get(name).map(String::as_str)
    }

    /// The user's home: `HOME`, else what the user database says.
    #[must_use]
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// The folder the process was started in; empty where that folder no longer existed.
    #[must_use]
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// All variables, ordered by name.
    pub fn vars(&self) -> impl Iterator<Item = (&str, &str)> {
        self.vars
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether the secrets of this environment are out of reach of children.
    #[must_use]
    pub const fn hidden(&self) -> &Hidden {
        &self.hidden
    }

    /// The values of variables with secret-looking names, to be redacted wherever they turn up.
    #[must_use]
    pub fn secret_values(&self) -> Vec<String> {
        self.vars()
            .filter(|(name, value)| looks_secret(name) && value.len() >= Redaction::SHORTEST)
            .map(|(_, value)| value.to_owned())
            .collect()
    }

    /// The variables that `patterns` name, for children that are to have them: `NAME`, or `PREFIX_*`
    /// for all that begin like that but those that look like secrets. A secret is handed on only
    /// where it is named in full.
    #[must_use]
    pub fn named(&self, patterns: &[String]) -> Vec<(String, String)> {
        let names = |pattern: &String, name: &str| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start) && !looks_secret(name),
            None => pattern == name,
        };
        self.vars
            .iter()
            .filter(|(name, _)| patterns.iter().any(|pattern| names(pattern, name)))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// The environment of a child: what the allow-list lets through, settings that keep programs
    /// from asking a terminal that is not there, and `extra` over both.
    #[must_use]
    pub fn child_environment(&self, extra: &[(String, String)]) -> Vec<(String, String)> {
        let mut child: BTreeMap<String, String> = self
            .vars
            .iter()
            .filter(|(name, _)| names::is_for_children(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        child.extend(
            names::NON_INTERACTIVE
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into())),
        );
        child.extend(extra.iter().cloned());
        child.into_iter().collect()
    }
}

/// Names only: the values are what must not be printed.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment")
            .field("names", &self.vars.keys())
            .field("cwd", &self.cwd)
            .field("hidden", &self.hidden)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(vars: &[(&str, &str)]) -> Environment {
        let vars = vars
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Environment::new(vars, PathBuf::from("/"))
    }

    #[test]
    fn a_child_gets_the_allow_list_and_nothing_else() {
        let parent = environment(&[
            ("PATH", "/bin"),
            ("LC_ALL", "C.UTF-8"),
            ("FAKE_PROVIDER_API_KEY", "sk-test-123"),
            ("X_KEYS_0", "y"),
            ("SOMETHING_ELSE", "1"),
            ("EDITOR", "vi"),
            ("CI", "true"),
            ("LC_SECRET", "s"),
        ]);
        let child = parent.child_environment(&[("EXTRA".to_owned(), "2".to_owned())]);
        let get = |name: &str| {
            child
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, value)| value.as_str())
        };
        assert_eq!(get("PATH"), Some("/bin"));
        assert_eq!(get("LC_ALL"), Some("C.UTF-8"));
        assert_eq!(get("EXTRA"), Some("2"));
        assert_eq!(get("EDITOR"), Some("false"));
        assert_eq!(get("TERM"), Some("dumb"));
        for absent in [
            "FAKE_PROVIDER_API_KEY",
            "X_KEYS_0",
            "SOMETHING_ELSE",
            "CI",
            "LC_SECRET",
        ] {
            assert_eq!(get(absent), None, "{absent}");
        }
    }

    #[test]
    fn what_the_user_names_wins_over_our_settings() {
        let extra = [("PAGER".to_owned(), "less".to_owned())];
        let child = environment(&[]).child_environment(&extra);
        assert!(child.contains(&extra[0]));
        assert_eq!(child.iter().filter(|(name, _)| name == "PAGER").count(), 1);
    }

    #[test]
    fn a_pattern_hands_on_no_secret_and_a_full_name_does() {
        let parent = environment(&[
            ("AWS_PROFILE", "work"),
            ("AWS_SECRET_ACCESS_KEY", "sk-test-123"),
            ("DATABASE_URL", "x"),
            ("MY_TOKEN", "sk-test-456"),
        ]);
        let named = |patterns: &[&str]| -> Vec<String> {
            let patterns: Vec<String> = patterns.iter().map(|one| (*one).to_owned()).collect();
            let named = parent.named(&patterns).into_iter();
            named.map(|(name, _)| name).collect()
        };
        assert_eq!(named(&["AWS_*", "MY_*"]), ["AWS_PROFILE"]);
        assert_eq!(named(&["MY_TOKEN", "NOT_SET"]), ["MY_TOKEN"]);
        assert_eq!(named(&["DATABASE"]), [""; 0]);
    }

    #[test]
    fn secrets_are_known_by_their_names_and_never_printed() {
        let parent = environment(&[
            ("OPENAI_API_KEY", "sk-test-123"),
            ("db_password", "hunter2-hunter2"),
            ("PIN_TOKEN", "1234"),
            ("PATH", "/usr/local/bin"),
        ]);
        assert_eq!(parent.secret_values(), ["sk-test-123", "hunter2-hunter2"]);
        assert!(!format!("{parent:?}").contains("sk-test"));
    }

    #[test]
    fn the_home_is_known_without_the_variable() {
        assert!(environment(&[]).home().is_some());
        assert_eq!(environment(&[("HOME", "/h")]).home(), Some(Path::new("/h")));
    }
}
