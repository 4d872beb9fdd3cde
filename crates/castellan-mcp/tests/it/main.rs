//! The server as a client meets it: over pipes and over HTTP, in both eras, with messages written
//! by hand.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that meets what it did not expect fails"
)]

#[path = "../fixture/mod.rs"]
mod fixture;

mod asking;
mod calls;
mod hostile_http;
mod hostile_stdio;
mod lists;
mod pipes;
mod sessions;
mod web;

use std::sync::Arc;
use std::time::Duration;

use castellan_host::system::{SystemClock, SystemIds};
use castellan_mcp::{Limits, Server};
use serde_json::{Value, json};

use fixture::Fixture;

/// How long anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(20);

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// A server and what stands behind it.
fn server(limits: Limits) -> (Server, Arc<Fixture>) {
    let fixture = Arc::new(Fixture::default());
    let provider = Arc::clone(&fixture);
    let clock = Arc::new(SystemClock::new());
    let server = Server::new(provider, clock, Arc::new(SystemIds), limits);
    (server, fixture)
}

async fn patiently<T>(what: &str, future: impl Future<Output = T>) -> T {
    let end = tokio::time::timeout(PATIENCE, future).await;
    end.unwrap_or_else(|_late| panic!("{what} did not happen within {PATIENCE:?}"))
}

/// Waits until `holds`.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    patiently(what, wait).await;
}

fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

fn notice(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// The parameters by which an older client introduces itself.
fn introduction(version: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": {"elicitation": {}, "sampling": {}, "roots": {}},
        "clientInfo": {"name": "tester", "version": "1"},
    })
}

/// `params` with what a modern request has to carry.
fn modern(params: Value) -> Value {
    with_capabilities(
        params,
        json!({"elicitation": {}, "sampling": {}, "roots": {}}),
    )
}

fn with_capabilities(mut params: Value, capabilities: Value) -> Value {
    let meta = &mut params["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
    meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "tester", "version": "1"});
    meta["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    params
}

fn call(name: &str) -> Value {
    json!({"name": name, "arguments": {}})
}

/// The first text of a result.
fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text in {answer}"))
}

fn code(answer: &Value) -> i64 {
    answer["error"]["code"]
        .as_i64()
        .unwrap_or_else(|| panic!("no error in {answer}"))
}
