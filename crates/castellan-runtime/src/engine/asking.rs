//! Asks the person on the other side of a call whether it may run.

use castellan_core::Cancel;
use castellan_core::event::{Answer, ApprovalItem};
use castellan_core::port::{Elicitation, Elicited};
use castellan_core::text::{head_and_tail, one_line};
use castellan_core::tool::Preview;
use castellan_gate::gate::TIMEOUT;
use futures::future::{Either, select};
use serde_json::{Value, json};

use super::Engine;

/// The longest preview a question shows, in bytes. Of a longer one the beginning and the end are
/// shown, and how much is missing between them.
const SHOWN: usize = 32 * 1024;

/// Who answers where a client carried the question to its person.
const BY: &str = "the client's person";

/// An answer, and who gave it.
pub(super) struct Answered {
    pub(super) answer: Answer,
    pub(super) by: String,
}

impl Engine {
    /// Asks about one call and waits for the answer, as long as patience lasts.
    pub(super) async fn ask(
        &self,
        person: &dyn Elicitation,
        item: &ApprovalItem,
        cancel: Cancel,
    ) -> Answered {
        let no = |by: &str, why: &str| Answered {
            answer: Answer {
                feedback: why.to_owned(),
                ..Answer::new(item.call_id, false)
            },
            by: by.to_owned(),
        };
        let late = match self.parts.patience {
            Some(patience) => self.parts.clock.sleep(patience),
            None => Box::pin(futures::future::pending()),
        };
        let asked = person.ask(question(item), schema());
        let given_up = select(cancel, late);
        match select(asked, given_up).await {
            Either::Left((Elicited::Accepted(value), _)) => Answered {
                answer: answer(item, &value),
                by: BY.to_owned(),
            },
            Either::Left((Elicited::Declined, _)) => no(BY, "they declined"),
            Either::Left((Elicited::Cancelled, _)) => no(BY, "they closed the question"),
            Either::Right((Either::Left(_), _)) => no(BY, "the call was cancelled meanwhile"),
            Either::Right((Either::Right(_), _)) => no(TIMEOUT, "nobody answered in time"),
        }
    }
}

/// What the person reads.
fn question(item: &ApprovalItem) -> String {
    let mut text = format!("{} wants to run: {}", item.name, one_line(&item.header));
    let more = match &item.preview {
        Preview::None => String::new(),
        Preview::Command { command, cwd } => format!("{command}\n(in {})", cwd.display()),
        Preview::File {
            path,
            action,
            bytes,
            beginning,
            note,
            ..
        } => {
            let left = bytes.saturating_sub(beginning.trim_end_matches('…').len() as u64);
            let left = match left {
                0 => String::new(),
                left => format!("\n[{left} more bytes are written and not shown]"),
            };
            format!(
                "{action} {} ({bytes} bytes)\n{beginning}{left}\n{note}",
                path.display()
            )
        }
        Preview::Diff {
            path,
            unified,
            note,
            ..
        } => format!("{}\n{unified}\n{note}", path.display()),
    };
    if !more.is_empty() {
        text.push('\n');
        text.push_str(&quoted(&bounded(more.trim_end())));
    }
    if !item.reason.is_empty() {
        text.push_str("\nAsked because: ");
        text.push_str(&one_line(&item.reason));
    }
    text
}

/// What a caller wrote, so that none of its lines can pass for one of ours and none of its letters
/// move what stands around them.
fn quoted(text: &str) -> String {
    let lines = text.lines().map(|line| format!("| {}", one_line(line)));
    lines.collect::<Vec<_>>().join("\n")
}

fn bounded(text: &str) -> String {
    head_and_tail(text, SHOWN, None).map_or_else(|| text.to_owned(), |cut| cut.text)
}

/// What the answer looks like: the kinds of field that every client can draw.
fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "approve": {
                "type": "boolean",
                "title": "Allow this call",
                "description": "Yes lets this one call run, no refuses it",
            },
            "reason": {
                "type": "string",
                "title": "Reason",
                "description": "What the caller should know; may be left out",
            },
        },
        "required": ["approve"],
    })
}

/// An answer that is not clearly a yes is a no.
fn answer(item: &ApprovalItem, value: &Value) -> Answer {
    let approve = value.get("approve").and_then(Value::as_bool) == Some(true);
    let reason = value.get("reason").and_then(Value::as_str);
    Answer {
        feedback: reason.unwrap_or_default().trim().to_owned(),
        ..Answer::new(item.call_id, approve)
    }
}
