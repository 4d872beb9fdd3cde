//! What acts in an episode: the contract, and what a plugin answers in JSON.

use std::sync::Arc;

use castellan_core::text::{one_line, shorten};
use castellan_core::{Cancel, Event};
use futures::future::{BoxFuture, FutureExt as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::time::Time;
use crate::engine::{Connection, Engine};
use crate::error::Error;
use crate::session::Watcher;

/// The most calls of one step.
pub const CALLS: usize = 100;

/// A call a plugin wants made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    /// The tool.
    pub tool: String,
    /// The arguments: an object, or the text of one.
    #[serde(default)]
    pub args: Value,
}

impl ToolUse {
    /// A call with these arguments.
    #[must_use]
    pub fn new(tool: &str, args: Value) -> Self {
        Self {
            tool: tool.to_owned(),
            args,
        }
    }

    /// The arguments as text.
    #[must_use]
    pub fn arguments(&self) -> String {
        match &self.args {
            Value::Null => "{}".to_owned(),
            Value::String(text) => text.clone(),
            args => args.to_string(),
        }
    }
}

/// What a plugin does in a step.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct Act {
    /// The calls to make, in order.
    #[serde(default)]
    pub mcp_tools: Vec<ToolUse>,
    /// Whether the episode is over once they are made.
    #[serde(default)]
    pub done: bool,
    /// Where it is over: whether the goal was reached; left out, it was.
    #[serde(default)]
    pub reached: Option<bool>,
    /// A sentence for people.
    #[serde(default)]
    pub note: String,
    /// What the plugin wants on record of the state of its world.
    #[serde(default)]
    pub state: Value,
    /// The state of its world drawn with characters, for a terminal.
    #[serde(skip)]
    pub picture: Option<String>,
}

impl Act {
    /// What a line of a program says.
    ///
    /// # Errors
    /// What is wrong with it, in words that read after the program's name.
    pub fn read(line: &str) -> Result<Self, String> {
        let shown = one_line(&shorten(line, 200));
        let expected = "expected is a line like {\"mcp_tools\": [{\"tool\": \"…\", \"args\": {…}}], \
                        \"done\": false}";
        let value: Value = serde_json::from_str(line).map_err(|error| {
            format!("wrote a line that is not JSON ({error}): {shown}; {expected}")
        })?;
        if !value.is_object() {
            return Err(format!(
                "wrote a line that is no object: {shown}; {expected}"
            ));
        }
        Self::deserialize(value).map_err(|error| {
            format!("wrote a line that is no answer ({error}): {shown}; {expected}")
        })
    }
}

/// Why an episode ends before its plugin says so.
#[derive(Debug)]
pub enum Trouble {
    /// The plugin failed; why, in words that read after its name.
    Plugin(String),
    /// What happens can't be recorded.
    Record(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Record(error)
    }
}

/// What a plugin may use while it acts.
pub struct Access<'a> {
    /// Where calls go. The episode makes those that a plugin answers; the catalog is here.
    pub engine: &'a Engine,
    /// The connection the episode's calls are made on.
    pub connection: &'a Connection,
    /// The time and the ids.
    pub time: &'a Time,
    /// Resolves when the episode should stop.
    pub cancel: Cancel,
    /// Whether calls are made at all.
    pub mcp: bool,
    pub(super) watcher: Arc<dyn Watcher>,
}

impl std::fmt::Debug for Access<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access")
            .field("mcp", &self.mcp)
            .finish_non_exhaustive()
    }
}

impl Access<'_> {
    /// Puts something on record.
    ///
    /// # Errors
    /// [`Error::Gate`] where it can't be written: nothing may follow from it then.
    pub async fn tell(&self, events: Vec<Event>) -> Result<(), Error> {
        let watcher = Arc::clone(&self.watcher);
        self.engine.tell_to(self.connection, events, watcher).await
    }
}

/// Something that acts in an episode.
pub trait Plugin: Send {
    /// What it is called in the record.
    fn name(&self) -> String;

    /// What else decides how it acts, so that the episode can be run again.
    fn settings(&self) -> Value;

    /// Acts on what it is shown. The future is dropped where the episode is stopped.
    fn act<'a>(
        &'a mut self,
        observation: &'a Value,
        access: &'a Access<'a>,
    ) -> BoxFuture<'a, Result<Act, Trouble>>;

    /// Ends whatever it has started.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        futures::future::ready(()).boxed()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_payload_names_tools_with_their_arguments() {
        let line = r#"{"mcp_tools": [{"tool": "castellan_deposit_signal",
            "args": {"zone": "grid", "signal": "coordination", "amount": 2.0}}]}"#;
        let act = Act::read(line).unwrap();
        let args = json!({"zone": "grid", "signal": "coordination", "amount": 2.0});
        assert_eq!(
            act.mcp_tools,
            [ToolUse::new("castellan_deposit_signal", args)]
        );
        assert!(!act.done && act.reached.is_none());
        assert_eq!(Act::read("{}").unwrap(), Act::default());
    }

    #[test]
    fn arguments_may_be_left_out_or_come_as_text() {
        let line = r#"{"mcp_tools": [{"tool": "a"}, {"tool": "b", "args": "{\"x\": 1}"}]}"#;
        let calls = Act::read(line).unwrap().mcp_tools;
        assert_eq!(calls[0].arguments(), "{}");
        assert_eq!(calls[1].arguments(), "{\"x\": 1}");
    }

    #[test]
    fn nonsense_is_said_to_be_nonsense() {
        for (line, what) in [
            ("hello", "not JSON"),
            ("[1]", "no object"),
            (r#"{"mcp_tools": "x"}"#, "no answer"),
            (r#"{"mcp_tools": [{"args": {}}]}"#, "missing field `tool`"),
            (r#"{"done": "yes"}"#, "no answer"),
        ] {
            let problem = Act::read(line).unwrap_err();
            assert!(
                problem.contains(what) && problem.contains("expected"),
                "{problem}"
            );
        }
    }
}
