//! `castellan mcp`: the MCP server on standard input and output. Nothing but the protocol is written
//! to standard output; what a person should know goes to standard error.

use std::sync::Arc;
use std::time::Duration;

use castellan_mcp::{Limits, Server, stdio};
use castellan_runtime::mcp::McpServer;

use tracing_subscriber::filter::LevelFilter;

use crate::cli::Mcp;
use crate::config::profile;
use crate::error::CommandError;
use crate::output::note;
use crate::signals::Signals;
use crate::wiring::World;

/// How long calls may take to end once the server is to end.
const ENDING: Duration = Duration::from_millis(1_500);

/// The domain of the tools that start commands.
const WORKSPACE: &str = "workspace";

pub(crate) async fn run(world: &World, args: &Mcp) -> Result<(), CommandError> {
    let (server, provider) = server(world, args).await?;
    let (reader, writer) = stdio::standard_streams();
    let serving = stdio::serve(&server, reader, writer, None);
    let mut signals = Signals::listen()?;
    tokio::select! {
        () = serving => {}
        () = provider.watch(&*world.clock) => {}
        () = signals.next() => {}
    }
    server.shut_down(ENDING).await;
    Ok(provider.settle().await?)
}

/// The server that clients of this program talk to, and what answers in it: it is to watch what
/// clients subscribe to while they are served.
///
/// # Errors
/// As [`World::mcp`]; and where clients may run commands, a sandbox that is required and not there.
pub(crate) async fn server(
    world: &World,
    args: &Mcp,
) -> Result<(Server, Arc<McpServer>), CommandError> {
    // What goes wrong is told where it harms no protocol. Who set a listener up before has their own.
    let _set_up_before = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .with_max_level(LevelFilter::WARN)
        .try_init();
    let name = args.profile.as_ref().unwrap_or(&world.config.mcp.profile);
    let profile = profile(name, &world.config.profiles)?;
    let workspace = world.working_folder(args.cwd.as_deref())?;
    if profile.domains.iter().any(|domain| domain == WORKSPACE) {
        note(&world.demand_sandbox(&workspace).await?);
    }
    // The store first: what the genome says of tools and rules holds from the first request on.
    world.store()?;
    world.evolve().await?;
    let provider = Arc::new(world.mcp(args, profile, workspace)?);
    let (clock, ids) = (Arc::clone(&world.clock), Arc::clone(&world.ids));
    let server = Server::new(Arc::clone(&provider) as _, clock, ids, Limits::default());
    Ok((server, provider))
}
