//! One piece of a tool call, read out of the shapes in which servers send it, and a measure of
//! where a JSON text ends.

use serde_json::Value;

/// A piece of a call. Whose it is, is another question.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Fragment {
    /// The place of the call, as numbered by the server.
    pub(super) index: Option<u64>,
    /// The call's id; never empty.
    pub(super) id: Option<String>,
    /// The tool's name or a part of it; never empty.
    pub(super) name: Option<String>,
    /// Arguments or a part of them.
    pub(super) arguments: String,
    /// What the provider wants back with the call.
    pub(super) extra: Option<Value>,
}

impl Fragment {
    /// From an entry of `tool_calls`, whose function may be nested or not.
    pub(super) fn from_call(value: &Value) -> Self {
        let function = value
            .get("function")
            .filter(|function| function.is_object());
        let mut fragment = Self::from_function(function.unwrap_or(value));
        fragment.index = value.get("index").and_then(Value::as_u64);
        fragment.id = match value.get("id") {
            Some(Value::Number(number)) => Some(number.to_string()),
            other => other.and_then(Value::as_str).map(str::to_owned),
        };
        fragment.extra = value
            .get("extra_content")
            .filter(|extra| extra.is_object())
            .cloned();
        fragment.id = fragment.id.filter(|id| !id.trim().is_empty());
        fragment
    }

    /// From a `function_call` of the API before it had several calls per answer.
    pub(super) fn from_function(value: &Value) -> Self {
        let name = value
            .get("name")
            .and_then(Value::as_str)
            .filter(|name| !name.is_empty());
        let arguments = match value.get("arguments") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            // An object where text should be: the call in one piece.
            Some(other) => other.to_string(),
        };
        Self {
            index: None,
            id: None,
            name: name.map(str::to_owned),
            arguments,
            extra: None,
        }
    }

    /// Whether it says nothing at all.
    pub(super) fn is_void(&self) -> bool {
        self.name.is_none()
            && self.id.is_none()
            && self.arguments.is_empty()
            && self.extra.is_none()
    }
}

/// Follows a JSON text as it grows and knows whether its outermost value has ended, without reading
/// it again from the start with each piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Extent {
    depth: usize,
    in_string: bool,
    escaped: bool,
    ended: bool,
}

impl Extent {
    /// Takes the next piece.
    pub(super) fn feed(&mut self, text: &str) {
        for byte in text.bytes() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => {
                        self.in_string = false;
                        self.ended = self.depth == 0;
                    }
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.ended = self.depth == 0;
                }
                _ => {}
            }
        }
    }

    /// Whether the outermost object, array or string has ended.
    pub(super) const fn has_ended(self) -> bool {
        self.ended && self.depth == 0 && !self.in_string
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn arguments_may_be_text_an_object_or_missing() {
        for (arguments, text) in [
            (json!("{\"a\":"), "{\"a\":"),
            (json!({"a": 1}), "{\"a\":1}"),
            (Value::Null, ""),
        ] {
            let call = json!({"id": "", "function": {"name": "f", "arguments": arguments}});
            let fragment = Fragment::from_call(&call);
            assert_eq!((fragment.arguments.as_str(), fragment.id), (text, None));
        }
        let flat = Fragment::from_call(&json!({"id": 7, "index": 2, "name": "f"}));
        assert_eq!((flat.id.as_deref(), flat.index), (Some("7"), Some(2)));
        assert!(Fragment::from_call(&json!({"index": 0, "function": {"name": null}})).is_void());
        assert!(Fragment::from_call(&json!("odd")).is_void());
    }

    fn ended(text: &str) -> bool {
        let mut extent = Extent::default();
        extent.feed(text);
        extent.has_ended()
    }

    #[test]
    fn braces_inside_strings_do_not_count() {
        assert!(ended(r#"{"a":"}{\"","b":[1]}"#) && ended("\"text\"") && ended("{} "));
        assert!(!ended(r#"{"a":"}"#) && !ended(r#"{"a":{}"#) && !ended("") && !ended("\"te"));
    }

    proptest! {
        #[test]
        fn a_json_object_ends_exactly_at_its_last_character(
            key in "\\PC{0,6}", text in "[\\PC\"\\\\{}\\[\\]]{0,20}", number in any::<i32>(),
        ) {
            let object = json!({key: text, "n": [number, {"x": text}]}).to_string();
            prop_assert!(ended(&object));
            for (at, _) in object.char_indices() {
                prop_assert!(!ended(object.split_at(at).0));
            }
        }
    }
}
