//! Odd names: spelled otherwise, with line breaks, too long, not Unicode.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use castellan_core::tool::TypedTool;
use castellan_testkit::Home;
use castellan_tools::diff_file::DiffFile;
use castellan_tools::edit_file::EditFile;
use castellan_tools::file::Closed;
use castellan_tools::search::Search;
use castellan_tools::write_file::WriteFile;
use serde_json::{Value, json};

use crate::drive::{after, call, reader, text, view};

async fn run<T: TypedTool>(home: &Home, tool: T, arguments: Value) -> String {
    text(call(tool, arguments, &view(&home.workspace())).await)
}

async fn read(home: &Home, path: &str) -> String {
    run(home, reader(Closed::default()), json!({"path": path})).await
}

async fn write(home: &Home, path: &str) -> String {
    let arguments = json!({"path": path, "content": "new\n"});
    run(home, WriteFile::new(Closed::default()), arguments).await
}

fn names(home: &Home) -> Vec<String> {
    let entries = std::fs::read_dir(home.workspace()).unwrap().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_name_that_is_composed_otherwise_is_found_and_named() {
    let home = Home::new();
    let (composed, decomposed) = ("caf\u{e9}", "cafe\u{301}");
    home.write(format!("{composed}/{decomposed}.txt"), "old\n");
    let asked = format!("{decomposed}/{composed}.txt");
    let shown = read(&home, &asked).await;
    assert!(
        shown.starts_with("[there is no ") && shown.ends_with("otherwise]\n     1\told\n"),
        "{shown}"
    );
    let searched = json!({"query": "old", "path": asked});
    let said = run(&home, Search::new(Closed::default()), searched).await;
    assert!(said.contains("1 match in 1"), "{said}");
    let compared = json!({"path_a": asked, "content_b": "old\n"});
    let said = run(&home, DiffFile::new(Closed::default()), compared).await;
    assert!(said.contains("no differences"), "{said}");
    let at = view(&home.workspace());
    let seen = call(reader(Closed::default()), json!({"path": asked}), &at).await;
    let change = json!({"path": asked, "old_string": "old", "new_string": "edited"});
    let tool = EditFile::new(Closed::default());
    let said = text(call(tool, change, &after(&at, &seen)).await);
    assert!(said.starts_with("edited"), "{said}");
    // A new file beside it that looks the same would be a trap.
    let said = write(&home, &asked).await;
    assert!(said.starts_with("replaced"), "{said}");
    let real = format!("{composed}/{decomposed}.txt");
    assert_eq!(home.read(real).as_deref(), Some("new\n"));
    assert_eq!(names(&home), [composed]);
}

#[tokio::test]
async fn a_name_with_other_blanks_or_quotes_is_found_where_it_is_the_only_one() {
    let home = Home::new();
    let real = "Bob\u{2019}s 3.00\u{202f}PM.txt";
    home.write(real, "old\n");
    let asked = "Bob's 3.00 PM.txt";
    assert!(read(&home, asked).await.ends_with("     1\told\n"));
    // It may be meant to be a new one.
    assert!(write(&home, asked).await.starts_with("created"));
    assert!(read(&home, asked).await.starts_with("     1\tnew\n"));
    std::fs::remove_file(home.workspace().join(asked)).unwrap();
    home.write("Bob\u{2018}s 3.00\u{a0}PM.txt", "other\n");
    let said = read(&home, asked).await;
    assert!(said.contains("does not exist"), "{said}");
    // Another letter is another name.
    home.write("cafe.txt", "plain\n");
    let said = read(&home, "caf\u{e9}.txt").await;
    assert!(said.contains("does not exist"), "{said}");
}

#[tokio::test]
async fn a_path_can_not_break_the_line_that_shows_it() {
    let home = Home::new();
    home.write("new\nline.txt", "needle\n");
    assert_eq!(read(&home, "new\nline.txt").await, "     1\tneedle\n");
    let said = write(&home, "new\nline.txt").await;
    assert!(said.contains("new\\nline.txt (4 bytes now)"), "{said}");
    let said = read(&home, "no\nfile").await;
    assert!(said.contains("no\\nfile does not exist"), "{said}");
    home.write("empty\n", "");
    let said = read(&home, "empty\n").await;
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[tokio::test]
async fn a_path_that_can_not_be_is_told_why() {
    let home = Home::new();
    let odd = std::ffi::OsStr::from_bytes(b"bad\xff.txt");
    std::fs::write(home.workspace().join(odd), "x\n").unwrap();
    symlink(odd, home.workspace().join("to-odd")).unwrap();
    let long = "x".repeat(300);
    let deep = "x/".repeat(3000);
    for (path, part) in [
        ("to-odd", "is not valid UTF-8; rename it"),
        (&long, "too long"),
        (&deep, "too long"),
        ("~/x", "`~` in a path is not the home folder"),
        ("folder/", "a path that ends with a slash names a folder"),
        ("missing/../x", "a folder on the way to"),
        ("", "is a folder"),
        ("a\0b", "NUL"),
    ] {
        for said in [read(&home, path).await, write(&home, path).await] {
            assert!(
                said.starts_with("Error: ") && said.contains(part) && said.len() < 1500,
                "{path}: {said}"
            );
        }
    }
    assert_eq!(names(&home), ["bad\u{fffd}.txt", "to-odd"]);
    std::fs::create_dir(home.workspace().join("~")).unwrap();
    assert!(write(&home, "~/x").await.starts_with("created"));
}
