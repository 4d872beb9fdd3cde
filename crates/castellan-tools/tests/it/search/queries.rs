//! What a query means, and what is said of one that means nothing.

use castellan_testkit::Home;
use serde_json::json;

use super::search;

/// Case G01.
#[tokio::test]
async fn a_query_or_path_that_begins_with_a_dash_is_text() {
    let home = Home::new();
    home.write("a.rs", "fn f() -> Result\n--ctx-size\n-e\n");
    home.write("-x", "in the dash\n");
    for (query, hit) in [
        ("-> Result", "a.rs:1:"),
        ("--ctx-size", "a.rs:2:"),
        ("-e", "a.rs:3:"),
    ] {
        let said = search(&home, json!({"query": query})).await;
        assert!(said.contains(hit), "{query}: {said}");
    }
    let said = search(&home, json!({"query": "dash", "path": "-x"})).await;
    assert!(said.starts_with("-x:1: in the dash\n"), "{said}");
    let said = search(&home, json!({"query": "dash", "path": "-"})).await;
    assert!(said.contains("does not exist"), "{said}");
}

/// Case G02.
#[tokio::test]
async fn a_query_of_another_dialect_is_never_told_no_matches() {
    let home = Home::new();
    home.write("a.txt", "alpha\nbeta\n");
    let said = search(&home, json!({"query": r"alpha\|beta"})).await;
    assert!(said.contains("a.txt:1: alpha\na.txt:2: beta\n"), "{said}");
    assert!(said.contains("alternation `alpha|beta` instead"), "{said}");
    let said = search(&home, json!({"query": r"\(alpha\|gamma\)"})).await;
    assert!(said.contains("a.txt:1: alpha\n"), "{said}");
    let said = search(&home, json!({"query": r"alpha\\|beta"})).await;
    assert!(
        said.contains("a.txt:2: beta\n") && said.contains("a backslash and then"),
        "{said}"
    );
    let said = search(&home, json!({"query": r"\bal"})).await;
    assert!(said.contains("a.txt:1: alpha\n"), "{said}");
    for (query, parts) in [
        (
            "al(?=pha)",
            ["character 3, `(?=`", "lookahead is not supported"],
        ),
        (
            "(?<!x)al",
            ["character 1, `(?<!`", "lookbehind is not supported"],
        ),
        (
            r"(a)\1",
            [r"character 4, `\1`", "backreferences are not supported"],
        ),
        ("foo(", ["character 4, `(`", r"write `\(`"]),
        ("foo)", ["character 4, `)`", r"write `\(` or `\)`"]),
        ("é[", ["character 2, `[`", r"write `\[`"]),
        ("*.rs", ["character 1, `*`", "use `glob`"]),
        (r"x\Ky", [r"`\K`", "Rust's regex crate"]),
        ("a{,3", ["`query` is not a valid regex", r"write `\{`"]),
        ("\u{8}al", ["backspace", r"write `\\b`"]),
        ("a\nb", ["line break", "`context`"]),
        (r"a\nb", ["line break", "`context`"]),
        (r"\x00", ["NUL byte", "`bash`"]),
        (r"\w{5000}", ["too large", "smaller count"]),
        ("", ["`query` is empty", "the regex to search for"]),
    ] {
        let said = search(&home, json!({"query": query})).await;
        for part in parts {
            assert!(
                said.starts_with("Error: ") && said.contains(part),
                "{query}: {said}"
            );
        }
    }
}

#[tokio::test]
async fn a_pipe_that_is_there_is_found_as_written() {
    let home = Home::new();
    home.write("a.rs", "list.map(|x| x)\nx\n");
    let said = search(&home, json!({"query": r"\|x\|"})).await;
    assert!(
        said.contains("a.rs:1:") && !said.contains("a.rs:2:"),
        "{said}"
    );
}

#[tokio::test]
async fn case_is_as_asked() {
    let home = Home::new();
    home.write("a.txt", "Alpha\nalpha\n");
    for (query, case, matches) in [
        ("alpha", "sensitive", "[1 match in"),
        ("ALPHA", "insensitive", "[2 matches in"),
        ("alpha", "smart", "[2 matches in"),
        ("Alpha", "smart", "[1 match in"),
    ] {
        let said = search(&home, json!({"query": query, "case": case})).await;
        assert!(said.contains(matches), "{query} {case}: {said}");
    }
}

#[tokio::test]
async fn the_end_of_a_line_is_before_its_carriage_return() {
    let home = Home::new();
    home.write("crlf.txt", "one\r\ntwo\r\n");
    let said = search(&home, json!({"query": "o(ne)?$"})).await;
    assert!(
        said.starts_with("crlf.txt:1: one\ncrlf.txt:2: two\n"),
        "{said}"
    );
}

#[tokio::test]
async fn globs_choose_files() {
    let home = Home::new();
    for path in [
        "a.rs",
        "b.lock",
        "src/c.rs",
        "src/d.toml",
        "src/deep/e.rs",
        "target/f.rs",
    ] {
        home.write(path, "x\n");
    }
    for (path, glob, expected) in [
        (".", "*.rs", "a.rs src/c.rs src/deep/e.rs target/f.rs"),
        (".", "*.rs, !target/", "a.rs src/c.rs src/deep/e.rs"),
        (".", "!*.lock,!*.rs", "src/d.toml"),
        (".", "*.{toml,lock}", "b.lock src/d.toml"),
        (".", "src/*.rs", "src/c.rs"),
        (".", "/src/**/*.rs", "src/c.rs src/deep/e.rs"),
        (".", "src/", "src/c.rs src/d.toml src/deep/e.rs"),
        (".", "**/deep/*", "src/deep/e.rs"),
        // From the searched folder or from the working folder.
        ("src", "deep/*.rs", "src/deep/e.rs"),
        ("./src", "src/deep/*.rs", "src/deep/e.rs"),
    ] {
        let said = search(&home, json!({"query": "x", "path": path, "glob": glob})).await;
        let hits: Vec<&str> = said
            .lines()
            .filter_map(|line| line.strip_suffix(":1: x"))
            .collect();
        assert_eq!(hits.join(" "), expected, "{glob}: {said}");
    }
    let said = search(&home, json!({"query": "x", "glob": "*.{rs"})).await;
    assert!(
        said.contains("`glob` is not valid") && said.contains("*.{rs"),
        "{said}"
    );
}
