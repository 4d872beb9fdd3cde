//! Rule: an edge between crates goes only to a lower layer, as the table says.

use crate::workspace::{Crate, Dependency, Kind};

use super::source::line_where;
use super::{Tree, Violation};

/// What the tests share; never part of the product.
const TESTKIT: &str = "castellan-testkit";

/// Where a crate stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    /// A part of the product, counted from the ground.
    Product(u8),
    /// Serves those who build it.
    Development,
}
use Layer::{Development, Product};

struct Room {
    name: &'static str,
    layer: Layer,
    may_use: &'static [&'static str],
    testkit: Testkit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Testkit {
    InTests,
    Never,
}
use Testkit::{InTests, Never};

const CORE: &str = "castellan-core";
const HOST: &str = "castellan-host";
const STORE: &str = "castellan-store";
const LLM: &str = "castellan-llm";
const MCP: &str = "castellan-mcp";
const TOOLS: &str = "castellan-tools";
const GATE: &str = "castellan-gate";
const RELAY: &str = "castellan-relay";
const SUBSTRATE: &str = "castellan-substrate";
const RUNTIME: &str = "castellan-runtime";
const SERVER: &str = "castellan-server";
const CONFORMANCE: &str = "castellan-conformance";

const BELOW_RUNTIME: &[&str] = &[CORE, HOST, STORE, LLM, MCP, TOOLS, GATE, RELAY, SUBSTRATE];
const BELOW_SERVER: &[&str] = &[
    CORE, HOST, STORE, LLM, MCP, TOOLS, GATE, RELAY, SUBSTRATE, RUNTIME,
];
const BELOW_BINARY: &[&str] = &[
    CORE, HOST, STORE, LLM, MCP, TOOLS, GATE, RELAY, SUBSTRATE, RUNTIME, SERVER,
];

const fn room(name: &'static str, layer: Layer, may_use: &'static [&'static str]) -> Room {
    Room {
        name,
        layer,
        may_use,
        testkit: InTests,
    }
}

/// The layer table of ARCHITECTURE.md. Core takes no testkit: it needs neither store nor model,
/// and a test of it that did would say that it isn't pure.
const ROOMS: &[Room] = &[
    Room {
        name: CORE,
        layer: Product(0),
        may_use: &[],
        testkit: Never,
    },
    room(HOST, Product(1), &[CORE]),
    room(STORE, Product(1), &[CORE]),
    room(LLM, Product(2), &[CORE, HOST]),
    room(MCP, Product(2), &[CORE, HOST]),
    room(TOOLS, Product(2), &[CORE, HOST]),
    room(GATE, Product(2), &[CORE, HOST, STORE]),
    room(RELAY, Product(2), &[CORE, HOST, STORE]),
    room(SUBSTRATE, Product(2), &[CORE, STORE]),
    room(RUNTIME, Product(3), BELOW_RUNTIME),
    room(SERVER, Product(4), BELOW_SERVER),
    room("castellan", Product(5), BELOW_BINARY),
    // Beside the binary, built like it, and never shipped.
    room(CONFORMANCE, Product(5), BELOW_BINARY),
    Room {
        name: TESTKIT,
        layer: Development,
        may_use: &[CORE, STORE],
        testkit: Never,
    },
    Room {
        name: "xtask",
        layer: Development,
        may_use: &[],
        testkit: Never,
    },
];

/// Lists the edges that the table does not have, and crates that are not in it.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    tree.crates
        .iter()
        .flat_map(|member| check_one(member, tree))
        .collect()
}

fn check_one(member: &Crate, tree: &Tree) -> Vec<Violation> {
    let Some(room) = find(&member.name) else {
        let what = format!("`{}` is in no layer", member.name);
        let remedy = "add it to the table in xtask/src/tidy/edges.rs and in ARCHITECTURE.md";
        return vec![Violation::new(&member.manifest, 1, what, remedy)];
    };
    let text = tree.text(&member.manifest);
    let is_ours = |dependency: &&Dependency| {
        find(&dependency.name).is_some()
            || tree
                .crates
                .iter()
                .any(|other| other.name == dependency.name)
    };
    member
        .dependencies
        .iter()
        .filter(is_ours)
        .filter_map(|dependency| {
            let (what, remedy) = fault(room, dependency)?;
            let line = line_where(text, |line| declares(line, &dependency.name));
            Some(Violation::new(&member.manifest, line, what, remedy))
        })
        .collect()
}

/// What is wrong with an edge, and the way out.
fn fault(room: &Room, dependency: &Dependency) -> Option<(String, &'static str)> {
    let (from, to) = (room.name, dependency.name.as_str());
    if to == TESTKIT {
        return match (room.testkit, dependency.kind) {
            (InTests, Kind::Dev) => None,
            (InTests, Kind::Normal | Kind::Build) => Some((
                format!("`{from}` ships the test kit"),
                "move it to [dev-dependencies]",
            )),
            (Never, _) => Some((
                format!("`{from}` may not use the test kit"),
                "test it without",
            )),
        };
    }
    if room.may_use.contains(&to) {
        return None;
    }
    if find(to).is_some_and(|other| other.layer == room.layer) {
        let what = format!("`{from}` and `{to}` stand in one layer");
        return Some((
            what,
            "let a higher crate hand the one to the other, through a trait of core",
        ));
    }
    let what = format!("`{from}` may not use `{to}`");
    Some((
        what,
        "put what both need into a lower crate, or a trait into core",
    ))
}

fn find(name: &str) -> Option<&'static Room> {
    ROOMS.iter().find(|room| room.name == name)
}

/// Whether a manifest line declares this dependency: `name = …`, `name.workspace = …`.
fn declares(line: &str, name: &str) -> bool {
    line.trim_start()
        .strip_prefix(name)
        .is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
}

#[cfg(test)]
mod tests {
    use super::super::source::sample;
    use super::*;

    fn violations(from: &str, to: &str, kind: Kind) -> Vec<String> {
        let manifest = format!("crates/{from}/Cargo.toml");
        let edge = Dependency {
            name: to.to_owned(),
            kind,
            ..Dependency::default()
        };
        let member = Crate {
            name: from.to_owned(),
            manifest: manifest.clone(),
            dependencies: vec![edge],
            ..Crate::default()
        };
        let text = format!("[dependencies]\n{to}.workspace = true\n");
        let tree = Tree {
            sources: vec![sample::source(&manifest, &text)],
            crates: vec![member],
        };
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_edge_of_the_table_passes_in_every_kind() {
        for kind in [Kind::Normal, Kind::Dev, Kind::Build] {
            assert_eq!(violations(GATE, STORE, kind), [] as [String; 0]);
        }
        assert_eq!(
            violations("castellan", SERVER, Kind::Normal),
            [] as [String; 0]
        );
        assert_eq!(violations(TESTKIT, STORE, Kind::Normal), [] as [String; 0]);
    }

    #[test]
    fn an_edge_upwards_is_listed_at_its_line() {
        let found = violations(CORE, GATE, Kind::Dev);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("crates/castellan-core/Cargo.toml:2: "),
            "{found:?}"
        );
    }

    #[test]
    fn an_edge_inside_a_layer_is_listed_as_such() {
        let found = violations(LLM, TOOLS, Kind::Normal);
        assert!(found[0].contains("stand in one layer"), "{found:?}");
    }

    #[test]
    fn a_lower_crate_outside_the_column_is_listed() {
        assert_eq!(violations(SUBSTRATE, HOST, Kind::Normal).len(), 1);
        assert_eq!(violations(TOOLS, STORE, Kind::Normal).len(), 1);
        assert_eq!(violations("xtask", CORE, Kind::Normal).len(), 1);
    }

    #[test]
    fn the_test_kit_is_for_tests_and_never_for_core() {
        assert_eq!(violations(STORE, TESTKIT, Kind::Dev).len(), 0);
        assert_eq!(violations("castellan", TESTKIT, Kind::Normal).len(), 1);
        assert_eq!(violations("castellan", TESTKIT, Kind::Build).len(), 1);
        assert_eq!(violations(CORE, TESTKIT, Kind::Dev).len(), 1);
        assert_eq!(violations("xtask", TESTKIT, Kind::Dev).len(), 1);
    }

    #[test]
    fn a_crate_outside_the_table_is_listed() {
        assert_eq!(
            violations("castellan-cellar", "serde", Kind::Normal).len(),
            1
        );
    }

    #[test]
    fn the_table_itself_goes_downwards() {
        for room in ROOMS {
            for used in room.may_use {
                let below = find(used).unwrap();
                let (Product(low), Product(high)) = (below.layer, room.layer) else {
                    continue;
                };
                assert!(low < high, "{} -> {used}", room.name);
            }
        }
    }
}
