//! The catalog as it is printed: a golden file that every change of a tool has to pass.

use castellan_testkit::Home;
use serde_json::Value;

use crate::program::run;

#[test]
fn the_catalog_is_what_was_reviewed() {
    let home = Home::new();
    let printed = run(&home, &["tools", "--all", "--json"]);
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    let mut catalog: Value = serde_json::from_str(&printed.stdout).unwrap();
    // Descriptions may be reworded without a review of the contract.
    for tool in catalog.as_array_mut().unwrap() {
        tool.as_object_mut().unwrap().remove("description");
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&catalog).unwrap());
}

#[test]
fn a_tool_is_shown_in_full() {
    let home = Home::new();
    let card = run(&home, &["tools", "read_file"]);
    for part in [
        "primary key: path",
        "default: allow",
        "effects: read_only",
        "\"offset\"",
    ] {
        assert!(card.stdout.contains(part), "{part} not in {}", card.stdout);
    }
}
