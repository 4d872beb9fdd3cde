//! Subscriptions of modern clients: a client is told that it is subscribed before its subscription
//! is served, so what it wants is watched from before it is told. Whatever changes once a client
//! knows that it is subscribed reaches it.

use std::sync::{Mutex, PoisonError};

use rmcp::model::SubscriptionFilter;

use crate::change::{Change, Changes, Interest, Watch};

/// How many subscriptions of a connection may be between their acknowledgment and their service.
/// Of more the oldest is watched from its service on only.
const MOST_BEGINNING: usize = 32;

/// The subscriptions of one connection that are about to be acknowledged.
#[derive(Debug, Default)]
pub(super) struct Listening(Mutex<Vec<(SubscriptionFilter, Watch)>>);

impl Listening {
    /// Watches for what is requested, until [`begin`](Self::begin) takes it over.
    pub(super) fn expect(&self, changes: &Changes, requested: &SubscriptionFilter) {
        let mut beginning = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if beginning.len() >= MOST_BEGINNING {
            beginning.remove(0);
        }
        beginning.push((requested.clone(), changes.watch(interest(requested))));
    }

    /// The watcher of a subscription that was requested like this, with what was accepted of it.
    pub(super) fn begin(
        &self,
        changes: &Changes,
        requested: &SubscriptionFilter,
        accepted: &SubscriptionFilter,
    ) -> Watch {
        let accepted = interest(accepted);
        let mut beginning = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Of several that want the same any one will do.
        let position = beginning.iter().position(|(of, _)| of == requested);
        let Some(position) = position else {
            return changes.watch(accepted);
        };
        let (_, watch) = beginning.remove(position);
        watch.want(|interest| *interest = accepted);
        watch
    }
}

fn interest(filter: &SubscriptionFilter) -> Interest {
    let lists = [
        (filter.tools_list_changed, Change::Tools),
        (filter.prompts_list_changed, Change::Prompts),
        (filter.resources_list_changed, Change::Resources),
    ];
    Interest {
        lists: lists
            .into_iter()
            .filter(|(wanted, _)| *wanted == Some(true))
            .map(|(_, list)| list)
            .collect(),
        uris: filter
            .resource_subscriptions
            .iter()
            .flatten()
            .cloned()
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    fn filter(tools: bool, uris: &[&str]) -> SubscriptionFilter {
        let mut filter = SubscriptionFilter::default();
        filter.tools_list_changed = Some(tools);
        filter.resource_subscriptions = Some(uris.iter().map(|uri| (*uri).to_owned()).collect());
        filter
    }

    #[test]
    fn what_changes_between_acknowledgment_and_service_is_not_lost() {
        let (changes, listening) = (Changes::new(), Listening::default());
        let (requested, accepted) = (filter(true, &["a://1", "a://2"]), filter(true, &["a://1"]));
        listening.expect(&changes, &requested);
        for change in [
            Change::Tools,
            Change::Resource("a://1".to_owned()),
            Change::Resource("a://2".to_owned()),
        ] {
            changes.announce(&change);
        }
        let watch = listening.begin(&changes, &requested, &accepted);
        let heard = watch.next().now_or_never().unwrap();
        // And what was not accepted is not heard.
        assert_eq!(
            heard,
            [Change::Tools, Change::Resource("a://1".to_owned())].into()
        );
    }

    #[test]
    fn subscriptions_that_never_begin_do_not_pile_up() {
        let (changes, listening) = (Changes::new(), Listening::default());
        let requested = filter(true, &[]);
        for _ in 0..100 {
            listening.expect(&changes, &requested);
        }
        assert_eq!(listening.0.lock().unwrap().len(), MOST_BEGINNING);
        let other = filter(false, &["a://1"]);
        let watch = listening.begin(&changes, &other, &other);
        changes.announce(&Change::Resource("a://1".to_owned()));
        assert!(watch.next().now_or_never().is_some());
    }
}
