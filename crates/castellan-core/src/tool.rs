//! What a tool is: its spec, and the contract of a call from parsing to its outcome.
//!
//! A tool is written as a [`TypedTool`] (a parameter struct, a spec, an inspection, an execution)
//! and reaches the catalog as a [`Tool`] through [`Typed`]. Tools that are not known at compile
//! time, such as those of external servers, implement [`Tool`] and [`Call`] themselves.
//!
//! The three steps differ in what they may touch. [`Tool::parse`] is pure. [`Call::inspect`] may
//! read the world and must not change it; what it finds is what policy and people judge.
//! [`Call::execute`] acts, after it has made sure that what was inspected still holds.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::block::Block;
use crate::caller::{Caller, Surface};
use crate::cancel::Cancel;
use crate::event::Event;
use crate::id::{CallId, SessionId};
use crate::model::Model;
use crate::outcome::Outcome;
use crate::peer::Peer;
use crate::picture::Picture;
use crate::port::{Elicitation, Overflow, Progress};
use crate::secret::Redaction;
use crate::time::Clock;

/// What a call of a tool can do to the world.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It only reads.
    ReadOnly,
    /// It changes files or stored state.
    Writes,
    /// It talks to other machines.
    Network,
    /// It starts programs.
    Executes,
    /// It can't be taken back and always needs a person.
    HighImpact,
}

/// What happens to a call that no rule, hook or grant speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefaultDecision {
    /// It runs.
    Allow,
    /// A person is asked.
    Ask,
}

/// When a model is told of a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offered {
    /// From the beginning.
    #[default]
    Always,
    /// Once its session has started something in the background.
    WithShells,
}

impl Offered {
    const fn is_always(&self) -> bool {
        matches!(self, Self::Always)
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde calls"
)]
const fn is_not(flag: &bool) -> bool {
    !*flag
}

/// Everything there is to know of a tool without running it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolSpec {
    /// Unique; `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// The group it is found under.
    pub domain: String,
    /// One line of at most 80 characters.
    pub summary: String,
    /// What a model is told of it.
    pub description: String,
    /// JSON Schema of the arguments, derived from the parameter struct.
    pub parameters: Value,
    /// The parameter a bare string stands for.
    pub primary_key: Option<String>,
    /// What must hold before a call.
    pub preconditions: Vec<String>,
    /// What a call changes.
    pub side_effects: Vec<String>,
    /// Arguments that work; the first one is shown beside an error.
    pub examples: Vec<Value>,
    /// What a call can do to the world.
    pub effects: Vec<Effect>,
    /// Whether a call that writes only adds to what is there and destroys nothing.
    #[serde(skip_serializing_if = "is_not")]
    pub additive: bool,
    /// What permissions for some of its calls are called that have a name beside the tool's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Where it may appear.
    pub surfaces: Vec<Surface>,
    /// When a model is told of it. It can be called in any case.
    #[serde(skip_serializing_if = "Offered::is_always")]
    pub offered: Offered,
    /// What happens to a call that nothing else speaks of.
    pub default: DefaultDecision,
    /// Whether a sub-agent may call it without asking.
    pub auto_in_task_agent: bool,
    /// A sentence about the working folder, `{working_dir}` standing for it.
    pub cwd_note: Option<String>,
    /// A sentence about the workspace, `{workspace_dir}` standing for it.
    pub workspace_note: Option<String>,
    /// JSON Schema of the structured result, where it has one.
    pub output_schema: Option<Value>,
    /// Parameters whose values are never recorded or shown.
    pub secret_parameters: Vec<String>,
    /// Fields of the structured result whose values are never recorded or shown.
    pub secret_results: Vec<String>,
}

impl ToolSpec {
    /// A spec with what every tool has; the rest is empty, asks first, and appears nowhere.
    #[must_use]
    pub fn new<P: JsonSchema>(name: &str, domain: &str, summary: &str, description: &str) -> Self {
        Self {
            name: name.to_owned(),
            domain: domain.to_owned(),
            summary: summary.to_owned(),
            description: description.to_owned(),
            parameters: parameter_schema::<P>(),
            primary_key: None,
            preconditions: Vec::new(),
            side_effects: Vec::new(),
            examples: Vec::new(),
            effects: Vec::new(),
            additive: false,
            labels: Vec::new(),
            surfaces: Vec::new(),
            offered: Offered::Always,
            default: DefaultDecision::Ask,
            auto_in_task_agent: false,
            cwd_note: None,
            workspace_note: None,
            output_schema: None,
            secret_parameters: Vec::new(),
            secret_results: Vec::new(),
        }
    }

    /// Whether a call only reads.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.effects
            .iter()
            .all(|effect| *effect == Effect::ReadOnly)
    }

    /// Whether a call always needs a person.
    #[must_use]
    pub fn is_high_impact(&self) -> bool {
        self.effects.contains(&Effect::HighImpact)
    }

    /// Whether it may appear on `surface`.
    #[must_use]
    pub fn appears_on(&self, surface: Surface) -> bool {
        self.surfaces.contains(&surface)
    }
}

/// The JSON Schema of a parameter struct, without what only names the Rust type.
fn parameter_schema<P: JsonSchema>() -> Value {
    schema::<P>(schemars::generate::Contract::Deserialize)
}

/// The JSON Schema of what a tool answers with, for [`ToolSpec::output_schema`].
#[must_use]
pub fn result_schema<R: JsonSchema>() -> Value {
    schema::<R>(schemars::generate::Contract::Serialize)
}

fn schema<P: JsonSchema>(contract: schemars::generate::Contract) -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        settings.contract = contract;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<P>();
    schema.remove("title");
    schema.remove("description");
    schema.to_value()
}

/// How the bytes of a file are known again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileMark {
    /// SHA-256 of the content in hexadecimal, or of what identifies a file too large to hash.
    pub digest: String,
    /// Size in bytes.
    pub size: u64,
}

/// What a call leaves behind in the session that made it. Recorded with its result, so that a
/// resumed session knows it too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SessionEffect {
    /// The session knows the content of this file.
    FileSeen {
        /// The resolved path.
        path: PathBuf,
        /// Its content then.
        mark: FileMark,
    },
    /// The session's working folder is now this one. Of several calls made together the last one, in
    /// the order they were made, decides.
    WorkingFolder {
        /// The absolute path.
        path: PathBuf,
    },
    /// A command runs in the background.
    ShellStarted {
        /// What it is called: `b1`, `b2`, …
        id: String,
        /// The command text, shortened.
        command: String,
    },
    /// A command in the background has ended, and the session knows.
    ShellEnded {
        /// What it was called.
        id: String,
    },
}

/// A command in the background, as its session knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundShell {
    /// The command text, shortened.
    pub command: String,
    /// Whether the session was not told of its end. In a session that was left it may have ended
    /// all the same.
    pub running: bool,
}

/// What a call may know of the session that makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionView {
    /// The session; `None` for a call from outside any session.
    pub session: Option<SessionId>,
    /// The working folder, absolute. It may no longer exist.
    pub cwd: PathBuf,
    /// Where to go when the working folder is gone.
    pub workspace: PathBuf,
    /// The files whose content the session knows, by resolved path.
    pub seen: BTreeMap<PathBuf, FileMark>,
    /// The commands it started in the background, by id.
    pub shells: BTreeMap<String, BackgroundShell>,
    /// How many bytes of output reach the model.
    pub result_limit: usize,
    /// The secrets that are cut out of all that the session reads.
    pub redaction: Redaction,
}

impl SessionView {
    /// What a header adds to `path`: the folder a relative one is under, where that is not the
    /// workspace.
    #[must_use]
    pub fn elsewhere(&self, path: &Path) -> String {
        if path.is_absolute() || self.cwd == self.workspace {
            return String::new();
        }
        let inside = self.cwd.strip_prefix(&self.workspace);
        format!(" (in {})", inside.unwrap_or(&self.cwd).display())
    }

    /// `path` as the session means it: relative ones are under the working folder, `~` is left
    /// alone. Purely textual.
    #[must_use]
    pub fn absolute(&self, path: &Path) -> PathBuf {
        self.cwd.join(path)
    }
}

/// What a person or a rule is shown of a call, as data that each surface draws in its own way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Preview {
    /// The call speaks for itself.
    None,
    /// A command that would run.
    Command {
        /// The command text, exactly as it would run.
        command: String,
        /// Where it would run.
        cwd: PathBuf,
    },
    /// A file that would be written.
    File {
        /// The resolved path.
        path: PathBuf,
        /// `create`, `overwrite` or `append`.
        action: String,
        /// How many bytes would be written.
        bytes: u64,
        /// The beginning of what would be written.
        beginning: String,
        /// What a careful reader should know; may be empty.
        note: String,
        /// The content that would be replaced or added to, so that a decision about it does not
        /// cover other content.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<FileMark>,
    },
    /// A file of which parts would be changed.
    Diff {
        /// The resolved path.
        path: PathBuf,
        /// The hunks of a unified diff, without a header that names files. A long one is cut, which
        /// its last line says.
        unified: String,
        /// Lines that would be added.
        added: u64,
        /// Lines that would be removed.
        removed: u64,
        /// What a careful reader should know; may be empty.
        note: String,
        /// The content that would be changed, so that a decision about it does not cover other
        /// content.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<FileMark>,
    },
}

impl Preview {
    /// The preview as it may be recorded.
    #[must_use]
    pub fn redacted(mut self, redaction: &Redaction) -> Self {
        let clean = |text: &mut String| *text = redaction.apply(std::mem::take(text));
        match &mut self {
            Self::None => {}
            Self::Command { command, .. } => clean(command),
            Self::File { beginning, .. } => clean(beginning),
            Self::Diff { unified, .. } => clean(unified),
        }
        self
    }
}

/// What an inspection found: all that the decision about a call is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// One line that says what the call does.
    pub header: String,
    /// The call in detail.
    pub preview: Preview,
    /// What a permission for calls like this one is called, such as `overwrite_file`.
    pub label: String,
    /// Shell commands the call would run.
    pub commands: Vec<String>,
    /// Resolved paths the call would touch. Calls with a path in common run one after the other.
    pub paths: Vec<PathBuf>,
    /// Hosts the call would talk to.
    pub hosts: Vec<String>,
    /// Whether the call goes so far beyond what its tool usually does that only a permission for
    /// exactly `label` covers it.
    pub own_grant: bool,
    /// Why only a person can let the call through, whatever was permitted in advance.
    pub needs_person: Option<String>,
    /// Replaces the spec's default decision where it depends on the arguments.
    pub default: Option<DefaultDecision>,
    /// Replaces the gate's deadline where the call sets its own.
    pub deadline: Option<Duration>,
}

impl Inspection {
    /// An inspection that found nothing beyond a header.
    #[must_use]
    pub fn new(label: &str, header: impl Into<String>) -> Self {
        Self {
            header: header.into(),
            preview: Preview::None,
            label: label.to_owned(),
            commands: Vec::new(),
            paths: Vec::new(),
            hosts: Vec::new(),
            own_grant: false,
            needs_person: None,
            default: None,
            deadline: None,
        }
    }
}

/// What the calls of one batch have left behind, for the calls that come after them.
#[derive(Debug, Clone, Default)]
pub struct Left(Arc<Mutex<LeftBehind>>);

#[derive(Debug, Default)]
struct LeftBehind {
    files: BTreeMap<PathBuf, FileMark>,
    folders: Vec<PathBuf>,
}

impl Left {
    /// Takes note of what a call left behind.
    pub fn take(&self, effects: &[SessionEffect]) {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for effect in effects {
            match effect {
                SessionEffect::FileSeen { path, mark } => {
                    left.files.insert(path.clone(), mark.clone());
                }
                SessionEffect::WorkingFolder { .. }
                | SessionEffect::ShellStarted { .. }
                | SessionEffect::ShellEnded { .. } => {}
            }
        }
    }

    /// Whether an earlier call left the file at `path` with this content.
    #[must_use]
    pub fn has(&self, path: &Path, mark: &FileMark) -> bool {
        let left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        left.files.get(path) == Some(mark)
    }

    /// Takes note that a call takes the session to the folder `path`. Returns another one that a
    /// call of the same batch has taken it to: of two calls at least one learns of the other.
    #[must_use]
    pub fn go(&self, path: &Path) -> Option<PathBuf> {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let other = left.folders.iter().find(|folder| *folder != path).cloned();
        left.folders.push(path.to_owned());
        other
    }
}

/// What a running call is given.
#[derive(Clone)]
pub struct CallContext {
    /// The call's id.
    pub call_id: CallId,
    /// Who makes it.
    pub caller: Caller,
    /// The session as it was when the call was inspected.
    pub view: Arc<SessionView>,
    /// Resolves when the call should stop. It has a second to do so.
    pub cancel: Cancel,
    /// Where to report to.
    pub progress: Arc<dyn Progress>,
    /// Where output goes that is too long for the outcome.
    pub overflow: Arc<dyn Overflow>,
    /// The secrets to cut out of what is kept or shown before the outcome is.
    pub redaction: Redaction,
    /// What earlier calls of the same batch left behind, by resolved path.
    pub left: Left,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// A model to ask, where the surface has one.
    pub model: Option<Arc<dyn Model>>,
    /// A person to ask, where the surface has one.
    pub elicitation: Option<Arc<dyn Elicitation>>,
    /// The program on the other side, where the surface has one that can be asked.
    pub peer: Option<Arc<dyn Peer>>,
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallContext")
            .field("call_id", &self.call_id)
            .finish_non_exhaustive()
    }
}

/// What an executed call hands back.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// What became of it.
    pub outcome: Outcome,
    /// What it leaves behind in the session.
    pub session: Vec<SessionEffect>,
    /// Pictures for a model that sees; the outcome says in words what they are.
    pub pictures: Vec<Picture>,
    /// What belongs to the result and is neither words nor a picture, for surfaces that can carry
    /// it. The outcome says in words what it is; nothing of it is recorded.
    pub blocks: Vec<Block>,
    /// Events that tell more of what it did, recorded with its result.
    pub events: Vec<Event>,
}

impl From<Outcome> for Report {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            session: Vec::new(),
            pictures: Vec::new(),
            blocks: Vec::new(),
            events: Vec::new(),
        }
    }
}

/// A tool as the catalog holds it.
pub trait Tool: Send + Sync {
    /// Its spec.
    fn spec(&self) -> &ToolSpec;

    /// The call these arguments make. Pure: no I/O, no clock.
    ///
    /// # Errors
    /// The outcome the model reads where the arguments are not what the tool takes.
    fn parse(&self, arguments: Map<String, Value>) -> Result<Box<dyn Call>, Outcome>;
}

/// A parsed call on its way to being run.
pub trait Call: Send {
    /// Looks at what the call would do, changing nothing.
    ///
    /// # Errors
    /// The outcome the model reads where the call can't succeed.
    fn inspect<'a>(
        &'a mut self,
        view: &'a SessionView,
    ) -> BoxFuture<'a, Result<Inspection, Outcome>>;

    /// Runs the call. Called at most once, after [`inspect`](Self::inspect).
    fn execute(self: Box<Self>, context: CallContext) -> BoxFuture<'static, Report>;
}

/// A tool over a parameter struct.
pub trait TypedTool: Send + Sync + 'static {
    /// The arguments. Unknown fields should be refused: a misspelled option must not be ignored.
    type Params: DeserializeOwned + JsonSchema + Send + Sync + 'static;
    /// What the inspection found and the execution checks again.
    type Plan: Send + 'static;

    /// Its spec.
    fn spec(&self) -> &ToolSpec;

    /// Checks what the schema can't express.
    ///
    /// # Errors
    /// The outcome the model reads.
    fn check(&self, _params: &Self::Params) -> Result<(), Outcome> {
        Ok(())
    }

    /// See [`Call::inspect`].
    fn inspect<'a>(
        &'a self,
        params: &'a Self::Params,
        view: &'a SessionView,
    ) -> BoxFuture<'a, Result<(Inspection, Self::Plan), Outcome>>;

    /// See [`Call::execute`].
    fn execute(
        self: Arc<Self>,
        params: Self::Params,
        plan: Self::Plan,
        context: CallContext,
    ) -> BoxFuture<'static, Report>;
}

/// Any [`TypedTool`] as a [`Tool`].
#[derive(Debug)]
pub struct Typed<T>(Arc<T>);

impl<T: TypedTool> Typed<T> {
    /// The tool, ready for the catalog.
    #[must_use]
    pub fn new(tool: T) -> Self {
        Self(Arc::new(tool))
    }
}

impl<T: TypedTool> Tool for Typed<T> {
    fn spec(&self) -> &ToolSpec {
        self.0.spec()
    }

    fn parse(&self, arguments: Map<String, Value>) -> Result<Box<dyn Call>, Outcome> {
        let params: T::Params = serde_path_to_error::deserialize(Value::Object(arguments))
            .map_err(|error| {
                let path = error.path().to_string();
                let place = if path == "." {
                    String::new()
                } else {
                    format!(" at `{path}`")
                };
                Outcome::invalid(
                    format!(
                        "wrong arguments for {}{place}: {}",
                        self.spec().name,
                        error.inner()
                    ),
                    right_shape(self.spec()),
                )
            })?;
        self.0.check(&params)?;
        Ok(Box::new(TypedCall {
            tool: Arc::clone(&self.0),
            params: Some(params),
            plan: None,
        }))
    }
}

/// What to send instead, for the end of an error.
#[must_use]
pub fn right_shape(spec: &ToolSpec) -> String {
    spec.examples.first().map_or_else(
        || {
            format!(
                "the arguments of {} follow this schema: {}",
                spec.name, spec.parameters
            )
        },
        |example| format!("the right shape is {example}"),
    )
}

struct TypedCall<T: TypedTool> {
    tool: Arc<T>,
    params: Option<T::Params>,
    plan: Option<T::Plan>,
}

impl<T: TypedTool> Call for TypedCall<T> {
    fn inspect<'a>(
        &'a mut self,
        view: &'a SessionView,
    ) -> BoxFuture<'a, Result<Inspection, Outcome>> {
        Box::pin(async move {
            let Some(params) = &self.params else {
                return Err(Outcome::failed("the call was already run", ""));
            };
            let (inspection, plan) = self.tool.inspect(params, view).await?;
            self.plan = Some(plan);
            Ok(inspection)
        })
    }

    fn execute(self: Box<Self>, context: CallContext) -> BoxFuture<'static, Report> {
        let Self { tool, params, plan } = *self;
        match (params, plan) {
            (Some(params), Some(plan)) => tool.execute(params, plan, context),
            _ => Box::pin(async {
                Outcome::failed("the call was not inspected before it was run", "").into()
            }),
        }
    }
}
