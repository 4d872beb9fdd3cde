//! A plugin that is a program of its own: it reads observations as lines of JSON on its standard
//! input and answers each with one line on its standard output.
//!
//! `{"observation": {…}}` → `{"mcp_tools": [{"tool": "…", "args": {…}}], "done": false}`
//!
//! The program is not trusted with anything: it is enclosed as commands are, what it says has
//! bounds, and each answer has a deadline. It calls nothing itself; it names calls, which then pass
//! the gate.

use std::sync::Arc;
use std::time::Duration;

use castellan_core::Clock;
use castellan_host::{Partner, Shell, ShellJob};
use futures::future::{BoxFuture, Either, FutureExt as _, select};
use serde_json::{Map, Value, json};

use super::plugin::{Access, Act, Plugin, Trouble};

/// A program that acts.
#[derive(Debug)]
pub struct Program {
    name: String,
    settings: Map<String, Value>,
    deadline: Deadline,
    partner: Partner,
}

/// How long the program may take to answer.
#[derive(Clone)]
pub struct Deadline {
    /// So long.
    pub length: Duration,
    /// The real time.
    pub clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Deadline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.length.fmt(f)
    }
}

impl Program {
    /// Starts the program. `name` is what the record calls it; `settings` are part of each
    /// observation.
    #[must_use]
    pub fn start(
        name: &str,
        (shell, job): (&Shell, ShellJob),
        settings: Map<String, Value>,
        deadline: Deadline,
    ) -> Self {
        Self {
            name: name.to_owned(),
            settings,
            deadline,
            partner: Partner::start(shell, job),
        }
    }

    async fn answer(&mut self, observation: &Value) -> Result<String, String> {
        if let Some(line) = self.partner.early() {
            let line = castellan_core::text::one_line(&castellan_core::text::shorten(&line, 200));
            return Err(format!("spoke before it was asked: {line}"));
        }
        let mut shown = observation.clone();
        if let (false, Value::Object(fields)) = (self.settings.is_empty(), &mut shown) {
            let settings = Value::Object(self.settings.clone());
            fields.insert("settings".to_owned(), settings);
        }
        self.partner
            .say(&json!({ "observation": shown }).to_string())
            .await;
        self.partner.hear().await.map_err(|silence| {
            if silence.complaint.is_empty() {
                return format!("{} before it was done", silence.why);
            }
            format!(
                "{} before it was done; it said: {}",
                silence.why, silence.complaint
            )
        })
    }
}

impl Plugin for Program {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn settings(&self) -> Value {
        json!({"program": true, "settings": self.settings})
    }

    fn act<'a>(
        &'a mut self,
        observation: &'a Value,
        _access: &'a Access<'a>,
    ) -> BoxFuture<'a, Result<Act, Trouble>> {
        async move {
            let Deadline { length, clock } = self.deadline.clone();
            let late = clock.sleep(length);
            let answer = Box::pin(self.answer(observation));
            let answer = match select(answer, late).await {
                Either::Left((answer, _)) => answer,
                Either::Right(((), _)) => {
                    Err(format!("did not answer within {} s", length.as_secs_f64()))
                }
            };
            answer
                .and_then(|line| Act::read(&line))
                .map_err(Trouble::Plugin)
        }
        .boxed()
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        self.partner.close().boxed()
    }
}
