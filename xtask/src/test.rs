//! `cargo xtask test`: builds once, runs the doc tests, the MCP conformance suite and the clients of
//! others, then everything else.
//!
//! The test runner goes last and nothing is printed after it, so that the end of the output is the
//! runner's own summary.

use anyhow::Result;

use crate::external;
use crate::process::{cargo, is_there};
use crate::say;
use crate::workspace::Workspace;
use crate::{conformance, interop};

/// Programs that tests start, beside the toolchain: what for, and how to get them.
const NEEDS: &[(&str, &str, &str)] = &[
    (
        "python3",
        "end-to-end tests talk to the program from it",
        "apt-get install python3",
    ),
    ("bash", "the shell tools run in it", "apt-get install bash"),
    (
        "bwrap",
        "the better half of the sandbox; its tests then try Landlock alone and say so",
        "apt-get install bubblewrap",
    ),
    (
        "npm",
        "it installs the official MCP conformance suite; without it Python installs one for that",
        "apt-get install npm",
    ),
];

/// Runs the tests; the code is the runner's, or that of the first step that failed before it.
pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<u8> {
    let root = &workspace.root;
    say::heading("checking what the tests need");
    for (program, purpose, install) in NEEDS {
        if is_there(program, &["--version"], root) {
            say::line(&format!("{program}: there"));
        } else {
            say::line(&format!(
                "{program}: MISSING ({purpose}); tests that need it fail or are left out; \
                 on Debian and Ubuntu: {install}"
            ));
        }
    }
    let nextest = is_there("cargo", &["nextest", "--version"], root);
    say::line(if nextest {
        "cargo-nextest: there"
    } else {
        "cargo-nextest: not there, cargo test runs instead (to get it: cargo install --locked \
         cargo-nextest)"
    });

    // With `--tests` cargo picks the features the runner will pick; without it, what dev-dependencies
    // add would make it build everything a second time.
    let build = cargo(&["build", "--workspace", "--bins", "--tests"], root);
    say::heading(&format!("building the workspace: {}", build.shown()));
    let all = args.is_empty();
    let (code, installed) = std::thread::scope(|scope| {
        // The downloads take as long as the build does.
        let installing = all.then(|| scope.spawn(|| external::install(workspace)));
        let code = build.run();
        let installed = installing.map(|thread| {
            let broke = |_panic| Err(anyhow::anyhow!("their installation broke down"));
            thread.join().unwrap_or_else(broke)
        });
        (code, installed)
    });
    let code = code?;
    if code != 0 {
        return Ok(code);
    }

    let mut doc_code = 0;
    if nextest && all {
        let doc = cargo(&["test", "--doc", "--workspace"], root);
        say::heading(&format!("doc tests: {}", doc.shown()));
        doc_code = doc.run()?;
        if doc_code != 0 {
            say::line("doc tests FAILED (see above); the other tests run all the same");
        }
    }

    if let Some(installed) = installed {
        doc_code = doc_code.max(conform(workspace, installed));
    }

    let runner = cargo(&runner_args(nextest, args), root);
    say::heading(&format!("tests: {}", runner.shown()));
    let code = runner.run()?;
    Ok(if code == 0 { doc_code } else { code })
}

/// Runs the official MCP suite and the clients of others, where they could be had; the code is
/// theirs.
fn conform(workspace: &Workspace, installed: Result<()>) -> u8 {
    if let Err(error) = installed {
        say::line(&format!(
            "the MCP conformance suite and the clients of others are LEFT OUT: {error:#}"
        ));
        return 0;
    }
    let ended = |what: &str, end: Result<u8>| {
        end.unwrap_or_else(|error| {
            say::line(&format!("{what} FAILED: {error:#}"));
            1
        })
    };
    let suite = ended("conformance", conformance::run(workspace, None));
    suite.max(ended("interop", interop::run(workspace)))
}

/// The arguments of cargo for the runner: all of the workspace unless the caller names packages.
fn runner_args(nextest: bool, args: &[String]) -> Vec<String> {
    let mut all: Vec<String> = if nextest {
        vec!["nextest", "run"]
    } else {
        vec!["test"]
    }
    .into_iter()
    .map(str::to_owned)
    .collect();
    let names_package = args
        .iter()
        .take_while(|arg| *arg != "--")
        .any(|arg| arg.starts_with("-p") || arg.starts_with("--package"));
    if !names_package {
        all.push("--workspace".to_owned());
    }
    all.extend_from_slice(args);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(args: &[&str]) -> Vec<String> {
        args.iter().map(|arg| (*arg).to_owned()).collect()
    }

    #[test]
    fn the_runner_takes_the_whole_workspace_unless_a_package_is_named() {
        assert_eq!(runner_args(true, &[]), ["nextest", "run", "--workspace"]);
        assert_eq!(
            runner_args(true, &words(&["-p", "castellan-core"])),
            ["nextest", "run", "-p", "castellan-core"]
        );
        assert_eq!(
            runner_args(false, &words(&["grant", "--", "-p"])),
            ["test", "--workspace", "grant", "--", "-p"]
        );
    }
}
