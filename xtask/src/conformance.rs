//! `cargo xtask conformance`: the official suite of the Model Context Protocol against our servers.
//!
//! It runs once for each revision that is claimed. Against the fixtures (`castellan-conformance`)
//! every scenario counts that the suite scores for the revision; there is no list of failures that
//! would be accepted. Against the product itself those count that need no fixture: `product.rs`
//! names them.

mod product;
mod score;

use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::external::Node;
use crate::process::Captured;
use crate::say;
use crate::server::Served;
use crate::workspace::Workspace;
use score::Score;

/// The revisions we claim, with how many scenarios the suite scores for each.
const REVISIONS: [(&str, usize); 2] = [("2025-11-25", 30), ("2026-07-28", 37)];

const SUITE: &str = "@modelcontextprotocol/conformance/dist/index.js";

/// Runs the suite against the fixtures and the product, which are built already, or as against the
/// product at `url`.
pub(crate) fn run(workspace: &Workspace, url: Option<&str>) -> Result<u8> {
    let node = Node::install(workspace)?;
    if let Some(url) = url {
        return against_product(workspace, &node, url);
    }
    let fixtures = Served::fixtures(workspace)?;
    let code = against_fixtures(workspace, &node, &fixtures.url)?;
    drop(fixtures);
    let product = Served::product(workspace)?;
    Ok(code.max(against_product(workspace, &node, &product.url)?))
}

fn against_fixtures(workspace: &Workspace, node: &Node, url: &str) -> Result<u8> {
    let mut worst = 0;
    for (revision, scored) in REVISIONS {
        say::heading(&format!(
            "conformance of the fixtures with {revision}: {url}"
        ));
        let out = workspace.target.join("conformance/fixtures").join(revision);
        let captured = suite(node, url, revision, &out)?;
        let score = Score::read(&captured.stdout);
        say::line(&score.summary());
        if !captured.success || score.passed.len() != scored {
            say::line(&captured.stderr);
            say::line(&format!(
                "{revision} FAILED: {scored} scenarios are scored; what they found is in {}",
                out.display()
            ));
            worst = 1;
        }
    }
    Ok(worst)
}

fn against_product(workspace: &Workspace, node: &Node, url: &str) -> Result<u8> {
    let mut worst = 0;
    for (revision, _) in REVISIONS {
        say::heading(&format!(
            "conformance of the product with {revision}: {url}"
        ));
        let out = workspace.target.join("conformance/product").join(revision);
        let captured = suite(node, url, revision, &out)?;
        let score = Score::read(&captured.stdout);
        let verdict = product::judge(revision, &score, &out);
        say::line(&verdict.summary());
        if !verdict.wrong.is_empty() {
            say::line(&captured.stderr);
            say::line(&format!(
                "{revision} FAILED; what was found is in {}",
                out.display()
            ));
            worst = 1;
        }
    }
    Ok(worst)
}

/// One run of the suite; what it found is written to `out`, which is made anew.
fn suite(node: &Node, url: &str, revision: &str, out: &Path) -> Result<Captured> {
    if out.exists() {
        fs::remove_dir_all(out)?;
    }
    let out = out.to_string_lossy();
    let arguments = [
        "server",
        "--url",
        url,
        "--requirements",
        revision,
        "-o",
        &out,
    ];
    node.script(SUITE, &arguments).capture()
}
