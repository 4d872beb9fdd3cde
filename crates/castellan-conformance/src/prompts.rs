//! The prompts the suite asks for.

use std::sync::Arc;

use castellan_mcp::provider::{Object, Part, Prompt, PromptArgument, PromptCard, Speaker};
use castellan_mcp::{Context, Fault};
use castellan_runtime::mcp::PromptTemplate;
use futures::future::{BoxFuture, FutureExt as _};

use crate::content::{pixel, resource};
use crate::tool::{form, text};

/// All of them.
pub(crate) fn all() -> Vec<Arc<dyn PromptTemplate>> {
    let kinds = [
        Fixture::Simple,
        Fixture::WithArguments,
        Fixture::WithResource,
        Fixture::WithPicture,
        Fixture::Asking,
    ];
    kinds
        .into_iter()
        .map(|kind| Arc::new(kind) as Arc<dyn PromptTemplate>)
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fixture {
    Simple,
    WithArguments,
    WithResource,
    WithPicture,
    Asking,
}

fn say(text: impl Into<String>) -> (Speaker, Part) {
    (Speaker::User, Part::Text(text.into()))
}

impl PromptTemplate for Fixture {
    fn card(&self) -> PromptCard {
        let (name, about, arguments): (_, _, &[&str]) = match self {
            Self::Simple => ("test_simple_prompt", "Says one thing", &[]),
            Self::WithArguments => (
                "test_prompt_with_arguments",
                "Says what it is given",
                &["arg1", "arg2"],
            ),
            Self::WithResource => (
                "test_prompt_with_embedded_resource",
                "Carries a resource",
                &["resourceUri"],
            ),
            Self::WithPicture => ("test_prompt_with_image", "Carries a picture", &[]),
            Self::Asking => (
                "test_input_required_result_prompt",
                "Asks before it says something",
                &[],
            ),
        };
        let argument = |name: &&str| PromptArgument {
            name: (*name).to_owned(),
            description: Some("for testing".to_owned()),
            required: true,
        };
        PromptCard {
            name: name.to_owned(),
            title: None,
            description: Some(about.to_owned()),
            arguments: arguments.iter().map(argument).collect(),
        }
    }

    fn render(&self, arguments: Object, context: Context) -> BoxFuture<'_, Result<Prompt, Fault>> {
        async move {
            let messages = match self {
                Self::Simple => vec![say("This is a simple prompt for testing.")],
                Self::WithArguments => vec![say(format!(
                    "Prompt with arguments: arg1='{}', arg2='{}'",
                    text(&arguments, "arg1"),
                    text(&arguments, "arg2")
                ))],
                Self::WithResource => {
                    let content = "Embedded resource content for testing.";
                    let uri = text(&arguments, "resourceUri");
                    let block = resource(&uri, "text/plain", content);
                    vec![
                        (Speaker::User, Part::Block(block)),
                        say("Please process the embedded resource above."),
                    ]
                }
                Self::WithPicture => vec![
                    (Speaker::User, Part::Picture(pixel())),
                    say("Please analyze the image above."),
                ],
                Self::Asking => {
                    let question = "What context should the prompt use?".to_owned();
                    let schema = form("context", "string");
                    let answer = context.ask.elicit("user_context", question, schema).await?;
                    vec![say(format!("The context is {answer:?}"))]
                }
            };
            Ok(Prompt {
                description: None,
                messages,
            })
        }
        .boxed()
    }

    fn complete<'a>(&'a self, argument: &'a str, typed: &'a str) -> BoxFuture<'a, Vec<String>> {
        let known = match (self, argument) {
            (Self::WithArguments, "arg1") => vec!["paris", "park", "party"],
            _ => Vec::new(),
        };
        let fitting = known.into_iter().filter(|word| word.starts_with(typed));
        let fitting = fitting.map(str::to_owned).collect();
        futures::future::ready(fitting).boxed()
    }
}
