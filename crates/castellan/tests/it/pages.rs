//! What the pages for users say is what the program takes.

use std::path::Path;

use castellan_testkit::Home;

use crate::program::run;

/// The blocks of TOML of a page, each with the line it begins in.
fn blocks(page: &str) -> Vec<(usize, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (number, line) in text.lines().enumerate() {
        match (&mut open, line) {
            (None, "```toml") => open = Some((number + 2, String::new())),
            (None, _) => {}
            (Some(_), "```") => blocks.extend(open.take()),
            (Some((_, block)), line) => {
                block.push_str(line);
                block.push('\n');
            }
        }
    }
    assert_eq!(open, None, "{page}: a block without an end");
    blocks
}

#[test]
fn every_configuration_in_the_pages_is_one() {
    for (page, least) in [
        ("docs/configuration.md", 3),
        ("docs/permissions.md", 1),
        ("README.md", 1),
    ] {
        let blocks = blocks(page);
        assert!(blocks.len() >= least, "{page}: {blocks:?}");
        for (line, block) in blocks {
            let home = Home::new();
            home.write_config(&block);
            // Builds everything the configuration is for, rules and hooks included.
            let tools = run(&home, &["tools"]);
            assert_eq!(tools.code, 0, "{page}, line {line}: {}", tools.stderr);
        }
    }
}

#[test]
fn what_is_in_force_stands_in_the_page_about_the_configuration() {
    let home = Home::new();
    let (_, everything) = blocks("docs/configuration.md").remove(0);
    home.write_config(&everything);
    let shown = run(&home, &["config", "show"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    // What is in force, defaults included, has no key that the page doesn't have.
    let keys = shown
        .stdout
        .lines()
        .filter_map(|line| line.split_once(" = "));
    let missing: Vec<&str> = keys
        .map(|(key, _)| key)
        .filter(|key| !everything.contains(&format!("{key} = ")))
        .collect();
    assert_eq!(missing, [] as [&str; 0], "{}", shown.stdout);
}
