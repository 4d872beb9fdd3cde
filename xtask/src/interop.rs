//! `cargo xtask interop`: clients that others wrote, against our server.
//!
//! Each does the discovery sequence of the docs (search, describe, deposit) call for call, over
//! pipes against `castellan mcp` and over HTTP against `castellan serve`, in every era of the
//! protocol it speaks. What it was answered is held against what the docs promise.

mod inspector;
mod transcript;

use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::external::{Node, Python};
use crate::say;
use crate::server::Served;
use crate::workspace::Workspace;

/// The revision an older client agrees on, and the modern one.
const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// How many clients run at once.
const AT_ONCE: usize = 3;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    /// The official Inspector's command line, one process for each call.
    Inspector,
    /// The Python SDK of the second generation.
    PythonTwo,
    /// The Python SDK of the first generation.
    PythonOne,
    /// The client of fastmcp.
    Fast,
}

/// How it reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Pipes,
    Http,
}

/// One run of a client.
#[derive(Debug, Clone, Copy)]
struct Case {
    client: Client,
    /// The era as the client calls it; empty where it knows one only.
    era: &'static str,
    /// The revision it must end up with.
    revision: &'static str,
    transport: Transport,
}

/// Every client in every era it knows.
const CLIENTS: [(Client, &str, &str); 9] = [
    (Client::Inspector, "legacy", LEGACY),
    (Client::Inspector, "auto", MODERN),
    (Client::Inspector, "modern", MODERN),
    (Client::PythonTwo, "legacy", LEGACY),
    (Client::PythonTwo, "auto", MODERN),
    (Client::PythonTwo, MODERN, MODERN),
    (Client::PythonOne, "", LEGACY),
    (Client::Fast, "legacy", LEGACY),
    (Client::Fast, "auto", MODERN),
];

impl Case {
    /// All of them, over both transports.
    fn all() -> Vec<Self> {
        let case = |transport| {
            CLIENTS.map(|(client, era, revision)| Self {
                client,
                era,
                revision,
                transport,
            })
        };
        [case(Transport::Pipes), case(Transport::Http)].concat()
    }

    fn name(&self) -> String {
        let client = match self.client {
            Client::Inspector => "Inspector",
            Client::PythonTwo => "Python SDK 2",
            Client::PythonOne => "Python SDK 1",
            Client::Fast => "fastmcp",
        };
        let transport = match self.transport {
            Transport::Pipes => "castellan mcp",
            Transport::Http => "castellan serve",
        };
        let era = if self.era.is_empty() {
            String::new()
        } else {
            format!(" ({})", self.era)
        };
        format!("{client}{era} with {transport}")
    }
}

/// What the clients run with.
struct Stage {
    node: Node,
    two: Python,
    one: Python,
    program: String,
    product: Served,
}

/// Runs every client against the product, which is built already; the code is 1 where one was answered something else than promised.
pub(crate) fn run(workspace: &Workspace) -> Result<u8> {
    let node = Node::install(workspace)?;
    let two = Python::install(workspace, "mcp-2")?;
    let one = Python::install(workspace, "mcp-1")?;
    let stage = Stage {
        node,
        two,
        one,
        program: workspace.debug_binary().to_string_lossy().into_owned(),
        product: Served::product(workspace)?,
    };
    let cases = Case::all();
    say::heading(&format!("{} clients of others", cases.len()));
    let failed = all(&stage, &cases);
    say::line(&format!(
        "{} of {} were answered as promised",
        cases.len() - failed,
        cases.len()
    ));
    Ok(u8::from(failed > 0))
}

/// Runs the cases, a few at once, and says what became of each; returns how many failed.
fn all(stage: &Stage, cases: &[Case]) -> usize {
    let waiting = Mutex::new(cases.iter());
    let failed = Mutex::new(0);
    let worker = || {
        loop {
            let Some(case) = waiting.lock().ok().and_then(|mut cases| cases.next()) else {
                return;
            };
            let wrong = match one(stage, case) {
                Ok(said) => transcript::wrong(&said, case.revision),
                Err(error) => vec![format!("{error:#}")],
            };
            if wrong.is_empty() {
                say::line(&format!("✓ {}", case.name()));
                continue;
            }
            say::line(&format!("✗ {}: {}", case.name(), wrong.join("; ")));
            if let Ok(mut failed) = failed.lock() {
                *failed += 1;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(worker);
        }
    });
    failed.into_inner().unwrap_or(cases.len())
}

/// What a client was answered.
fn one(stage: &Stage, case: &Case) -> Result<Value> {
    // Its own home, so that what it left behind is its own.
    let home = tempfile::tempdir().context("could not make an empty home")?;
    let target: &[&str] = match case.transport {
        Transport::Pipes => &[&stage.program, "mcp"],
        Transport::Http => &[&stage.product.url],
    };
    let with_era = || [&[case.era], target].concat();
    match case.client {
        Client::Inspector => inspector::play(&stage.node, case.era, target, home.path()),
        Client::PythonTwo => python(&stage.two, "mcp_2.py", &with_era(), home.path()),
        Client::PythonOne => python(&stage.one, "mcp_1.py", target, home.path()),
        Client::Fast => python(&stage.two, "fast.py", &with_era(), home.path()),
    }
}

fn python(python: &Python, script: &str, arguments: &[&str], home: &Path) -> Result<Value> {
    let captured = python.client(script, arguments, home).capture()?;
    if !captured.success {
        bail!("it broke down: {}", last_lines(&captured.stderr));
    }
    let line = captured.stdout.lines().last().unwrap_or_default();
    serde_json::from_str(line).context("it told no transcript")
}

/// The end of what a program said of its failure.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim().lines().rev().take(8).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}
