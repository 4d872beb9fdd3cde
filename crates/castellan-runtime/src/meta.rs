//! The meta tools: `castellan_discover_tools`, `castellan_search_tools` and
//! `castellan_describe_tool`. Through them a caller finds its way in a large catalog without having
//! all of it in its context.

use std::sync::{Arc, OnceLock};

use castellan_core::caller::Surface;
use castellan_core::outcome::Retry;
use castellan_core::tool::{
    CallContext, DefaultDecision, Effect, Inspection, Report, SessionView, Typed, TypedTool,
};
use castellan_core::{EffectStatus, ErrorCode, Outcome, Tool, ToolSpec};
use castellan_gate::disclosure::{
    Card, Details, Disclosure, DomainCard, FOUND, MOST_FOUND, Missing, QUERY_LIMIT, Ranking,
};
use castellan_gate::policy::{Policy, ProjectRules};
use futures::future::{BoxFuture, FutureExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::engine::DISCOVERY;

/// What the meta tools look into. They are part of the catalog they show, so it is filled in once
/// the catalog is built.
#[derive(Clone, Default)]
pub struct Looking(Arc<OnceLock<Insight>>);

struct Insight {
    disclosure: Disclosure,
    rules: Arc<dyn ProjectRules>,
}

impl std::fmt::Debug for Looking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Looking").field(&self.disclosure()).finish()
    }
}

impl Looking {
    /// Fills it in; the first one counts.
    pub fn fill(&self, disclosure: Disclosure, rules: Arc<dyn ProjectRules>) {
        self.0.get_or_init(|| Insight { disclosure, rules });
    }

    /// The catalog as callers are shown it, once it is filled in.
    #[must_use]
    pub fn disclosure(&self) -> Option<&Disclosure> {
        self.0.get().map(|insight| &insight.disclosure)
    }

    fn insight(&self) -> Result<&Insight, Outcome> {
        self.0
            .get()
            .ok_or_else(|| Outcome::failed("the catalog is not open for looking around here", ""))
    }
}

/// The meta tools over what `looking` will hold.
#[must_use]
pub fn tools(looking: &Looking) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(Typed::new(Discover::new(looking.clone()))),
        Arc::new(Typed::new(Search::new(looking.clone()))),
        Arc::new(Typed::new(Describe::new(looking.clone()))),
    ]
}

/// What all three have in common.
fn spec<P: JsonSchema, R: JsonSchema>(name: &str, summary: &str, description: &str) -> ToolSpec {
    let mut spec = ToolSpec::new::<P>(name, DISCOVERY, summary, description);
    spec.effects = vec![Effect::ReadOnly];
    spec.surfaces = vec![Surface::Mcp, Surface::Episode];
    spec.default = DefaultDecision::Allow;
    spec.output_schema = Some(castellan_core::tool::result_schema::<R>());
    spec
}

/// A result as its tool's output.
pub(crate) fn answered<R: Serialize>(result: &R) -> Outcome {
    serde_json::to_string(result).map_or_else(
        |error| Outcome::failed(format!("the result can't be written: {error}"), ""),
        Outcome::read,
    )
}

pub(crate) fn refused(code: ErrorCode, what: String, next: impl Into<String>) -> Outcome {
    Outcome::Failed {
        output: String::new(),
        code,
        what,
        effect: EffectStatus::None,
        retry: Retry::Useful,
        next: next.into(),
    }
}

/// A domain that may be asked for.
fn known_domain(disclosure: &Disclosure, domain: Option<&str>) -> Result<(), Outcome> {
    match domain {
        Some(domain) if !disclosure.has_domain(domain) => {
            let domains = disclosure.domains();
            let names: Vec<_> = domains.iter().map(|card| card.domain.as_str()).collect();
            Err(refused(
                ErrorCode::UnknownDomain,
                format!(
                    "there is no domain `{}`",
                    castellan_core::text::shorten(domain, 64)
                ),
                format!("the domains are {}", names.join(", ")),
            ))
        }
        _ => Ok(()),
    }
}

/// Looks at nothing beyond the arguments.
fn plain<'a>(name: &str, header: String) -> BoxFuture<'a, Result<(Inspection, ()), Outcome>> {
    futures::future::ready(Ok((Inspection::new(name, header), ()))).boxed()
}

/// The arguments of `castellan_discover_tools`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiscoverParams {
    /// The domain whose tools to show; without it the domains are shown.
    #[serde(default)]
    domain: Option<String>,
}

/// What `castellan_discover_tools` answers.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Discovered {
    ok: bool,
    /// The profile that decides what is shown.
    profile: String,
    /// The domains; absent where one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    domains: Option<Vec<DomainCard>>,
    /// The tools of the domain that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<Card>>,
    /// How to go on.
    next: String,
}

struct Discover {
    spec: ToolSpec,
    looking: Looking,
}

impl Discover {
    fn new(looking: Looking) -> Self {
        let mut spec = spec::<DiscoverParams, Discovered>(
            "castellan_discover_tools",
            "Browse the tools by domain: the domains first, then a domain's tools",
            "Shows what there is. Without arguments: the domains, what each is about and how many \
             tools it has. With `domain`: the tools of that domain, a name and a line each. \
             castellan_describe_tool shows one tool in full.",
        );
        spec.primary_key = Some("domain".to_owned());
        spec.examples = vec![json!({"domain": "substrate"}), json!({})];
        Self { spec, looking }
    }
}

impl TypedTool for Discover {
    type Params = DiscoverParams;
    type Plan = ();

    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn inspect<'a>(
        &'a self,
        params: &'a DiscoverParams,
        _view: &'a SessionView,
    ) -> BoxFuture<'a, Result<(Inspection, ()), Outcome>> {
        let what = params.domain.as_deref().unwrap_or("all domains");
        plain(&self.spec.name, format!("show the tools of {what}"))
    }

    fn execute(
        self: Arc<Self>,
        params: DiscoverParams,
        (): (),
        _context: CallContext,
    ) -> BoxFuture<'static, Report> {
        let outcome = self.looking.insight().and_then(|insight| {
            let disclosure = &insight.disclosure;
            known_domain(disclosure, params.domain.as_deref())?;
            let profile = disclosure.profile().name.clone();
            Ok(answered(&match params.domain.as_deref() {
                None => Discovered {
                    ok: true,
                    profile,
                    domains: Some(disclosure.domains()),
                    tools: None,
                    next: "castellan_discover_tools with a `domain` shows its tools; \
                           castellan_search_tools finds tools by words"
                        .to_owned(),
                },
                domain => Discovered {
                    ok: true,
                    profile,
                    domains: None,
                    tools: Some(disclosure.cards(domain)),
                    next: "castellan_describe_tool with a `name` shows its parameters".to_owned(),
                },
            }))
        });
        let outcome = outcome.unwrap_or_else(|refused| refused);
        futures::future::ready(outcome.into()).boxed()
    }
}

/// The arguments of `castellan_search_tools`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchParams {
    /// What is looked for, in a few words; at most 256 characters.
    #[schemars(length(min = 1, max = 256))]
    query: String,
    /// Only tools of this domain.
    #[serde(default)]
    domain: Option<String>,
    /// At most so many tools; 10 where absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 50))]
    limit: Option<usize>,
}

/// What `castellan_search_tools` answers.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Searched {
    ok: bool,
    /// How the tools were chosen: by whole words, or, where no tool has one, by letters.
    ranking: Ranking,
    /// How many tools fit.
    total: usize,
    /// The best of them, best first.
    tools: Vec<Card>,
    /// How to go on.
    next: String,
}

struct Search {
    spec: ToolSpec,
    looking: Looking,
}

impl Search {
    fn new(looking: Looking) -> Self {
        let mut spec = spec::<SearchParams, Searched>(
            "castellan_search_tools",
            "Find tools by what they are to do, in a few words",
            "Finds the tools that fit a few words best, by name, summary, description and domain. \
             `ranking` says whether whole words were found (bm25) or only parts of words \
             (substring). castellan_describe_tool shows one tool in full.",
        );
        spec.primary_key = Some("query".to_owned());
        spec.examples = vec![json!({"query": "deposit", "domain": "substrate"})];
        Self { spec, looking }
    }

    fn find(&self, params: &SearchParams) -> Result<Outcome, Outcome> {
        let disclosure = &self.looking.insight()?.disclosure;
        known_domain(disclosure, params.domain.as_deref())?;
        let found = disclosure.search(
            &params.query,
            params.domain.as_deref(),
            params.limit.unwrap_or(FOUND),
        );
        let next = if found.tools.is_empty() {
            "no tool fits; other words may, or castellan_discover_tools shows the domains"
        } else {
            "castellan_describe_tool with a `name` shows its parameters"
        };
        Ok(answered(&Searched {
            ok: true,
            ranking: found.ranking,
            total: found.total,
            tools: found.tools,
            next: next.to_owned(),
        }))
    }
}

impl TypedTool for Search {
    type Params = SearchParams;
    type Plan = ();

    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, params: &SearchParams) -> Result<(), Outcome> {
        let length = params.query.chars().count();
        if length > QUERY_LIMIT {
            return Err(refused(
                ErrorCode::QueryTooLong,
                format!("the query has {length} characters, and at most {QUERY_LIMIT} are taken"),
                "say it in a few words",
            ));
        }
        if params.query.trim().is_empty() {
            let next = "say in a few words what the tool is to do, or browse with \
                        castellan_discover_tools";
            return Err(Outcome::invalid("the query is empty", next));
        }
        match params.limit {
            Some(limit) if !(1..=MOST_FOUND).contains(&limit) => Err(Outcome::invalid(
                format!("`limit` is {limit}, and 1 to {MOST_FOUND} are taken"),
                "",
            )),
            _ => Ok(()),
        }
    }

    fn inspect<'a>(
        &'a self,
        params: &'a SearchParams,
        _view: &'a SessionView,
    ) -> BoxFuture<'a, Result<(Inspection, ()), Outcome>> {
        let header = format!("find tools for `{}`", params.query);
        plain(&self.spec.name, header)
    }

    fn execute(
        self: Arc<Self>,
        params: SearchParams,
        (): (),
        _context: CallContext,
    ) -> BoxFuture<'static, Report> {
        let outcome = self.find(&params).unwrap_or_else(|refused| refused);
        futures::future::ready(outcome.into()).boxed()
    }
}

/// The arguments of `castellan_describe_tool`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DescribeParams {
    /// The tool.
    name: String,
}

/// What `castellan_describe_tool` answers.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Described {
    ok: bool,
    /// The tool.
    tool: Details,
}

struct Describe {
    spec: ToolSpec,
    looking: Looking,
}

impl Describe {
    fn new(looking: Looking) -> Self {
        let mut spec = spec::<DescribeParams, Described>(
            "castellan_describe_tool",
            "Show one tool in full: parameters, conditions, effects, examples, policy",
            "Shows everything about one tool: the JSON Schema of its arguments and of its result, \
             what must hold before a call, what a call changes, arguments that work, and what \
             policy will say of your calls.",
        );
        spec.primary_key = Some("name".to_owned());
        spec.examples = vec![json!({"name": "castellan_deposit_signal"})];
        Self { spec, looking }
    }

    fn describe(&self, name: &str, context: &CallContext) -> Result<Outcome, Outcome> {
        let insight = self.looking.insight()?;
        let spec = insight
            .disclosure
            .find(name)
            .map_err(|missing| missed(name, missing))?;
        let workspace = &context.view.workspace;
        let rules: Policy = match insight.rules.read(workspace) {
            Ok(rules) => rules,
            Err(error) => {
                let what = format!(
                    "the rules of this project can't be read: {}",
                    castellan_core::text::chain(&error)
                );
                return Err(Outcome::failed(what, "mend that file first"));
            }
        };
        let asks = context.caller.surface.has_person() || context.elicitation.is_some();
        let tool = insight
            .disclosure
            .describe(spec, &context.caller, (&rules, workspace), asks);
        Ok(answered(&Described { ok: true, tool }))
    }
}

/// Why a name leads to no tool.
#[must_use]
pub fn missed(name: &str, missing: Missing) -> Outcome {
    let name = castellan_core::text::shorten(name, 64);
    match missing {
        Missing::Unknown(near) => refused(
            ErrorCode::ToolNotFound,
            format!("there is no tool named `{name}`"),
            format!("the nearest names are {}", near.join(", ")),
        ),
        Missing::Hidden => refused(
            ErrorCode::ToolNotAvailable,
            format!("the tool `{name}` is not available here"),
            "what is available, castellan_discover_tools shows",
        ),
    }
}

impl TypedTool for Describe {
    type Params = DescribeParams;
    type Plan = ();

    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn inspect<'a>(
        &'a self,
        params: &'a DescribeParams,
        _view: &'a SessionView,
    ) -> BoxFuture<'a, Result<(Inspection, ()), Outcome>> {
        plain(&self.spec.name, format!("describe {}", params.name))
    }

    fn execute(
        self: Arc<Self>,
        params: DescribeParams,
        (): (),
        context: CallContext,
    ) -> BoxFuture<'static, Report> {
        let described = self.describe(&params.name, &context);
        let outcome = described.unwrap_or_else(|refused| refused);
        futures::future::ready(outcome.into()).boxed()
    }
}
