//! Tools that ask their client: its person, its model, its folders, one after the other or all at
//! once.

use std::sync::Arc;

use castellan_core::event::LogLevel;
use castellan_core::peer::{Named, Question, Unasked};
use castellan_core::port::Elicited;
use castellan_core::tool::CallContext;
use castellan_core::{Outcome, Peer, Tool};
use serde_json::{Value, json};

use crate::tool::{Came, Fixture, form, said, text};

/// All of them.
pub(crate) fn tools() -> Vec<Arc<dyn Tool>> {
    let fixtures = once().into_iter().chain(in_rounds());
    fixtures.map(Fixture::tool).collect()
}

/// Tools that ask one thing.
fn once() -> Vec<Fixture> {
    vec![
        Fixture::new(
            "test_sampling",
            "Asks a model",
            |given, context| async move { sampling(&text(&given, "prompt"), &context).await },
        )
        .taking_text("prompt"),
        Fixture::new(
            "test_elicitation",
            "Asks a person",
            |given, context| async move { elicitation(text(&given, "message"), &context).await },
        )
        .taking_text("message"),
        Fixture::new(
            "test_elicitation_sep1034_defaults",
            "Asks with defaults",
            |_, context| async move { form_of("Please check these", defaults(), &context).await },
        ),
        Fixture::new(
            "test_elicitation_sep1330_enums",
            "Asks with choices",
            |_, context| async move { form_of("Please choose", choices(), &context).await },
        ),
        Fixture::new(
            "test_missing_capability",
            "Needs a model",
            |_, context| async move {
                let answer = peer(&context)?.sample("any", message("?", 1)).await?;
                Ok(said(answer.to_string()))
            },
        ),
        Fixture::new(
            "test_streaming_elicitation",
            "Says that it asks, and asks",
            |_, context| async move {
                context.progress.log(LogLevel::Info, "about to ask");
                let answer = ask_for("name", "Who?", ("name", "string"), &context).await?;
                Ok(said(answer.to_string()))
            },
        ),
    ]
}

/// Tools whose questions modern clients fetch and answer in rounds.
fn in_rounds() -> Vec<Fixture> {
    vec![
        Fixture::new(
            "test_input_required_result_elicitation",
            "Asks a person",
            |_, context| async move {
                let question = "What is your name?";
                let answer = ask_for("user_name", question, ("name", "string"), &context).await?;
                let name = answer.pointer("/content/name").and_then(Value::as_str);
                Ok(said(format!("Hello, {}!", name.unwrap_or("you"))))
            },
        ),
        Fixture::new(
            "test_input_required_result_sampling",
            "Asks a model",
            |_, context| async move {
                let question = message("What is the capital of France?", 100);
                let answer = peer(&context)?.sample("capital_question", question).await?;
                Ok(said(answer.to_string()))
            },
        ),
        Fixture::new(
            "test_input_required_result_list_roots",
            "Asks for folders",
            |_, context| async move {
                let roots = peer(&context)?.roots("client_roots").await?;
                Ok(said(format!("{roots:?}")))
            },
        ),
        Fixture::new(
            "test_input_required_result_request_state",
            "Asks and remembers",
            confirmed,
        ),
        Fixture::new(
            "test_input_required_result_tampered_state",
            "Asks and checks",
            confirmed,
        ),
        Fixture::new(
            "test_input_required_result_multiple_inputs",
            "Asks three things",
            three,
        ),
        Fixture::new(
            "test_input_required_result_multi_round",
            "Asks twice",
            |_, context| async move {
                let question = "Step 1: What is your name?";
                let name = ask_for("step1", question, ("name", "string"), &context).await?;
                let question = "Step 2: What is your favorite color?";
                let color = ask_for("step2", question, ("color", "string"), &context).await?;
                Ok(said(format!("{name} {color}")))
            },
        ),
        Fixture::new(
            "test_input_required_result_capabilities",
            "Asks what it may",
            permitted,
        ),
    ]
}

/// The client of a call.
fn peer(context: &CallContext) -> Result<&dyn Peer, Outcome> {
    let nobody = || Outcome::from(Unasked::Gone);
    context.peer.as_deref().ok_or_else(nobody)
}

/// The parameters of a question to a model.
fn message(text: &str, longest: u32) -> Value {
    let content = json!({"type": "text", "text": text});
    json!({"messages": [{"role": "user", "content": content}], "maxTokens": longest})
}

fn named(key: &str, question: Question) -> Named {
    Named {
        key: key.to_owned(),
        question,
    }
}

fn asking_for(message: &str, (field, kind): (&str, &str)) -> Question {
    Question::Elicit {
        message: message.to_owned(),
        schema: form(field, kind),
    }
}

/// The raw answer of a person to a form with one field.
async fn ask_for(
    key: &str,
    message: &str,
    field: (&str, &str),
    context: &CallContext,
) -> Result<Value, Outcome> {
    let told = peer(context)?
        .put(vec![named(key, asking_for(message, field))])
        .await;
    Ok(told.into_iter().next().unwrap_or(Err(Unasked::Gone))?)
}

async fn sampling(prompt: &str, context: &CallContext) -> Came {
    let answer = peer(context)?
        .sample("sample", message(prompt, 100))
        .await?;
    let text = answer.pointer("/content/text").and_then(Value::as_str);
    let text = text.map_or_else(|| answer.to_string(), str::to_owned);
    Ok(said(format!("LLM response: {text}")))
}

/// What a person did, in the protocol's word for it, and what they filled in.
fn told(of: Elicited) -> (&'static str, Value) {
    match of {
        Elicited::Accepted(values) => ("accept", values),
        Elicited::Declined => ("decline", Value::Null),
        Elicited::Cancelled => ("cancel", Value::Null),
    }
}

async fn elicitation(question: String, context: &CallContext) -> Came {
    let schema = json!({
        "type": "object",
        "properties": {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
        "required": ["username", "email"],
    });
    let (action, content) = told(peer(context)?.elicit("user", question, schema).await?);
    Ok(said(format!(
        "User response: action: {action}, content: {content}"
    )))
}

async fn form_of(question: &str, schema: Value, context: &CallContext) -> Came {
    let asked = peer(context)?.elicit("form", question.to_owned(), schema);
    let (action, content) = told(asked.await?);
    Ok(said(format!(
        "Elicitation completed: action={action}, content={content}"
    )))
}

async fn confirmed(_given: crate::tool::Arguments, context: CallContext) -> Came {
    let field = ("ok", "boolean");
    let answer = ask_for("confirm", "Please confirm", field, &context).await?;
    Ok(said(format!("state-ok {answer}")))
}

async fn three(_given: crate::tool::Arguments, context: CallContext) -> Came {
    let round = vec![
        named(
            "user_name",
            asking_for("What is your name?", ("name", "string")),
        ),
        named(
            "greeting",
            Question::Sample(message("Generate a greeting", 50)),
        ),
        named("client_roots", Question::Roots),
    ];
    answers(peer(&context)?, round).await
}

/// Asks what the client has declared, and nothing else.
async fn permitted(_given: crate::tool::Arguments, context: CallContext) -> Came {
    let peer = peer(&context)?;
    let declared = peer.declared();
    let round = vec![
        named("any", Question::Sample(message("Hello?", 10))),
        named("who", asking_for("Who?", ("name", "string"))),
    ];
    let allowed = round
        .into_iter()
        .filter(|named| named.question.allowed(declared));
    answers(peer, allowed.collect()).await
}

async fn answers(peer: &dyn Peer, round: Vec<Named>) -> Came {
    let told: Result<Vec<Value>, Unasked> = peer.put(round).await.into_iter().collect();
    Ok(said(Value::from(told?).to_string()))
}

fn defaults() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "A name", "default": "John Doe"},
            "age": {"type": "integer", "description": "An age", "default": 30},
            "score": {"type": "number", "description": "A score", "default": 95.5},
            "status": {
                "type": "string",
                "enum": ["active", "inactive", "pending"],
                "default": "active",
            },
            "verified": {"type": "boolean", "default": true},
        },
        "required": [],
    })
}

fn choices() -> Value {
    let titled = |word: &str| -> Value {
        let titles = [
            ("value1", "First"),
            ("value2", "Second"),
            ("value3", "Third"),
        ];
        let choice = |(value, title)| json!({"const": value, "title": format!("{title} {word}")});
        titles.into_iter().map(choice).collect()
    };
    let plain = ["option1", "option2", "option3"];
    json!({
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": plain},
            "titledSingle": {"type": "string", "oneOf": titled("Option")},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
        },
        "required": [],
    })
}
