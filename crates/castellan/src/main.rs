//! The `castellan` program: reads the command line, wires the rooms together, turns what happens
//! into exit codes. No rule of the domain lives here.

mod arguments;
mod attach;
mod cli;
mod commands;
mod config;
mod error;
mod home;
mod model;
mod output;
mod repl;
mod signals;
mod stage;
mod wiring;
mod words;
mod worker;

use std::process::ExitCode;
use std::sync::Arc;

use castellan_host::shell::Shell;
use castellan_host::{Environment, HELPER_ARG, children, env, helper};
use castellan_tools::parse::child::WORKER_ARG;
use clap::Parser as _;
use nix::sys::signal::{SigSet, Signal};

use crate::cli::{Cli, Command, Config as ConfigCommand, Trace};
use crate::error::{CommandError, Kind};
use crate::home::Home;
use crate::wiring::World;
use tokio::runtime::Builder;

fn main() -> ExitCode {
    // The supervisor of a shell call and the parser of a file are this program too. They need
    // nothing of what follows.
    match std::env::args_os().nth(1) {
        Some(argument) if argument == HELPER_ARG => return helper::run(),
        Some(argument) if argument == WORKER_ARG => return worker::run(),
        _ => {}
    }
    if let Err(error) = outlive_full_files() {
        output::note(&format!(
            "a file that may not grow would end this program: {error}"
        ));
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let model = match &cli.command {
        Some(Command::Exec(args)) => &args.model,
        Some(Command::Run(args)) => &args.model,
        _ => &cli.repl.model,
    };
    if let Some(key) = &model.api_key
        && let Err(error) = env::hide_argument(key)
    {
        output::note(&format!(
            "--api-key stays readable for other processes: {error}"
        ));
    }
    match run(cli, Environment::take()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if error.kind != Kind::NoReader {
                output::note(&error.text());
            }
            error.kind.into()
        }
    }
}

/// Makes a write past the size a file may have (`ulimit -f`) fail, as it does on a full disk, so that
/// it can be said; the signal that comes with it would end this program without a word. Commands are
/// born without that.
fn outlive_full_files() -> nix::Result<()> {
    SigSet::from(Signal::SIGXFSZ).thread_block()
}

/// Help and version go to standard output and are no failure.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr()
        && let Err(error) = output::out("")
    {
        output::note(&error.text());
        return error.kind.into();
    }
    if error.print().is_err() || error.use_stderr() {
        Kind::Usage.into()
    } else {
        ExitCode::SUCCESS
    }
}

fn run(cli: Cli, environment: Environment) -> Result<(), CommandError> {
    // What tells of the program alone needs no place of its own.
    match &cli.command {
        Some(Command::Events) => return commands::events::run(),
        Some(Command::Completions(args)) => return commands::completions::run(args.shell),
        _ => {}
    }
    let home = Home::find(&environment)?;
    match &cli.command {
        Some(Command::Config(ConfigCommand::Show)) => return commands::config::show(&home),
        Some(Command::Config(ConfigCommand::Path)) => return commands::config::path(&home),
        Some(Command::Init(args)) => return commands::init::run(&environment, &home, args),
        _ => {}
    }
    let mut builder = match &cli.command {
        // One client, whose requests are short: handing them from thread to thread would cost more
        // than the rest of them.
        Some(Command::Mcp(_)) => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    let runtime = builder.worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(error::io("start the runtime"))?;
    runtime.block_on(dispatch(cli, environment, home))
}

async fn dispatch(cli: Cli, environment: Environment, home: Home) -> Result<(), CommandError> {
    if let Some(Command::Doctor) = cli.command {
        return commands::doctor::run(environment, home).await;
    }
    let world = Arc::new(World::build(environment, home)?);
    if matches!(cli.command, None | Some(Command::Exec(_) | Command::Run(_))) {
        // Before anything is looked for that only a session needs.
        world.guards()?;
    }
    let Some(command) = cli.command else {
        return with_children(&world, repl::run(Arc::clone(&world), cli.repl)).await;
    };
    match command {
        Command::Exec(args) => with_children(&world, commands::exec::run(&world, args)).await,
        Command::Sessions(args) => commands::sessions::run(world.stored()?.as_ref(), &args).await,
        Command::Export(args) => commands::export::run(world.stored()?.as_ref(), &args).await,
        Command::Tools(args) => commands::tools::run(&world.catalog, &args),
        Command::Trace(Trace::Show(args)) => {
            let file = commands::trace::find(&world, &args.trace).await?;
            commands::trace::show(&file, args.json)
        }
        Command::Trace(Trace::Stats(args)) => {
            let file = commands::trace::find(&world, &args.trace).await?;
            commands::trace::stats(&file, args.json)
        }
        Command::Trace(Trace::Replay(args)) => commands::replay::run(&world, &args).await,
        Command::Run(args) => with_children(&world, commands::run::run(&world, args)).await,
        Command::Mcp(args) => with_children(&world, commands::mcp::run(&world, &args)).await,
        Command::Serve(args) => with_children(&world, commands::serve::run(&world, &args)).await,
        Command::Audit(args) => commands::audit::run(&world, &args).await,
        Command::Genome(command) => commands::genome::run(&world, &command).await,
        Command::Statusline(args) => commands::statusline::run(&world, &args).await,
        Command::Grants(args) => commands::grants::run(&world, &args).await,
        Command::Doctor
        | Command::Config(_)
        | Command::Init(_)
        | Command::Events
        | Command::Completions(_) => Ok(()),
    }
}

/// Does what may start commands, and ends those that are left.
async fn with_children(
    world: &World,
    work: impl Future<Output = Result<(), CommandError>>,
) -> Result<(), CommandError> {
    Shell::adopt_orphans().map_err(CommandError::failed)?;
    let mut orphans = tokio::task::JoinSet::new();
    orphans.spawn(children::reap_adopted());
    let done = work.await;
    world.shell.close().await;
    done
}
