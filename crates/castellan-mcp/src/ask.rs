//! The way back from a call to its client: to the person, the model and the folders behind it.
//!
//! A call asks and waits; how the question travels is the frame's business. In the older revisions
//! it is a request to the client, in the modern one the client is handed the question as a result
//! and calls again with the answer.

use std::fmt;

use castellan_core::Peer;
use castellan_core::peer::{Declared, Named, Question, Root, Told, Unasked};
use castellan_core::port::{Elicitation, Elicited};
use futures::future::{BoxFuture, FutureExt as _, join_all};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::provider::Fault;

/// How many questions a call may ask at once, and how many rounds of them may wait to be put.
pub const MOST_QUESTIONS: usize = 32;

/// A client that did not declare what it is to be asked is told with the protocol's own code.
impl From<Unasked> for Fault {
    fn from(unasked: Unasked) -> Self {
        match unasked {
            Unasked::Undeclared(capability) => Self::needs(capability),
            other => Self::new(Self::INTERNAL, other.to_string()),
        }
    }
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
    rounds: Option<mpsc::Sender<Vec<Posed>>>,
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
            rounds: None,
        }
    }

    pub(crate) fn channel(declared: Declared) -> (Self, mpsc::Receiver<Vec<Posed>>) {
        let (sender, receiver) = mpsc::channel(MOST_QUESTIONS);
        let ask = Self {
            declared,
            rounds: Some(sender),
        };
        (ask, receiver)
    }

    /// Asks the person; see [`Peer`].
    ///
    /// # Errors
    /// [`Unasked`], at once where the client never said it can be asked this.
    pub async fn elicit(
        &self,
        key: &str,
        message: String,
        schema: Value,
    ) -> Result<Elicited, Unasked> {
        let peer: &dyn Peer = self;
        peer.elicit(key, message, schema).await
    }

    /// Asks the model; see [`Peer`].
    ///
    /// # Errors
    /// As [`elicit`](Self::elicit).
    pub async fn sample(&self, key: &str, request: Value) -> Told {
        let peer: &dyn Peer = self;
        peer.sample(key, request).await
    }

    /// The client's folders; see [`Peer`].
    ///
    /// # Errors
    /// As [`elicit`](Self::elicit).
    pub async fn roots(&self, key: &str) -> Result<Vec<Root>, Unasked> {
        let peer: &dyn Peer = self;
        peer.roots(key).await
    }

    /// Sends a round on its way. Each question has its answer, or where that will come.
    fn pose(&self, round: Vec<Named>) -> Vec<Result<oneshot::Receiver<Told>, Unasked>> {
        let mut posed = Vec::new();
        let mut answers: Vec<_> = round
            .into_iter()
            .map(|Named { key, question }| {
                if !question.allowed(self.declared) {
                    return Err(Unasked::Undeclared(question.needs()));
                }
                if posed.len() >= MOST_QUESTIONS {
                    return Err(Unasked::TooMany(MOST_QUESTIONS));
                }
                let (answer, answered) = oneshot::channel();
                posed.push(Posed {
                    key,
                    question,
                    answer,
                });
                Ok(answered)
            })
            .collect();
        if posed.is_empty() {
            return answers;
        }
        let unsent = match self.rounds.as_ref().map(|rounds| rounds.try_send(posed)) {
            Some(Ok(())) => return answers,
            Some(Err(mpsc::error::TrySendError::Full(_))) => Unasked::TooMany(MOST_QUESTIONS),
            Some(Err(mpsc::error::TrySendError::Closed(_))) | None => Unasked::Gone,
        };
        for answer in answers.iter_mut().filter(|answer| answer.is_ok()) {
            *answer = Err(unsent.clone());
        }
        answers
    }
}

impl Peer for Ask {
    fn declared(&self) -> Declared {
        self.declared
    }

    fn put(&self, round: Vec<Named>) -> BoxFuture<'_, Vec<Told>> {
        let answer = |posed: Result<oneshot::Receiver<Told>, Unasked>| async {
            posed?.await.unwrap_or(Err(Unasked::Gone))
        };
        join_all(self.pose(round).into_iter().map(answer)).boxed()
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
    fn what_is_asked_at_once_arrives_at_once_and_without_what_may_not_be_asked() {
        let declared = Declared {
            roots: true,
            elicitation: true,
            ..Declared::default()
        };
        let (ask, mut rounds) = Ask::channel(declared);
        let named = |key: &str, question| Named {
            key: key.to_owned(),
            question,
        };
        let mut put = ask.put(vec![
            named("a", Question::Roots),
            named("b", Question::Sample(Value::Null)),
            named("c", Question::Roots),
        ]);
        assert_eq!((&mut put).now_or_never(), None);
        let round = rounds.try_recv().unwrap();
        let keys: Vec<_> = round.iter().map(|posed| posed.key.as_str()).collect();
        assert_eq!(keys, ["a", "c"]);
        for posed in round {
            posed.answer.send(Ok(posed.key.into())).unwrap();
        }
        let told = put.now_or_never().unwrap();
        let refused = Err(Unasked::Undeclared("sampling"));
        assert_eq!(told, [Ok("a".into()), refused, Ok("c".into())]);
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
        assert_eq!(
            last.now_or_never(),
            Some(Err(Unasked::TooMany(MOST_QUESTIONS)))
        );
    }
}
