//! Reasoning in fields of its own, under the names and in the shapes that servers give it.

use castellan_core::Reasoning;
use serde_json::{Map, Value};

/// Fields that hold words of reasoning. Some servers send the same words under several names.
const WORDS: &[&str] = &[
    "reasoning_content",
    "reasoning",
    "thinking",
    "reasoning_text",
    "thought",
];

/// Fields that hold parts of reasoning to be sent back as they are.
const PARTS: &[&str] = &["reasoning_details", "thinking_blocks"];

/// Properties of a part that hold its words, and grow while it arrives.
const GROWING: &[&str] = &["text", "summary", "thinking"];

/// Reasoning as it arrives.
#[derive(Debug, Default)]
pub(super) struct Thoughts {
    /// The words so far.
    pub(super) text: String,
    details: Vec<Value>,
}

impl Thoughts {
    /// Takes the fields of a delta or message and returns the words in them, which are not added
    /// yet.
    pub(super) fn take(&mut self, part: &Value) -> String {
        let said = WORDS.iter().map(|field| words_of(&part[*field]));
        let mut said = said
            .into_iter()
            .find(|words| !words.is_empty())
            .unwrap_or_default();
        let is_said = !said.is_empty();
        for field in PARTS {
            for detail in part[*field].as_array().into_iter().flatten() {
                if !is_said {
                    said.push_str(&words_of(detail));
                }
                self.add(detail);
            }
        }
        said
    }

    /// All of it.
    pub(super) fn finish(self) -> Option<Reasoning> {
        let reasoning = Reasoning {
            text: self.text,
            details: self.details,
        };
        (!reasoning.is_blank()).then_some(reasoning)
    }

    /// Adds a part, or what continues one. Hidden data is never joined.
    fn add(&mut self, detail: &Value) {
        let Some(piece) = detail.as_object() else {
            return;
        };
        let is_numbered = piece.get("index").is_some_and(Value::is_u64);
        let place = self
            .details
            .iter()
            .rposition(|known| {
                known
                    .as_object()
                    .is_some_and(|known| continues(known, piece))
            })
            .filter(|place| is_numbered || place + 1 == self.details.len());
        let known = place
            .and_then(|place| self.details.get_mut(place))
            .and_then(Value::as_object_mut);
        match known {
            Some(known) => merge(known, piece),
            None => self.details.push(detail.clone()),
        }
    }
}

/// Whether a piece is more of a part that is known.
fn continues(known: &Map<String, Value>, piece: &Map<String, Value>) -> bool {
    let agree = |field: &str| match (known.get(field), piece.get(field)) {
        (None | Some(Value::Null), _) | (_, None | Some(Value::Null)) => true,
        (Some(known), Some(piece)) => known == piece,
    };
    let has = |part: &Map<String, Value>, fields: &[&str]| {
        let text = |field: &&str| part.get(*field).and_then(Value::as_str);
        fields
            .iter()
            .any(|field| text(field).is_some_and(|text| !text.is_empty()))
    };
    // What was signed is whole, unless its number says otherwise.
    let is_open = !has(known, &["signature"])
        || !has(piece, GROWING)
        || (piece.get("index").is_some() && known.get("index").is_some());
    !has(known, &["data"])
        && !has(piece, &["data"])
        && is_open
        && ["type", "index", "id"].into_iter().all(agree)
}

fn merge(known: &mut Map<String, Value>, piece: &Map<String, Value>) {
    for (field, value) in piece {
        match (known.get_mut(field), value) {
            (_, Value::Null) => {}
            (Some(Value::String(text)), Value::String(more))
                if GROWING.contains(&field.as_str()) =>
            {
                text.push_str(more);
            }
            (Some(Value::String(text)), Value::String(more)) if text.is_empty() => {
                more.clone_into(text);
            }
            (None | Some(Value::Null), value) => {
                known.insert(field.clone(), value.clone());
            }
            (Some(_), _) => {}
        }
    }
}

/// The words in a field: text, or an object or list with text in it.
pub(super) fn words_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(words_of).collect(),
        Value::Object(fields) => ["text", "thinking", "summary", "content"]
            .iter()
            .filter_map(|field| fields.get(*field))
            .map(words_of)
            .find(|words| !words.is_empty())
            .unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn taken(deltas: &[Value]) -> (String, Vec<Value>) {
        let mut thoughts = Thoughts::default();
        for delta in deltas {
            let words = thoughts.take(delta);
            thoughts.text.push_str(&words);
        }
        let reasoning = thoughts.finish().unwrap_or_default();
        (reasoning.text, reasoning.details)
    }

    #[test]
    fn every_spelling_is_read_and_none_twice() {
        for delta in [
            json!({"reasoning_content": "hm"}),
            json!({"reasoning": "hm"}),
            json!({"thinking": "hm"}),
            json!({"reasoning": "hm", "reasoning_content": "hm"}),
            json!({"reasoning": {"content": "hm"}}),
            json!({"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}),
            json!({"reasoning_details": [{"type": "reasoning.summary", "summary": "hm"}]}),
            json!({"thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "s"}]}),
        ] {
            assert_eq!(taken(std::slice::from_ref(&delta)).0, "hm", "{delta}");
        }
        for delta in [
            json!({}),
            json!({"reasoning": null, "thinking": true}),
            json!(1),
        ] {
            assert_eq!(taken(&[delta]), (String::new(), Vec::new()));
        }
    }

    #[test]
    fn parts_that_come_in_pieces_are_joined_and_hidden_ones_stay_as_they_are() {
        let piece = |part: Value| json!({"reasoning_details": [part]});
        let hidden =
            json!({"type": "reasoning.encrypted", "data": "q+/=\\u{7}", "id": "r", "index": 1});
        let (text, details) = taken(&[
            piece(json!({"type": "reasoning.text", "text": "h", "index": 0, "signature": null})),
            piece(json!({"type": "reasoning.text", "text": "m", "index": 0})),
            piece(hidden.clone()),
            piece(hidden.clone()),
            piece(json!({"type": "reasoning.text", "text": "", "signature": "sig", "index": 0})),
        ]);
        assert_eq!(text, "hm");
        assert_eq!(
            details,
            [
                json!({"type": "reasoning.text", "text": "hm", "index": 0, "signature": "sig"}),
                hidden.clone(),
                hidden,
            ]
        );
    }

    #[test]
    fn parts_without_number_are_told_apart_by_signature_and_type() {
        let piece = |part: Value| json!({"thinking_blocks": [part]});
        let (_, details) = taken(&[
            piece(json!({"type": "thinking", "thinking": "a"})),
            piece(json!({"type": "thinking", "thinking": "b", "signature": "1"})),
            piece(json!({"type": "thinking", "thinking": "c"})),
            piece(json!({"type": "redacted_thinking", "data": "x"})),
            piece(json!({"type": "thinking", "thinking": "d"})),
        ]);
        let words: Vec<String> = details.iter().map(words_of).collect();
        assert_eq!(words, ["ab", "c", "", "d"]);
    }
}
