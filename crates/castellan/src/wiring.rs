//! Wires the rooms together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use castellan_core::secret::Redaction;
use castellan_core::{Clock, Ids, Model, Surface};
use castellan_gate::gate::{Gate, Parts as GateParts, Settings as GateSettings};
use castellan_gate::hooks::HookList;
use castellan_gate::policy::Evolving;
use castellan_gate::{Catalog, Disclosure, Guards, Permission, Profile};
use castellan_host::hooks::ShellHooks;
use castellan_host::shell::{HelperCommand, Shell};
use castellan_host::{Environment, Sandbox, SystemClock, SystemIds};
use castellan_runtime::catalog::{self, Shared};
use castellan_runtime::mcp::{McpParts, McpServer};
use castellan_runtime::meta::Looking;
use castellan_runtime::principals::Local;
use castellan_runtime::session::Watcher;
use castellan_runtime::{Engine, EngineParts, Evolved, Limits, Parts, Price, TraceTo};
use castellan_store::{
    LateStore, Settings as StoreSettings, Store, Synchronous as StoreSynchronous,
};
use castellan_tools::Needs;
use castellan_tools::bash::Background;
use castellan_tools::file::Closed;
use castellan_tools::parse::Parser;
use castellan_tools::parse::child::Child;

use crate::arguments::require_tool;
use crate::cli::{Mcp, SessionArgs};
use crate::config::{Config, ModelConfig, PriceConfig, RulesInProject, Synchronous};
use crate::error::CommandError;
use crate::home::Home;
use crate::model::Chosen;

/// The program this process runs, by a name that stays right when its file is replaced.
const OWN: &str = "/proc/self/exe";

/// What runs commands and parses files for tools.
pub(crate) struct Hands {
    pub(crate) shell: Shell,
    pub(crate) background: Background,
    pub(crate) parser: Arc<dyn Parser>,
}

impl Hands {
    pub(crate) fn new() -> Self {
        let shell = Shell::new(HelperCommand::own());
        Self {
            background: Background::new(shell.clone()),
            parser: Arc::new(Child::new(shell.clone(), OWN.to_owned())),
            shell,
        }
    }
}

/// What every command stands on.
pub(crate) struct World {
    pub(crate) environment: Environment,
    pub(crate) home: Home,
    pub(crate) config: Config,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) shell: Shell,
    pub(crate) background: Background,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) parser: Arc<dyn Parser>,
    /// What the tools stand on that are not of this machine alone.
    pub(crate) shared: Shared,
}

impl World {
    pub(crate) fn build(environment: Environment, home: Home) -> Result<Self, CommandError> {
        let config = Config::load(&home.config)?;
        let hands = Hands::new();
        let shared = shared(&environment);
        let catalog = build_catalog(&environment, &home, &config, &hands, &shared)?;
        let catalog = Arc::new(catalog);
        let Hands {
            shell,
            background,
            parser,
        } = hands;
        let (clock, ids) = (Arc::new(SystemClock::new()), Arc::clone(&shared.ids));
        Ok(Self {
            environment,
            home,
            config,
            clock,
            ids,
            shell,
            background,
            catalog,
            parser,
            shared,
        })
    }

    /// Looks for the sandbox that works here and encloses commands with it; without that no command
    /// runs. To be called by whatever runs sessions, before they begin.
    pub(crate) async fn enclose(&self) {
        self.shell
            .enclose(sandbox(&self.config, &self.home, &self.shell, &self.environment).await);
    }

    /// The same, and makes sure that what is required is there for commands in `workspace`. Returns
    /// a line that says what encloses them.
    pub(crate) async fn demand_sandbox(&self, workspace: &Path) -> Result<String, CommandError> {
        self.enclose().await;
        self.require_sandbox(workspace)
    }

    /// Makes sure that what is required is there, once [`enclose`](Self::enclose) has looked.
    /// Returns a line that says what encloses commands in `workspace`.
    pub(crate) fn require_sandbox(&self, workspace: &Path) -> Result<String, CommandError> {
        let sandbox = self.shell.sandbox();
        demand(&sandbox, workspace)?;
        Ok(format!("sandbox: {}", sandbox.line(workspace)))
    }

    /// The store, opened; the tools that keep something find it from now on.
    pub(crate) fn store(&self) -> Result<Store, CommandError> {
        if let Ok(store) = self.shared.store.get() {
            return Ok(store.clone());
        }
        let store = open_store(&self.home, &self.config)?;
        self.shared.store.fill(store.clone());
        Ok(store)
    }

    /// Reads what of the genome holds now, where the store is open.
    ///
    /// # Errors
    /// What keeps it from being read.
    pub(crate) async fn evolve(&self) -> Result<(), CommandError> {
        if self.shared.store.get().is_ok() {
            self.shared.evolved.refresh(&self.catalog).await?;
        }
        Ok(())
    }

    /// The store for who only looks; `None` where nothing is stored yet.
    pub(crate) fn stored(&self) -> Result<Option<Store>, CommandError> {
        stored(&self.home, &self.config)
    }

    /// The name of the OS user.
    pub(crate) fn user(&self) -> String {
        self.shared.user.clone()
    }

    /// The folder a new session works in: `wanted`, or where the program was started.
    ///
    /// # Errors
    /// Wrong usage, where it is no folder.
    pub(crate) fn working_folder(&self, wanted: Option<&Path>) -> Result<PathBuf, CommandError> {
        let here = self.environment.cwd();
        if here.as_os_str().is_empty() && wanted.is_none_or(Path::is_relative) {
            // The shell's word for it is all that is left of it.
            let name = self.environment.get("PWD").unwrap_or_default();
            let text = format!("the working folder {name} is gone").replace("  ", " ");
            return Err(CommandError::usage(text)
                .hint("cd into a folder that exists, or name one: --cwd /the/folder"));
        }
        let folder = wanted.map_or_else(|| here.to_owned(), |folder| here.join(folder));
        match folder.canonicalize() {
            Ok(folder) if folder.is_dir() => Ok(folder),
            Ok(folder) => Err(CommandError::usage(format!(
                "{} is not a folder",
                folder.display()
            ))),
            Err(error) => Err(CommandError::usage(format!(
                "the working folder {} can't be used: {error}",
                folder.display()
            ))),
        }
    }

    /// The secrets this process knows.
    pub(crate) fn redaction(&self, keys: impl IntoIterator<Item = String>) -> Redaction {
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

    /// How much a session may use: as asked for here, else as configured.
    pub(crate) fn limits_of(&self, asked: &SessionArgs) -> Limits {
        let configured = self.limits();
        Limits {
            max_turns: asked.max_turns.unwrap_or(configured.max_turns),
            turn_tokens: asked.max_turn_tokens.or(configured.turn_tokens),
            session_tokens: asked.max_session_tokens.or(configured.session_tokens),
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

    /// What the user has put before calls. What makes no calls must work where it is wrong, so it
    /// is read by who makes some.
    ///
    /// # Errors
    /// Says which rule or hook is wrong, and where it stands.
    pub(crate) fn guards(&self) -> Result<Guards, CommandError> {
        build_guards(
            &self.environment,
            &self.home,
            &self.config,
            &self.catalog,
            &self.shell,
        )
    }

    /// The rules that projects have.
    pub(crate) fn project_rules(&self) -> RulesInProject {
        RulesInProject {
            catalog: Arc::clone(&self.catalog),
            home: self.environment.home().map(Path::to_owned),
        }
    }

    /// The path of every call; `keys` are secrets beside those that are configured.
    ///
    /// # Errors
    /// As [`guards`](Self::guards).
    fn gate(&self, store: &Store, keys: Vec<String>) -> Result<Gate, CommandError> {
        Ok(Gate::new(GateParts {
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
            guards: Guards {
                grants: Some(store.clone()),
                evolved: self.shared.evolved.policy(),
                ..self.guards()?
            },
        }))
    }

    /// What clients of the MCP server are offered: what `profile` shows, in `workspace`.
    ///
    /// # Errors
    /// Wrong usage: a permission for a tool that does not exist; a store or a trace that can't be
    /// opened.
    pub(crate) fn mcp(
        &self,
        args: &Mcp,
        profile: Profile,
        workspace: PathBuf,
    ) -> Result<McpServer, CommandError> {
        args.yes_to
            .iter()
            .try_for_each(|grant| require_tool(self, grant))?;
        let store = self.store()?;
        let engine = Engine::new(EngineParts {
            gate: Arc::new(self.gate(&store, Vec::new())?),
            store: Some(store),
            clock: Arc::clone(&self.clock),
            ids: Arc::clone(&self.ids),
            trace: TraceTo::Daily(self.home.traces()),
            permission: Permission {
                grants: args.yes_to.clone(),
                skip: args.skip_permissions,
            },
            rules: Arc::new(self.project_rules()),
            patience: self.config.tools.approval_timeout.map(Duration::from_secs),
            meter: Arc::clone(&self.shared.meter),
        })?;
        let policy = self.guards()?.policy;
        let catalog = Arc::clone(&self.catalog);
        let evolved = &self.shared.evolved;
        let disclosure = Disclosure::new(catalog, Surface::Mcp, profile, policy)
            .evolving(evolved.policy(), evolved.overlay());
        let looking = self.shared.looking.clone();
        looking.fill(disclosure, Arc::new(self.project_rules()));
        Ok(McpServer::new(McpParts {
            evolved: evolved.clone(),
            engine,
            looking,
            shelf: self.shared.shelf(),
            full: args.full,
            workspace,
            version: env!("CARGO_PKG_VERSION"),
        }))
    }

    /// All that a session runs on.
    ///
    /// # Errors
    /// As [`guards`](Self::guards).
    pub(crate) fn session(
        &self,
        store: Store,
        Chosen { model, keys, .. }: Chosen,
        watcher: Arc<dyn Watcher>,
        permission: Permission,
        limits: Limits,
    ) -> Result<Parts, CommandError> {
        let prices = self.prices(&*model);
        let gate = self.gate(&store, keys)?;
        Ok(Parts {
            store,
            gate: Arc::new(gate),
            model,
            clock: Arc::clone(&self.clock),
            ids: Arc::clone(&self.ids),
            watcher,
            notices: Arc::new(self.background.clone()),
            traces: self.home.traces(),
            permission,
            prompts: self.shared.evolved.prompts(),
            rules: Arc::new(self.project_rules()),
            patience: self.config.tools.approval_timeout.map(Duration::from_secs),
            limits,
            compact_at: self.config.session.compact_at,
            prices,
            version: env!("CARGO_PKG_VERSION"),
        })
    }
}

/// Makes sure that `sandbox` gives what is required of it.
///
/// # Errors
/// What it doesn't, with what to do about just that.
pub(crate) fn demand(sandbox: &Sandbox, workspace: &Path) -> Result<(), CommandError> {
    let Err(error) = sandbox.demand(workspace) else {
        return Ok(());
    };
    let mut error = CommandError::failed(error);
    if !sandbox.rung().is_some() {
        error = error.hint(
            "install bubblewrap (Debian, Ubuntu: apt-get install bubblewrap), or run a kernel with \
             Landlock (Linux 6.2 or newer); castellan doctor says more",
        );
    } else if !sandbox.ungiven(workspace).is_empty() {
        error = error.hint("bubblewrap gives it (Debian, Ubuntu: apt-get install bubblewrap)");
    }
    if !sandbox.unwritable().is_empty() {
        error = error.hint("make the folder, or take it out of `write` in [sandbox]");
    }
    Err(error.hint("mode = \"auto\" in [sandbox] takes what there is"))
}

/// The sandbox that works here.
pub(crate) async fn sandbox(
    config: &Config,
    home: &Home,
    shell: &Shell,
    environment: &Environment,
) -> Sandbox {
    let shown = vec![home.spill(), home.hooks()];
    let wish = config
        .sandbox
        .wish(environment.home(), home.own_folders(), shown);
    Sandbox::find(&wish, shell, environment).await
}

/// What the tools stand on that are not of this machine alone; the store comes later.
pub(crate) fn shared(environment: &Environment) -> Shared {
    let user = ["USER", "LOGNAME"]
        .into_iter()
        .find_map(|name| environment.get(name))
        .filter(|name| !name.is_empty())
        .unwrap_or("unknown");
    let store = LateStore::default();
    Shared {
        evolved: Evolved::of(store.clone()),
        store,
        ids: Arc::new(SystemIds),
        user: user.to_owned(),
        meter: Arc::default(),
        looking: Looking::default(),
    }
}

/// The one catalog.
pub(crate) fn build_catalog(
    environment: &Environment,
    home: &Home,
    config: &Config,
    hands: &Hands,
    shared: &Shared,
) -> Result<Catalog, CommandError> {
    let named = environment.named(&config.tools.environment);
    let needs = Needs {
        shell: hands.shell.clone(),
        background: hands.background.clone(),
        environment: environment.child_environment(&named),
        timeout: Duration::from_secs(config.tools.timeout),
        parser: Arc::clone(&hands.parser),
        closed: Closed::new(
            vec![home.data.clone(), home.config.clone()],
            vec![home.spill()],
        ),
    };
    Ok(catalog::build(needs, shared)?)
}

/// What the user has put before calls: rules and hooks.
pub(crate) fn build_guards(
    environment: &Environment,
    home: &Home,
    config: &Config,
    catalog: &Catalog,
    shell: &Shell,
) -> Result<Guards, CommandError> {
    let folder = environment.home().map(Path::to_owned);
    let runner = ShellHooks::new(shell.clone(), environment.child_environment(&[]));
    Ok(Guards {
        policy: config.policy(&home.config, catalog, folder)?,
        evolved: Evolving::default(),
        hooks: HookList::new(config.hooks(&home.config, catalog)?, Arc::new(runner)),
        grants: None,
    })
}

/// Opens the database where there is one, and makes nothing.
pub(crate) fn stored(home: &Home, config: &Config) -> Result<Option<Store>, CommandError> {
    match home.database().symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        // What else is wrong is told by who opens it.
        _ => open_store(home, config).map(Some),
    }
}

/// Opens the database, made where there is none.
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
