//! What a client is told of us, and what it was told before.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use castellan_host::Environment;
use castellan_host::env::looks_secret;
use serde_json::{Map, Value};

use super::client::{Client, Places};
use crate::error::CommandError;

/// Our name among a client's servers.
pub(super) const NAME: &str = "castellan";

/// The variables of a server, under one key in every client's file.
const VARIABLES: &str = "env";

/// How we are started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// This program.
    command: String,
    args: Vec<String>,
    /// Variables without which it would not find its configuration and state: clients hand only a
    /// few of their own on to their servers.
    variables: Vec<(&'static str, String)>,
}

impl Entry {
    /// This program with `castellan mcp`'s arguments.
    ///
    /// # Errors
    /// A program that can't be found, or whose path no settings file can hold.
    pub(super) fn here(
        places: &Places<'_>,
        environment: &Environment,
        profile: Option<&str>,
    ) -> Result<Self, CommandError> {
        let mut args = vec!["mcp".to_owned()];
        args.extend(
            profile
                .into_iter()
                .flat_map(|name| ["--profile".to_owned(), name.to_owned()]),
        );
        Ok(Self {
            command: program(environment)?,
            args,
            variables: variables(places, environment),
        })
    }

    /// As `client` is told.
    pub(super) fn value(&self, client: Client) -> Map<String, Value> {
        let mut value = Map::new();
        if let Some((key, word)) = client.fixed() {
            value.insert(key.to_owned(), word.into());
        }
        value.insert("command".to_owned(), self.command.clone().into());
        value.insert("args".to_owned(), self.args.clone().into());
        if !self.variables.is_empty() {
            let variables = self.variables.iter();
            let variables =
                variables.map(|(name, value)| ((*name).to_owned(), value.clone().into()));
            value.insert(VARIABLES.to_owned(), Value::Object(variables.collect()));
        }
        value
    }

    /// In what `there`, which `client` was told before, differs from this; in words. What is there
    /// beyond it is no difference.
    pub(super) fn differences(&self, client: Client, there: &Value) -> Vec<String> {
        let Some(there) = there.as_object() else {
            return vec![format!("it is {}, not a group of settings", kind(there))];
        };
        let mut found = Vec::new();
        for (key, value) in &self.value(client) {
            match (there.get(key), value) {
                (Some(old), Value::Object(wanted)) => {
                    for (name, value) in wanted {
                        let old = old.get(name).unwrap_or(&Value::Null);
                        found.extend(difference(&format!("{key}.{name}"), old, value));
                    }
                }
                // A client that was told of the command takes the rest for granted.
                (None, _) if client.fixed().is_some_and(|(fixed, _)| fixed == key) => {}
                (old, _) => found.extend(difference(key, old.unwrap_or(&Value::Null), value)),
            }
        }
        found
    }

    /// `there` with these settings in the place of its own; others that it has stay, if it starts a
    /// program at all.
    pub(super) fn over(&self, client: Client, there: &Value) -> Value {
        let mut merged = match there {
            Value::Object(there) if there.contains_key("command") => there.clone(),
            _ => Map::new(),
        };
        for (key, value) in self.value(client) {
            match (merged.get_mut(&key), value) {
                (Some(Value::Object(old)), Value::Object(new)) => old.extend(new),
                (_, value) => {
                    merged.insert(key, value);
                }
            }
        }
        Value::Object(merged)
    }
}

fn difference(key: &str, old: &Value, new: &Value) -> Option<String> {
    match old {
        _ if old == new => None,
        Value::Null => Some(format!("`{key}` is missing, and would be {new}")),
        _ => Some(format!("`{key}` is {old}, and would be {new}")),
    }
}

/// What a value is, in words.
pub(super) const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The absolute path of this program, as the user would start it: where it is found by its name,
/// the path by which it is. What a package manager puts there is a link that outlives the version
/// it leads to. The bare name would not do, since clients with windows don't have a shell's `PATH`.
fn program(environment: &Environment) -> Result<String, CommandError> {
    let here = std::env::current_exe()
        .and_then(|path| path.canonicalize())
        .map_err(|error| {
            CommandError::failed(format!("failed to find this program's own file: {error}"))
                .hint("was it replaced while it ran? start it again")
        })?;
    let folders = environment.get("PATH").unwrap_or_default();
    let named = by_name(folders, &here).unwrap_or(here);
    named.to_str().map(str::to_owned).ok_or_else(|| {
        CommandError::failed(format!(
            "the path of this program, {}, is not valid UTF-8, which settings files must be",
            named.display()
        ))
        .hint("put a link to it into a folder of PATH")
    })
}

/// The first program of our name in these folders, if it is the one at `here`.
fn by_name(folders: &str, here: &Path) -> Option<PathBuf> {
    let named = std::env::split_paths(folders)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(NAME))
        .find(|path| starts(path))?;
    (named.canonicalize().ok()? == here).then_some(named)
}

/// Whether a shell would take it for a program.
fn starts(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|there| there.is_file() && there.permissions().mode() & 0o111 != 0)
}

/// The variables that say where our configuration and state are, where they say anything else than
/// what is the case without them.
fn variables(places: &Places<'_>, environment: &Environment) -> Vec<(&'static str, String)> {
    let get = |name| environment.get(name).filter(|value| !value.is_empty());
    if let Some(home) = get("CASTELLAN_HOME") {
        let home = environment.cwd().join(home);
        return vec![("CASTELLAN_HOME", home.to_string_lossy().into_owned())];
    }
    let moved = |(name, usual): (&'static str, &str)| {
        let path = Path::new(get(name)?);
        let moved = path.is_absolute() && path != places.home().join(usual);
        moved.then(|| (name, path.to_string_lossy().into_owned()))
    };
    [
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_DATA_HOME", ".local/share"),
    ]
    .into_iter()
    .filter_map(moved)
    .collect()
}

/// The values in `settings` that nobody should read over a shoulder: what servers are given as
/// variables and headers, and whatever has a name like a secret's. Ours are none.
pub(super) fn secrets(settings: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(settings, Kept::No, &mut found);
    found
}

/// Whether the values below are kept from being shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Yes,
    No,
}

fn collect(value: &Value, kept: Kept, found: &mut Vec<String>) {
    match value {
        Value::String(text) if kept == Kept::Yes => {
            // As it stands in a file, where that differs.
            let quoted = Value::from(text.as_str()).to_string();
            let inside = quoted
                .strip_prefix('"')
                .and_then(|rest| rest.strip_suffix('"'));
            found.extend(inside.map(str::to_owned));
            found.push(text.clone());
        }
        Value::Array(list) => {
            let mut behind_secret = false;
            for item in list {
                let text = item.as_str().unwrap_or_default();
                let secret = looks_secret(text);
                let kept = if behind_secret || (secret && text.contains(['=', ':', ' '])) {
                    Kept::Yes
                } else {
                    kept
                };
                collect(item, kept, found);
                // `--api-key` and then the key.
                behind_secret = secret && text.starts_with('-');
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                let below = match key.as_str() {
                    NAME | "CASTELLAN_HOME" | "XDG_CONFIG_HOME" | "XDG_DATA_HOME" => Kept::No,
                    VARIABLES | "headers" | "http_headers" => Kept::Yes,
                    _ if looks_secret(key) => Kept::Yes,
                    _ => kept,
                };
                collect(value, below, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::client::System;
    use super::*;

    fn entry() -> Entry {
        Entry {
            command: "/bin/castellan".to_owned(),
            args: vec!["mcp".to_owned()],
            variables: vec![("CASTELLAN_HOME", "/data".to_owned())],
        }
    }

    #[test]
    fn what_is_there_beyond_ours_is_no_difference() {
        let there = json!({
            "command": "/bin/castellan", "args": ["mcp"], "timeout": 5,
            "env": {"CASTELLAN_HOME": "/data", "RUST_LOG": "info"},
        });
        for client in Client::ALL {
            assert_eq!(entry().differences(client, &there), [""; 0], "{client:?}");
        }
    }

    #[test]
    fn every_difference_is_said_with_both_sides() {
        let there = json!({"type": "http", "command": "/old", "args": ["mcp", "--full"]});
        assert_eq!(
            entry().differences(Client::Vscode, &there),
            [
                "`type` is \"http\", and would be \"stdio\"",
                "`command` is \"/old\", and would be \"/bin/castellan\"",
                "`args` is [\"mcp\",\"--full\"], and would be [\"mcp\"]",
                "`env` is missing, and would be {\"CASTELLAN_HOME\":\"/data\"}",
            ]
        );
        let odd = json!({"command": "/bin/castellan", "args": ["mcp"], "env": "A=b"});
        assert_eq!(
            entry().differences(Client::Cursor, &odd),
            ["`env.CASTELLAN_HOME` is missing, and would be \"/data\""]
        );
        assert_eq!(
            entry().differences(Client::Cursor, &json!([])),
            ["it is a list, not a group of settings"]
        );
    }

    #[test]
    fn settings_of_a_program_stay_and_those_of_something_else_go() {
        let program = json!({"command": "/old", "timeout": 5, "env": {"A": "b"}});
        assert_eq!(
            entry().over(Client::Cursor, &program),
            json!({
                "command": "/bin/castellan", "timeout": 5, "args": ["mcp"],
                "env": {"A": "b", "CASTELLAN_HOME": "/data"},
            })
        );
        for other in [json!({"url": "http://127.0.0.1/mcp"}), json!(7)] {
            assert_eq!(
                entry().over(Client::Cursor, &other),
                Value::Object(entry().value(Client::Cursor))
            );
        }
    }

    #[test]
    fn only_places_that_are_not_the_usual_ones_are_handed_on() {
        let of = |set: &[(&str, &str)]| {
            let set = [("HOME", "/h")].iter().chain(set);
            let set = set.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let environment = Environment::new(set, PathBuf::from("/srv"));
            let places = Places::of(&environment, System::Linux).unwrap();
            variables(&places, &environment)
        };
        let one = |name, value: &str| vec![(name, value.to_owned())];
        assert_eq!(of(&[]), []);
        assert_eq!(of(&[("CASTELLAN_HOME", "")]), []);
        assert_eq!(
            of(&[("XDG_CONFIG_HOME", "/h/.config"), ("XDG_DATA_HOME", "data")]),
            []
        );
        assert_eq!(of(&[("XDG_DATA_HOME", "/d")]), one("XDG_DATA_HOME", "/d"));
        assert_eq!(
            of(&[("CASTELLAN_HOME", "c"), ("XDG_DATA_HOME", "/d")]),
            one("CASTELLAN_HOME", "/srv/c")
        );
    }

    #[test]
    fn secrets_are_found_wherever_servers_are_given_them() {
        let settings = json!({
            "primaryApiKey": "key-1",
            "theme": "dark",
            "mcpServers": {
                "a": {"command": "a", "env": {"PLACE": "va\"lue", "CASTELLAN_HOME": "/data"}},
                "b": {"url": "https://example.org", "headers": {"X": "header"}},
                "c": {"args": ["--token", "key-2", "plain", "API_KEY=key-3"]},
                "castellan": {"command": "/bin/castellan"},
            },
        });
        assert_eq!(
            secrets(&settings),
            [
                "key-1",
                "key-1",
                "va\\\"lue",
                "va\"lue",
                "header",
                "header",
                "key-2",
                "key-2",
                "API_KEY=key-3",
                "API_KEY=key-3",
            ]
        );
    }
}
