//! The way back from a call to its client: to the person, the model and the folders behind it.
//!
//! A call asks and waits; how the question travels is the frame's business. In the older revisions
//! it is a request to the client, in the modern one the client is handed the question as a result
//! and calls again with the answer.

use std::fmt;

use castellan_core::port::{Elicitation, Elicited};
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::provider::{Declared, Fault};

/// How many questions of one call may be open at once.
pub const MOST_QUESTIONS: usize = 32;

/// What a client can be asked.
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
    /// What a client must have declared to be asked this.
    #[must_use]
    pub const fn needs(&self) -> &'static str {
        match self {
            Self::Elicit { .. } => "elicitation",
            Self::Sample(_) => "sampling",
            Self::Roots => "roots",
        }
    }

    const fn allowed(&self, declared: Declared) -> bool {
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
    /// The client did not declare that it can be asked this.
    #[error("the client has not declared `{0}`")]
    Undeclared(&'static str),
    /// The question can't be put into the protocol.
    #[error("the question does not fit the protocol: {0}")]
    Unsuitable(String),
    /// The client answered with an error, or with what is no answer.
    #[error("the client did not answer: {0}")]
    Refused(String),
    /// The client is gone, or the call is no longer wanted.
    #[error("nobody is left to answer")]
    Gone,
    /// Too many questions of this call are open.
    #[error("{MOST_QUESTIONS} questions of this call are open already")]
    TooMany,
}

impl From<Unasked> for Fault {
    fn from(unasked: Unasked) -> Self {
        match unasked {
            Unasked::Undeclared(capability) => Self::needs(capability),
            other => Self::new(Self::INTERNAL, other.to_string()),
        }
    }
}

/// A folder of the client's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Its URI, usually `file://…`.
    pub uri: String,
    /// What people call it.
    pub name: Option<String>,
}

/// A question on its way to the client.
#[derive(Debug)]
pub(crate) struct Posed {
    /// What the question is called within its call.
    pub(crate) key: String,
    pub(crate) question: Question,
    pub(crate) answer: oneshot::Sender<Result<Value, Unasked>>,
}

/// Asks the client. Clones ask the same client.
#[derive(Clone)]
pub struct Ask {
    declared: Declared,
    questions: Option<mpsc::Sender<Posed>>,
}

impl Ask {
    /// Nobody to ask: every question is refused at once.
    #[must_use]
    pub const fn nobody() -> Self {
        Self {
            declared: Declared {
                elicitation: false,
                sampling: false,
                roots: false,
            },
            questions: None,
        }
    }

    pub(crate) fn channel(declared: Declared) -> (Self, mpsc::Receiver<Posed>) {
        let (sender, receiver) = mpsc::channel(MOST_QUESTIONS);
        let ask = Self {
            declared,
            questions: Some(sender),
        };
        (ask, receiver)
    }

    /// What the client said it can be asked.
    #[must_use]
    pub const fn declared(&self) -> Declared {
        self.declared
    }

    /// Asks, and waits for the raw result. `key` names the question within its call, for clients
    /// that see the name; two open questions may not share one.
    ///
    /// # Errors
    /// [`Unasked`], at once where the client never said it can be asked this.
    pub async fn ask(&self, key: &str, question: Question) -> Result<Value, Unasked> {
        if !question.allowed(self.declared) {
            return Err(Unasked::Undeclared(question.needs()));
        }
        let Some(questions) = &self.questions else {
            return Err(Unasked::Gone);
        };
        let (answer, answered) = oneshot::channel();
        let posed = Posed {
            key: key.to_owned(),
            question,
            answer,
        };
        match questions.try_send(posed) {
            Ok(()) => answered.await.unwrap_or(Err(Unasked::Gone)),
            Err(mpsc::error::TrySendError::Full(_)) => Err(Unasked::TooMany),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Unasked::Gone),
        }
    }

    /// Asks the person. The answer is an object that fits `schema`, as far as the client keeps to
    /// it.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub async fn elicit(
        &self,
        key: &str,
        message: String,
        schema: Value,
    ) -> Result<Elicited, Unasked> {
        let answer = self.ask(key, Question::Elicit { message, schema }).await?;
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

    /// Asks the model: `request` is the parameters of `sampling/createMessage`, the answer its
    /// result.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub async fn sample(&self, key: &str, request: Value) -> Result<Value, Unasked> {
        self.ask(key, Question::Sample(request)).await
    }

    /// The client's folders.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub async fn roots(&self, key: &str) -> Result<Vec<Root>, Unasked> {
        let answer = self.ask(key, Question::Roots).await?;
        let Some(roots) = answer.get("roots").and_then(Value::as_array) else {
            return Err(Unasked::Refused("its answer has no `roots`".to_owned()));
        };
        let text = |root: &Value, field| root.get(field).and_then(Value::as_str).map(str::to_owned);
        Ok(roots
            .iter()
            .filter_map(|root| {
                Some(Root {
                    uri: text(root, "uri")?,
                    name: text(root, "name"),
                })
            })
            .collect())
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ask({:?})", self.declared)
    }
}

/// The person behind the client, as the gate asks people. Where nobody can be asked the question
/// counts as closed.
impl Elicitation for Ask {
    fn ask(&self, question: String, schema: Value) -> BoxFuture<'_, Elicited> {
        Box::pin(async move {
            self.elicit("approval", question, schema)
                .await
                .unwrap_or(Elicited::Cancelled)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[test]
    fn a_client_that_declared_nothing_is_not_asked() {
        let (ask, mut questions) = Ask::channel(Declared::default());
        let roots = ask.roots("r").now_or_never().unwrap();
        assert_eq!(roots, Err(Unasked::Undeclared("roots")));
        assert!(questions.try_recv().is_err());
        let fault = Fault::from(roots.unwrap_err());
        assert_eq!(fault.code, Fault::CAPABILITY_MISSING);
        assert_eq!(
            fault.data.unwrap()["requiredCapabilities"],
            serde_json::json!({"roots": {}})
        );
    }

    #[test]
    fn nobody_answers_at_once() {
        let nobody = Ask::nobody();
        let asked = Elicitation::ask(&nobody, "really?".to_owned(), Value::Null);
        assert_eq!(asked.now_or_never(), Some(Elicited::Cancelled));
    }

    #[test]
    fn a_call_with_too_many_questions_is_told() {
        let declared = Declared {
            roots: true,
            ..Declared::default()
        };
        let (ask, _questions) = Ask::channel(declared);
        let mut open: Vec<_> = (0..=MOST_QUESTIONS)
            .map(|_| Box::pin(ask.roots("r")))
            .collect();
        let last = open.pop().unwrap();
        for question in &mut open {
            assert_eq!(question.now_or_never(), None);
        }
        assert_eq!(last.now_or_never(), Some(Err(Unasked::TooMany)));
    }
}
