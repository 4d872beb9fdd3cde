//! The project's own commands: `cargo xtask test | conformance | interop | tidy | docs | bench`.
//!
//! They orchestrate cargo and git and hold no knowledge of the product beyond the layer table in
//! `tidy/edges.rs`. Start reading at [`dispatch`]; each command is one module.

mod bench;
mod conformance;
mod docs;
mod external;
mod interop;
mod process;
mod say;
mod server;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;

use crate::workspace::Workspace;

const USAGE: &str = "\
The project's own commands.

Usage: cargo xtask <COMMAND>

  test [ARGS…]           build the workspace, run the doc tests, then every test; ARGS go to the runner
  conformance            run the official MCP suite against its fixtures, then against the product
  conformance --url URL  run what of it needs no fixture against the server at URL
  interop                let clients that others wrote call the product, and check their answers
  tidy                   hold the source tree against the rules of the house
  docs [--check | --api] write the generated pages of docs/, compare them, or build the API docs
  bench [NAME]           build with optimisation and run the benchmarks whose name contains NAME";

/// The exit code of wrong usage, as clap has it.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&args) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            say::error(&format!("xtask: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn dispatch(args: &[String]) -> Result<u8> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test", ..] => test::run(&Workspace::load()?, args.get(1..).unwrap_or_default()),
        ["conformance"] => conformance::run(&built()?, None),
        ["conformance", "--url", url] => conformance::run(&Workspace::load()?, Some(url)),
        ["interop"] => interop::run(&built()?),
        ["tidy"] => tidy::run(&Workspace::load()?),
        ["docs"] => docs::write(&Workspace::load()?),
        ["docs", "--check"] => docs::check(&Workspace::load()?),
        ["docs", "--api"] => docs::api(&Workspace::load()?),
        ["bench"] => bench::run(&Workspace::load()?, None),
        ["bench", name] => bench::run(&Workspace::load()?, Some(name)),
        ["help" | "--help" | "-h"] => {
            say::line(USAGE);
            Ok(0)
        }
        _ => {
            say::error(USAGE);
            Ok(EXIT_USAGE)
        }
    }
}

/// The workspace, with the programs built that are to be run.
fn built() -> Result<Workspace> {
    let workspace = Workspace::load()?;
    server::build(&workspace)?;
    Ok(workspace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_command_is_a_usage_error() {
        assert_eq!(dispatch(&["polish".to_owned()]).unwrap(), EXIT_USAGE);
        assert_eq!(dispatch(&[]).unwrap(), EXIT_USAGE);
    }
}
