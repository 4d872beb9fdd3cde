//! Snapshots of what goes on here: `castellan_topology_snapshot`, `castellan_metrics` and
//! `castellan_multiplexer_status`. Each room that has something to show is a [`Room`]; a room that
//! isn't there isn't in the snapshot.

use std::fmt;
use std::sync::Arc;

use castellan_core::caller::Surface;
use castellan_core::tool::{
    CallContext, DefaultDecision, Effect, Inspection, Report, SessionView, Typed, TypedTool,
    result_schema,
};
use castellan_core::{ErrorCode, Outcome, Tool, ToolSpec};
use castellan_store::{LateStore, Tx, audit, sessions};
use futures::future::{BoxFuture, FutureExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::engine::{Counts, Meter};
use crate::meta::answered;

/// How many nodes of one kind a snapshot shows; the newest are kept.
const SHOWN: u32 = 200;

/// Something in the picture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Node {
    /// Unique among all nodes.
    pub id: String,
    /// `session`, `zone`, `agent`, `pane` or `mcp_server`.
    pub kind: String,
    /// What people call it.
    pub name: String,
    /// What it does, where it does something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// What connects two of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Edge {
    /// Where it begins.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// `parent`, `message`, `task` or `deposit`.
    pub kind: String,
}

/// A number for the status line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gauge {
    /// What is counted, as a field name: `pending_approvals`.
    pub field: &'static str,
    /// What is counted, in the words of the status line, for one and for many: `zone`, `zones`.
    pub words: (&'static str, &'static str),
    /// How many.
    pub count: u64,
}

/// What a room shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sight {
    /// What is in it.
    pub nodes: Vec<Node>,
    /// What connects that.
    pub edges: Vec<Edge>,
    /// How many nodes there are that are not shown.
    pub left_out: u64,
    /// Numbers for the status line.
    pub gauges: Vec<Gauge>,
}

/// The status line where nothing runs and nothing waits.
pub const QUIET: &str = "castellan: quiet";

/// A room that has something to show.
pub trait Room: Send + Sync {
    /// What is in it now.
    ///
    /// # Errors
    /// What keeps it from being read.
    fn look(&self) -> BoxFuture<'_, Result<Sight, castellan_store::Error>>;

    /// Its numbers alone, which a status line asks for often.
    ///
    /// # Errors
    /// What keeps them from being read.
    fn gauges(&self) -> BoxFuture<'_, Result<Vec<Gauge>, castellan_store::Error>>;
}

/// The rooms there are.
#[derive(Clone, Default)]
pub struct Rooms(Arc<[Arc<dyn Room>]>);

impl fmt::Debug for Rooms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rooms({})", self.0.len())
    }
}

impl Rooms {
    /// These rooms, in the order they are shown.
    #[must_use]
    pub fn new(rooms: Vec<Arc<dyn Room>>) -> Self {
        Self(rooms.into())
    }

    async fn look(&self) -> Result<Sight, castellan_store::Error> {
        let mut all = Sight::default();
        for room in self.0.iter() {
            let sight = room.look().await?;
            all.nodes.extend(sight.nodes);
            all.edges.extend(sight.edges);
            all.gauges.extend(sight.gauges);
            all.left_out += sight.left_out;
        }
        Ok(all)
    }

    /// The numbers of all rooms.
    ///
    /// # Errors
    /// What keeps a room from being read.
    pub async fn gauges(&self) -> Result<Vec<Gauge>, castellan_store::Error> {
        let mut all = Vec::new();
        for room in self.0.iter() {
            all.extend(room.gauges().await?);
        }
        Ok(all)
    }

    /// The status line, such as `castellan: 2 sessions, 1 waiting`.
    ///
    /// # Errors
    /// What keeps a room from being read.
    pub async fn line(&self) -> Result<String, castellan_store::Error> {
        Ok(line(&self.gauges().await?))
    }
}

fn line(gauges: &[Gauge]) -> String {
    let busy = gauges.iter().filter(|gauge| gauge.count > 0);
    let parts: Vec<_> = busy
        .map(|gauge| match gauge.count {
            1 => format!("1 {}", gauge.words.0),
            count => format!("{count} {}", gauge.words.1),
        })
        .collect();
    if parts.is_empty() {
        QUIET.to_owned()
    } else {
        format!("castellan: {}", parts.join(", "))
    }
}

/// The stored sessions.
#[derive(Debug, Clone)]
pub struct Sessions(pub LateStore);

impl Room for Sessions {
    fn look(&self) -> BoxFuture<'_, Result<Sight, castellan_store::Error>> {
        async move {
            let read = |tx: &Tx<'_>| Ok((sessions::list(tx, SHOWN)?, sessions::by_state(tx)?));
            let (page, states) = self.0.read(read).await?;
            let shown = page.rows.len() as u64;
            let nodes = page.rows.into_iter().map(|row| Node {
                id: row.id.to_string(),
                kind: "session".to_owned(),
                name: row.title,
                state: Some(row.state),
            });
            Ok(Sight {
                nodes: nodes.collect(),
                edges: Vec::new(),
                left_out: page.total - shown,
                gauges: counted(&states),
            })
        }
        .boxed()
    }

    fn gauges(&self) -> BoxFuture<'_, Result<Vec<Gauge>, castellan_store::Error>> {
        async move {
            let states = self.0.read(|tx| sessions::by_state(tx)).await?;
            Ok(counted(&states))
        }
        .boxed()
    }
}

/// The numbers of sessions, from how many there are in each state.
fn counted(states: &[(String, u64)]) -> Vec<Gauge> {
    let of = |wanted: &[&str]| {
        let counted = states
            .iter()
            .filter(|(state, _)| wanted.contains(&state.as_str()));
        counted.map(|(_, count)| count).sum()
    };
    vec![
        Gauge {
            field: "running_sessions",
            words: ("running", "running"),
            count: of(&["thinking", "running"]),
        },
        Gauge {
            field: "pending_approvals",
            words: ("waiting for approval", "waiting for approval"),
            count: of(&["waiting"]),
        },
    ]
}

/// No arguments.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// What `castellan_topology_snapshot` answers.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Topology {
    ok: bool,
    /// What there is.
    nodes: Vec<Node>,
    /// What connects it.
    edges: Vec<Edge>,
    /// How many nodes there are that are not shown.
    left_out: u64,
}

/// What `castellan_metrics` answers.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Metrics {
    ok: bool,
    /// Since this server began.
    session: Counts,
    /// In all, as far back as the audit goes.
    total: Totals,
}

/// What happened in all.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Totals {
    /// Calls that changed something, failed or were denied.
    pub recorded_calls: u64,
    /// Calls that only read.
    pub reads: u64,
    /// How many of the recorded ones were denied.
    pub denied: u64,
    /// How many of them failed otherwise.
    pub failed: u64,
    /// Tokens that models of sessions read.
    pub input_tokens: u64,
    /// Tokens that they wrote.
    pub output_tokens: u64,
}

/// What `castellan_multiplexer_status` answers.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Status {
    ok: bool,
    /// The whole in a line, for tmux and shell prompts.
    line: String,
    /// The numbers behind it.
    #[serde(flatten)]
    numbers: std::collections::BTreeMap<String, u64>,
}

/// What the tools look at.
#[derive(Debug, Clone)]
pub struct Looks {
    /// The rooms.
    pub rooms: Rooms,
    /// What this process counted.
    pub meter: Arc<Meter>,
    /// What was counted in all.
    pub store: LateStore,
}

/// Every number there is at a moment.
#[derive(Debug, Clone)]
pub struct Figures {
    /// Since this process began.
    pub session: Counts,
    /// In all, as far back as the audit goes.
    pub total: Totals,
    /// What the rooms count.
    pub gauges: Vec<Gauge>,
}

impl Looks {
    /// Every number there is now.
    ///
    /// # Errors
    /// What keeps a room from being read.
    pub async fn figures(&self) -> Result<Figures, castellan_store::Error> {
        Ok(Figures {
            session: self.meter.counts(),
            total: self.store.read(totals).await?,
            gauges: self.rooms.gauges().await?,
        })
    }
}

/// The three tools.
#[must_use]
pub fn tools(looks: &Looks) -> Vec<Arc<dyn Tool>> {
    let tool = |spec, kind| -> Arc<dyn Tool> {
        let looks = looks.clone();
        Arc::new(Typed::new(Snapshot { spec, kind, looks }))
    };
    vec![
        tool(
            spec::<Topology>(
                "castellan_topology_snapshot",
                "substrate",
                "Show the harness as nodes and edges: sessions, zones, who left what",
                "Shows what there is now and how it hangs together, as a graph: sessions, zones of \
                 the substrate, and whatever else runs here. Edges say who began whom and who left \
                 signals where.",
            ),
            Kind::Topology,
        ),
        tool(
            spec::<Metrics>(
                "castellan_metrics",
                "substrate",
                "Count calls, approvals, denials, errors, tokens and latency",
                "Counts what happened: calls, approvals, denials, failures and how long calls took \
                 since this server began, and calls, reads, denials, failures and tokens in all.",
            ),
            Kind::Metrics,
        ),
        tool(
            spec::<Status>(
                "castellan_multiplexer_status",
                "multiplexer",
                "Show what runs and waits here, as fields and as one status line",
                "Shows how many sessions run and how many wait for an approval, as fields and as one \
                 line. `castellan statusline` prints the same line for tmux and shell prompts.",
            ),
            Kind::Status,
        ),
    ]
}

fn spec<R: JsonSchema>(name: &str, domain: &str, summary: &str, description: &str) -> ToolSpec {
    let mut spec = ToolSpec::new::<Nothing>(name, domain, summary, description);
    spec.examples = vec![json!({})];
    spec.effects = vec![Effect::ReadOnly];
    spec.surfaces = vec![Surface::Mcp, Surface::Episode];
    spec.default = DefaultDecision::Allow;
    spec.output_schema = Some(result_schema::<R>());
    spec
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Topology,
    Metrics,
    Status,
}

struct Snapshot {
    spec: ToolSpec,
    kind: Kind,
    looks: Looks,
}

impl Snapshot {
    async fn look(&self) -> Result<Outcome, castellan_store::Error> {
        Ok(match self.kind {
            Kind::Topology => {
                let sight = self.looks.rooms.look().await?;
                answered(&Topology {
                    ok: true,
                    nodes: sight.nodes,
                    edges: sight.edges,
                    left_out: sight.left_out,
                })
            }
            Kind::Metrics => {
                let total = self.looks.store.read(totals).await?;
                let session = self.looks.meter.counts();
                answered(&Metrics {
                    ok: true,
                    session,
                    total,
                })
            }
            Kind::Status => {
                let gauges = self.looks.rooms.gauges().await?;
                let numbers = gauges
                    .iter()
                    .map(|gauge| (gauge.field.to_owned(), gauge.count));
                answered(&Status {
                    ok: true,
                    line: line(&gauges),
                    numbers: numbers.collect(),
                })
            }
        })
    }
}

fn totals(tx: &Tx<'_>) -> Result<Totals, castellan_store::Error> {
    let audited = audit::totals(tx)?;
    let (input_tokens, output_tokens) = sessions::tokens(tx)?;
    let of = |outcome: &str| {
        let counted = audited
            .by_outcome
            .iter()
            .filter(|(word, _)| word == outcome);
        counted.map(|(_, count)| count).sum::<u64>()
    };
    let recorded_calls = audited.by_outcome.iter().map(|(_, count)| count).sum();
    Ok(Totals {
        recorded_calls,
        reads: audited.reads,
        denied: of("denied"),
        failed: recorded_calls - of("denied") - of("done"),
        input_tokens,
        output_tokens,
    })
}

impl TypedTool for Snapshot {
    type Params = Nothing;
    type Plan = ();

    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn inspect<'a>(
        &'a self,
        _params: &'a Nothing,
        _view: &'a SessionView,
    ) -> BoxFuture<'a, Result<(Inspection, ()), Outcome>> {
        let inspection = Inspection::new(&self.spec.name, "look at what goes on here");
        futures::future::ready(Ok((inspection, ()))).boxed()
    }

    fn execute(
        self: Arc<Self>,
        _params: Nothing,
        (): (),
        _context: CallContext,
    ) -> BoxFuture<'static, Report> {
        async move {
            let outcome = self.look().await.unwrap_or_else(|error| {
                crate::meta::refused(
                    ErrorCode::StoreUnavailable,
                    format!(
                        "the database can't be read: {}",
                        castellan_core::text::chain(&error)
                    ),
                    "try again",
                )
            });
            outcome.into()
        }
        .boxed()
    }
}
