//! `cargo xtask bench`: builds with optimisation and runs what measures.
//!
//! Benches of the crates are plain programs (`harness = false`) that print `name: value unit`.

use std::fs;

use anyhow::Result;

use crate::process::cargo;
use crate::say;
use crate::workspace::Workspace;

/// Runs the benchmarks whose `crate/bench` name contains `filter`.
pub(crate) fn run(workspace: &Workspace, filter: Option<&str>) -> Result<u8> {
    let root = &workspace.root;
    let benches = selected(workspace, filter);
    if benches.is_empty() {
        say::line("no benchmark of that name");
        return Ok(1);
    }

    say::heading("machine");
    say::line(&machine());

    say::heading("building");
    cargo(&["build", "--release", "-p", "castellan"], root).succeed()?;
    for (package, bench) in &benches {
        cargo(
            &["bench", "-p", package, "--bench", bench, "--no-run"],
            root,
        )
        .succeed()?;
    }

    let mut worst = 0;
    for (package, bench) in &benches {
        say::heading(&format!("{package}/{bench}"));
        worst = worst.max(cargo(&["bench", "-q", "-p", package, "--bench", bench], root).run()?);
    }
    Ok(worst)
}

fn selected<'a>(workspace: &'a Workspace, filter: Option<&str>) -> Vec<(&'a str, &'a str)> {
    workspace
        .crates
        .iter()
        .flat_map(|member| {
            member
                .benches
                .iter()
                .map(move |bench| (member.name.as_str(), bench.as_str()))
        })
        .filter(|(package, bench)| matches(&format!("{package}/{bench}"), filter))
        .collect()
}

fn matches(name: &str, filter: Option<&str>) -> bool {
    filter.is_none_or(|filter| name.contains(filter))
}

/// The facts without which a figure means nothing.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let known = |text: &str| match text.trim() {
        "" => "unknown".to_owned(),
        text => text.to_owned(),
    };
    format!(
        "cores: {cores}\nkernel: {}\ncpu: {}",
        known(&kernel),
        known(cpu_model(&cpu).unwrap_or_default())
    )
}

fn cpu_model(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo
        .lines()
        .find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_a_part_of_the_name() {
        assert!(matches("castellan-gate/search", Some("gate")));
        assert!(!matches("castellan-gate/search", Some("store")));
        assert!(matches("castellan-gate/search", None));
    }

    #[test]
    fn the_cpu_model_is_the_first_one_named() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Other\n";
        assert_eq!(cpu_model(text), Some("Some CPU @ 2 GHz"));
        assert_eq!(cpu_model("processor: 0"), None);
    }
}
