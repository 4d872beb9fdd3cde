//! A server for the official suite of the Model Context Protocol: the tools, prompts and resources
//! the suite asks of every server, mounted as a real room mounts its own, on the gate, the provider
//! and the transport that the product runs on. It is built and run by `cargo xtask conformance`
//! and never shipped.
//!
//! It listens on a free port of this machine, says where on its first line, and ends when it is
//! ended.
//!
//! Start reading at [`serve`].
#![expect(clippy::print_stdout, reason = "its first line is all it has to say")]

mod asking;
mod content;
mod prompts;
mod resources;
mod tool;

use std::error::Error;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use castellan_core::secret::Redaction;
use castellan_core::{Clock, Ids, Surface};
use castellan_gate::gate::{Parts, Settings};
use castellan_gate::policy::NoProjectRules;
use castellan_gate::{Catalog, Disclosure, Gate, Guards, Permission, Profile};
use castellan_host::{SystemClock, SystemIds};
use castellan_mcp::http::{Settings as HttpSettings, listen, router};
use castellan_mcp::{Changes, Limits, Server};
use castellan_runtime::mcp::{McpParts, McpServer};
use castellan_runtime::meta::{self, Looking};
use castellan_runtime::principals::Local;
use castellan_runtime::resources::{Shelf, tool as read_resource};
use castellan_runtime::{Engine, EngineParts, Evolved, TraceTo};
use castellan_store::{LateStore, Settings as StoreSettings, Store};
use tokio_util::sync::CancellationToken;

/// How long a call may take; a call that waits for an answer of the suite is one of them.
const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let home = tempfile::tempdir()?;
    serve(home.path()).await
}

/// Builds the server and answers until the process is ended.
async fn serve(home: &Path) -> Result<(), Box<dyn Error>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let ids: Arc<dyn Ids> = Arc::new(SystemIds);
    let provider = provider(home, &clock, &ids)?;
    let server = Server::new(Arc::new(provider), clock, ids, Limits::default());
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("listening at http://{}/mcp", listener.local_addr()?);
    let routes = router(&server, &HttpSettings::default());
    listen::listen(listener, routes, CancellationToken::new()).await?;
    Ok(())
}

/// What the suite's clients are offered: everything in full, by a profile that hides nothing.
fn provider(
    home: &Path,
    clock: &Arc<dyn Clock>,
    ids: &Arc<dyn Ids>,
) -> Result<McpServer, Box<dyn Error>> {
    let changes = Arc::new(Changes::new());
    let shelf = Shelf::new(vec![Arc::new(resources::Fixed)]);
    let looking = Looking::default();
    let mut tools = meta::tools(&looking);
    tools.push(read_resource(shelf.clone()));
    tools.extend(content::tools());
    tools.extend(asking::tools());
    tools.extend(tool::changing(&changes));
    let mut profile = Profile::named("full").ok_or("there is no profile that shows everything")?;
    profile.domains.push(tool::DOMAIN.to_owned());
    let catalog = Arc::new(Catalog::new(tools)?);
    let store = Store::open(home.join("conformance.db"), StoreSettings::default())?;
    let gate = Gate::new(Parts {
        catalog: Arc::clone(&catalog),
        principals: Arc::new(Local),
        clock: Arc::clone(clock),
        ids: Arc::clone(ids),
        redaction: Redaction::default(),
        settings: Settings {
            parallel: 8,
            timeout: DEADLINE,
            spill: home.join("spill"),
        },
        guards: Guards {
            grants: Some(store.clone()),
            ..Guards::default()
        },
    });
    let engine = Engine::new(EngineParts {
        gate: Arc::new(gate),
        store: Some(store),
        clock: Arc::clone(clock),
        ids: Arc::clone(ids),
        trace: TraceTo::Daily(home.join("traces")),
        permission: Permission::default(),
        rules: Arc::new(NoProjectRules),
        patience: None,
        meter: Arc::default(),
    })?;
    let policy = castellan_gate::policy::Policy::default();
    let disclosure = Disclosure::new(catalog, Surface::Mcp, profile, policy);
    looking.fill(disclosure, Arc::new(NoProjectRules));
    let server = McpServer::new(McpParts {
        evolved: Evolved::of(LateStore::default()),
        engine,
        looking,
        shelf,
        full: true,
        workspace: home.to_owned(),
        version: env!("CARGO_PKG_VERSION"),
    });
    Ok(server.with_changes(changes).with_prompts(prompts::all()))
}
