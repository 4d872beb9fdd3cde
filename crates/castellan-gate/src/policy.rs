//! Policy rules: what has been written down about calls, and what that comes to for one call.
//!
//! A call is judged in pieces: each command of a shell text, each path, each host is one. Of what
//! speaks about a piece the strictest counts (deny, then ask, then allow); a piece nothing speaks
//! of keeps the tool's default; the call gets the strictest of its pieces.
//!
//! Rules that allow are read to the letter, rules that deny or ask are read generously: where a
//! piece only may be what a rule denies (a word that is known when it runs, a text that can't be
//! read, a folder that holds what is denied), a person is asked, whatever was permitted in advance.

mod commands;
mod own;
mod pattern;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use castellan_core::event::Decision;
use castellan_core::grant::glob;
use castellan_core::nearest::likely;
use castellan_core::tool::{DefaultDecision, Effect, Inspection};
use castellan_core::{Caller, Surface, ToolSpec};

use crate::catalog::Catalog;
use crate::error::Error;
use crate::govern::Verdict;
use commands::Piece;
pub(crate) use commands::narrow_grant;
pub(crate) use own::guarded;
pub use own::{PROJECT_FOLDER, PROJECT_RULES};
use pattern::{Bases, CommandPattern, HostPattern, PathPattern};

/// A rule as it was written. Empty lists say nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleText {
    /// Tools, by name or label; `*` stands for any run of characters.
    pub tool: Vec<String>,
    /// Domains of tools.
    pub domain: Vec<String>,
    /// Effects, any of which the tool has.
    pub effects: Vec<String>,
    /// Callers, as `workstream:…`; `*` stands for any run of characters.
    pub caller: Vec<String>,
    /// Surfaces.
    pub surface: Vec<String>,
    /// How a shell command begins.
    pub command: Vec<String>,
    /// Paths, with globs.
    pub path: Vec<String>,
    /// Hosts.
    pub host: Vec<String>,
    /// What the rule says.
    pub action: Decision,
    /// Why.
    pub reason: String,
    /// Where it stands, such as `config.toml:12`.
    pub place: String,
}

/// A rule that can't be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRule {
    /// The key that is wrong; `policy` for the rule as a whole.
    pub key: &'static str,
    /// What is wrong with it.
    pub what: String,
    /// What was expected; may be empty.
    pub hint: String,
}

/// Rules, in the order they were written.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    rules: Vec<Rule>,
    home: Option<PathBuf>,
}

/// Where the rules of a project come from, read once when a session begins or is opened.
pub trait ProjectRules: Send + Sync {
    /// The rules that stand in this folder.
    ///
    /// # Errors
    /// [`Error::Policy`] where there are some and they can't be read: the session must not go on
    /// without them.
    fn read(&self, folder: &Path) -> Result<Policy, Error>;
}

/// No project has rules.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProjectRules;

impl ProjectRules for NoProjectRules {
    fn read(&self, _folder: &Path) -> Result<Policy, Error> {
        Ok(Policy::default())
    }
}

#[derive(Debug, Clone)]
struct Rule {
    text: Arc<RuleText>,
    effects: Vec<Effect>,
    surfaces: Vec<Surface>,
    matter: Matter,
}

/// Which pieces of a call a rule speaks of.
#[derive(Debug, Clone)]
enum Matter {
    All,
    Commands(Vec<CommandPattern>),
    Paths(Vec<PathPattern>),
    Hosts(Vec<HostPattern>),
}

/// Whether a rule speaks of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Match {
    No,
    /// It can't be told, or it holds among other things what the rule speaks of.
    Maybe,
    Yes,
}

/// A call as policy sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) spec: &'a ToolSpec,
    pub(crate) inspection: &'a Inspection,
    pub(crate) caller: &'a Caller,
    pub(crate) workspace: &'a Path,
}

impl Policy {
    /// The rules `texts` say, with the position of a bad one. `home` is what `~` stands for.
    ///
    /// # Errors
    /// [`BadRule`] for the first rule that is empty, that can never match, or whose patterns are
    /// none.
    pub fn new(
        texts: Vec<RuleText>,
        catalog: &Catalog,
        home: Option<PathBuf>,
    ) -> Result<Self, (usize, BadRule)> {
        let rules = texts.into_iter().enumerate().map(|(position, text)| {
            Rule::new(text, catalog, home.as_deref()).map_err(|bad| (position, bad))
        });
        Ok(Self {
            rules: rules.collect::<Result<_, _>>()?,
            home,
        })
    }

    /// How many rules there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

/// Rules that change while the gate stands. Clones are the same rules.
#[derive(Debug, Clone, Default)]
pub struct Evolving(Arc<RwLock<Arc<Policy>>>);

impl Evolving {
    /// The rules that hold now.
    #[must_use]
    pub fn now(&self) -> Arc<Policy> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other rules in their place.
    pub fn set(&self, policy: Policy) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
    }
}

/// What the rules of all `policies` say of a call; `None` where its default stands.
pub(crate) fn judge(policies: [&Policy; 3], case: &Case<'_>) -> Option<Verdict> {
    // The folders that patterns of paths begin in are looked up once.
    let bases = policies.map(|policy| Bases::new(case.workspace, policy.home.as_deref()));
    let rules: Vec<(&Rule, &Bases<'_>)> = policies
        .into_iter()
        .zip(&bases)
        .flat_map(|(policy, bases)| policy.rules.iter().map(move |rule| (rule, bases)))
        .filter(|(rule, _)| rule.is_about(case))
        .collect();
    if rules.is_empty() {
        return None;
    }
    let pieces = commands::pieces(case.inspection);
    let default = case.inspection.default.unwrap_or(case.spec.default);
    let mut strictest: Option<Verdict> = None;
    let mut all_spoken = true;
    for piece in &pieces {
        let spoken = rules
            .iter()
            .filter_map(|(rule, bases)| rule.speak(piece, bases))
            // The first of the strictest: rules are named in the order they were written.
            .reduce(|first, next| {
                if next.strictness() > first.strictness() {
                    next
                } else {
                    first
                }
            });
        match spoken {
            None => all_spoken = false,
            Some(spoken) => {
                let stricter = strictest
                    .as_ref()
                    .is_none_or(|before| spoken.strictness() > before.strictness());
                if stricter {
                    strictest = Some(spoken);
                }
            }
        }
    }
    // Some pieces are allowed and of others nobody speaks: those keep a default that asks.
    strictest.filter(|spoken| {
        spoken.decision != Decision::Allow || all_spoken || default == DefaultDecision::Allow
    })
}

/// The rules about calls of this tool that look at the arguments, in words.
pub(crate) fn conditional(policies: [&Policy; 3], case: &Case<'_>) -> Vec<String> {
    let rules = policies.into_iter().flat_map(|policy| &policy.rules);
    rules
        .filter(|rule| !matches!(rule.matter, Matter::All) && rule.is_about(case))
        .map(|rule| {
            let text = &*rule.text;
            let action = match text.action {
                Decision::Allow => "allows",
                Decision::Ask => "asks about",
                Decision::Deny => "denies",
            };
            let matter = [
                ("the commands", &text.command),
                ("the paths", &text.path),
                ("the hosts", &text.host),
            ];
            let named = matter.iter().find(|(_, list)| !list.is_empty());
            let what = named.map_or_else(String::new, |(what, list)| {
                format!("{what} {}", list.join(", "))
            });
            format!("{} {action} {what}", text.place)
        })
        .collect()
}

impl Rule {
    fn new(text: RuleText, catalog: &Catalog, home: Option<&Path>) -> Result<Self, BadRule> {
        let bad = |key, what: String, hint: &str| BadRule {
            key,
            what,
            hint: hint.to_owned(),
        };
        let lists = [
            ("tool", &text.tool),
            ("domain", &text.domain),
            ("effects", &text.effects),
            ("caller", &text.caller),
            ("surface", &text.surface),
            ("command", &text.command),
            ("path", &text.path),
            ("host", &text.host),
        ];
        if lists.iter().all(|(_, list)| list.is_empty()) {
            let hint = "say at least one of tool, domain, effects, caller, surface, command, path \
                        and host; tool = \"*\" is every tool";
            return Err(bad(
                "policy",
                "the rule says nothing of when it holds".to_owned(),
                hint,
            ));
        }
        for (key, list) in lists {
            if list.iter().any(|entry| entry.trim().is_empty()) {
                return Err(bad(
                    key,
                    "it is empty".to_owned(),
                    "leave the key out, or fill it in",
                ));
            }
        }
        let matters = [&text.command, &text.path, &text.host];
        if matters.iter().filter(|list| !list.is_empty()).count() > 1 {
            let what = "a rule speaks of commands, of paths or of hosts".to_owned();
            return Err(bad("policy", what, "write a rule for each"));
        }
        tools_exist(&text, catalog)?;
        domains_exist(&text, catalog)?;
        let effects = words(&text.effects, "effects", &EFFECTS)?;
        let surfaces = words(
            &text.surface,
            "surface",
            &Surface::ALL.map(|one| (one.as_str(), one)),
        )?;
        let problem = |key| move |(what, hint): (String, &str)| bad(key, what, hint);
        let matter = if !text.command.is_empty() {
            commands_run(&text, catalog)?;
            let patterns = text.command.iter().map(|one| CommandPattern::new(one));
            Matter::Commands(
                patterns
                    .collect::<Result<_, _>>()
                    .map_err(problem("command"))?,
            )
        } else if !text.path.is_empty() {
            let patterns = text.path.iter().map(|one| PathPattern::new(one, home));
            Matter::Paths(
                patterns
                    .collect::<Result<_, _>>()
                    .map_err(problem("path"))?,
            )
        } else if !text.host.is_empty() {
            let patterns = text.host.iter().map(|one| HostPattern::new(one));
            Matter::Hosts(
                patterns
                    .collect::<Result<_, _>>()
                    .map_err(problem("host"))?,
            )
        } else {
            Matter::All
        };
        Ok(Self {
            text: Arc::new(text),
            effects,
            surfaces,
            matter,
        })
    }

    /// Whether it speaks of calls like this one at all.
    fn is_about(&self, case: &Case<'_>) -> bool {
        let text = &*self.text;
        let spec = case.spec;
        let label = &case.inspection.label;
        let named = |pattern: &String| glob(pattern, &spec.name) || glob(pattern, label);
        let tool = if case.inspection.own_grant && text.action == Decision::Allow {
            text.tool.contains(label)
        } else {
            text.tool.is_empty() || text.tool.iter().any(named)
        };
        let caller = || case.caller.principal.to_string();
        tool && (text.domain.is_empty() || text.domain.contains(&spec.domain))
            && (self.effects.is_empty()
                || self.effects.iter().any(|one| spec.effects.contains(one)))
            && (self.surfaces.is_empty() || self.surfaces.contains(&case.caller.surface))
            && (text.caller.is_empty() || {
                let caller = caller();
                text.caller.iter().any(|pattern| glob(pattern, &caller))
            })
    }

    /// What it says of a piece.
    fn speak(&self, piece: &Piece, bases: &Bases<'_>) -> Option<Verdict> {
        let allows = self.text.action == Decision::Allow;
        let found = match (&self.matter, piece) {
            // Nothing that allows covers what can't be read.
            (_, Piece::Unreadable { .. } | Piece::Hidden { .. }) if allows => Match::No,
            (Matter::All, _) => Match::Yes,
            (Matter::Commands(patterns), Piece::Command(command)) if allows => {
                strongest(patterns, |pattern| pattern.exactly(command))
            }
            (Matter::Commands(patterns), Piece::Command(command)) => {
                strongest(patterns, |pattern| pattern.generously(&command.words()))
            }
            (Matter::Commands(patterns), Piece::Unreadable { words, .. }) => {
                strongest(patterns, |pattern| pattern.anywhere(words)).max(Match::Maybe)
            }
            (Matter::Commands(_), Piece::Hidden { .. }) => Match::Maybe,
            (Matter::Paths(patterns), Piece::Path(path)) => strongest(patterns, |pattern| {
                let base = pattern.base(bases);
                if allows {
                    pattern.exactly(path, base)
                } else {
                    pattern.generously(path, base)
                }
            }),
            (Matter::Hosts(patterns), Piece::Host(host)) => {
                strongest(patterns, |pattern| pattern.matches(host))
            }
            (Matter::Commands(_) | Matter::Paths(_) | Matter::Hosts(_), _) => Match::No,
        };
        match (found, self.text.action) {
            (Match::No, _) | (Match::Maybe, Decision::Allow) => None,
            (Match::Yes, action) => Some(self.says(action, false, self.reason(piece))),
            (Match::Maybe, action) => {
                let firm = action == Decision::Deny;
                let reason = format!("{}: {}", piece.doubt(), self.reason(piece));
                Some(self.says(Decision::Ask, firm, reason))
            }
        }
    }

    fn says(&self, decision: Decision, firm: bool, reason: String) -> Verdict {
        Verdict {
            decision,
            firm,
            by: format!("policy ({})", self.text.place),
            reason,
        }
    }

    fn reason(&self, piece: &Piece) -> String {
        if !self.text.reason.is_empty() {
            return self.text.reason.clone();
        }
        let verb = match self.text.action {
            Decision::Allow => "allows",
            Decision::Ask => "asks about",
            Decision::Deny => "denies",
        };
        format!("a rule {verb} {}", piece.described())
    }
}

fn strongest<P>(patterns: &[P], matches: impl Fn(&P) -> Match) -> Match {
    let found = patterns.iter().map(matches);
    found.max().unwrap_or(Match::No)
}

const EFFECTS: [(&str, Effect); 5] = [
    ("read_only", Effect::ReadOnly),
    ("writes", Effect::Writes),
    ("network", Effect::Network),
    ("executes", Effect::Executes),
    ("high_impact", Effect::HighImpact),
];

/// The values that these words are names of.
fn words<T: Copy>(
    written: &[String],
    key: &'static str,
    known: &[(&'static str, T)],
) -> Result<Vec<T>, BadRule> {
    let find = |word: &String| {
        let found = known.iter().find(|(name, _)| name == word);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            unknown(key, word, "a word for it", &names)
        })
    };
    written.iter().map(find).collect()
}

fn unknown(key: &'static str, word: &str, what: &str, names: &[&str]) -> BadRule {
    let hint = match likely(word, names.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("known are {}", names.join(", ")),
    };
    BadRule {
        key,
        what: format!("`{word}` is not {what}"),
        hint,
    }
}

/// A tool that is named without a glob must exist: the rule would never hold.
fn tools_exist(text: &RuleText, catalog: &Catalog) -> Result<(), BadRule> {
    let exact = text.tool.iter().filter(|pattern| !pattern.contains('*'));
    for name in exact {
        let labelled = catalog.specs().any(|spec| spec.labels.contains(name));
        if catalog.get(name).is_none() && !labelled {
            let names: Vec<&str> = catalog.specs().map(|spec| spec.name.as_str()).collect();
            return Err(unknown("tool", name, "a tool", &names));
        }
    }
    Ok(())
}

fn domains_exist(text: &RuleText, catalog: &Catalog) -> Result<(), BadRule> {
    let mut names: Vec<&str> = catalog.specs().map(|spec| spec.domain.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    match text
        .domain
        .iter()
        .find(|one| !names.contains(&one.as_str()))
    {
        Some(name) => Err(unknown("domain", name, "a domain of tools", &names)),
        None => Ok(()),
    }
}

/// A rule about commands must be able to meet one.
fn commands_run(text: &RuleText, catalog: &Catalog) -> Result<(), BadRule> {
    let runs = |pattern: &String| {
        let mut tools = catalog
            .specs()
            .filter(|spec| glob(pattern, &spec.name) || spec.labels.contains(pattern));
        pattern.contains('*') || tools.any(|spec| spec.effects.contains(&Effect::Executes))
    };
    if text.tool.is_empty() || text.tool.iter().any(runs) {
        return Ok(());
    }
    Err(BadRule {
        key: "command",
        what: format!("{} runs no commands", text.tool.join(", ")),
        hint: "leave `tool` out, or write tool = \"bash\"".to_owned(),
    })
}

#[cfg(test)]
mod tests;
