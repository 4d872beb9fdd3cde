//! What an episode stands on: a catalog of its own, and the gate and the engine over it.

use std::path::PathBuf;
use std::sync::Arc;

use castellan_core::secret::Redaction;
use castellan_core::{Principals, Surface, Tool};
use castellan_gate::disclosure::Profile;
use castellan_gate::gate::{Parts as GateParts, Settings};
use castellan_gate::policy::ProjectRules;
use castellan_gate::{Catalog, Disclosure, Gate, Guards, Permission};
use castellan_store::Store;

use super::time::Time;
use crate::engine::{Engine, EngineParts, Meter, TraceTo};
use crate::error::Error;
use crate::meta::Looking;

/// What a stage is built from.
pub struct StageParts {
    /// The tools, such as [`Shared::tools`](crate::catalog::Shared::tools).
    pub tools: Vec<Arc<dyn Tool>>,
    /// What those of them that look around in the catalog look into; filled in here.
    pub looking: Looking,
    /// Counts calls.
    pub meter: Arc<Meter>,
    /// The time and the ids.
    pub time: Time,
    /// Who callers are.
    pub principals: Arc<dyn Principals>,
    /// The secrets to cut out of what is recorded.
    pub redaction: Redaction,
    /// How the gate behaves.
    pub settings: Settings,
    /// What the user has put before calls.
    pub guards: Guards,
    /// What has been permitted in advance.
    pub permission: Permission,
    /// Where the rules of a project come from.
    pub rules: Arc<dyn ProjectRules>,
    /// Which tools are found when looking around.
    pub profile: Profile,
    /// Where the audit is kept; `None` for episodes that leave nothing behind.
    pub store: Option<Store>,
    /// Where the episode is traced.
    pub trace: TraceTo,
    /// The folder it works in.
    pub workspace: PathBuf,
}

impl std::fmt::Debug for StageParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StageParts")
            .field("trace", &self.trace)
            .finish_non_exhaustive()
    }
}

/// What an episode stands on.
#[derive(Debug)]
pub struct Stage {
    pub(super) engine: Engine,
    pub(super) time: Time,
    pub(super) workspace: PathBuf,
}

impl Stage {
    /// A stage of these parts. Its trace is open from here on.
    ///
    /// # Errors
    /// [`Error::Gate`] where a tool's spec breaks a rule of the catalog, or the trace can't be
    /// opened.
    pub fn new(parts: StageParts) -> Result<Self, Error> {
        let catalog = Arc::new(Catalog::new(parts.tools)?);
        let policy = parts.guards.policy.clone();
        let disclosure = Disclosure::new(
            Arc::clone(&catalog),
            Surface::Episode,
            parts.profile,
            policy,
        );
        parts.looking.fill(disclosure, Arc::clone(&parts.rules));
        let gate = Gate::new(GateParts {
            catalog,
            principals: parts.principals,
            clock: Arc::clone(&parts.time.clock),
            ids: Arc::clone(&parts.time.ids),
            redaction: parts.redaction,
            settings: parts.settings,
            guards: parts.guards,
        });
        let engine = Engine::new(EngineParts {
            gate: Arc::new(gate),
            store: parts.store,
            clock: Arc::clone(&parts.time.clock),
            ids: Arc::clone(&parts.time.ids),
            trace: parts.trace,
            permission: parts.permission,
            rules: parts.rules,
            patience: None,
            meter: parts.meter,
        })?;
        Ok(Self {
            engine,
            time: parts.time,
            workspace: parts.workspace,
        })
    }

    /// Where its calls are made.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }
}
