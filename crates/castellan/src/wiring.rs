//! Wires the rooms together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use castellan_core::port::Unwatched;
use castellan_core::secret::Redaction;
use castellan_core::{Clock, Ids, Model};
use castellan_gate::gate::{Gate, Parts as GateParts, Settings as GateSettings};
use castellan_gate::{Catalog, Permission};
use castellan_host::shell::{HelperCommand, Shell};
use castellan_host::{Environment, SystemClock, SystemIds};
use castellan_runtime::principals::Local;
use castellan_runtime::session::Watcher;
use castellan_runtime::{Limits, Parts, Price, catalog};
use castellan_store::{Settings as StoreSettings, Store, Synchronous as StoreSynchronous};
use castellan_tools::Needs;
use castellan_tools::file::Closed;

use crate::config::{Config, ModelConfig, PriceConfig, Synchronous};
use crate::error::CommandError;
use crate::home::Home;
use crate::model::Chosen;

/// What every command stands on.
pub(crate) struct World {
    pub(crate) environment: Environment,
    pub(crate) home: Home,
    pub(crate) config: Config,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) shell: Shell,
    pub(crate) catalog: Arc<Catalog>,
}

impl World {
    pub(crate) fn build(environment: Environment, home: Home) -> Result<Self, CommandError> {
        let config = Config::load(&home.config)?;
        let shell = Shell::new(HelperCommand::own());
        let needs = Needs {
            shell: shell.clone(),
            environment: environment.child_environment(&[]),
            timeout: Duration::from_secs(config.tools.timeout),
            closed: Closed::new(
                vec![home.data.clone(), home.config.clone()],
                vec![home.spill()],
            ),
        };
        let catalog = Arc::new(catalog::build(needs)?);
        let (clock, ids) = (Arc::new(SystemClock::new()), Arc::new(SystemIds));
        Ok(Self {
            environment,
            home,
            config,
            clock,
            ids,
            shell,
            catalog,
        })
    }

    pub(crate) fn store(&self) -> Result<Store, CommandError> {
        open_store(&self.home, &self.config)
    }

    /// The name of the OS user.
    pub(crate) fn user(&self) -> String {
        ["USER", "LOGNAME"]
            .into_iter()
            .find_map(|name| self.environment.get(name))
            .filter(|name| !name.is_empty())
            .unwrap_or("unknown")
            .to_owned()
    }

    /// The secrets this process knows.
    fn redaction(&self, keys: impl IntoIterator<Item = String>) -> Redaction {
        let configured = self
            .config
            .models
            .values()
            .filter_map(|model| model.api_key.clone());
        Redaction::new(
            self.environment
                .secret_values()
                .into_iter()
                .chain(configured)
                .chain(keys),
        )
    }

    /// How much turns and sessions may use, as configured.
    pub(crate) const fn limits(&self) -> Limits {
        let session = &self.config.session;
        Limits {
            max_turns: session.max_turns,
            turn_tokens: session.max_turn_tokens,
            session_tokens: session.max_session_tokens,
        }
    }

    /// What models cost, by their names at their servers. A configured model without such a name has
    /// the one its server listed, if it is the one in use.
    fn prices(&self, model: &dyn Model) -> BTreeMap<String, Price> {
        let info = model.info();
        let named = |(name, config): (&String, &ModelConfig)| {
            let PriceConfig {
                input,
                output,
                cached_input,
            } = config.price?;
            let at_server = if *name == info.name {
                &info.model
            } else {
                &config.model
            };
            let price = Price {
                input,
                output,
                cached_input,
            };
            Some((at_server.clone(), price))
        };
        self.config.models.iter().filter_map(named).collect()
    }

    /// All that a session runs on.
    pub(crate) fn session(
        &self,
        store: Store,
        Chosen { model, keys }: Chosen,
        watcher: Arc<dyn Watcher>,
        permission: Permission,
        limits: Limits,
    ) -> Parts {
        let prices = self.prices(&*model);
        let gate = Gate::new(GateParts {
            catalog: Arc::clone(&self.catalog),
            principals: Arc::new(Local),
            clock: Arc::clone(&self.clock),
            ids: Arc::clone(&self.ids),
            redaction: self.redaction(keys),
            settings: GateSettings {
                parallel: self.config.tools.parallel,
                timeout: Duration::from_secs(self.config.tools.timeout),
                spill: self.home.spill(),
            },
        });
        Parts {
            store,
            gate: Arc::new(gate),
            model,
            clock: Arc::clone(&self.clock),
            ids: Arc::clone(&self.ids),
            watcher,
            notices: Arc::new(Unwatched),
            traces: self.home.traces(),
            permission,
            limits,
            compact_at: self.config.session.compact_at,
            prices,
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// Opens the database.
pub(crate) fn open_store(home: &Home, config: &Config) -> Result<Store, CommandError> {
    let synchronous = match config.database.synchronous {
        Synchronous::Full => StoreSynchronous::Full,
        Synchronous::Normal => StoreSynchronous::Normal,
    };
    Ok(Store::open(
        home.database(),
        StoreSettings {
            synchronous,
            ..StoreSettings::default()
        },
    )?)
}
