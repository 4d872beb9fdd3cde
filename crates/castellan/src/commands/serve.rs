//! `castellan serve`: answers MCP clients over HTTP, with health and metrics, until it is stopped.

use std::time::Duration;

use castellan_mcp::http::{Admission, Guard, Settings};
use castellan_server::{Parts, Unusable, bind, router, serve};
use tokio_util::sync::CancellationToken;

use crate::cli::Serve;
use crate::commands::mcp;
use crate::error::CommandError;
use crate::output::{line, note};
use crate::signals::Signals;
use crate::wiring::World;

/// How long calls may take to end once the server is to end.
const ENDING: Duration = Duration::from_secs(5);

/// The shortest secret that is no guess.
const SHORTEST_SECRET: usize = 16;

pub(crate) async fn run(world: &World, args: &Serve) -> Result<(), CommandError> {
    let secret = secret(world)?;
    let config = &world.config.server;
    let address = args.listen.unwrap_or(config.listen.0);
    let address = address.demand(secret.is_some()).map_err(|error| {
        let hint = match error {
            Unusable::Open(_) => {
                "name the variable that holds it: secret_env = \"CASTELLAN_SERVER_SECRET\" in [server]"
            }
            Unusable::Shape(_) => "",
        };
        CommandError::usage(error).hint(hint)
    })?;
    let mut signals = Signals::listen()?;
    let (server, provider) = mcp::server(world, &args.mcp).await?;
    let settings = Settings {
        guard: Guard {
            hosts: config.hosts.clone(),
            origins: config.origins.clone(),
            admission: secret
                .as_deref()
                .map_or(Admission::Anyone, Admission::secret),
        },
        ..Settings::default()
    };
    let (listener, bound) = bind(address).await.map_err(|error| {
        CommandError::failed(format!("failed to listen at {address}: {error}"))
            .hint("another port: castellan serve --listen 127.0.0.1:0 takes a free one")
    })?;
    line(&format!("listening at http://{bound}/mcp"))?;
    note(&format!(
        "also http://{bound}/health and http://{bound}/metrics; {}",
        if secret.is_some() {
            "clients need the secret"
        } else {
            "every program of this machine may call"
        }
    ));
    let routes = router(&Parts {
        mcp: server.clone(),
        looks: world.shared.looks(),
        settings,
        clock: std::sync::Arc::clone(&world.clock),
        version: env!("CARGO_PKG_VERSION"),
    });
    let stop = CancellationToken::new();
    let serving = serve(listener, routes, stop.clone());
    tokio::pin!(serving);
    let served = tokio::select! {
        served = &mut serving => served,
        () = provider.watch(&*world.clock) => Ok(()),
        () = signals.next() => {
            note("stopping");
            // Calls first: connections end once their calls have.
            server.shut_down(ENDING).await;
            stop.cancel();
            serving.await
        }
    };
    provider.settle().await?;
    served.map_err(crate::error::io("serve"))
}

/// What clients must bring, where something is configured.
fn secret(world: &World) -> Result<Option<String>, CommandError> {
    let Some(name) = &world.config.server.secret_env else {
        return Ok(None);
    };
    let secret = world.environment.get(name).unwrap_or_default().trim();
    if secret.is_empty() {
        let text = format!("[server] takes its secret from {name}, which is not set");
        return Err(CommandError::failed(text).hint(format!("export {name}=…")));
    }
    if secret.len() < SHORTEST_SECRET {
        let text = format!("the secret in {name} is shorter than {SHORTEST_SECRET} bytes");
        return Err(CommandError::usage(text).hint(format!(
            "make a long one: export {name}=$(head -c 24 /dev/urandom | base64)"
        )));
    }
    Ok(Some(secret.to_owned()))
}
