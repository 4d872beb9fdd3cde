//! Prompts for clients of the MCP server: words for a conversation, made from a few arguments.

use std::sync::Arc;

use castellan_core::ErrorCode;
use castellan_core::text::shorten;
use castellan_gate::Disclosure;
use castellan_mcp::provider::{Object, Prompt, PromptCard};
use castellan_mcp::{Context, Fault};
use futures::future::{BoxFuture, FutureExt as _, ready};
use serde_json::Value;

use super::replies;

/// A prompt that clients can choose.
pub trait PromptTemplate: Send + Sync {
    /// How a list shows it.
    fn card(&self) -> PromptCard;

    /// The tools it speaks of. Who is not shown all of them is not shown the prompt.
    fn tools(&self) -> &[&str] {
        &[]
    }

    /// Its messages. What the card says is required is there; the client's person can be asked for
    /// more.
    ///
    /// # Errors
    /// A fault where no prompt can be made of these arguments.
    fn render(&self, arguments: Object, context: Context) -> BoxFuture<'_, Result<Prompt, Fault>>;

    /// What an argument could be, given how it begins, the best first.
    fn complete<'a>(&'a self, _argument: &'a str, _typed: &'a str) -> BoxFuture<'a, Vec<String>> {
        ready(Vec::new()).boxed()
    }
}

/// All prompts, in the order they are shown.
#[derive(Clone, Default)]
pub(super) struct Prompts(Arc<[Arc<dyn PromptTemplate>]>);

impl std::fmt::Debug for Prompts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.0.iter().map(|prompt| prompt.card().name);
        f.debug_list().entries(names).finish()
    }
}

impl From<Vec<Arc<dyn PromptTemplate>>> for Prompts {
    fn from(prompts: Vec<Arc<dyn PromptTemplate>>) -> Self {
        Self(prompts.into())
    }
}

impl Prompts {
    fn shown<'a>(
        &'a self,
        disclosure: &'a Disclosure,
    ) -> impl Iterator<Item = &'a Arc<dyn PromptTemplate>> {
        let known = |tool: &&str| disclosure.find(tool).is_ok();
        self.0
            .iter()
            .filter(move |prompt| prompt.tools().iter().all(known))
    }

    fn find<'a>(
        &'a self,
        disclosure: &'a Disclosure,
        name: &str,
    ) -> Option<&'a Arc<dyn PromptTemplate>> {
        let mut shown = self.shown(disclosure);
        shown.find(|prompt| prompt.card().name == name)
    }

    /// The prompts that are shown to whoever sees this much of the catalog.
    pub(super) fn cards(&self, disclosure: &Disclosure) -> Vec<PromptCard> {
        let shown = self.shown(disclosure);
        shown.map(|prompt| prompt.card()).collect()
    }

    /// The prompt of that name, rendered.
    ///
    /// # Errors
    /// A fault for an unknown name or a missing argument.
    pub(super) async fn render(
        &self,
        disclosure: &Disclosure,
        name: &str,
        arguments: Object,
        context: Context,
    ) -> Result<Prompt, Fault> {
        let refused = |error: String| {
            let data = replies::data(ErrorCode::Validation, &error);
            Fault::invalid(error).with_data(data)
        };
        let Some(prompt) = self.find(disclosure, name) else {
            let name = shorten(name, 64);
            let there = "prompts/list has those there are";
            return Err(refused(format!(
                "there is no prompt named `{name}`; {there}"
            )));
        };
        let absent = |name: &str| arguments.get(name).is_none_or(Value::is_null);
        let card = prompt.card();
        let missing: Vec<_> = card
            .arguments
            .iter()
            .filter(|argument| argument.required && absent(&argument.name))
            .map(|argument| format!("`{}`", argument.name))
            .collect();
        if !missing.is_empty() {
            let missing = missing.join(", ");
            return Err(refused(format!("the prompt `{name}` needs {missing}")));
        }
        prompt.render(arguments, context).await
    }

    /// What an argument of a prompt could be. Unknown prompts have none.
    pub(super) async fn complete(
        &self,
        disclosure: &Disclosure,
        (name, argument): (&str, &str),
        typed: &str,
    ) -> Vec<String> {
        match self.find(disclosure, name) {
            Some(prompt) => prompt.complete(argument, typed).await,
            None => Vec::new(),
        }
    }
}
