//! The program on the other side of a call: what a running tool can ask of its person, its model
//! and its folders, where the surface has such a program and it said that it can be asked.

use futures::future::BoxFuture;
use serde_json::Value;

use crate::code::ErrorCode;
use crate::outcome::{EffectStatus, Outcome, Retry};
use crate::port::Elicited;

/// What a peer said it can be asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Declared {
    /// It shows forms to its person.
    pub elicitation: bool,
    /// It asks its model.
    pub sampling: bool,
    /// It tells its folders.
    pub roots: bool,
}

/// What a peer can be asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Question {
    /// Its person, by a form.
    Elicit {
        /// What the person reads.
        message: String,
        /// JSON Schema of the answer: an object of plain values.
        schema: Value,
    },
    /// Its model, by the parameters of `sampling/createMessage`.
    Sample(Value),
    /// Its folders.
    Roots,
}

impl Question {
    /// What a peer must have declared to be asked this.
    #[must_use]
    pub const fn needs(&self) -> &'static str {
        match self {
            Self::Elicit { .. } => "elicitation",
            Self::Sample(_) => "sampling",
            Self::Roots => "roots",
        }
    }

    /// Whether a peer that declared this can be asked.
    #[must_use]
    pub const fn allowed(&self, declared: Declared) -> bool {
        match self {
            Self::Elicit { .. } => declared.elicitation,
            Self::Sample(_) => declared.sampling,
            Self::Roots => declared.roots,
        }
    }
}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unasked {
    /// The peer did not declare that it can be asked this.
    #[error("the client has not declared `{0}`")]
    Undeclared(&'static str),
    /// The question can't be put into the protocol.
    #[error("the question does not fit the protocol: {0}")]
    Unsuitable(String),
    /// The peer answered with an error, or with what is no answer.
    #[error("the client did not answer: {0}")]
    Refused(String),
    /// The peer is gone, or the call is no longer wanted.
    #[error("nobody is left to answer")]
    Gone,
    /// Too many questions of this call are open.
    #[error("{0} questions of this call are open already")]
    TooMany(usize),
}

/// A tool that could not ask has done nothing for want of an answer.
impl From<Unasked> for Outcome {
    fn from(unasked: Unasked) -> Self {
        let (code, next) = match &unasked {
            Unasked::Undeclared(capability) => (
                ErrorCode::CapabilityMissing,
                format!("call it from a client that declares `{capability}`"),
            ),
            _ => (ErrorCode::ToolFailed, String::new()),
        };
        Self::Failed {
            output: String::new(),
            code,
            what: unasked.to_string(),
            effect: EffectStatus::None,
            retry: Retry::Useless,
            next,
        }
    }
}

/// A folder of a peer's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Its URI, usually `file://…`.
    pub uri: String,
    /// What people call it.
    pub name: Option<String>,
}

/// A question under the name it has within its call, for peers that see the name.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// Its name; of two open questions of one name the second is given another.
    pub key: String,
    /// What is asked.
    pub question: Question,
}

/// What became of a question: the raw result of the request, whose shape has been checked.
pub type Told = Result<Value, Unasked>;

/// The program on the other side of a call.
pub trait Peer: Send + Sync {
    /// What it said it can be asked.
    fn declared(&self) -> Declared;

    /// Asks all of this at once and waits for all of the answers, which come in the order of the
    /// questions. What the peer never declared is refused at once.
    fn put(&self, round: Vec<Named>) -> BoxFuture<'_, Vec<Told>>;
}

impl dyn Peer + '_ {
    async fn ask(&self, key: &str, question: Question) -> Told {
        let named = Named {
            key: key.to_owned(),
            question,
        };
        let told = self.put(vec![named]).await;
        told.into_iter().next().unwrap_or(Err(Unasked::Gone))
    }

    /// Asks the person. The answer is an object that fits `schema`, as far as the client keeps to
    /// it.
    ///
    /// # Errors
    /// [`Unasked`].
    pub async fn elicit(
        &self,
        key: &str,
        message: String,
        schema: Value,
    ) -> Result<Elicited, Unasked> {
        let asked = self.ask(key, Question::Elicit { message, schema });
        elicited(&asked.await?)
    }

    /// Asks the model: `request` is the parameters of `sampling/createMessage`, the answer its
    /// result.
    ///
    /// # Errors
    /// [`Unasked`].
    pub async fn sample(&self, key: &str, request: Value) -> Told {
        self.ask(key, Question::Sample(request)).await
    }

    /// The folders.
    ///
    /// # Errors
    /// [`Unasked`].
    pub async fn roots(&self, key: &str) -> Result<Vec<Root>, Unasked> {
        roots(&self.ask(key, Question::Roots).await?)
    }
}

/// What a person did, from the result of a question that was [`Question::Elicit`].
///
/// # Errors
/// [`Unasked::Refused`] where it says nothing of the kind.
pub fn elicited(answer: &Value) -> Result<Elicited, Unasked> {
    match answer.get("action").and_then(Value::as_str) {
        Some("accept") => Ok(Elicited::Accepted(
            answer.get("content").cloned().unwrap_or(Value::Null),
        )),
        Some("decline") => Ok(Elicited::Declined),
        Some("cancel") => Ok(Elicited::Cancelled),
        _ => Err(Unasked::Refused(
            "its answer has no `action` of accept, decline or cancel".to_owned(),
        )),
    }
}

/// The folders, from the result of a question that was [`Question::Roots`].
///
/// # Errors
/// [`Unasked::Refused`] where it has none of them.
pub fn roots(answer: &Value) -> Result<Vec<Root>, Unasked> {
    let Some(roots) = answer.get("roots").and_then(Value::as_array) else {
        return Err(Unasked::Refused("its answer has no `roots`".to_owned()));
    };
    let text = |root: &Value, field| root.get(field).and_then(Value::as_str).map(str::to_owned);
    let root = |root| {
        Some(Root {
            uri: text(root, "uri")?,
            name: text(root, "name"),
        })
    };
    Ok(roots.iter().filter_map(root).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_that_is_none_is_refused() {
        assert_eq!(
            elicited(&json!({"action": "accept", "content": {"a": 1}})),
            Ok(Elicited::Accepted(json!({"a": 1})))
        );
        assert!(elicited(&json!({"action": "perhaps"})).is_err());
        assert!(roots(&json!({})).is_err());
        let found = roots(&json!({"roots": [{"uri": "file:///a"}, {"name": "no uri"}]}));
        assert_eq!(found.unwrap().len(), 1);
    }

    #[test]
    fn a_tool_that_may_not_ask_says_what_is_missing() {
        let outcome = Outcome::from(Unasked::Undeclared("sampling"));
        assert_eq!(outcome.code(), Some(ErrorCode::CapabilityMissing));
        assert!(outcome.into_text().contains("declares `sampling`"));
    }
}
