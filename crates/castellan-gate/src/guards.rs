//! What guards calls beside their tools' own defaults, and what is remembered of it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use castellan_core::CallId;
use castellan_store::Store;
use castellan_store::grants::Grants;

use crate::hooks::{Heard, HookList};
use crate::policy::{Evolving, Policy};

/// What guards calls. By default nothing does: every call gets its tool's default.
#[derive(Debug, Clone, Default)]
pub struct Guards {
    /// The user's rules.
    pub policy: Policy,
    /// Rules that were accepted into the genome. They are like all others.
    pub evolved: Evolving,
    /// The user's hooks.
    pub hooks: HookList,
    /// Where permissions for good are kept. Without it none are offered and none hold.
    pub grants: Option<Store>,
}

/// The standing grants of a batch, or why they could not be read.
pub(crate) type Standing = Result<Grants, String>;

/// How many calls without a result are remembered; of older ones the hooks are heard again.
const REMEMBERED: usize = 1000;

/// What hooks said of calls that have no result yet: a call that waits for a person is judged again
/// once they have decided, and its hooks are not to be heard twice for that.
#[derive(Default)]
pub(crate) struct Remembered(Mutex<Inside>);

#[derive(Default)]
struct Inside {
    heard: HashMap<CallId, Arc<Heard>>,
    order: VecDeque<CallId>,
}

impl Remembered {
    pub(crate) fn put(&self, call_id: CallId, heard: Arc<Heard>) {
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inside.heard.insert(call_id, heard).is_none() {
            inside.order.push_back(call_id);
        }
        while inside.order.len() > REMEMBERED {
            if let Some(oldest) = inside.order.pop_front() {
                inside.heard.remove(&oldest);
            }
        }
    }

    pub(crate) fn get(&self, call_id: CallId) -> Option<Arc<Heard>> {
        let inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inside.heard.get(&call_id).cloned()
    }

    /// A call that is over is not judged again.
    pub(crate) fn forget(&self, call_id: CallId) {
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inside.heard.remove(&call_id).is_some() {
            inside.order.retain(|one| *one != call_id);
        }
    }
}
