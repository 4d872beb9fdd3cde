//! Batches, which one revision of the protocol has: requests that came in one array are answered in
//! one.

use std::collections::BTreeMap;

use rmcp::model::RequestId;
use serde_json::Value;

/// Open batches by number.
#[derive(Debug, Default)]
pub(super) struct Batches {
    /// Which batch the requests under way belong to.
    of: Vec<(RequestId, u64)>,
    open: BTreeMap<u64, Batch>,
    next: u64,
}

#[derive(Debug, Default)]
struct Batch {
    waits_for: usize,
    answers: Vec<Value>,
}

/// What is to be done with an answer.
#[derive(Debug, PartialEq)]
pub(super) enum Answered {
    /// It belongs to no batch.
    Alone(Value),
    /// Its batch is not complete.
    Kept,
    /// Its batch is complete.
    Complete(Value),
}

impl Batches {
    /// Whether no batch is open.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Opens a batch of these requests, some of which may be answered already.
    pub(super) fn open(&mut self, requests: Vec<RequestId>, answers: Vec<Value>) -> Option<Value> {
        if requests.is_empty() {
            return (!answers.is_empty()).then_some(Value::Array(answers));
        }
        let number = self.next;
        self.next += 1;
        let batch = Batch {
            waits_for: requests.len(),
            answers,
        };
        self.open.insert(number, batch);
        self.of.extend(requests.into_iter().map(|id| (id, number)));
        None
    }

    /// Takes the answer to a request.
    pub(super) fn answer(&mut self, id: &RequestId, answer: Value) -> Answered {
        match self.close(id, Some(answer)) {
            Ok(None) => Answered::Kept,
            Ok(Some(complete)) => Answered::Complete(complete),
            Err(answer) => Answered::Alone(answer.unwrap_or_default()),
        }
    }

    /// A request will not be answered. Its batch may be complete without it.
    pub(super) fn withdraw(&mut self, id: &RequestId) -> Option<Value> {
        self.close(id, None).ok().flatten()
    }

    fn close(
        &mut self,
        id: &RequestId,
        answer: Option<Value>,
    ) -> Result<Option<Value>, Option<Value>> {
        let Some(position) = self.of.iter().position(|(of, _)| of == id) else {
            return Err(answer);
        };
        let (_, number) = self.of.swap_remove(position);
        let Some(batch) = self.open.get_mut(&number) else {
            return Err(answer);
        };
        batch.answers.extend(answer);
        batch.waits_for -= 1;
        if batch.waits_for > 0 {
            return Ok(None);
        }
        let answers = self
            .open
            .remove(&number)
            .map_or_else(Vec::new, |b| b.answers);
        Ok((!answers.is_empty()).then_some(Value::Array(answers)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn id(number: i64) -> RequestId {
        RequestId::Number(number)
    }

    #[test]
    fn a_batch_is_answered_once_all_of_it_is() {
        let mut batches = Batches::default();
        assert_eq!(batches.open(vec![id(1), id(2)], vec![json!("wrong")]), None);
        assert_eq!(batches.answer(&id(3), json!(3)), Answered::Alone(json!(3)));
        assert_eq!(batches.answer(&id(2), json!(2)), Answered::Kept);
        let complete = batches.answer(&id(1), json!(1));
        assert_eq!(complete, Answered::Complete(json!(["wrong", 2, 1])));
        assert_eq!(batches.answer(&id(1), json!(1)), Answered::Alone(json!(1)));
    }

    #[test]
    fn a_request_that_was_cancelled_holds_up_no_batch() {
        let mut batches = Batches::default();
        batches.open(vec![id(1), id(2)], vec![]);
        batches.answer(&id(2), json!(2));
        assert_eq!(batches.withdraw(&id(1)), Some(json!([2])));
        assert_eq!(batches.withdraw(&id(1)), None);
    }

    #[test]
    fn a_batch_without_requests_is_answered_at_once_or_not_at_all() {
        let mut batches = Batches::default();
        assert_eq!(batches.open(vec![], vec![]), None);
        assert_eq!(batches.open(vec![], vec![json!(1)]), Some(json!([1])));
    }
}
