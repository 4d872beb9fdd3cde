//! Progressive disclosure: a large catalog shown to a caller bit by bit, so that it costs little of
//! their context. First the domains, then cards (a name and a line each), then one tool in full.
//!
//! What a caller may see is a [`Profile`]. A tool that is hidden from them is absent everywhere:
//! from lists, from searches, and from calls.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use castellan_core::event::Decision;
use castellan_core::grant::glob;
use castellan_core::nearest::nearest;
use castellan_core::tool::{Effect, Inspection};
use castellan_core::{Caller, Surface, ToolSpec};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::catalog::Catalog;
use crate::govern::{decide, unattended};
use crate::policy::{self, Case, Evolving, Policy};

/// The domain of the tools through which the others are found.
const META: &str = "meta";

/// The longest query, in characters.
pub const QUERY_LIMIT: usize = 256;
/// How many tools a search returns that doesn't say.
pub const FOUND: usize = 10;
/// The most tools a search returns.
pub const MOST_FOUND: usize = 50;
/// How many names are offered in place of an unknown one.
const NEAREST: usize = 5;

/// Every domain, in the order they are shown, with what it is about.
pub const DOMAINS: [(&str, &str); 13] = [
    ("meta", "find tools and read how they are called"),
    (
        "substrate",
        "signals that fade, a blackboard, and snapshots that all agents share",
    ),
    ("multiplexer", "what runs and waits here, in one line"),
    (
        "evolve",
        "proposals to change the harness, and decisions about them",
    ),
    ("memory", "what is to be remembered beyond a session"),
    ("relay.identity", "who the agents are"),
    ("relay.messages", "mail between agents"),
    ("relay.tasks", "work handed from agent to agent"),
    ("relay.channels", "rooms that many agents read"),
    ("relay.webhooks", "word to other programs"),
    ("relay.overview", "who is there and what waits"),
    ("workspace", "files, search and the shell of this machine"),
    ("gateway", "tools of other MCP servers"),
];

/// Which tools a caller is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// What it is called.
    pub name: String,
    /// The domains it shows.
    pub domains: Vec<String>,
    /// Tools of these domains that it hides, by name; `*` stands for any run of characters.
    pub hide: Vec<String>,
}

impl Profile {
    /// The names of the profiles that are built in, the default first.
    pub const NAMES: [&str; 4] = ["team", "solo", "ci", "full"];

    /// The built-in profile of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let hidden = match name {
            "team" | "ci" => vec!["workspace", "gateway"],
            "solo" => vec!["workspace", "gateway", "relay.channels", "relay.webhooks"],
            "full" => vec![],
            _ => return None,
        };
        let hide = match name {
            "ci" => vec!["*spawn*".to_owned(), "*pane*".to_owned()],
            _ => vec![],
        };
        let all = DOMAINS.iter().map(|(domain, _)| *domain);
        Some(Self {
            name: name.to_owned(),
            domains: all
                .filter(|domain| !hidden.contains(domain))
                .map(str::to_owned)
                .collect(),
            hide,
        })
    }

    /// Whether it shows a tool.
    #[must_use]
    pub fn shows(&self, spec: &ToolSpec) -> bool {
        self.domains.contains(&spec.domain)
            && !self.hide.iter().any(|pattern| glob(pattern, &spec.name))
    }
}

/// A domain with how many tools it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DomainCard {
    /// Its name.
    pub domain: String,
    /// What it is about.
    pub about: String,
    /// How many of its tools there are here.
    pub tools: usize,
}

/// A tool in a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Card {
    /// Its name.
    pub name: String,
    /// The domain it is in.
    pub domain: String,
    /// What it does.
    pub summary: String,
}

/// How the tools that were found were chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ranking {
    /// By the words they have in common with the query, the rarer the better.
    Bm25,
    /// Because they contain the query's letters: no tool has one of its words.
    Substring,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Found {
    /// How the tools were chosen.
    pub ranking: Ranking,
    /// How many fit.
    pub total: usize,
    /// The best of them, best first.
    pub tools: Vec<Card>,
}

/// What would be decided about a call, as far as that can be said without its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Outlook {
    /// `allow`, `ask` or `deny`.
    pub decision: Decision,
    /// What decides.
    pub by: String,
    /// Why.
    pub reason: String,
    /// Rules that decide otherwise about some arguments: where each stands and what it says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
}

/// A tool in full.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Details {
    /// Its name.
    pub name: String,
    /// The domain it is in.
    pub domain: String,
    /// What it does, in a line.
    pub summary: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
    /// JSON Schema of its structured result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// What must hold before a call.
    pub preconditions: Vec<String>,
    /// What a call changes.
    pub side_effects: Vec<String>,
    /// Arguments that work.
    pub examples: Vec<Value>,
    /// What a call can do to the world.
    pub effects: Vec<Effect>,
    /// What would be decided about a call of this caller.
    pub policy: Outlook,
}

/// Why a name leads to no tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// There is none of that name; these come nearest.
    Unknown(Vec<String>),
    /// It is hidden from the caller.
    Hidden,
}

/// How tools are shown that are not shown as they come, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown {
    /// The tools that are hidden. The meta tools never are: nobody would find the others.
    pub hidden: BTreeSet<String>,
    /// Summaries in place of the tools' own.
    pub summaries: BTreeMap<String, String>,
}

/// The same while it changes. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Overlay(Arc<RwLock<Arc<Shown>>>);

impl Overlay {
    /// What holds now.
    #[must_use]
    pub fn now(&self) -> Arc<Shown> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts something else in its place; whether that changes anything.
    pub fn set(&self, shown: Shown) -> bool {
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let changed = **held != shown;
        *held = Arc::new(shown);
        changed
    }
}

/// The catalog as one kind of caller is shown it.
#[derive(Debug, Clone)]
pub struct Disclosure {
    catalog: Arc<Catalog>,
    surface: Surface,
    profile: Profile,
    policy: Policy,
    evolved: Evolving,
    overlay: Overlay,
}

impl Disclosure {
    /// The catalog as callers on `surface` with this profile are shown it; `policy` is what
    /// [`describe`](Self::describe) speaks of.
    #[must_use]
    pub fn new(catalog: Arc<Catalog>, surface: Surface, profile: Profile, policy: Policy) -> Self {
        Self {
            catalog,
            surface,
            profile,
            policy,
            evolved: Evolving::default(),
            overlay: Overlay::default(),
        }
    }

    /// The same with rules and ways of showing tools that change.
    #[must_use]
    pub fn evolving(self, evolved: Evolving, overlay: Overlay) -> Self {
        Self {
            evolved,
            overlay,
            ..self
        }
    }

    /// The summary of a tool as it is shown.
    #[must_use]
    pub fn summary(&self, spec: &ToolSpec) -> String {
        let shown = self.overlay.now();
        let own = shown.summaries.get(&spec.name);
        own.unwrap_or(&spec.summary).clone()
    }

    /// The profile.
    #[must_use]
    pub const fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The tools that are shown, in the order of the catalog.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.catalog.specs().filter(|spec| self.shows(spec))
    }

    fn shows(&self, spec: &ToolSpec) -> bool {
        spec.appears_on(self.surface)
            && self.profile.shows(spec)
            && (spec.domain == META || !self.overlay.now().hidden.contains(&spec.name))
    }

    /// The domains that have tools here.
    #[must_use]
    pub fn domains(&self) -> Vec<DomainCard> {
        let card = |(domain, about): &(&str, &str)| DomainCard {
            domain: (*domain).to_owned(),
            about: (*about).to_owned(),
            tools: self.specs().filter(|spec| spec.domain == *domain).count(),
        };
        let cards = DOMAINS.iter().map(card);
        cards.filter(|card| card.tools > 0).collect()
    }

    /// Whether it has tools of that domain.
    #[must_use]
    pub fn has_domain(&self, domain: &str) -> bool {
        self.specs().any(|spec| spec.domain == domain)
    }

    /// The cards of a domain, or of all.
    #[must_use]
    pub fn cards(&self, domain: Option<&str>) -> Vec<Card> {
        self.specs()
            .filter(|spec| domain.is_none_or(|domain| spec.domain == domain))
            .map(|spec| self.card(spec))
            .collect()
    }

    fn card(&self, spec: &ToolSpec) -> Card {
        Card {
            name: spec.name.clone(),
            domain: spec.domain.clone(),
            summary: self.summary(spec),
        }
    }

    /// The tools that fit a query best.
    #[must_use]
    pub fn search(&self, query: &str, domain: Option<&str>, limit: usize) -> Found {
        let shown = |spec: &&ToolSpec| {
            self.shows(spec) && domain.is_none_or(|domain| spec.domain == domain)
        };
        let ranked = self.catalog.search(query, usize::MAX);
        let mut fitting: Vec<&ToolSpec> = ranked.into_iter().filter(shown).collect();
        let mut ranking = Ranking::Bm25;
        if fitting.is_empty() {
            ranking = Ranking::Substring;
            fitting = containing(query, self.catalog.specs().filter(shown));
        }
        Found {
            ranking,
            total: fitting.len(),
            tools: fitting
                .into_iter()
                .take(limit)
                .map(|spec| self.card(spec))
                .collect(),
        }
    }

    /// The tool of that name.
    ///
    /// # Errors
    /// [`Missing`].
    pub fn find(&self, name: &str) -> Result<&ToolSpec, Missing> {
        match self.catalog.get(name.trim()) {
            Some(tool) if self.shows(tool.spec()) => Ok(tool.spec()),
            Some(_) => Err(Missing::Hidden),
            None => {
                let names = self.specs().map(|spec| spec.name.as_str());
                let mut near = nearest(name, names);
                near.truncate(NEAREST);
                Err(Missing::Unknown(
                    near.into_iter().map(str::to_owned).collect(),
                ))
            }
        }
    }

    /// A tool in full, with what would be decided about calls of `caller`; `rules` are those of the
    /// project, and `asks` says whether somebody can be asked.
    #[must_use]
    pub fn describe(
        &self,
        spec: &ToolSpec,
        caller: &Caller,
        (rules, workspace): (&Policy, &Path),
        asks: bool,
    ) -> Details {
        Details {
            name: spec.name.clone(),
            domain: spec.domain.clone(),
            summary: self.summary(spec),
            description: spec.description.clone(),
            parameters: spec.parameters.clone(),
            output_schema: spec.output_schema.clone(),
            preconditions: spec.preconditions.clone(),
            side_effects: spec.side_effects.clone(),
            examples: spec.examples.clone(),
            effects: spec.effects.clone(),
            policy: self.outlook(spec, caller, (rules, workspace), asks),
        }
    }

    fn outlook(
        &self,
        spec: &ToolSpec,
        caller: &Caller,
        (rules, workspace): (&Policy, &Path),
        asks: bool,
    ) -> Outlook {
        let inspection = Inspection::new(&spec.name, "");
        let case = Case {
            spec,
            inspection: &inspection,
            caller,
            workspace,
        };
        let evolved = self.evolved.now();
        let policies = [&self.policy, rules, &*evolved];
        let spoken: Vec<_> = policy::judge(policies, &case).into_iter().collect();
        let mut verdict = decide(spec, &inspection, caller, &spoken);
        if verdict.decision == Decision::Ask && !asks {
            verdict = unattended(verdict);
        }
        Outlook {
            decision: verdict.decision,
            by: verdict.by,
            reason: verdict.reason,
            depends_on: policy::conditional(policies, &case),
        }
    }
}

/// The tools that contain the letters of every word of the query; those with all of them in their
/// name first.
fn containing<'a>(query: &str, specs: impl Iterator<Item = &'a ToolSpec>) -> Vec<&'a ToolSpec> {
    let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    if words.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<(bool, &ToolSpec)> = specs
        .filter_map(|spec| {
            let name = spec.name.to_lowercase();
            let all = [&spec.summary, &spec.description, &spec.domain]
                .iter()
                .fold(name.clone(), |all, part| {
                    format!("{all}\n{}", part.to_lowercase())
                });
            let is_in = |text: &str| words.iter().all(|word| text.contains(word));
            is_in(&all).then(|| (!is_in(&name), spec))
        })
        .collect();
    // Stable: equal ones stay in the order of the catalog.
    found.sort_by_key(|(elsewhere, _)| *elsewhere);
    found.into_iter().map(|(_, spec)| spec).collect()
}
