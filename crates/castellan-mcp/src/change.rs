//! Changes that clients may be told of: one hub, any number of watchers, none of which can fall
//! behind.
//!
//! A watcher holds what has changed since it last looked, each thing once: a storm of changes is
//! one notice of each kind. What it can hold is bounded by what it asked for.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

/// What has changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources or of resource templates.
    Resources,
    /// One resource, by its URI.
    Resource(String),
}

/// What a watcher wants to be told of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interest {
    /// The kinds of list.
    pub lists: BTreeSet<Change>,
    /// The resources.
    pub uris: BTreeSet<String>,
}

impl Interest {
    /// All lists, and no single resource.
    #[must_use]
    pub fn in_lists() -> Self {
        Self {
            lists: [Change::Tools, Change::Prompts, Change::Resources].into(),
            uris: BTreeSet::new(),
        }
    }

    fn covers(&self, change: &Change) -> bool {
        match change {
            Change::Resource(uri) => self.uris.contains(uri),
            list => self.lists.contains(list),
        }
    }
}

#[derive(Debug, Default)]
struct Post {
    interest: Interest,
    pending: BTreeSet<Change>,
}

#[derive(Debug, Default)]
struct Desk {
    post: Mutex<Post>,
    rang: Notify,
    wanting: Arc<Notify>,
}

/// Where changes are announced.
#[derive(Debug, Default)]
pub struct Changes {
    desks: Mutex<Vec<Weak<Desk>>>,
    /// Rung where somebody begins to want something.
    wanting: Arc<Notify>,
}

impl Changes {
    /// A hub without watchers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells every watcher that wants to know.
    pub fn announce(&self, change: &Change) {
        locked(&self.desks).retain(|desk| {
            let Some(desk) = desk.upgrade() else {
                return false;
            };
            let mut post = locked(&desk.post);
            if post.interest.covers(change) {
                post.pending.insert(change.clone());
                desk.rang.notify_one();
            }
            true
        });
    }

    /// What all watchers want to be told of, taken together.
    #[must_use]
    pub fn wanted(&self) -> Interest {
        let mut all = Interest::default();
        let desks: Vec<_> = locked(&self.desks)
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        for desk in desks {
            let interest = &locked(&desk.post).interest;
            all.lists.extend(interest.lists.iter().cloned());
            all.uris.extend(interest.uris.iter().cloned());
        }
        all
    }

    /// Resolves once somebody begins to watch, or wants to be told of something else. For one who
    /// waits.
    pub async fn wanting(&self) {
        self.wanting.notified().await;
    }

    /// A watcher with this interest. It hears what is announced from now on.
    #[must_use]
    pub fn watch(&self, interest: Interest) -> Watch {
        let desk = Arc::new(Desk {
            post: Mutex::new(Post {
                interest,
                pending: BTreeSet::new(),
            }),
            rang: Notify::new(),
            wanting: Arc::clone(&self.wanting),
        });
        let mut desks = locked(&self.desks);
        desks.retain(|desk| desk.strong_count() > 0);
        desks.push(Arc::downgrade(&desk));
        self.wanting.notify_one();
        Watch(desk)
    }
}

/// Hears of changes. Clones are the same watcher.
#[derive(Debug, Clone)]
pub struct Watch(Arc<Desk>);

impl Watch {
    /// What has changed since the last look, each once; waits until something has.
    pub async fn next(&self) -> BTreeSet<Change> {
        loop {
            let pending = std::mem::take(&mut locked(&self.0.post).pending);
            if !pending.is_empty() {
                return pending;
            }
            self.0.rang.notified().await;
        }
    }

    /// Changes what it wants to be told of.
    pub fn want<T>(&self, change: impl FnOnce(&mut Interest) -> T) -> T {
        let mut post = locked(&self.0.post);
        let made = change(&mut post.interest);
        let Post { interest, pending } = &mut *post;
        pending.retain(|change| interest.covers(change));
        self.0.wanting.notify_one();
        made
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[test]
    fn a_storm_of_changes_is_one_notice_of_each_kind() {
        let changes = Changes::new();
        let watch = changes.watch(Interest::in_lists());
        for _ in 0..20_000 {
            changes.announce(&Change::Tools);
            changes.announce(&Change::Prompts);
        }
        let heard = watch.next().now_or_never().unwrap();
        assert_eq!(heard, [Change::Tools, Change::Prompts].into());
        assert_eq!(watch.next().now_or_never(), None);
    }

    #[test]
    fn a_watcher_hears_only_what_it_asked_for() {
        let changes = Changes::new();
        let watch = changes.watch(Interest::default());
        let other = Change::Resource("a://other".to_owned());
        let wanted = Change::Resource("a://wanted".to_owned());
        watch.want(|interest| interest.uris.insert("a://wanted".to_owned()));
        for change in [&Change::Tools, &other, &wanted] {
            changes.announce(change);
        }
        assert_eq!(watch.next().now_or_never(), Some([wanted].into()));
    }

    #[test]
    fn what_is_no_longer_wanted_is_not_heard() {
        let changes = Changes::new();
        let watch = changes.watch(Interest::in_lists());
        changes.announce(&Change::Tools);
        watch.want(|interest| interest.lists.remove(&Change::Tools));
        assert_eq!(watch.next().now_or_never(), None);
    }

    #[test]
    fn what_all_want_is_known_and_who_waits_is_told_of_more() {
        let changes = Changes::new();
        let watch = changes.watch(Interest::in_lists());
        assert!(changes.wanting().now_or_never().is_some());
        assert!(changes.wanting().now_or_never().is_none());
        let other = changes.watch(Interest::default());
        watch.want(|interest| interest.uris.insert("a://one".to_owned()));
        other.want(|interest| interest.uris.insert("a://two".to_owned()));
        assert!(changes.wanting().now_or_never().is_some());
        let wanted = changes.wanted();
        assert_eq!(wanted.lists.len(), 3);
        assert_eq!(
            wanted.uris,
            ["a://one".to_owned(), "a://two".to_owned()].into()
        );
        drop(other);
        assert_eq!(changes.wanted().uris, ["a://one".to_owned()].into());
    }

    #[test]
    fn watchers_that_are_gone_are_forgotten() {
        let changes = Changes::new();
        drop(changes.watch(Interest::in_lists()));
        changes.announce(&Change::Tools);
        assert!(locked(&changes.desks).is_empty());
    }
}
