//! The official Inspector's command line: every call is a process of its own.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::{LEGACY, MODERN, last_lines};
use crate::external::Node;

const INSPECTOR: &str = "@modelcontextprotocol/inspector/clients/launcher/build/index.js";

/// What a server of the modern revision signs its results with.
const SIGNATURE: &str = "io.modelcontextprotocol/serverInfo";

/// What it was answered to the sequence.
pub(super) fn play(node: &Node, era: &str, target: &[&str], home: &Path) -> Result<Value> {
    let once = Once {
        node,
        era,
        target,
        home,
    };
    let listed = once.ask(&["--method", "tools/list", "--strict"])?;
    let tools = listed.get("tools").and_then(Value::as_array);
    let tools = tools.with_context(|| format!("it could not list the tools: {listed}"))?;
    let tool = |tool: &Value| json!({"name": tool["name"], "schema": tool["inputSchema"]});
    let search = once.call(
        "search_tools",
        &json!({"query": "deposit", "domain": "substrate"}),
    )?;
    let signature = search.get("signature").filter(|server| !server.is_null());
    let grid = json!({"zone": "grid", "signal": "coordination"});
    let deposit = json!({"zone": "grid", "signal": "coordination", "amount": 2.0});
    Ok(json!({
        "tools": tools.iter().map(tool).collect::<Vec<_>>(),
        "search": search,
        "describe": once.call("describe_tool", &json!({"name": "castellan_deposit_signal"}))?,
        "deposit": once.call("deposit_signal", &deposit)?,
        "read": once.call("read_signal", &grid)?,
        "mistake": once.call("deposit_signal", &json!({"zone": "grid"}))?,
        "unknown": once.call("describe_tool", &json!({"name": "castellan_no_such_tool"}))?,
        // It doesn't say what it agreed on; only the modern revision has results signed.
        "protocol": if signature.is_some() { MODERN } else { LEGACY },
        "server": signature.map(|server| &server["name"]),
    }))
}

struct Once<'a> {
    node: &'a Node,
    era: &'a str,
    target: &'a [&'a str],
    home: &'a Path,
}

impl Once<'_> {
    /// The result of one request, or the error that came instead.
    fn ask(&self, what: &[&str]) -> Result<Value> {
        let fixed = ["--cli", "--format", "json", "--protocol-era", self.era];
        let all = [&fixed, what, &["--"], self.target].concat();
        let child = self.node.script(INSPECTOR, &all).sealed(self.home);
        let captured = child.capture()?;
        // A result on one stream; on the other what it makes of it, among other lines.
        let objects = captured.stdout.lines().chain(captured.stderr.lines());
        let mut objects = objects.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let said = objects.find_map(|object| {
            let said = object.get("result").or_else(|| object.get("error"));
            said.cloned()
        });
        match said {
            Some(said) => Ok(said),
            None => bail!("it broke down: {}", last_lines(&captured.stderr)),
        }
    }

    fn call(&self, tool: &str, arguments: &Value) -> Result<Value> {
        let (tool, arguments) = (format!("castellan_{tool}"), arguments.to_string());
        let what = [
            "--method",
            "tools/call",
            "--tool-name",
            &tool,
            "--tool-args-json",
            &arguments,
        ];
        let said = self.ask(&what)?;
        if said.get("content").is_none() {
            return Ok(said);
        }
        Ok(json!({
            "structured": said["structuredContent"],
            "text": said["content"][0]["text"],
            "is_error": said["isError"],
            "signature": said["_meta"][SIGNATURE],
        }))
    }
}
