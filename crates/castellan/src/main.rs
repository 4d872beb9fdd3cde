//! The `castellan` program: reads the command line, wires the rooms together, turns what happens
//! into exit codes. No rule of the domain lives here.

mod attach;
mod cli;
mod commands;
mod config;
mod error;
mod home;
mod model;
mod output;
mod wiring;
mod worker;

use std::process::ExitCode;

use castellan_host::shell::Shell;
use castellan_host::{Environment, HELPER_ARG, children, env, helper};
use castellan_tools::parse::child::WORKER_ARG;
use clap::Parser as _;

use crate::cli::{Cli, Command, Config as ConfigCommand, Trace};
use crate::error::{CommandError, Kind};
use crate::home::Home;
use crate::wiring::World;

fn main() -> ExitCode {
    // The supervisor of a shell call is this program too. It needs nothing of what follows.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|argument| argument == HELPER_ARG)
    {
        return helper::run();
    }
    if std::env::args_os()
        .nth(1)
        .is_some_and(|argument| argument == WORKER_ARG)
    {
        return worker::run();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    if let Command::Exec(args) = &cli.command
        && let Some(key) = &args.model.api_key
        && let Err(error) = env::hide_argument(key)
    {
        output::note(&format!(
            "--api-key stays readable for other processes: {error}"
        ));
    }
    match run(cli.command, Environment::take()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&error.text());
            error.kind.into()
        }
    }
}

/// Help and version go to standard output and are no failure.
fn usage(error: &clap::Error) -> ExitCode {
    if error.print().is_err() || error.use_stderr() {
        Kind::Usage.into()
    } else {
        ExitCode::SUCCESS
    }
}

fn run(command: Command, environment: Environment) -> Result<(), CommandError> {
    let home = Home::find(&environment)?;
    match command {
        Command::Config(ConfigCommand::Show) => return commands::config::show(&home),
        Command::Config(ConfigCommand::Path) => {
            return commands::config::path(&home);
        }
        Command::Events => {
            return commands::events::run();
        }
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(error::io("start the runtime"))?;
    runtime.block_on(dispatch(command, environment, home))
}

async fn dispatch(
    command: Command,
    environment: Environment,
    home: Home,
) -> Result<(), CommandError> {
    if let Command::Doctor = command {
        return commands::doctor::run(environment, home).await;
    }
    let world = World::build(environment, home)?;
    match command {
        Command::Exec(args) => {
            Shell::adopt_orphans().map_err(CommandError::failed)?;
            let mut orphans = tokio::task::JoinSet::new();
            orphans.spawn(children::reap_adopted());
            let done = commands::exec::run(&world, args).await;
            world.shell.close().await;
            done
        }
        Command::Sessions(args) => commands::sessions::run(&world.store()?, &args).await,
        Command::Tools(args) => commands::tools::run(&world.catalog, &args),
        Command::Trace(Trace::Show(args)) => {
            let file = commands::trace::find(&world.home, &world.store()?, &args.trace).await?;
            commands::trace::show(&file, args.json)
        }
        Command::Trace(Trace::Stats(args)) => {
            let file = commands::trace::find(&world.home, &world.store()?, &args.trace).await?;
            commands::trace::stats(&file, args.json)
        }
        Command::Audit(args) => commands::audit::run(&world, &args).await,
        Command::Grants(args) => commands::grants::run(&world, &args).await,
        Command::Doctor | Command::Config(_) | Command::Events => Ok(()),
    }
}
