//! Rules and hooks as they are written, in the configuration and in a project.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use castellan_core::event::Decision;
use castellan_core::nearest::likely;
use castellan_gate::hooks::{Hook, HookEvent, Matcher, is_familiar};
use castellan_gate::policy::{BadRule, PROJECT_RULES, ProjectRules, RuleText};
use castellan_gate::{Catalog, Error, Policy};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use toml::Spanned;

use super::{Problem, read};

/// Seconds a hook may take that sets no limit of its own.
const HOOK_TIMEOUT: u64 = 10;
/// The most seconds a hook may take: it holds up every call it is about.
const LONGEST_HOOK: u64 = 60;

/// A text, or several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct Words(Vec<String>);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany;
        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Words;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of texts")
            }

            fn visit_str<E>(self, text: &str) -> Result<Words, E> {
                Ok(Words(vec![text.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Words, A::Error> {
                let mut words = Vec::new();
                while let Some(word) = list.next_element()? {
                    words.push(word);
                }
                Ok(Words(words))
            }
        }
        deserializer.deserialize_any(OneOrMany)
    }
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyConfig {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool: Option<Spanned<Words>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    domain: Option<Spanned<Words>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    effects: Option<Spanned<Words>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    caller: Option<Spanned<Words>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    surface: Option<Spanned<Words>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<Spanned<Words>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<Spanned<Words>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<Spanned<Words>>,
    action: Spanned<Decision>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reason: String,
}

/// A hook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HookConfig {
    event: Event,
    /// The tools it is about: names with `*`, several with `|` between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    matcher: Option<Spanned<String>>,
    command: Spanned<String>,
    /// Seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout: Option<Spanned<u64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Event {
    PreTool,
    PostTool,
}

/// What a project's file holds.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ProjectFile {
    policy: Vec<Spanned<PolicyConfig>>,
}

/// The rules of these tables of `text`, which `name` is what the file is called.
pub(super) fn policy(
    (text, name): (&str, &str),
    tables: &[Spanned<PolicyConfig>],
    catalog: &Catalog,
    home: Option<PathBuf>,
) -> Result<Policy, Problem> {
    let texts = tables
        .iter()
        .map(|table| {
            let place = format!("{name}:{}", line_of(text, table.span().start));
            table.get_ref().text(place)
        })
        .collect();
    Policy::new(texts, catalog, home).map_err(|(position, bad)| {
        let BadRule { key, what, hint } = bad;
        let Some(table) = tables.get(position) else {
            return Problem { what, hint };
        };
        let offset = match table.get_ref().span_of(key) {
            Some(start) => start,
            None => table.span().start,
        };
        Problem::at(text, offset, key, &what, hint)
    })
}

impl PolicyConfig {
    fn lists(&self) -> [(&'static str, Option<&Spanned<Words>>); 8] {
        [
            ("tool", self.tool.as_ref()),
            ("domain", self.domain.as_ref()),
            ("effects", self.effects.as_ref()),
            ("caller", self.caller.as_ref()),
            ("surface", self.surface.as_ref()),
            ("command", self.command.as_ref()),
            ("path", self.path.as_ref()),
            ("host", self.host.as_ref()),
        ]
    }

    fn span_of(&self, key: &str) -> Option<usize> {
        let lists = self.lists();
        let (_, found) = lists.iter().find(|(name, _)| *name == key)?;
        found.map(|words| words.span().start)
    }

    fn text(&self, place: String) -> RuleText {
        let words = |list: &Option<Spanned<Words>>| match list {
            // An empty list would say nothing, and so mean everything.
            Some(words) if words.get_ref().0.is_empty() => vec![String::new()],
            Some(words) => words.get_ref().0.clone(),
            None => Vec::new(),
        };
        RuleText {
            tool: words(&self.tool),
            domain: words(&self.domain),
            effects: words(&self.effects),
            caller: words(&self.caller),
            surface: words(&self.surface),
            command: words(&self.command),
            path: words(&self.path),
            host: words(&self.host),
            action: *self.action.get_ref(),
            reason: self.reason.clone(),
            place,
        }
    }
}

/// The hooks of these tables of `text`.
pub(super) fn hooks(
    text: &str,
    tables: &[HookConfig],
    catalog: &Catalog,
) -> Result<Vec<Hook>, Problem> {
    tables
        .iter()
        .map(|table| {
            let problem = |start: usize, key, what: &str, hint: &str| {
                Problem::at(text, start, key, what, hint.to_owned())
            };
            let command = table.command.get_ref();
            if command.trim().is_empty() {
                let start = table.command.span().start;
                return Err(problem(
                    start,
                    "command",
                    "it is empty",
                    "write what to run",
                ));
            }
            let matcher = match &table.matcher {
                None => Matcher::new(""),
                Some(matcher) => Matcher::new(matcher.get_ref()),
            };
            let start = table
                .matcher
                .as_ref()
                .map_or(0, |matcher| matcher.span().start);
            let hint = "write names of tools with `*`, several with `|` between them";
            let matcher = matcher.map_err(|what| problem(start, "matcher", &what, hint))?;
            let names = || catalog.specs().map(|spec| spec.name.as_str());
            for name in matcher.exact() {
                if catalog.get(name).is_none() && !is_familiar(name) {
                    let hint = match likely(name, names()) {
                        Some(name) => format!("did you mean `{name}`?"),
                        None => format!("the tools are {}", names().collect::<Vec<_>>().join(", ")),
                    };
                    let what = format!("there is no tool `{name}`");
                    return Err(problem(start, "matcher", &what, &hint));
                }
            }
            let seconds = match &table.timeout {
                None => HOOK_TIMEOUT,
                Some(seconds) if (1..=LONGEST_HOOK).contains(seconds.get_ref()) => {
                    *seconds.get_ref()
                }
                Some(seconds) => {
                    let what = format!("it is {}", seconds.get_ref());
                    let hint = "it is a number of seconds from 1 to 60";
                    return Err(problem(seconds.span().start, "timeout", &what, hint));
                }
            };
            Ok(Hook {
                event: match table.event {
                    Event::PreTool => HookEvent::PreTool,
                    Event::PostTool => HookEvent::PostTool,
                },
                matcher,
                command: command.clone(),
                timeout: Duration::from_secs(seconds),
            })
        })
        .collect()
}

/// The line an offset is in, from 1.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    let before = text.get(..offset).unwrap_or(text);
    before.matches('\n').count() + 1
}

/// Rules that stand in the project's own folder. Whoever wrote the project is not who answers for
/// this machine, so its rules can make things stricter and nothing else.
pub(crate) struct RulesInProject {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) home: Option<PathBuf>,
}

impl ProjectRules for RulesInProject {
    fn read(&self, folder: &Path) -> Result<Policy, Error> {
        let path = folder.join(PROJECT_RULES);
        let wrong = |problem: Problem| Error::Policy {
            what: format!(
                "the rules in {} are wrong: {}",
                path.display(),
                problem.what
            ),
            hint: problem.hint,
        };
        let text = match read(&path) {
            Ok(text) => text,
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(Policy::default());
            }
            Err(error) => {
                return Err(Error::Policy {
                    what: format!("failed to read the rules in {}: {error}", path.display()),
                    hint: String::new(),
                });
            }
        };
        let file: ProjectFile =
            toml::from_str(&text).map_err(|error| wrong(Problem::of(&text, &error)))?;
        let allows =
            |table: &&Spanned<PolicyConfig>| *table.get_ref().action.get_ref() == Decision::Allow;
        if let Some(table) = file.policy.iter().find(allows) {
            let start = table.get_ref().action.span().start;
            let hint = "a project's rules can ask and deny; what is allowed stands in your own \
                        configuration";
            let what = "a project can't allow anything";
            return Err(wrong(Problem::at(
                &text,
                start,
                "action",
                what,
                hint.to_owned(),
            )));
        }
        policy(
            (&text, PROJECT_RULES),
            &file.policy,
            &self.catalog,
            self.home.clone(),
        )
        .map_err(wrong)
    }
}
