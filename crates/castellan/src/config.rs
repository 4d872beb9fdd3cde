//! The configuration file: its shape, its defaults, and errors that name line, key and remedy.

mod guards;
mod mcp;
mod place;
mod sandbox;
mod server;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use castellan_core::nearest::likely;
use castellan_gate::hooks::Hook;
use castellan_gate::{Catalog, Policy};
use castellan_host::env::looks_secret;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toml::Spanned;

use crate::error::CommandError;
pub(crate) use guards::RulesInProject;
use guards::{HookConfig, PolicyConfig};

pub(crate) use mcp::{McpConfig, ProfileConfig, profile};
pub(crate) use sandbox::SandboxConfig;
pub(crate) use server::ServerConfig;

/// The whole configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// The model to use where none is named, by its name under `models`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    pub(crate) session: SessionConfig,
    pub(crate) tools: ToolsConfig,
    pub(crate) sandbox: SandboxConfig,
    pub(crate) database: DatabaseConfig,
    pub(crate) mcp: McpConfig,
    pub(crate) server: ServerConfig,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) profiles: BTreeMap<String, ProfileConfig>,
    pub(crate) models: BTreeMap<String, ModelConfig>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    policy: Vec<Spanned<PolicyConfig>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hooks: Vec<HookConfig>,
    /// The text it was read from, for the lines of errors that are found later.
    #[serde(skip)]
    text: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SessionConfig {
    /// How often a turn may ask the model.
    pub(crate) max_turns: u32,
    /// How many tokens a turn may use, read and written together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_turn_tokens: Option<u64>,
    /// How many tokens a whole session may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_session_tokens: Option<u64>,
    /// At which part of the context window the conversation is made shorter.
    pub(crate) compact_at: f64,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            max_turns: 50,
            max_turn_tokens: None,
            max_session_tokens: None,
            compact_at: 0.8,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ToolsConfig {
    /// Seconds a call may take that sets no limit of its own.
    pub(crate) timeout: u64,
    /// How many calls of one answer run at once.
    pub(crate) parallel: usize,
    /// Seconds a question may stay open before it counts as denied; without it, for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) approval_timeout: Option<u64>,
    /// Variables that commands get beyond the usual ones: `NAME`, or `PREFIX_*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) environment: Vec<String>,
}

impl Default for ToolsConfig {
    fn default() -> Self {
        Self {
            timeout: 120,
            parallel: 4,
            approval_timeout: None,
            environment: Vec::new(),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DatabaseConfig {
    /// `full` survives a power cut; `normal` is faster and may lose the last moments in one.
    pub(crate) synchronous: Synchronous,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Synchronous {
    #[default]
    Full,
    Normal,
}

/// A model and how to reach it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelConfig {
    /// The OpenAI-compatible endpoint, usually ending in `/v1`.
    pub(crate) base_url: String,
    /// The model's name at that endpoint; where it is missing, the first one the endpoint lists.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) api_key: Option<String>,
    /// The variable that holds the key; better than writing it into a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) api_key_env: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) context_window: Option<u64>,
    /// What it costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) price: Option<PriceConfig>,
    #[serde(default)]
    pub(crate) capabilities: Capabilities,
    /// Merged into every request body.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(crate) extra_body: Map<String, Value>,
}

/// What a million tokens cost, in any one currency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PriceConfig {
    /// Those read.
    pub(crate) input: f64,
    /// Those written.
    pub(crate) output: f64,
    /// Those read from the provider's cache; as others read where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cached_input: Option<f64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Capabilities {
    /// Whether the model takes images.
    pub(crate) supports_vision: bool,
    /// The field in which reasoning of the present turn is sent back; absent for models that don't
    /// want it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) send_reasoning: Option<SendReasoning>,
}

/// Where a model wants its reasoning back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SendReasoning {
    ReasoningContent,
    Reasoning,
    ReasoningDetails,
    ThinkingBlocks,
}

impl Config {
    /// Reads the file; a missing one is an empty one.
    pub(crate) fn load(path: &Path) -> Result<Self, CommandError> {
        let text = match read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => {
                let text = format!(
                    "failed to read the configuration {}: {error}",
                    path.display()
                );
                return Err(CommandError::failed(text));
            }
        };
        Self::parse(&text).map_err(|problem| problem.in_configuration(path))
    }

    /// The rules in it; `path` is where the configuration is, and `home` what `~` stands for.
    ///
    /// # Errors
    /// A rule that is none, by its line and key. Nothing may run then.
    pub(crate) fn policy(
        &self,
        path: &Path,
        catalog: &Catalog,
        home: Option<PathBuf>,
    ) -> Result<Policy, CommandError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        guards::policy((&self.text, &name), &self.policy, catalog, home)
            .map_err(|problem| problem.in_configuration(path))
    }

    /// The hooks in it.
    ///
    /// # Errors
    /// A hook that is none, by its line and key. Nothing may run then.
    pub(crate) fn hooks(&self, path: &Path, catalog: &Catalog) -> Result<Vec<Hook>, CommandError> {
        guards::hooks(&self.text, &self.hooks, catalog)
            .map_err(|problem| problem.in_configuration(path))
    }

    fn parse(text: &str) -> Result<Self, Problem> {
        let mut config: Self = toml::from_str(text).map_err(|error| Problem::of(text, &error))?;
        text.clone_into(&mut config.text);
        if let Some(name) = &config.model
            && !config.models.contains_key(name)
        {
            let known = config.models.keys().map(String::as_str);
            let hint = likely(name, known)
                .map_or_else(String::new, |name| format!("did you mean `{name}`?"));
            let what = format!("there is no [models.{name}]");
            return Err(Problem::of_value(text, &["model"], &what, hint));
        }
        config.require_positive()?;
        config.require_sensible_limits()?;
        for (place, pattern) in config.tools.environment.iter().enumerate() {
            if let Some(hint) = unfit(pattern) {
                let path = ["tools", "environment", &place.to_string()];
                let what = format!("it has `{}`", pattern.escape_debug());
                return Err(Problem::of_value(text, &path, &what, hint.to_owned()));
            }
        }
        Ok(config)
    }

    /// Refuses limits of 0.
    fn require_positive(&self) -> Result<(), Problem> {
        let (tools, session) = (&self.tools, &self.session);
        let parallel = u64::try_from(tools.parallel).unwrap_or(u64::MAX);
        for (path, number) in [
            (["tools", "timeout"], Some(tools.timeout)),
            (["tools", "parallel"], Some(parallel)),
            (["tools", "approval_timeout"], tools.approval_timeout),
            (["session", "max_turns"], Some(session.max_turns.into())),
            (["session", "max_turn_tokens"], session.max_turn_tokens),
            (
                ["session", "max_session_tokens"],
                session.max_session_tokens,
            ),
        ] {
            if number == Some(0) {
                let hint = "it is at least 1".to_owned();
                return Err(Problem::of_value(&self.text, &path, "it is 0", hint));
            }
        }
        Ok(())
    }

    /// Refuses parts and prices that are none.
    fn require_sensible_limits(&self) -> Result<(), Problem> {
        let compact_at = self.session.compact_at;
        if !COMPACT_AT.contains(&compact_at) {
            let (path, what) = (["session", "compact_at"], format!("it is {compact_at}"));
            let (from, to) = (COMPACT_AT.start(), COMPACT_AT.end());
            let hint = format!("it is a part of the context window, from {from} to {to}");
            return Err(Problem::of_value(&self.text, &path, &what, hint));
        }
        for (name, model) in &self.models {
            let Some(price) = model.price else { continue };
            for (key, price) in [
                ("input", Some(price.input)),
                ("output", Some(price.output)),
                ("cached_input", price.cached_input),
            ] {
                if let Some(price) = price
                    && !(0.0..1e6).contains(&price)
                {
                    let path = ["models", name, "price", key];
                    let hint = "it is what a million tokens cost, such as 2.50".to_owned();
                    let what = format!("{price} is no price");
                    return Err(Problem::of_value(&self.text, &path, &what, hint));
                }
            }
        }
        Ok(())
    }

    /// The configuration as TOML, without any key.
    pub(crate) fn shown(&self) -> Result<String, CommandError> {
        let mut shown = self.clone();
        for model in shown.models.values_mut() {
            if model.api_key.is_some() {
                model.api_key = Some(HIDDEN.to_owned());
            }
            for (name, value) in &mut model.extra_body {
                if looks_secret(name) {
                    *value = HIDDEN.into();
                }
            }
            model.base_url = without_credentials(&model.base_url);
        }
        toml::to_string_pretty(&shown).map_err(CommandError::failed)
    }
}

/// Below this a conversation would be made shorter all the time.
const COMPACT_AT: std::ops::RangeInclusive<f64> = 0.1..=1.0;
/// What to write instead of a pattern that names no variable.
fn unfit(pattern: &str) -> Option<&'static str> {
    let name = pattern.strip_suffix('*').unwrap_or(pattern);
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if name.is_empty() && !pattern.is_empty() {
        Some("`*` alone would hand on everything; name what commands need")
    } else if pattern.contains('=') {
        Some(
            "it names variables, whose values come from the environment; leave out `=` and the value",
        )
    } else if name.is_empty()
        || name.starts_with(|letter: char| letter.is_ascii_digit())
        || !name.chars().all(fits)
    {
        Some("a name has letters, digits and `_`, and may end in `*`: \"DATABASE_URL\", \"AWS_*\"")
    } else {
        None
    }
}

/// What stands in the place of a key.
const HIDDEN: &str = "[hidden]";
/// A longer file is no configuration.
const LONGEST: u64 = 1024 * 1024;

fn read(path: &Path) -> std::io::Result<String> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() || metadata.len() > LONGEST {
        return Err(std::io::Error::other(
            "it is not a regular file of at most 1 MiB",
        ));
    }
    std::fs::read_to_string(path)
}

/// An address without user, password and query.
pub(crate) fn without_credentials(url: &str) -> String {
    let (address, query) = url
        .split_once('?')
        .map_or((url, ""), |(address, _)| (address, "?[hidden]"));
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let (authority, path) = rest
        .split_once('/')
        .map_or((rest, String::new()), |(a, p)| (a, format!("/{p}")));
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{HIDDEN}@{host}{path}{query}"),
        None => format!("{address}{query}"),
    }
}

#[derive(Debug)]
struct Problem {
    what: String,
    hint: String,
}

impl Problem {
    /// A problem with the value of a key, whose place is known.
    fn at(text: &str, offset: usize, key: &str, what: &str, hint: String) -> Self {
        let line = guards::line_of(text, offset);
        Self {
            what: format!("line {line} (`{key}`): {what}"),
            hint,
        }
    }

    /// A problem with the value that `path` leads to.
    fn of_value(text: &str, path: &[&str], what: &str, hint: String) -> Self {
        // The place of an item in a list is told by its line.
        let keys: Vec<&str> = path
            .iter()
            .copied()
            .filter(|key| key.parse::<usize>().is_err())
            .collect();
        let key = keys.join(".");
        match place::offset(text, path) {
            Some(offset) => Self::at(text, offset, &key, what, hint),
            None => Self {
                what: format!("`{key}`: {what}"),
                hint,
            },
        }
    }

    fn in_configuration(self, path: &Path) -> CommandError {
        let what = format!(
            "the configuration {} is wrong: {}",
            path.display(),
            self.what
        );
        CommandError::usage(what).hint(self.hint)
    }

    fn of(text: &str, error: &toml::de::Error) -> Self {
        let place = error.span().map_or_else(String::new, |span| {
            let before = text.get(..span.start).unwrap_or(text);
            let line = before.matches('\n').count() + 1;
            // Not what stands behind the `=`: it may be a key.
            let whole = text.lines().nth(line - 1).unwrap_or_default();
            let key = whole.split('=').next().unwrap_or_default().trim();
            format!("line {line} (`{key}`): ")
        });
        let message = error.message();
        Self {
            what: format!("{place}{message}"),
            hint: nearest_key(message).unwrap_or_default(),
        }
    }
}

/// For serde's "unknown field `x`, expected one of `a`, `b`": what was probably meant.
fn nearest_key(message: &str) -> Option<String> {
    let rest = message.strip_prefix("unknown ")?;
    let mut quoted = rest.split('`').skip(1).step_by(2);
    let wanted = quoted.next()?;
    let known: Vec<&str> = quoted.collect();
    likely(wanted, known.iter().copied()).map(|key| format!("did you mean `{key}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        let problem = Config::parse(text).err().unwrap();
        format!("{} / {}", problem.what, problem.hint)
    }

    #[test]
    fn a_typo_is_named_with_its_line_and_the_nearest_key() {
        let text = problem("model = \"a\"\n\n[models.a]\nbase_ulr = \"http://x\"\n");
        assert!(
            text.contains("line 4") && text.contains("base_ulr"),
            "{text}"
        );
        assert!(text.contains("did you mean `base_url`?"), "{text}");
        assert!(problem("[tols]\n").contains("did you mean `tools`?"));
        assert!(problem("[database]\nsynchronous = \"ful\"\n").contains("did you mean `full`?"));
    }

    #[test]
    fn where_reasoning_is_sent_back_is_one_of_the_known_fields() {
        let with = |field: &str| {
            format!(
                "[models.a]\nbase_url = \"http://x\"\n[models.a.capabilities]\n\
                 send_reasoning = \"{field}\"\n"
            )
        };
        let config = Config::parse(&with("reasoning_details")).unwrap();
        assert_eq!(
            config.models["a"].capabilities.send_reasoning,
            Some(SendReasoning::ReasoningDetails)
        );
        assert!(config.shown().unwrap().contains("reasoning_details"));
        let text = problem(&with("reasoning_detail"));
        assert!(
            text.contains("line 4") && text.contains("did you mean `reasoning_details`?"),
            "{text}"
        );
        let none = Config::parse("[models.a]\nbase_url = \"http://x\"\n").unwrap();
        assert_eq!(none.models["a"].capabilities.send_reasoning, None);
    }

    #[test]
    fn limits_and_prices_that_make_no_sense_are_refused() {
        for (text, named) in [
            (
                "[session]\nmax_turn_tokens = 0\n",
                "line 2 (`session.max_turn_tokens`): it is 0",
            ),
            (
                "\n[tools]\ntimeout=0\n",
                "line 3 (`tools.timeout`): it is 0",
            ),
            ("tools.parallel = 0\n", "line 1 (`tools.parallel`): it is 0"),
            ("\ntools = {approval_timeout = 0}\n", "line 2 (`tools.app"),
            (
                "[session]\n\nmax_turns = 0\n",
                "line 3 (`session.max_turns`)",
            ),
            (
                "[session]\nmax_session_tokens = 0",
                "line 2 (`session.max_s",
            ),
            ("[session]\ncompact_at = 0.01\n", "0.1 to 1"),
            (
                "[session]\ncompact_at = nan\n",
                "line 2 (`session.compact_at`): it is NaN",
            ),
            (
                "[models.a]\nbase_url = \"http://x\"\n[models.a.price]\ninput = -1\noutput = 1\n",
                "line 4 (`models.a.price.input`): -1 is no price",
            ),
            (
                "[models.a]\nbase_url = \"http://x\"\n[models.a.price]\ninput = 1.0\n",
                "output",
            ),
        ] {
            assert!(problem(text).contains(named), "{}", problem(text));
        }
        let text = "[session]\nmax_session_tokens = 1000000\ncompact_at = 1\n[models.a]\n\
                    base_url = \"http://x\"\nprice = {input = 3, output = 15.0}\n";
        let config = Config::parse(text).unwrap();
        assert_eq!(config.session.max_session_tokens, Some(1_000_000));
        assert!(config.shown().unwrap().contains("output = 15.0"));
    }

    #[test]
    fn the_sandbox_takes_a_word_or_a_table_and_says_what_is_wrong_with_either() {
        let parsed = |text: &str| Config::parse(text).unwrap().sandbox;
        assert_eq!(parsed(""), parsed("sandbox = \"auto\""));
        assert_eq!(
            parsed("sandbox = \"require\""),
            parsed("[sandbox]\nmode = \"require\"\nnetwork = \"allow\"\nwrite = [\"caches\"]\n")
        );
        let wish = parsed("[sandbox]\nwrite = [\"~/data\", \"/srv\", \"~\"]").wish(
            Some(Path::new("/home/me")),
            vec![],
            vec![],
        );
        let paths: Vec<_> = wish
            .write
            .iter()
            .map(|path| path.to_str().unwrap())
            .collect();
        assert_eq!(paths, ["/home/me/data", "/srv", "/home/me/"]);
        assert!(!wish.caches);
        for (text, place, said) in [
            ("sandbox = \"requir\"", "line 1", "did you mean `require`?"),
            ("sandbox = true", "line 1", "a table with `mode`"),
            (
                "\n[sandbox]\nmod = \"off\"",
                "line 3",
                "did you mean `mode`?",
            ),
            (
                "\n[sandbox]\nmode = \"on\"",
                "line 3",
                "unknown variant `on`",
            ),
            ("\n[sandbox]\nnetwork = \"denied\"", "line 3", "`deny`"),
            (
                "\n[sandbox]\nwrite = \"/srv\"",
                "line 3",
                "expected a sequence",
            ),
            (
                "\n[sandbox]\nwrite = [\n  \"/srv\",\n  \"data\",\n]",
                "line 3",
                "`data` is relative",
            ),
            (
                "\n[sandbox]\nwrite = [\"~you/x\"]",
                "line 3",
                "home of somebody else",
            ),
        ] {
            let problem = problem(text);
            assert!(
                problem.contains(place) && problem.contains(said),
                "{text}: {problem}"
            );
        }
    }

    #[test]
    fn a_default_model_that_is_not_there_is_named() {
        let text = problem("model = \"locl\"\n[models.local]\nbase_url = \"http://x\"\n");
        assert!(
            text.contains("line 1 (`model`): there is no [models.locl]")
                && text.contains("`local`"),
            "{text}"
        );
    }

    #[test]
    fn a_pattern_that_names_no_variable_is_refused() {
        let problem = |pattern| problem(&format!("[tools]\nenvironment = [\"A\",\n{pattern:?}]\n"));
        for (pattern, part) in [
            ("*", "everything"),
            ("A=1", "whose values"),
            ("", "may end in"),
            ("MY VAR", "may end in"),
            ("A*B", "may end in"),
            ("1A", "may end in"),
        ] {
            let text = problem(pattern);
            assert!(
                text.contains("line 3 (`tools.environment`)") && text.contains(part),
                "{text}"
            );
        }
        let good = "[tools]\nenvironment = [\"DATABASE_URL\", \"AWS_*\", \"_x\"]\n";
        assert_eq!(Config::parse(good).unwrap().tools.environment.len(), 3);
    }

    #[test]
    fn a_key_is_never_shown() {
        let text = "[models.a]\nbase_url = \"http://u:sk-2@x/v1?key=sk-3\"\napi_key = \"sk-1\"\n\
                    [models.a.extra_body]\napi_key = \"sk-4\"\ntemperature = 1\n";
        let shown = Config::parse(text).unwrap().shown().unwrap();
        assert!(
            shown.contains("[hidden]@x/v1") && shown.contains("temperature"),
            "{shown}"
        );
        assert!(!shown.contains("sk-"), "{shown}");
        for wrong in [
            "api_kye = \"sk-1\"",
            "api_key = [\"sk-1\"]",
            "api_key = \"sk-1",
        ] {
            let text = problem(&format!("[models.a]\nbase_url = \"http://x\"\n{wrong}\n"));
            assert!(text.contains("line 3") && !text.contains("sk-1"), "{text}");
        }
    }
}
