//! What agents that never talk to each other leave in a shared place: signals that fade, a
//! blackboard, memories by key. And the genome: the part of the harness that may evolve, with the
//! proposals to change it.
//!
//! Everything here is a [`Tool`] over the store, made by [`all`]; what other surfaces read
//! (resources, the genome's history on the command line) are functions in [`resource`] and
//! [`genome::history`].
//!
//! This crate knows no process, socket or file; its clock comes with each call. It knows neither
//! the gate nor who asks for approval: that a decision about a mutation needs a person is said in
//! its tool's spec, and the gate sees to it.
//!
//! Start reading at [`all`], then `operation` (what every tool here has in common), then
//! `deposit_signal`. What a genome is stands in [`genome`].

mod deposit_signal;
pub mod genome;
mod moment;
mod name;
mod operation;
mod propose_mutation;
mod query_field_history;
mod read_blackboard;
mod read_signal;
mod recall;
mod remember;
mod resolve_mutation;
pub mod resource;
mod shape;
mod write_blackboard;

use std::fmt;
use std::sync::Arc;

use castellan_core::{Ids, Tool};
use castellan_store::LateStore;

/// What the tools of this room stand on.
#[derive(Clone)]
pub struct Needs {
    /// Where everything is kept.
    pub store: LateStore,
    /// Where ids of proposals come from.
    pub ids: Arc<dyn Ids>,
    /// The user of this process, whose the memories of scope `user` are.
    pub user: String,
}

impl fmt::Debug for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Needs")
            .field("store", &self.store)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Every tool of this room, in the order of the catalog.
#[must_use]
pub fn all(needs: &Needs) -> Vec<Arc<dyn Tool>> {
    let store = || needs.store.clone();
    vec![
        deposit_signal::tool(store()),
        read_signal::tool(store()),
        query_field_history::tool(store()),
        read_blackboard::tool(store()),
        write_blackboard::tool(store()),
        propose_mutation::tool(store(), Arc::clone(&needs.ids)),
        resolve_mutation::tool(store()),
        remember::tool(store(), needs.user.clone()),
        recall::tool(store(), needs.user.clone()),
    ]
}
