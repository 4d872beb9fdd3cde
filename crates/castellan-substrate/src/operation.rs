//! What the tools of this room have in common: typed arguments in, one JSON object out, and a store
//! that can fail in between.

use std::sync::Arc;

use castellan_core::event::LogLevel;
use castellan_core::outcome::Retry;
use castellan_core::secret::Redaction;
use castellan_core::text::{chain, shorten};
use castellan_core::tool::{
    CallContext, DefaultDecision, Inspection, Report, SessionView, Typed, TypedTool, result_schema,
};
use castellan_core::{EffectStatus, ErrorCode, Event, Outcome, Surface, Tool, ToolSpec};
use castellan_store::ErrorKind;
use futures::future::{BoxFuture, Either, FutureExt as _, ready, select};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The domain of signals and the blackboard.
pub(crate) const SUBSTRATE: &str = "substrate";
/// The domain of the genome's mutations.
pub(crate) const EVOLVE: &str = "evolve";
/// The domain of memories.
pub(crate) const MEMORY: &str = "memory";

/// How many characters of a caller's own name are kept.
const CALLER_LIMIT: usize = 128;

/// Why a call came to nothing.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The caller can do something about it.
    Outcome(Outcome),
    /// The store failed.
    Store(castellan_store::Error),
}

impl From<Outcome> for Failure {
    fn from(outcome: Outcome) -> Self {
        Self::Outcome(outcome)
    }
}

impl From<castellan_store::Error> for Failure {
    fn from(error: castellan_store::Error) -> Self {
        Self::Store(error)
    }
}

impl Failure {
    /// What the model reads.
    pub(crate) fn into_outcome(self) -> Outcome {
        match self {
            Self::Outcome(outcome) => outcome,
            Self::Store(error) => unavailable(&error),
        }
    }
}

/// What a call came to.
#[derive(Debug)]
pub(crate) struct Answer<R> {
    /// The object the caller reads.
    pub(crate) reply: R,
    /// What happened that the records should tell of.
    pub(crate) events: Vec<Event>,
}

impl<R> From<R> for Answer<R> {
    fn from(reply: R) -> Self {
        Self {
            reply,
            events: Vec::new(),
        }
    }
}

/// A tool of this room.
pub(crate) trait Operation: Send + Sync + 'static {
    /// The arguments.
    type Params: DeserializeOwned + JsonSchema + Send + Sync + 'static;
    /// The answer: an object.
    type Reply: Serialize + JsonSchema + Send;

    /// Its spec.
    fn spec(&self) -> &ToolSpec;

    /// Checks what the schema can't express.
    fn check(&self, _params: &Self::Params) -> Result<(), Outcome> {
        Ok(())
    }

    /// What the call would do.
    fn inspect(
        &self,
        params: &Self::Params,
    ) -> impl Future<Output = Result<Inspection, Failure>> + Send {
        ready(Ok(Inspection::new(&self.spec().name, self.header(params))))
    }

    /// One line that says what the call does.
    fn header(&self, params: &Self::Params) -> String;

    /// Does it.
    fn run(
        &self,
        params: Self::Params,
        context: &CallContext,
    ) -> impl Future<Output = Result<Answer<Self::Reply>, Failure>> + Send;
}

/// The spec of a tool that answers with an `R`, runs unasked, and appears to MCP clients and in
/// episodes.
pub(crate) fn spec<P: JsonSchema, R: JsonSchema>(
    name: &str,
    domain: &str,
    summary: &str,
    description: &str,
) -> ToolSpec {
    let mut spec = ToolSpec::new::<P>(name, domain, summary, description);
    spec.output_schema = Some(result_schema::<R>());
    spec.surfaces = vec![Surface::Mcp, Surface::Episode];
    spec.default = DefaultDecision::Allow;
    spec
}

/// An operation, ready for the catalog.
pub(crate) fn tool<O: Operation>(operation: O) -> Arc<dyn Tool> {
    Arc::new(Typed::new(Operating(operation)))
}

struct Operating<O>(O);

impl<O: Operation> TypedTool for Operating<O> {
    type Params = O::Params;
    type Plan = ();

    fn spec(&self) -> &ToolSpec {
        self.0.spec()
    }

    fn check(&self, params: &O::Params) -> Result<(), Outcome> {
        self.0.check(params)
    }

    fn inspect<'a>(
        &'a self,
        params: &'a O::Params,
        _view: &'a SessionView,
    ) -> BoxFuture<'a, Result<(Inspection, ()), Outcome>> {
        async move {
            let found = self.0.inspect(params).await;
            let inspection = found.map_err(Failure::into_outcome)?;
            Ok((inspection, ()))
        }
        .boxed()
    }

    fn execute(
        self: Arc<Self>,
        params: O::Params,
        (): (),
        context: CallContext,
    ) -> BoxFuture<'static, Report> {
        async move {
            let cancel = context.cancel.clone();
            let work = Box::pin(self.0.run(params, &context));
            let only_reads = self.0.spec().is_read_only();
            match select(work, cancel).await {
                Either::Left((Ok(answer), _)) => report(answer, only_reads),
                Either::Left((Err(failure), _)) => {
                    if let Failure::Store(error) = &failure {
                        context.progress.log(LogLevel::Error, &chain(error));
                    }
                    failure.into_outcome().into()
                }
                // What was queued is written all the same.
                Either::Right(((), _)) => Outcome::Cancelled {
                    output: "stopped while it waited for the database".to_owned(),
                    effect: if only_reads {
                        EffectStatus::None
                    } else {
                        EffectStatus::Unknown
                    },
                }
                .into(),
            }
        }
        .boxed()
    }
}

fn report<R: Serialize>(answer: Answer<R>, only_reads: bool) -> Report {
    let effect = if only_reads {
        EffectStatus::None
    } else {
        EffectStatus::Committed
    };
    let outcome = match serde_json::to_string(&answer.reply) {
        Ok(output) => Outcome::Done { output, effect },
        Err(error) => Outcome::Failed {
            output: String::new(),
            code: ErrorCode::Internal,
            what: format!("the answer could not be written as JSON: {error}"),
            effect,
            retry: Retry::Useless,
            next: String::new(),
        },
    };
    Report {
        events: answer.events,
        ..outcome.into()
    }
}

/// A failure with `code` that changed nothing, which other arguments may avoid.
pub(crate) fn failed(code: ErrorCode, what: impl Into<String>, next: impl Into<String>) -> Outcome {
    Outcome::Failed {
        output: String::new(),
        code,
        what: what.into(),
        effect: EffectStatus::None,
        retry: Retry::Useful,
        next: next.into(),
    }
}

/// What a failure of the store means to a caller. Nothing was changed: a job is committed whole or
/// not at all.
fn unavailable(error: &castellan_store::Error) -> Outcome {
    let broken = |what: &str, next: &str| failed(ErrorCode::StoreUnavailable, what, next);
    match error.kind() {
        ErrorKind::Limit => failed(
            ErrorCode::LimitReached,
            error.to_string(),
            "use something that exists",
        ),
        ErrorKind::NotFound => failed(ErrorCode::NotFound, error.to_string(), ""),
        ErrorKind::Invalid => Outcome::invalid(error.to_string(), ""),
        ErrorKind::Busy => broken(
            "other processes kept the database locked; nothing was changed",
            "call it again in a moment",
        ),
        ErrorKind::Full => broken(
            "the database has no room left on its disk; nothing was changed, and what was saved \
             before is intact",
            "tell the person that the disk is full",
        ),
        ErrorKind::Permission | ErrorKind::Io => broken(
            "the database could not be used; nothing was changed",
            "tell the person to run `castellan doctor`",
        ),
        ErrorKind::Newer => broken(
            "the database was written by a newer castellan; nothing was changed",
            "tell the person to upgrade castellan",
        ),
        ErrorKind::Corrupt | ErrorKind::NotOurs => broken(
            "the database is damaged; nothing was changed",
            "tell the person to run `castellan doctor`",
        ),
        _ => failed(
            ErrorCode::Internal,
            "the database could not do it, which is a defect; nothing was changed",
            "",
        ),
    }
}

/// Who makes a call, as it is kept.
pub(crate) fn author(context: &CallContext) -> String {
    let principal = context.caller.principal.to_string().replace('\0', "");
    shorten(&principal, CALLER_LIMIT)
}

/// `value` without the secrets this process knows, in whatever text of it they stand.
pub(crate) fn redacted(value: Value, redaction: &Redaction) -> Value {
    match value {
        Value::String(text) => Value::String(redaction.apply(text)),
        Value::Array(items) => items
            .into_iter()
            .map(|item| redacted(item, redaction))
            .collect(),
        Value::Object(object) => object
            .into_iter()
            .map(|(key, value)| (redaction.apply(key), redacted(value, redaction)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// Text of 1 to `limit` characters that can be kept.
pub(crate) fn check_text(what: &str, text: &str, limit: usize) -> Result<(), Outcome> {
    let length = text.chars().count();
    let problem = if text.trim().is_empty() {
        format!("`{what}` is empty")
    } else if length > limit {
        format!("`{what}` has {length} characters, at most {limit} are kept")
    } else if text.contains('\0') {
        format!("`{what}` contains a NUL character, which is never kept")
    } else {
        return Ok(());
    };
    Err(Outcome::invalid(problem, ""))
}
