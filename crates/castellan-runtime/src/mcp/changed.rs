//! What a call changes of what can be read: told to clients that subscribed to it.

use std::sync::Arc;

use castellan_core::ToolSpec;
use castellan_mcp::provider::Object;
use castellan_mcp::{Change, Changes};
use serde_json::Value;

use crate::resources::{Entry, Shelf};

/// What a call may change, and how the list of resources was before it.
pub(super) struct Before<'a> {
    shelf: &'a Shelf,
    changes: &'a Arc<Changes>,
    uris: Vec<String>,
    /// The list, where somebody wants to know of it.
    list: Option<Vec<Entry>>,
}

impl<'a> Before<'a> {
    /// Looks before a call with these arguments; `None` where it changes nothing that is read.
    pub(super) async fn look(
        (shelf, changes): (&'a Shelf, &'a Arc<Changes>),
        spec: &ToolSpec,
        arguments: &Object,
    ) -> Option<Self> {
        let uris: Vec<String> = spec
            .changes
            .iter()
            .filter_map(|template| filled(template, arguments))
            .collect();
        if uris.is_empty() {
            return None;
        }
        let list = if changes.awaits(&Change::Resources) {
            Some(shelf.list().await)
        } else {
            None
        };
        Some(Self {
            shelf,
            changes,
            uris,
            list,
        })
    }

    /// Tells what has changed, once the call has done what was asked.
    pub(super) async fn tell(self) {
        for uri in self.uris {
            self.changes.announce(&Change::Resource(uri));
        }
        if let Some(before) = self.list
            && self.shelf.list().await != before
        {
            self.changes.announce(&Change::Resources);
        }
    }
}

/// The URI that `template` stands for in a call with these arguments; `None` where one is missing.
fn filled(template: &str, arguments: &Object) -> Option<String> {
    let mut uri = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}')?;
        uri.push_str(before);
        match arguments.get(name)? {
            Value::String(text) => uri.push_str(text),
            other => uri.push_str(&other.to_string()),
        }
        rest = after;
    }
    uri.push_str(rest);
    Some(uri)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_template_is_filled_from_the_arguments_or_names_nothing() {
        let arguments = json!({"slot": "plan", "version": 3});
        let arguments = arguments.as_object().unwrap();
        let filled = |template| filled(template, arguments);
        assert_eq!(
            filled("blackboard://{slot}").as_deref(),
            Some("blackboard://plan")
        );
        assert_eq!(filled("a://{version}/b").as_deref(), Some("a://3/b"));
        assert_eq!(
            filled("genome://current").as_deref(),
            Some("genome://current")
        );
        assert_eq!(filled("a://{other}"), None);
    }
}
