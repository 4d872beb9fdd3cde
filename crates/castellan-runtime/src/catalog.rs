//! The catalog of this process, built from the tools of all rooms.

use std::sync::Arc;

use castellan_core::{Ids, Tool};
use castellan_gate::Catalog;
use castellan_store::LateStore;
use castellan_tools::Needs;

use crate::engine::Meter;
use crate::episode::Episodes;
use crate::evolved::Evolved;
use crate::meta::{self, Looking};
use crate::resources::{self, Shelf};
use crate::snapshot::{self, Looks, Rooms, Sessions};
use crate::substrate::{Shelved, Zones};

/// What the tools that are not of one machine alone stand on.
#[derive(Clone)]
pub struct Shared {
    /// The store, once it is open.
    pub store: LateStore,
    /// Where ids come from.
    pub ids: Arc<dyn Ids>,
    /// The user of this process.
    pub user: String,
    /// Counts calls.
    pub meter: Arc<Meter>,
    /// The catalog as callers are shown it, once it is built.
    pub looking: Looking,
    /// What of the genome steers other rooms.
    pub evolved: Evolved,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// What can be read by its URI.
    #[must_use]
    pub fn shelf(&self) -> Shelf {
        let mut sources = Shelved::all(&self.store);
        sources.push(Arc::new(Episodes::new(
            self.store.clone(),
            self.user.clone(),
        )));
        Shelf::new(sources)
    }

    /// What snapshots show.
    #[must_use]
    pub fn rooms(&self) -> Rooms {
        Rooms::new(vec![
            Arc::new(Sessions(self.store.clone())),
            Arc::new(Zones(self.store.clone())),
        ])
    }

    /// What snapshots and metrics are made from.
    #[must_use]
    pub fn looks(&self) -> Looks {
        Looks {
            rooms: self.rooms(),
            meter: Arc::clone(&self.meter),
            store: self.store.clone(),
        }
    }

    /// The tools, in the order of the docs.
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let mut tools = meta::tools(&self.looking);
        tools.extend(castellan_substrate::all(&castellan_substrate::Needs {
            store: self.store.clone(),
            ids: Arc::clone(&self.ids),
            user: self.user.clone(),
        }));
        tools.extend(snapshot::tools(&self.looks()));
        tools.push(resources::tool(self.shelf()));
        tools
    }
}

/// The one catalog.
///
/// # Errors
/// What [`Catalog::new`] says of a tool whose spec breaks a rule.
pub fn build(needs: Needs, shared: &Shared) -> Result<Catalog, castellan_gate::Error> {
    let mut tools = castellan_tools::all(needs);
    tools.extend(shared.tools());
    Catalog::new(tools)
}
