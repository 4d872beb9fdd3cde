//! `diff_file`.

use castellan_testkit::Home;
use castellan_tools::diff_file::DiffFile;
use castellan_tools::edit_file::EditFile;
use castellan_tools::file::Closed;
use serde_json::{Value, json};

use crate::drive::{after, call, text, view};

async fn diff(home: &Home, arguments: Value) -> String {
    let said = text(
        call(
            DiffFile::new(Closed::default()),
            arguments,
            &view(&home.workspace()),
        )
        .await,
    );
    home.scrub(&said)
}

#[tokio::test]
async fn two_files_are_compared_with_the_context_asked_for() {
    let home = Home::new();
    let old: String = (1..=20).map(|n| format!("{n}\n")).collect();
    home.write("a", &old);
    home.write("b", old.replace("10\n", "ten\nmore\n"));
    let said = diff(
        &home,
        json!({"path_a": "a", "path_b": "b", "context_lines": 1}),
    )
    .await;
    assert_eq!(
        said,
        "--- [ROOT]/workspace/a\n+++ [ROOT]/workspace/b\n@@ -9,3 +9,4 @@\n 9\n-10\n+ten\n+more\n 11\n[+2 -1 lines]\n"
    );
    let said = diff(&home, json!({"path_a": "a", "path_b": "b"})).await;
    assert!(said.contains("@@ -7,7 +7,8 @@"), "{said}");
    let said = diff(&home, json!({"path_a": "a", "content_b": old})).await;
    assert!(said.contains("no differences"), "{said}");
    let said = diff(&home, json!({"path_a": "a", "content_b": old.trim_end()})).await;
    assert!(
        said.contains("+20\n\\ No newline at end of file\n"),
        "{said}"
    );
}

#[tokio::test]
async fn what_differs_besides_the_text_is_said_and_is_no_difference_of_lines() {
    let home = Home::new();
    home.write("lf", "café\nb\n");
    home.write("crlf", "café\r\nb\r\n");
    home.write("latin", b"caf\xe9\nb\n");
    home.write("bom", "\u{feff}café\nb\n");
    home.write("m1", "a\r\nb\n");
    home.write("m2", "a\nb\r\n");
    for (a, b, part) in [
        ("lf", "crlf", "line ends: LF before, CRLF after"),
        (
            "lf",
            "latin",
            "encoding: UTF-8 before, single-byte text after",
        ),
        ("lf", "bom", "byte order mark: without before, with after"),
        ("m1", "m2", "in different lines"),
    ] {
        let said = diff(&home, json!({"path_a": a, "path_b": b})).await;
        assert!(
            said.contains(part) && said.contains("is the same") && !said.contains("@@"),
            "{said}"
        );
    }
    let said = diff(&home, json!({"path_a": "crlf", "content_b": "café\nB\n"})).await;
    assert!(
        said.contains("-b\n+B\n") && said.contains("[+1 -1 lines]"),
        "{said}"
    );
}

#[tokio::test]
async fn odd_requests_are_refused() {
    let home = Home::new();
    home.write("a", "a\n");
    home.write("binary", b"\0\x01\x02");
    for (arguments, part) in [
        (json!({"path_a": "a"}), "nothing to compare"),
        (
            json!({"path_a": "a", "path_b": "a", "content_b": "x"}),
            "exclude each other",
        ),
        (
            json!({"path_a": "a", "content_b": "x", "context_lines": 21}),
            "0 to 20",
        ),
        (
            json!({"path_a": "a", "path_b": "binary"}),
            "is a binary file",
        ),
        (
            json!({"path_a": "absent", "content_b": "x"}),
            "does not exist",
        ),
        (json!({"path_a": ".", "content_b": "x"}), "is a folder"),
    ] {
        let said = diff(&home, arguments.clone()).await;
        assert!(
            said.starts_with("Error") && said.contains(part),
            "{arguments}: {said}"
        );
    }
}

#[tokio::test]
async fn a_compared_file_may_be_edited() {
    let home = Home::new();
    home.write("a", "a\n");
    home.write("b", "b\n");
    let view = view(&home.workspace());
    let report = call(
        DiffFile::new(Closed::default()),
        json!({"path_a": "a", "path_b": "b"}),
        &view,
    )
    .await;
    let view = after(&view, &report);
    for name in ["a", "b"] {
        let arguments = json!({"path": name, "old_string": name, "new_string": "c"});
        call(EditFile::new(Closed::default()), arguments, &view).await;
        assert_eq!(home.read(name).as_deref(), Some("c\n"));
    }
}

#[tokio::test]
async fn hostile_input_takes_bounded_time_and_output() {
    let home = Home::new();
    let lines = |seed: u64| -> String {
        let mut state = seed;
        (0..60_000)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                format!("{}\n", (state >> 40) % 5000)
            })
            .collect()
    };
    home.write("a", lines(1));
    home.write("b", lines(2));
    let start = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let said = diff(&home, json!({"path_a": "a", "path_b": "b"})).await;
    let taken = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap() - start;
    assert!(taken.as_secs() < 20, "{taken:?}");
    assert!(
        said.len() <= 256 * 1024 && said.contains("the diff is cut here"),
        "{}",
        said.len()
    );
}

#[tokio::test]
async fn millions_of_lines_that_are_nearly_the_same_take_no_more_than_their_bytes() {
    let home = Home::new();
    let lines = "\n".repeat(20 * 1024 * 1024);
    home.write("a", &lines);
    home.write("b", format!("{lines}x\n"));
    let said = diff(&home, json!({"path_a": "a", "path_b": "b"})).await;
    assert!(said.contains("+x\n[+1 -0 lines]"), "{said}");
    home.write("c", "x\n".repeat(10 * 1024 * 1024));
    let said = diff(&home, json!({"path_a": "a", "path_b": "c"})).await;
    assert!(said.len() <= 256 * 1024 && said.contains("the diff is cut here"));
}
