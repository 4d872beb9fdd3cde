//! Tells clients what has changed of what they watch, whoever changed it: another process on the same
//! database says nothing of it, so the marks of what is watched are compared again and again, as long
//! as something is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use castellan_core::Clock;
use castellan_mcp::{Change, Changes};
use tokio::sync::Notify;

use crate::resources::Shelf;

/// How long a change of a watched resource may go unnoticed.
const PACE: Duration = Duration::from_millis(100);
/// The same for the list of resources, which clients ask for when they need it.
const LIST_PACE: Duration = Duration::from_secs(1);

/// Compares marks until it is dropped. `woken` is rung after calls that may have changed something;
/// `evolve` takes in what a new version of the genome says, and says whether tools are shown
/// otherwise.
pub(super) async fn watch(
    (shelf, changes): (&Shelf, &Changes),
    clock: &dyn Clock,
    woken: &Notify,
    evolve: impl AsyncFn() -> bool,
) {
    let mut marks: BTreeMap<String, String> = BTreeMap::new();
    let mut list: Option<String> = None;
    let mut looked_at_list = Duration::ZERO;
    loop {
        let wanted = changes.wanted();
        let pace = if wanted.uris.is_empty() {
            LIST_PACE
        } else {
            PACE
        };
        marks.retain(|uri, _| wanted.uris.contains(uri));
        if let Some(now) = look(shelf, &wanted.uris).await {
            for (uri, mark) in now {
                // What is watched from now on has not changed yet.
                if let Some(before) = marks.insert(uri.clone(), mark.clone())
                    && before != mark
                {
                    changes.announce(&Change::Resource(uri));
                }
            }
        }
        if evolve().await {
            changes.announce(&Change::Tools);
        }
        let now = clock.monotonic();
        if !wanted.lists.contains(&Change::Resources) {
            list = None;
        } else if list.is_none() || now.saturating_sub(looked_at_list) >= LIST_PACE {
            looked_at_list = now;
            let mark = shelf.list_mark().await;
            if list.as_ref().is_some_and(|before| *before != mark) {
                changes.announce(&Change::Resources);
            }
            list = Some(mark);
        }
        tokio::select! {
            () = clock.sleep(pace) => {}
            () = woken.notified() => {}
            () = changes.wanting() => {}
        }
    }
}

/// The marks of these, where they can be read now.
async fn look(shelf: &Shelf, uris: &BTreeSet<String>) -> Option<BTreeMap<String, String>> {
    if uris.is_empty() {
        return None;
    }
    match shelf.marks(uris).await {
        Ok(marks) => Some(marks),
        Err(error) => {
            tracing::debug!(%error, "what is watched can't be looked at now");
            None
        }
    }
}
