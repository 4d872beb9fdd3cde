//! An answer as it grows, chunk by chunk, out of everything servers have been seen to send.

use std::collections::BTreeSet;

use castellan_core::model::{Finish, Usage};
use castellan_core::{ModelEvent, ModelReply};
use serde_json::Value;

use super::calls::{Calls, Cut};
use super::fragment::Fragment;
use super::reasoning::{Thoughts, words_of};
use super::thinking::{self, Piece, Splitter};
use super::usage;
use super::written::{self, stage::Stage};
use crate::complaint::Complaint;

/// An answer that is still coming.
#[derive(Debug, Default)]
pub(super) struct Answer {
    text: String,
    reasoning: Thoughts,
    splitter: Splitter,
    stage: Stage,
    calls: Calls,
    /// Names of the tools that were offered.
    known: BTreeSet<String>,
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
        let known: BTreeSet<String> = names.into_iter().map(str::to_owned).collect();
        Self {
            calls: Calls::of_tools(known.iter().map(String::as_str)),
            known,
            ..Self::default()
        }
    }

    /// Whether the server has said why the model stopped, so that nothing of weight is missing.
    pub(super) const fn has_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// Whether any words, thoughts or calls have come.
    pub(super) fn has_begun(&self) -> bool {
        !self.is_blank() || !self.reasoning.text.is_empty()
    }

    /// Takes a chunk of a stream, or a whole answer, and returns what it adds.
    ///
    /// # Errors
    /// What the server complains about, where it is an error in the place of a chunk.
    pub(super) fn take(&mut self, chunk: &Value) -> Result<Vec<ModelEvent>, Complaint> {
        if is_error(chunk) {
            return Err(Complaint::from_json(chunk));
        }
        let choice = first_choice(chunk);
        self.usage = usage::read(chunk, choice).or(self.usage);
        let Some(choice) = choice else {
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
        let known = self.finish.as_ref().map(weight);
        if let Some(finish) = read_finish(&choice["finish_reason"])
            && known.is_none_or(|known| known < weight(&finish))
        {
            self.finish = Some(finish);
        }
        Ok(events)
    }

    /// The complete answer, and what of it was not told yet.
    ///
    /// # Errors
    /// [`Void`] where neither words nor calls came: such an answer must not enter a conversation.
    pub(super) fn finish(mut self) -> Result<(Vec<ModelEvent>, ModelReply), Void> {
        let mut events = Vec::new();
        self.settle_words(&mut events);
        let calls = std::mem::take(&mut self.calls);
        let written = if calls.is_empty() && self.finish != Some(Finish::ContentFilter) {
            written::find(&self.text, &self.known)
        } else {
            None
        };
        if let Some(written) = &written {
            self.text.truncate(written.start);
        }
        if let Some(rest) = self
            .text
            .get(self.stage.shown()..)
            .filter(|rest| !is_blank(rest))
        {
            events.push(ModelEvent::Text(rest.to_owned()));
        }
        let has_text = !is_blank(&self.text);
        let has_calls = written.is_some() || !calls.is_empty();
        if self.finish == Some(Finish::Other(FAILED.to_owned())) {
            return Err(Void::Failed);
        }
        let reasoning = self.reasoning.finish();
        if !has_text && !has_calls {
            return Err(match self.finish {
                Some(Finish::ContentFilter) => Void::Withheld,
                Some(Finish::Length) => Void::CutInReasoning,
                _ if reasoning.is_some() => Void::OnlyReasoning,
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
        if written.is_some() {
            self.text.truncate(self.text.trim_end().len());
        }
        let reply = ModelReply {
            text: if has_text { self.text } else { String::new() },
            reasoning,
            calls: written.map_or_else(|| calls.finish(cut), |written| written.calls),
            finish,
            usage: self.usage,
            attempts: 1,
        };
        Ok((events, reply))
    }

    /// Takes the end of the words, and mends what could be told only there.
    fn settle_words(&mut self, events: &mut Vec<ModelEvent>) {
        let (pieces, was_answer) = self.splitter.finish();
        self.take_pieces(pieces, events);
        let reasoning = &mut self.reasoning.text;
        if let Some(answer) = was_answer
            && let Some(before) = reasoning.strip_suffix(&answer)
        {
            reasoning.truncate(before.len());
            self.text.push_str(answer.trim_start());
        }
        if is_blank(&self.reasoning.text)
            && let Some((thought, answer)) = thinking::split_unopened(&self.text)
        {
            // They were shown as words of the answer when they came, which can't be undone; what is
            // kept is right.
            let before = self.text.len() - answer.len();
            thought.clone_into(&mut self.reasoning.text);
            self.text = answer.to_owned();
            self.stage.shift(before);
        }
    }

    fn is_blank(&self) -> bool {
        self.text.is_empty() && self.calls.is_empty()
    }

    fn take_part(&mut self, part: &Value, events: &mut Vec<ModelEvent>) {
        let mut thought = self.reasoning.take(part);
        let mut text = String::new();
        read_content(&part["content"], &mut text, &mut thought);
        text.push_str(part["refusal"].as_str().unwrap_or_default());
        if !thought.is_empty() {
            self.reasoning.text.push_str(&thought);
            events.push(ModelEvent::Reasoning(thought));
        }
        let pieces = self.splitter.push(&text);
        self.take_pieces(pieces, events);
    }

    fn take_pieces(&mut self, pieces: Vec<Piece>, events: &mut Vec<ModelEvent>) {
        for piece in pieces {
            match piece {
                Piece::Reasoning(thought) => {
                    self.reasoning.text.push_str(&thought);
                    events.push(ModelEvent::Reasoning(thought));
                }
                Piece::Text(text) => self.text.push_str(&text),
            }
        }
        if let Some(fit) = self.stage.release(&self.text, &self.known) {
            events.push(ModelEvent::Text(fit.to_owned()));
        }
    }
}

/// Why an answer ended that broke on its server.
const FAILED: &str = "error";

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
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
                reasoning.push_str(&words_of(part));
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

/// What a server says of the end; `None` where it says nothing yet. Words are compared without
/// regard to case, hyphens and underscores.
fn read_finish(reason: &Value) -> Option<Finish> {
    let word = match reason {
        Value::Null => return None,
        Value::String(word) if is_blank(word) => return None,
        Value::String(word) => word.trim().to_owned(),
        Value::Object(fields) => {
            // {"type": "stop"}
            let kind = fields.get("type").or_else(|| fields.get("reason"));
            let kind = kind.and_then(Value::as_str);
            kind.map_or_else(|| reason.to_string(), str::to_owned)
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => reason.to_string(),
    };
    let plain = word.to_ascii_lowercase().replace(['_', '-', ' '], "");
    Some(match plain.as_str() {
        "stop" | "endturn" | "eos" | "eostoken" | "stopsequence" | "complete" | "completed"
        | "done" | "finish" | "finished" | "end" => Finish::Stop,
        "toolcalls" | "toolcall" | "functioncall" | "functioncalls" | "tooluse" => {
            Finish::ToolCalls
        }
        "length"
        | "maxtokens"
        | "modellength"
        | "maxlength"
        | "maxoutputtokens"
        | "modelcontextwindowexceeded" => Finish::Length,
        "contentfilter" | "contentfiltered" | "safety" | "sensitive" | "recitation"
        | "blocklist" | "prohibitedcontent" | "spii" => Finish::ContentFilter,
        "error" | "networkerror" | "insufficientsystemresource" | "malformedfunctioncall" => {
            Finish::Other(FAILED.to_owned())
        }
        _ => Finish::Other(word),
    })
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
