//! The one language in which everything that happens in a session is told.
//!
//! The same events are stored (the durable ones, which are the truth a session is rebuilt from),
//! written to the trace, printed by `exec --json` and drawn by every surface.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::caller::Caller;
use crate::code::ErrorCode;
use crate::id::{CallId, CycleId, SessionId};
use crate::message::{IssuedCall, Reasoning};
use crate::model::{Finish, Usage, is_zero};
use crate::outcome::EffectStatus;
use crate::picture::PictureRef;
use crate::time::Timestamp;
use crate::tool::{Effect, Preview, SessionEffect};

/// An event with when and where it happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recorded {
    /// When.
    pub ts: Timestamp,
    /// Its place in the session's log, from 1 without gaps. Absent for events that only pass by
    /// and are not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The session it belongs to.
    pub session: SessionId,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Waiting for the model.
    Thinking,
    /// Waiting for a person to decide.
    Waiting,
    /// Running tools.
    Running,
    /// Nothing to do: the turn is over.
    Idle,
}

/// Why a turn is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnEnd {
    /// The model said all it wanted.
    Done,
    /// The model or its server failed.
    Failed,
    /// The turn used all model calls it was given.
    Limit,
    /// Someone stopped it.
    Cancelled,
}

/// A call in a list of calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallItem {
    /// The call.
    pub call_id: CallId,
    /// The tool.
    pub name: String,
    /// One line that says what it does.
    pub header: String,
}

/// A call somebody has to decide about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalItem {
    /// The call.
    pub call_id: CallId,
    /// The tool.
    pub name: String,
    /// One line that says what it would do.
    pub header: String,
    /// What a permission for calls like this one is called.
    pub label: String,
    /// The call in detail.
    pub preview: Preview,
    /// Why it isn't simply run.
    pub reason: String,
    /// What may be permitted for good together with a yes, narrowest first, in the form of
    /// [`Grant`](crate::Grant): `bash:git status`, `overwrite_file`. Empty where every such call
    /// needs its own yes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<String>,
}

/// How far a permission reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// This session.
    Session,
    /// Every session in this project.
    Project,
    /// Every session of this user.
    Everywhere,
}

impl Scope {
    /// The word used on the wire and in lists.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Project => "project",
            Self::Everywhere => "everywhere",
        }
    }
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A permission for good that comes with a yes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Always {
    /// One of the item's [`grants`](ApprovalItem::grants).
    pub grant: String,
    /// How far it reaches.
    pub scope: Scope,
}

/// What was decided about one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// The call.
    pub call_id: CallId,
    /// Whether it may run.
    pub approve: bool,
    /// What the person added; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub feedback: String,
    /// A permission for good that comes with the yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always: Option<Always>,
}

impl Answer {
    /// A yes or no to this call and nothing more.
    #[must_use]
    pub const fn new(call_id: CallId, approve: bool) -> Self {
        Self {
            call_id,
            approve,
            feedback: String::new(),
            always: None,
        }
    }
}

/// What a model is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The next answer of the turn.
    #[default]
    Turn,
    /// A summary of the older part of the conversation.
    Summary,
}

impl Purpose {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature serde calls"
    )]
    const fn is_turn(&self) -> bool {
        matches!(self, Self::Turn)
    }
}

/// Why a conversation is made shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompactionCause {
    /// The next request would hardly fit.
    Full,
    /// The model's server said that the request was too long.
    Overflow,
    /// A person asked for it.
    Person,
}

/// Who wrote a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Summarizer {
    /// The model.
    Model,
    /// This program, by listing what happened, because no summary could be had.
    Program,
}

/// A result that is shown cut from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResultCut {
    /// The call whose result it is.
    pub call_id: CallId,
    /// How many bytes of it are shown, its beginning and its end.
    pub limit: usize,
}

// In order of strictness.
/// What policy said about a call.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It may run.
    Allow,
    /// A person decides.
    Ask,
    /// It may not run.
    Deny,
}

/// How much a message of a tool matters, in the words of syslog (RFC 5424).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// For whoever looks for a fault.
    Debug,
    /// How things go.
    Info,
    /// Normal and worth knowing.
    Notice,
    /// Something may be wrong.
    Warning,
    /// Something failed.
    Error,
    /// Something that much depends on failed.
    Critical,
    /// Somebody must act at once.
    Alert,
    /// Nothing works.
    Emergency,
}

/// What was done with a proposal to change the harness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MutationAction {
    /// It was made.
    Proposed,
    /// It was accepted and holds from now on.
    Accepted,
    /// It was rejected.
    Rejected,
    /// An earlier version of the harness holds again.
    RolledBack,
}

/// What happened. `kind` on the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Event {
    /// A session began.
    SessionStart {
        /// The version of this program.
        version: String,
        /// Its working folder.
        cwd: PathBuf,
        /// Who drives it.
        caller: Caller,
        /// Fragments that its system prompt has beside its own words, in order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        prompts: Vec<String>,
    },
    /// The session does something else now. Stored only for the end of a turn.
    StateChange {
        /// What it does now.
        state: State,
        /// For [`State::Idle`]: why the turn is over.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<TurnEnd>,
    },
    /// Someone spoke to the model.
    UserTurn {
        /// The words.
        text: String,
        /// Pictures that came with them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pictures: Vec<PictureRef>,
    },
    /// The model is told of something that happened outside the conversation, such as the end of a
    /// background command.
    Notice {
        /// What happened.
        text: String,
        /// What it changes in the session.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        session_effects: Vec<SessionEffect>,
    },
    /// A model is asked.
    ModelRequest {
        /// The model's name at its server.
        model: String,
        /// How many messages it is shown.
        messages: usize,
        /// How many tools it is offered.
        tools: usize,
        /// How large messages and tools are together, in bytes; 0 where that was not noted.
        #[serde(default, skip_serializing_if = "is_zero")]
        size: u64,
        /// What tells the words of the messages from others, 16 hexadecimal digits; empty where that
        /// was not noted.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        fingerprint: String,
        /// What it is asked for; the next answer of the turn where absent.
        #[serde(default, skip_serializing_if = "Purpose::is_turn")]
        purpose: Purpose,
    },
    /// Reasoning as it arrives. Passes by.
    Reasoning {
        /// More of it.
        text: String,
    },
    /// Words of the answer as they arrive. Passes by.
    Content {
        /// More of them.
        text: String,
    },
    /// The model's answer stopped arriving. Passes by.
    StreamEnd {
        /// False where what arrived is void because the request failed.
        complete: bool,
    },
    /// A model answered.
    ModelResponse {
        /// The words.
        text: String,
        /// Reasoning shown apart from the answer.
        #[serde(flatten)]
        reasoning: Option<Reasoning>,
        /// The calls, in the order the model made them.
        calls: Vec<IssuedCall>,
        /// Why it stopped.
        finish: Finish,
        /// Tokens, where the server counted them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        /// How many requests it took.
        attempts: u32,
        /// How long it took.
        duration_ms: u64,
    },
    /// A call was understood: this is what policy and people judge, and exactly what would run.
    ToolPrepared {
        /// The call.
        call_id: CallId,
        /// The tool.
        name: String,
        /// The arguments after repair, marked secrets concealed.
        arguments: Map<String, Value>,
        /// What was mended on the way.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        repairs: Vec<String>,
        /// One line that says what it does.
        header: String,
        /// What a permission for calls like this one is called.
        label: String,
        /// What it can do to the world.
        effects: Vec<Effect>,
    },
    /// Policy spoke about a call.
    Policy {
        /// The call.
        call_id: CallId,
        /// What it said.
        decision: Decision,
        /// What spoke: `default`, `grant`, `--skip-permissions`.
        by: String,
        /// Why.
        reason: String,
    },
    /// These calls start now. A call without a result after this one may have had its effect.
    ToolInfo {
        /// The calls.
        items: Vec<CallItem>,
    },
    /// Somebody has to decide about these calls.
    ApproveRequest {
        /// The round of asking.
        cycle_id: CycleId,
        /// The calls.
        items: Vec<ApprovalItem>,
    },
    /// Somebody decided.
    ApprovalResolved {
        /// The round of asking.
        cycle_id: CycleId,
        /// Who decided.
        by: String,
        /// What about which call.
        answers: Vec<Answer>,
    },
    /// Output of a running call as it appears. Passes by.
    ToolOutputChunk {
        /// The call.
        call_id: CallId,
        /// More of it.
        text: String,
    },
    /// How far a running call has come. Passes by.
    ToolProgress {
        /// The call.
        call_id: CallId,
        /// How much is done, in units of the tool's choosing.
        done: u64,
        /// How much there is, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<u64>,
        /// What it does now; may be empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        message: String,
    },
    /// What a running call has to say to whoever watches over tools. Passes by.
    ToolLog {
        /// The call.
        call_id: CallId,
        /// How much it matters.
        level: LogLevel,
        /// What it says.
        message: String,
    },
    /// A client of the MCP server, or an episode, looks around in the catalog by this call.
    McpDiscovery {
        /// The call.
        call_id: CallId,
        /// The tool.
        tool: String,
        /// The arguments as they were sent, marked secrets concealed.
        args: Value,
    },
    /// A client of the MCP server, or an episode, makes this call.
    McpTool {
        /// The call.
        call_id: CallId,
        /// The tool.
        tool: String,
        /// The arguments as they were sent, marked secrets concealed.
        args: Value,
    },
    /// The part of the harness that may evolve was, or is to be, changed.
    Mutation {
        /// What was done.
        action: MutationAction,
        /// The proposal; absent for a rollback.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proposal: Option<String>,
        /// The version that holds now, or that the proposal is made against.
        version: u64,
        /// How far the harness has moved, from 0 (not at all) to 1.
        drift: f64,
        /// Why.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// An episode began.
    EpisodeStart {
        /// What is to be reached.
        goal: String,
        /// What acts.
        plugin: String,
        /// What its ids and its chances come from.
        seed: u64,
        /// The version of this program.
        version: String,
        /// What else decides how it goes, so that it can be run again.
        settings: Value,
    },
    /// What the plugin of an episode is shown.
    Observation {
        /// Which step follows, from 1.
        step: u64,
        /// What it is shown.
        observation: Value,
    },
    /// An episode is over.
    EpisodeEnd {
        /// Whether the goal was reached.
        reached: bool,
        /// How many steps it took.
        steps: u64,
        /// Why it is over.
        reason: String,
    },
    /// A call is over.
    ToolResult {
        /// The call.
        call_id: CallId,
        /// The tool.
        name: String,
        /// What the model reads.
        output: String,
        /// Whether it reports a failure.
        is_error: bool,
        /// What it changed.
        effect: EffectStatus,
        /// `done`, `failed`, `denied`, `timed_out` or `cancelled`.
        outcome: String,
        /// The code, for all but `done`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<ErrorCode>,
        /// How long it ran.
        duration_ms: u64,
        /// The file with the whole output, where it was cut.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spill: Option<PathBuf>,
        /// What it leaves behind in the session.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        session_effects: Vec<SessionEffect>,
        /// Pictures that belong to the output.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pictures: Vec<PictureRef>,
    },
    /// The model is shown less of the conversation from now on. Nothing is taken out of the record.
    Compaction {
        /// Why.
        cause: CompactionCause,
        /// What the person wants the summary to dwell on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        focus: Option<String>,
        /// What stands for the entries that are left out; empty where none are.
        summary: String,
        /// Who wrote it.
        by: Summarizer,
        /// Why the model didn't.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
        /// How many entries of the conversation, from its beginning, the summary stands for. An
        /// entry is what was said by somebody, with the results of its calls; an earlier summary is
        /// one.
        replaces: usize,
        /// Which of these stay as they are, by their position from 0.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        keeps: Vec<usize>,
        /// Results that are shown cut.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cuts: Vec<ResultCut>,
        /// How many tokens the next request would have been, roughly.
        tokens_before: u64,
        /// How many it is now, roughly.
        tokens_after: u64,
        /// How many tokens the model takes, as its server's refusal showed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
        /// How many tokens the refused request was, where its server said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked: Option<u64>,
        /// Tokens of the requests for the summary, where the server counted them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        /// How long it took.
        duration_ms: u64,
    },
    /// How much has been used. Passes by.
    Status {
        /// Tokens of the last request.
        usage: Usage,
        /// How many tokens the model takes, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context_window: Option<u64>,
    },
    /// Something failed that is no call's result.
    Error {
        /// Which kind of failure.
        code: ErrorCode,
        /// What happened.
        message: String,
    },
    /// The program leaves the session; it can be resumed. Passes by.
    SessionEnd {
        /// The exit code it leaves with.
        exit_code: u8,
    },
}

/// The kind of an event, without its content.
pub type EventKind = &'static str;

impl Event {
    /// The word in `kind`.
    #[must_use]
    pub const fn kind(&self) -> EventKind {
        match self {
            Self::SessionStart { .. } => "session_start",
            Self::StateChange { .. } => "state_change",
            Self::UserTurn { .. } => "user_turn",
            Self::Notice { .. } => "notice",
            Self::ModelRequest { .. } => "model_request",
            Self::Reasoning { .. } => "reasoning",
            Self::Content { .. } => "content",
            Self::StreamEnd { .. } => "stream_end",
            Self::ModelResponse { .. } => "model_response",
            Self::ToolPrepared { .. } => "tool_prepared",
            Self::Policy { .. } => "policy",
            Self::ToolInfo { .. } => "tool_info",
            Self::ApproveRequest { .. } => "approve_request",
            Self::ApprovalResolved { .. } => "approval_resolved",
            Self::ToolOutputChunk { .. } => "tool_output_chunk",
            Self::ToolProgress { .. } => "tool_progress",
            Self::ToolLog { .. } => "tool_log",
            Self::McpDiscovery { .. } => "mcp_discovery",
            Self::McpTool { .. } => "mcp_tool",
            Self::Mutation { .. } => "mutation",
            Self::EpisodeStart { .. } => "episode_start",
            Self::Observation { .. } => "observation",
            Self::EpisodeEnd { .. } => "episode_end",
            Self::ToolResult { .. } => "tool_result",
            Self::Compaction { .. } => "compaction",
            Self::Status { .. } => "status",
            Self::Error { .. } => "error",
            Self::SessionEnd { .. } => "session_end",
        }
    }

    /// Whether it is stored. The others only pass by whoever watches.
    #[must_use]
    pub const fn is_durable(&self) -> bool {
        match self {
            Self::SessionStart { .. }
            | Self::UserTurn { .. }
            | Self::Notice { .. }
            | Self::ModelRequest { .. }
            | Self::ModelResponse { .. }
            | Self::ToolPrepared { .. }
            | Self::Policy { .. }
            | Self::ToolInfo { .. }
            | Self::ApproveRequest { .. }
            | Self::ApprovalResolved { .. }
            | Self::ToolResult { .. }
            | Self::McpDiscovery { .. }
            | Self::McpTool { .. }
            | Self::Mutation { .. }
            | Self::EpisodeStart { .. }
            | Self::Observation { .. }
            | Self::EpisodeEnd { .. }
            | Self::Compaction { .. }
            | Self::Error { .. } => true,
            Self::StateChange { state, .. } => matches!(state, State::Idle),
            Self::Reasoning { .. }
            | Self::Content { .. }
            | Self::StreamEnd { .. }
            | Self::ToolOutputChunk { .. }
            | Self::ToolProgress { .. }
            | Self::ToolLog { .. }
            | Self::Status { .. }
            | Self::SessionEnd { .. } => false,
        }
    }
}
