//! The command line.

use std::path::PathBuf;

use castellan_core::{Grant, Surface};
use castellan_server::Address;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands::init::Client;

/// The gate between AI agents and the real world.
///
/// Without a command it is a conversation in the terminal: what is typed goes to the model, what
/// the model does is shown, and what needs a yes is asked. Type /help in it.
#[derive(Debug, Parser)]
#[command(
    name = "castellan",
    version,
    args_conflicts_with_subcommands = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) repl: Repl,
}

/// The options of the conversation.
#[derive(Debug, Args)]
pub(crate) struct Repl {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    /// Whether colours and other looks are drawn; auto looks at the terminal and NO_COLOR
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    Auto,
    Always,
    Never,
}

/// What a session works in and what it may do, for `exec` and the conversation alike.
#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    /// The working folder [default: the current one, or that of the resumed session]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cwd: Option<PathBuf>,
    /// Go on with a stored session, by its id or the beginning of it
    #[arg(long, value_name = "ID")]
    pub(crate) resume: Option<String>,
    /// How often the turn may ask the model [default: 50, or session.max_turns]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,
    /// How many tokens the turn may use, read and written together [default: any number, or
    /// session.max_turn_tokens]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_turn_tokens: Option<u64>,
    /// How many tokens the whole session may use [default: any number, or
    /// session.max_session_tokens]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_session_tokens: Option<u64>,
    /// Run what would be asked about; what is high-impact still asks
    #[arg(long)]
    pub(crate) skip_permissions: bool,
    /// Run calls like these unasked: TOOL (with `*`), or bash:PREFIX for simple commands that begin
    /// with these words; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) yes_to: Vec<Grant>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one turn: a prompt in, the answer out, tools used on the way
    ///
    /// The answer goes to standard output, everything else to standard error. Exit codes: 0 done,
    /// 1 the model or something it needs failed, 2 wrong usage, 3 a call needs an approval and
    /// nobody could be asked (the session waits; resume it with --yes-to or --skip-permissions),
    /// 141 whoever read the answer went away.
    Exec(Exec),
    /// List stored sessions, newest first
    Sessions(Sessions),
    /// Write a session down for people (Markdown) or programs (JSON)
    ///
    /// What a call was given and what it put out are cut in the middle where they have more than
    /// 8 KiB, which is said there. Pictures are named with the files that have them.
    /// castellan trace show --json has every event in full.
    Export(Export),
    /// Show the catalog of tools
    Tools(Tools),
    /// Serve MCP to a client on standard input and output
    ///
    /// Clients such as Claude Code, Codex or Cursor start it themselves. Most tools are listed as one
    /// line; clients read the rest with castellan_describe_tool.
    Mcp(Mcp),
    /// Serve MCP over HTTP, with health and metrics
    ///
    /// Clients reach it at /mcp. It listens on this machine only, unless told otherwise; beyond it a
    /// secret is needed: secret_env in the configuration names the variable that holds it.
    Serve(Serve),
    /// Add `castellan mcp` to the MCP servers of a client
    ///
    /// Everything else in the client's settings stays as it is, and the file as it was is kept
    /// beside it. Without --client it looks which clients there are, and asks; where nobody can be
    /// asked, it prints the commands.
    Init(Init),
    /// Run an episode: a plugin works towards a goal, unattended
    ///
    /// In each step the plugin is shown what its last calls came to, and names the next ones. They
    /// pass the gate like every call; what would need a person is denied. Exit codes: 0 the goal was
    /// reached, 1 it was not, 2 wrong usage, 3 the plugin failed.
    Run(Run),
    /// Read traces, or do again what they tell
    #[command(subcommand)]
    Trace(Trace),
    /// Read the audit chain, or prove that it is whole
    Audit(Audit),
    /// List permissions that were given for good, or take them back
    Grants(Grants),
    /// See how the harness evolved, and take it back
    ///
    /// The genome is the part of the harness that may evolve: prompt fragments, how tools are shown,
    /// rules, parameters of models, weights of signals. Agents propose mutations, a person decides.
    #[command(subcommand)]
    Genome(Genome),
    /// Print what runs and waits here as one line, for tmux and shell prompts
    Statusline(Statusline),
    /// Check this installation and say what is wrong
    Doctor,
    /// Show the configuration
    #[command(subcommand)]
    Config(Config),
    /// Print a script that completes commands and options in a shell
    ///
    /// For bash: castellan completions bash > ~/.local/share/bash-completion/completions/castellan
    Completions(Completions),
    /// Print the page about events, for the documentation
    #[command(name = "__events", hide = true)]
    Events,
}

#[derive(Debug, Args)]
pub(crate) struct Exec {
    /// What to do; `-`, or nothing where input is piped in, reads it from standard input
    pub(crate) prompt: Option<String>,
    /// Print every event as a line of JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    /// Send this file with the prompt: text, or a picture for a model that sees; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) attach: Vec<PathBuf>,
}

/// What clients of the MCP server are shown, and where they work.
#[derive(Debug, Args)]
pub(crate) struct Mcp {
    /// What is shown: team, solo, ci, full, or a profile of the configuration [default: team, or
    /// mcp.profile]
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// List every tool in full, for clients that can't look around
    #[arg(long)]
    pub(crate) full: bool,
    /// The working folder [default: the current one]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cwd: Option<PathBuf>,
    /// Run what would be asked about; what is high-impact still asks
    #[arg(long)]
    pub(crate) skip_permissions: bool,
    /// Run calls like these unasked: TOOL (with `*`), or bash:PREFIX for simple commands that begin
    /// with these words; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) yes_to: Vec<Grant>,
}

/// Where the server listens, and what its clients are shown.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The address and port, or the port alone; 0 takes a free one [default: 127.0.0.1:8790, or
    /// server.listen]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<Address>,
    #[command(flatten)]
    pub(crate) mcp: Mcp,
}

/// Which client is told of us, and what.
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The client
    #[arg(long)]
    pub(crate) client: Option<Client>,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The profile the client is shown [default: team, or mcp.profile]
    #[arg(long, value_name = "NAME", conflicts_with = "remove")]
    pub(crate) profile: Option<String>,
    /// Take castellan out of the client's settings
    #[arg(long)]
    pub(crate) remove: bool,
    /// Where castellan is in them with other settings, put these in their place
    #[arg(long, conflicts_with = "remove")]
    pub(crate) replace: bool,
}

/// What an episode is to do, and what acts in it.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// What is to be reached
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) goal: String,
    /// What acts: gridworld (a colony that looks for food), session (a model), or the path of a
    /// program that answers observations with calls, both as lines of JSON
    #[arg(long, value_name = "NAME|PATH", default_value = "session")]
    pub(crate) plugin: String,
    /// Make the calls that the plugin names; without it, naming any is a failure
    #[arg(long)]
    pub(crate) mcp: bool,
    /// After so many steps it is over
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_steps: u64,
    /// What ids, the time and chances come from: the same seed gives the same trace
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// The file it is traced in, which must not hold anything [default: one in the data folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Whether its zones begin empty and end with it, or are those of everybody; with shared ones
    /// time and ids are real, and the seed decides chances only
    #[arg(long, value_enum, default_value_t = Zones::Own)]
    pub(crate) zones: Zones,
    /// Set something of the plugin; may be repeated. gridworld: agents, width, height, food, walls,
    /// deposits=off
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// How many seconds a program may take to answer
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) step_timeout: u64,
    /// Print every event as a line of JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// The working folder [default: the current one]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cwd: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Zones {
    /// Empty ones that end with the episode
    Own,
    /// Those of the data folder
    Shared,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ModelArgs {
    /// A model's name in the configuration; with --base-url, or where none is configured, its name
    /// at the endpoint
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) model: Option<String>,
    /// An OpenAI-compatible endpoint, such as http://127.0.0.1:11434/v1
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// The key for the endpoint; other users see arguments of running programs, so prefer a
    /// variable named by api_key_env in the configuration
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Sessions {
    /// How many to list
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The session's id or the beginning of it
    pub(crate) session: String,
    /// How it is written
    #[arg(long, value_enum, default_value_t = ExportFormat::Md)]
    pub(crate) format: ExportFormat,
    /// The file to write, in the place of what it holds; standard output where it is missing or `-`
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ExportFormat {
    /// Markdown
    Md,
    /// One JSON document
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct Tools {
    /// Show one tool in full
    pub(crate) name: Option<String>,
    /// List the tools of this surface
    #[arg(long, value_name = "SURFACE", default_value_t = Surface::Interactive, conflicts_with = "all")]
    pub(crate) surface: Surface,
    /// List the tools of every surface
    #[arg(long)]
    pub(crate) all: bool,
    /// List the tools that fit these words best, of every surface
    #[arg(long, value_name = "WORDS", conflicts_with_all = ["name", "all"])]
    pub(crate) search: Option<String>,
    /// Print as JSON, schemas included
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Trace {
    /// Tell what happened, event by event
    Show(TraceFile),
    /// Count calls, tokens and time
    Stats(TraceFile),
    /// Do again offline what a trace of a session or an episode tells, and say where it comes to
    /// something else
    ///
    /// What models and people said is taken from the trace, and so are the results of a session's
    /// calls; what an episode calls in its own zones is called again. No model is asked, no program
    /// started. Exit codes: 0 it agrees, 1 it diverges, 2 the trace can't be replayed.
    Replay(TraceFile),
}

#[derive(Debug, Args)]
pub(crate) struct TraceFile {
    /// A trace file, a session's id or the beginning of one
    pub(crate) trace: String,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Audit {
    /// Prove that no row was removed or changed
    #[arg(long)]
    pub(crate) verify: bool,
    /// Rows since this time: a number with s, m, h or d, such as 2h
    #[arg(long, value_name = "AGE")]
    pub(crate) since: Option<String>,
    /// Rows of this caller
    #[arg(long, value_name = "CALLER")]
    pub(crate) agent: Option<String>,
    /// How many rows
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Grants {
    #[command(subcommand)]
    pub(crate) command: Option<GrantsCommand>,
    #[command(flatten)]
    pub(crate) list: GrantsList,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Genome {
    /// List its versions, newest first, and the proposals nobody decided about yet
    Log(GenomeLog),
    /// Show a version
    Show(GenomeShow),
    /// Show how two versions differ
    Diff(GenomeDiff),
    /// Make an earlier version hold again, as a new one
    Rollback(GenomeRollback),
}

#[derive(Debug, Args)]
pub(crate) struct GenomeLog {
    /// How many versions to list
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GenomeShow {
    /// The version [default: the one that holds]
    pub(crate) version: Option<u64>,
    /// Print as one line of JSON, with its hash
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GenomeDiff {
    /// The version to begin with
    pub(crate) from: u64,
    /// The version to end with [default: the one that holds]
    pub(crate) to: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct GenomeRollback {
    /// The version that is to hold again
    pub(crate) version: u64,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,
}

#[derive(Debug, Args)]
pub(crate) struct Statusline {
    /// Print the numbers as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GrantsCommand {
    /// List them, newest first
    List(GrantsList),
    /// Take some back; the next call asks again, in running sessions too
    Revoke(GrantsRevoke),
}

#[derive(Debug, Args)]
pub(crate) struct GrantsList {
    /// Only those that hold in this project and not elsewhere
    #[arg(long, value_name = "FOLDER", conflicts_with = "session")]
    pub(crate) project: Option<PathBuf>,
    /// Only those that hold in this session and not elsewhere
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// How many to list
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true))]
pub(crate) struct GrantsRevoke {
    /// Their ids, or the beginnings of them
    #[arg(value_name = "ID", group = "which")]
    pub(crate) ids: Vec<String>,
    /// All that hold in this session and not elsewhere
    #[arg(long, value_name = "ID", group = "which")]
    pub(crate) all_session: Option<String>,
    /// All that hold in this project and not elsewhere
    #[arg(long, value_name = "FOLDER", group = "which")]
    pub(crate) all_project: Option<PathBuf>,
    /// All there are
    #[arg(long, group = "which")]
    pub(crate) all: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Print the configuration in force, keys hidden
    Show,
    /// Print where the configuration file is
    Path,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}
