//! What a session's events tell, in the order in which it happened.

use std::collections::HashMap;
use std::path::PathBuf;

use castellan_core::event::{CompactionCause, Summarizer, TurnEnd};
use castellan_core::message::IssuedCall;
use castellan_core::text::head_and_tail;
use castellan_core::{
    CallId, EffectStatus, ErrorCode, Event, PictureRef, Recorded, SessionId, Timestamp,
};
use serde::Serialize;

/// How many bytes of a result are written down.
const RESULT_BYTES: usize = 8 * 1024;
/// How many bytes of a call's arguments.
const ARGUMENT_BYTES: usize = 8 * 1024;

/// A session.
#[derive(Debug, Serialize)]
pub(super) struct Story {
    pub(super) session: SessionId,
    pub(super) began: Option<Timestamp>,
    pub(super) version: String,
    pub(super) cwd: PathBuf,
    pub(super) caller: String,
    /// The models that were asked, in the order in which they first were.
    pub(super) models: Vec<String>,
    pub(super) prompt_tokens: u64,
    pub(super) completion_tokens: u64,
    pub(super) parts: Vec<Part>,
}

/// One thing that happened.
#[derive(Debug, Serialize)]
pub(super) struct Part {
    pub(super) ts: Timestamp,
    #[serde(flatten)]
    pub(super) told: Told,
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Told {
    User {
        text: String,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pictures: Vec<PictureRef>,
    },
    Assistant {
        text: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning: Option<String>,
    },
    Call(Call),
    Notice {
        text: String,
    },
    Compaction {
        cause: CompactionCause,
        summary: String,
        by: Summarizer,
        tokens_before: u64,
        tokens_after: u64,
    },
    Error {
        code: ErrorCode,
        message: String,
    },
    TurnEnd {
        reason: TurnEnd,
    },
}

/// A call and what became of it.
#[derive(Debug, Serialize)]
pub(super) struct Call {
    pub(super) call_id: CallId,
    pub(super) name: String,
    /// One line that says what it does; empty where it was never understood.
    pub(super) header: String,
    /// As the model sent them, marked secrets as handles.
    pub(super) arguments: String,
    /// What was decided about it, and by whom: `allow by default: …`, `approved by terminal`.
    pub(super) decisions: Vec<String>,
    /// What it came to; absent where that was never recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<Came>,
}

#[derive(Debug, Serialize)]
pub(super) struct Came {
    /// `done`, `failed`, `denied`, `timed_out` or `cancelled`.
    pub(super) outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<ErrorCode>,
    pub(super) effect: EffectStatus,
    pub(super) duration_ms: u64,
    pub(super) output: String,
    /// How many bytes it had.
    pub(super) bytes: usize,
    /// The file with the whole of it, where the model did not see all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) whole: Option<PathBuf>,
    /// Pictures that belong to it, by the files that have them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) pictures: Vec<PictureRef>,
}

impl Story {
    pub(super) fn of(session: SessionId, log: &[Recorded]) -> Self {
        let mut story = Self {
            session,
            began: log.first().map(|first| first.ts),
            version: String::new(),
            cwd: PathBuf::new(),
            caller: String::new(),
            models: Vec::new(),
            prompt_tokens: 0,
            completion_tokens: 0,
            parts: Vec::new(),
        };
        let mut places = HashMap::new();
        for recorded in log {
            story.take(recorded, &mut places);
        }
        story
    }

    fn take(&mut self, recorded: &Recorded, places: &mut HashMap<CallId, usize>) {
        let told = match &recorded.event {
            Event::SessionStart {
                version,
                cwd,
                caller,
                ..
            } => {
                self.version.clone_from(version);
                self.cwd.clone_from(cwd);
                self.caller = caller.principal.to_string();
                return;
            }
            Event::ModelRequest { model, .. } => {
                if !self.models.contains(model) {
                    self.models.push(model.clone());
                }
                return;
            }
            Event::UserTurn { text, pictures } => Told::User {
                text: text.clone(),
                pictures: pictures.clone(),
            },
            Event::Notice { text, .. } => Told::Notice { text: text.clone() },
            Event::Error { code, message } => Told::Error {
                code: *code,
                message: message.clone(),
            },
            Event::StateChange {
                reason: Some(reason),
                ..
            } => Told::TurnEnd { reason: *reason },
            Event::ModelResponse {
                text,
                reasoning,
                calls,
                usage,
                ..
            } => {
                self.count(usage.as_ref());
                let reasoning = reasoning.as_ref().map(|shown| shown.text.clone());
                if !text.trim().is_empty() || reasoning.is_some() {
                    let text = text.clone();
                    self.push(recorded.ts, Told::Assistant { text, reasoning });
                }
                for call in calls {
                    places.insert(call.call_id, self.parts.len());
                    self.push(recorded.ts, Told::Call(Call::of(call)));
                }
                return;
            }
            Event::Compaction {
                cause,
                summary,
                by,
                tokens_before,
                tokens_after,
                usage,
                ..
            } => {
                self.count(usage.as_ref());
                Told::Compaction {
                    cause: *cause,
                    summary: summary.clone(),
                    by: *by,
                    tokens_before: *tokens_before,
                    tokens_after: *tokens_after,
                }
            }
            event => return self.take_of_call(event, places),
        };
        self.push(recorded.ts, told);
    }

    fn count(&mut self, usage: Option<&castellan_core::model::Usage>) {
        if let Some(usage) = usage {
            self.prompt_tokens += usage.prompt_tokens;
            self.completion_tokens += usage.completion_tokens;
        }
    }

    fn push(&mut self, ts: Timestamp, told: Told) {
        self.parts.push(Part { ts, told });
    }

    /// What an event says of a call goes beside the call.
    fn take_of_call(&mut self, event: &Event, places: &HashMap<CallId, usize>) {
        match event {
            Event::ToolPrepared {
                call_id,
                name,
                header,
                ..
            } => self.on_call(*call_id, places, |call| {
                call.name.clone_from(name);
                call.header.clone_from(header);
            }),
            Event::Policy {
                call_id,
                decision,
                by,
                reason,
            } => self.on_call(*call_id, places, |call| {
                let decision = crate::output::word(decision);
                call.decisions.push(format!("{decision} by {by}: {reason}"));
            }),
            Event::ApprovalResolved { by, answers, .. } => {
                for answer in answers {
                    self.on_call(answer.call_id, places, |call| {
                        let word = if answer.approve { "approved" } else { "denied" };
                        let mut decision = format!("{word} by {by}");
                        if !answer.feedback.is_empty() {
                            decision.push_str(&format!(": {}", answer.feedback));
                        }
                        call.decisions.push(decision);
                    });
                }
            }
            Event::ToolResult {
                call_id,
                output,
                effect,
                outcome,
                code,
                duration_ms,
                spill,
                pictures,
                ..
            } => self.on_call(*call_id, places, |call| {
                // A second result of a call tells nothing.
                call.result.get_or_insert_with(|| Came {
                    outcome: outcome.clone(),
                    code: *code,
                    effect: *effect,
                    duration_ms: *duration_ms,
                    output: cut(output, RESULT_BYTES),
                    bytes: output.len(),
                    whole: spill.clone(),
                    pictures: pictures.clone(),
                });
            }),
            // What only passes by is never stored, and the rest says nothing of its own.
            _ => {}
        }
    }

    fn on_call(
        &mut self,
        id: CallId,
        places: &HashMap<CallId, usize>,
        change: impl FnOnce(&mut Call),
    ) {
        let part = places.get(&id).and_then(|place| self.parts.get_mut(*place));
        if let Some(Part {
            told: Told::Call(call),
            ..
        }) = part
        {
            change(call);
        }
    }
}

impl Call {
    fn of(issued: &IssuedCall) -> Self {
        Self {
            call_id: issued.call_id,
            name: issued.raw.name.clone(),
            header: String::new(),
            arguments: cut(&issued.raw.arguments, ARGUMENT_BYTES),
            decisions: Vec::new(),
            result: None,
        }
    }
}

fn cut(text: &str, limit: usize) -> String {
    head_and_tail(text, limit, None).map_or_else(|| text.to_owned(), |cut| cut.text)
}
