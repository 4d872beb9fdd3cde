//! What of the genome steers the rest of the harness: rules for the gate, how tools are shown, words
//! for the system prompt, parameters of models. (How signals work is read where signals are.)
//!
//! It is read when something begins, and again where a new version may have come to hold.

use std::sync::{Arc, PoisonError, RwLock};

use castellan_gate::disclosure::{Overlay, Shown};
use castellan_gate::policy::{Evolving, RuleText};
use castellan_gate::{Catalog, Policy};
use castellan_store::LateStore;
use castellan_substrate::genome::Genome;
pub use castellan_substrate::genome::Model;
use castellan_substrate::genome::history::{self, Version};

/// The one role of a model there is.
pub const MAIN: &str = "main";

/// What holds of the genome. Clones are the same.
#[derive(Debug, Clone)]
pub struct Evolved {
    store: LateStore,
    policy: Evolving,
    overlay: Overlay,
    held: Arc<RwLock<Held>>,
}

#[derive(Debug, Default)]
struct Held {
    version: u64,
    genome: Genome,
}

impl Evolved {
    /// What holds of the genome in `store`; nothing of it is read yet.
    #[must_use]
    pub fn of(store: LateStore) -> Self {
        Self {
            store,
            policy: Evolving::default(),
            overlay: Overlay::default(),
            held: Arc::default(),
        }
    }

    /// Reads what holds now, and whether tools are shown otherwise than before. `catalog` says what
    /// rules can speak of.
    ///
    /// # Errors
    /// What keeps it from being read. What was read before holds on.
    pub async fn refresh(&self, catalog: &Catalog) -> Result<bool, castellan_store::Error> {
        let Version { genome, stored } = history::current(&self.store).await?;
        let number = stored.version;
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        if held.version == number {
            return Ok(false);
        }
        self.policy.set(rules(&genome, number, catalog));
        let changed = self.overlay.set(shown(&genome));
        *held = Held {
            version: number,
            genome,
        };
        Ok(changed)
    }

    /// The rules, which follow what is read.
    #[must_use]
    pub fn policy(&self) -> Evolving {
        self.policy.clone()
    }

    /// How tools are shown, which follows what is read.
    #[must_use]
    pub fn overlay(&self) -> Overlay {
        self.overlay.clone()
    }

    /// What the system prompt of a new session says beside its own words.
    #[must_use]
    pub fn prompts(&self) -> Vec<String> {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        held.genome.prompts.values().cloned().collect()
    }

    /// What the model of sessions is asked for.
    #[must_use]
    pub fn model(&self) -> Model {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        held.genome.models.get(MAIN).cloned().unwrap_or_default()
    }
}

fn shown(genome: &Genome) -> Shown {
    let hidden = genome.tools.iter().filter(|(_, tool)| !tool.visible);
    let summaries = genome
        .tools
        .iter()
        .filter_map(|(name, tool)| Some((name.clone(), tool.summary.clone()?)));
    Shown {
        hidden: hidden.map(|(name, _)| name.clone()).collect(),
        summaries: summaries.collect(),
    }
}

/// The rules of a genome. One that can't speak of any tool there is says nothing.
fn rules(genome: &Genome, version: u64, catalog: &Catalog) -> Policy {
    let text = |(pattern, action): (&String, _)| RuleText {
        tool: vec![pattern.clone()],
        domain: Vec::new(),
        effects: Vec::new(),
        caller: Vec::new(),
        surface: Vec::new(),
        command: Vec::new(),
        path: Vec::new(),
        host: Vec::new(),
        action,
        reason: format!("/policy/actions/{pattern} of the genome says so"),
        place: format!("genome://{version}"),
    };
    let mut texts: Vec<RuleText> = genome
        .policy
        .actions
        .iter()
        .map(|(pattern, action)| text((pattern, *action)))
        .collect();
    loop {
        match Policy::new(texts.clone(), catalog, None) {
            Ok(policy) => return policy,
            Err((position, bad)) => {
                tracing::debug!(
                    what = bad.what,
                    "a rule of the genome speaks of nothing here"
                );
                texts.remove(position);
            }
        }
    }
}
