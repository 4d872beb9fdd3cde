//! An answer as it grows, chunk by chunk, out of everything servers have been seen to send.

use castellan_core::model::{Finish, Usage};
use castellan_core::{ModelEvent, ModelReply};
use serde_json::Value;

use super::calls::{Calls, Cut};
use super::fragment::Fragment;
use crate::complaint::Complaint;

/// An answer that is still coming.
#[derive(Debug, Default)]
pub(super) struct Answer {
    text: String,
    reasoning: String,
    calls: Calls,
    finish: Option<Finish>,
    usage: Option<Usage>,
}

/// An answer that ended and is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Void {
    /// It was used up by reasoning.
    CutInReasoning,
    /// The server withheld it.
    Withheld,
    /// It broke on the server, by the server's own account.
    Failed,
    /// The model reasoned and then said nothing.
    OnlyReasoning,
    /// There was nothing in it.
    Empty,
}

impl Answer {
    /// An answer of a model that was offered these tools.
    pub(super) fn of_tools<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            calls: Calls::of_tools(names),
            ..Self::default()
        }
    }

    /// Whether the server has said why the model stopped, so that nothing of weight is missing.
    pub(super) const fn has_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// Takes a chunk of a stream, or a whole answer, and returns what it adds.
    ///
    /// # Errors
    /// What the server complains about, where it is an error in the place of a chunk.
    pub(super) fn take(&mut self, chunk: &Value) -> Result<Vec<ModelEvent>, Complaint> {
        if is_error(chunk) {
            return Err(Complaint::from_json(chunk));
        }
        let usage = [&chunk["usage"], &chunk["x_groq"]["usage"]];
        self.usage = usage.into_iter().find_map(read_usage).or(self.usage);
        let Some(choice) = first_choice(chunk) else {
            return Ok(Vec::new());
        };
        let mut events = Vec::new();
        let delta = &choice["delta"];
        let message = &choice["message"];
        let is_whole =
            message.is_object() && delta.as_object().is_none_or(serde_json::Map::is_empty);
        if !is_whole {
            self.take_part(delta, &mut events);
            self.calls.take(fragments(delta));
        } else if self.is_blank() {
            self.take_part(message, &mut events);
            self.calls.take_whole(fragments(message));
        }
        // Else it repeats at its end what was streamed.
        if let Some(reason) = choice["finish_reason"]
            .as_str()
            .filter(|reason| !reason.is_empty())
        {
            let finish = read_finish(reason);
            if self
                .finish
                .as_ref()
                .is_none_or(|known| weight(known) < weight(&finish))
            {
                self.finish = Some(finish);
            }
        }
        Ok(events)
    }

    /// The complete answer.
    ///
    /// # Errors
    /// [`Void`] where neither words nor calls came: such an answer must not enter a conversation.
    pub(super) fn finish(self) -> Result<ModelReply, Void> {
        let has_text = !self.text.trim().is_empty();
        let has_calls = !self.calls.is_empty();
        if self.finish == Some(Finish::Other("error".to_owned())) {
            return Err(Void::Failed);
        }
        if !has_text && !has_calls {
            return Err(match self.finish {
                Some(Finish::ContentFilter) => Void::Withheld,
                Some(Finish::Length) => Void::CutInReasoning,
                _ if !self.reasoning.trim().is_empty() => Void::OnlyReasoning,
                _ => Void::Empty,
            });
        }
        let cut = match &self.finish {
            Some(Finish::Stop | Finish::ToolCalls) => Cut::No,
            Some(Finish::Length | Finish::Other(_)) => Cut::Yes,
            Some(Finish::ContentFilter) => Cut::Withheld,
            None => Cut::Unknown,
        };
        let finish = match self.finish {
            // What the server says is often wrong here, what it sent is not.
            None | Some(Finish::Stop | Finish::ToolCalls) if has_calls => Finish::ToolCalls,
            None | Some(Finish::ToolCalls) => Finish::Stop,
            Some(finish) => finish,
        };
        Ok(ModelReply {
            text: if has_text { self.text } else { String::new() },
            reasoning: (!self.reasoning.trim().is_empty()).then_some(self.reasoning),
            calls: self.calls.finish(cut),
            finish,
            usage: self.usage,
            attempts: 1,
        })
    }

    fn is_blank(&self) -> bool {
        self.text.is_empty() && self.calls.is_empty()
    }

    fn take_part(&mut self, part: &Value, events: &mut Vec<ModelEvent>) {
        let mut reasoning = String::new();
        // Some servers send the same words under both names.
        for key in ["reasoning_content", "reasoning"] {
            if reasoning.is_empty() {
                reasoning.push_str(part[key].as_str().unwrap_or_default());
            }
        }
        let mut text = String::new();
        read_content(&part["content"], &mut text, &mut reasoning);
        text.push_str(part["refusal"].as_str().unwrap_or_default());
        if !reasoning.is_empty() {
            self.reasoning.push_str(&reasoning);
            events.push(ModelEvent::Reasoning(reasoning));
        }
        if !text.is_empty() {
            self.text.push_str(&text);
            events.push(ModelEvent::Text(text));
        }
    }
}

/// Whether a chunk is an error: `{"error": …}` or `{"object": "error", …}`.
fn is_error(chunk: &Value) -> bool {
    let error = &chunk["error"];
    let is_said = match error {
        Value::String(text) => !text.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => false,
    };
    is_said || chunk["object"] == "error"
}

/// The first of several alternative answers, of which only one was asked for.
fn first_choice(chunk: &Value) -> Option<&Value> {
    let choices = chunk["choices"].as_array()?;
    choices
        .iter()
        .find(|choice| choice["index"].as_u64().unwrap_or(0) == 0)
}

/// Words in `content`: text, or parts of text and of reasoning.
fn read_content(content: &Value, text: &mut String, reasoning: &mut String) {
    if let Some(words) = content.as_str() {
        text.push_str(words);
    }
    for part in content.as_array().into_iter().flatten() {
        match part["type"].as_str() {
            Some("thinking" | "reasoning") => {
                let mut inner = String::new();
                read_content(&part["thinking"], &mut inner, &mut String::new());
                inner.push_str(part["text"].as_str().unwrap_or_default());
                reasoning.push_str(&inner);
            }
            _ => text.push_str(
                part["text"]
                    .as_str()
                    .or_else(|| part.as_str())
                    .unwrap_or_default(),
            ),
        }
    }
}

fn fragments(part: &Value) -> impl Iterator<Item = Fragment> + '_ {
    let calls = part["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
    // The API before it had several calls per answer. Some servers say each call in both ways.
    let legacy = part
        .get("function_call")
        .filter(|call| call.is_object() && calls.is_empty());
    let calls = calls.iter().map(Fragment::from_call);
    calls.chain(legacy.map(Fragment::from_function))
}

fn read_usage(usage: &Value) -> Option<Usage> {
    let count = |names: [&str; 2]| names.into_iter().find_map(|name| usage[name].as_u64());
    let prompt = count(["prompt_tokens", "input_tokens"]);
    let completion = count(["completion_tokens", "output_tokens"]);
    (prompt.is_some() || completion.is_some()).then(|| Usage {
        prompt_tokens: prompt.unwrap_or(0),
        completion_tokens: completion.unwrap_or(0),
    })
}

fn read_finish(reason: &str) -> Finish {
    match reason.to_ascii_lowercase().as_str() {
        "stop" | "end_turn" | "eos" | "eos_token" | "stop_sequence" => Finish::Stop,
        "tool_calls" | "function_call" | "tool_use" => Finish::ToolCalls,
        "length" | "max_tokens" | "model_length" => Finish::Length,
        "content_filter" | "safety" => Finish::ContentFilter,
        _ => Finish::Other(reason.to_owned()),
    }
}

/// Which of several reasons counts: the one after which most care is due.
const fn weight(finish: &Finish) -> u8 {
    match finish {
        Finish::Stop => 0,
        Finish::ToolCalls => 1,
        Finish::Other(_) => 2,
        Finish::ContentFilter => 3,
        Finish::Length => 4,
    }
}

#[cfg(test)]
mod tests;
