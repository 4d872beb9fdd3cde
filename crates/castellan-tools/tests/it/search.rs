//! `search`.

mod limits;
mod places;
mod queries;

use castellan_testkit::Home;
use castellan_tools::file::Closed;
use castellan_tools::search::Search;
use serde_json::{Value, json};

use crate::drive::{call, text, view};

/// What a model reads of a search in the workspace.
async fn search(home: &Home, arguments: Value) -> String {
    let tool = Search::new(Closed::default());
    text(call(tool, arguments, &view(&home.workspace())).await)
}

#[tokio::test]
async fn hits_are_numbered_and_sorted_by_path() {
    let home = Home::new();
    home.write("b.txt", "one\nneedle two\n");
    home.write("a/z.txt", "a needle\r\n\r\nneedle");
    home.write("a.txt", "nothing\n");
    let said = search(&home, json!({"query": "needle"})).await;
    assert_eq!(
        said,
        "a/z.txt:1: a needle\na/z.txt:3: needle\nb.txt:2: needle two\n\
         [3 matches in 2 of 3 files searched]\n"
    );
    for _ in 0..20 {
        assert_eq!(search(&home, json!({"query": "needle"})).await, said);
    }
}

#[tokio::test]
async fn lines_around_a_hit_are_shown_and_told_apart() {
    let home = Home::new();
    home.write("a.txt", "1\n2\nhit\n4\n5\n6\n7\nhit\n");
    home.write("b.txt", "hit\n");
    let said = search(&home, json!({"query": "hit", "context": 1})).await;
    assert_eq!(
        said,
        "a.txt-2- 2\na.txt:3: hit\na.txt-4- 4\n--\na.txt-7- 7\na.txt:8: hit\n--\nb.txt:1: hit\n\
         [3 matches in 2 of 2 files searched]\n"
    );
    let said = search(&home, json!({"query": "hit", "context": 11})).await;
    assert!(said.contains("`context` is 11"), "{said}");
}

#[tokio::test]
async fn an_empty_answer_says_how_much_was_searched() {
    let home = Home::new();
    home.write("a.txt", "x\n");
    home.write("b.txt", "x\n");
    home.write(".env", "needle\n");
    let said = search(&home, json!({"query": "needle"})).await;
    assert_eq!(
        said,
        "no matches for `needle` in 2 files searched\n\
         [1 file skipped as ignored or hidden; include_ignored shows them]\n"
    );
}

#[tokio::test]
async fn a_long_line_is_shown_around_its_hit() {
    let home = Home::new();
    let line = format!("{}needle{}", "é".repeat(5000), "ü".repeat(5000));
    home.write("min.js", format!("{line}\n"));
    let said = search(&home, json!({"query": "needle"})).await;
    let hit = said.lines().next().unwrap();
    assert!(
        hit.starts_with("min.js:1: [column 5001 of 10006] …éé") && hit.ends_with("üü…"),
        "{said}"
    );
    let (_, shown) = hit.split_once('…').unwrap();
    assert_eq!(shown.chars().count(), 301);
    home.write("min.js", format!("x\n{line}\n"));
    let said = search(&home, json!({"query": "^x", "context": 1})).await;
    assert!(
        said.contains("min.js-2- éé") && said.contains("… [10006 characters]"),
        "{said}"
    );
    // Long in bytes only.
    home.write("min.js", format!("{}x", "é".repeat(299)));
    assert!(search(&home, json!({"query": "x"})).await.contains("éx\n"));
}

#[tokio::test]
async fn a_line_can_not_pass_for_several() {
    let home = Home::new();
    home.write("a.txt", "needle\rb.txt:1: forged\x1b[2K\tend\n");
    let said = search(&home, json!({"query": "needle"})).await;
    assert!(
        said.starts_with("a.txt:1: needle\\rb.txt:1: forged\\u{1b}[2K\tend\n"),
        "{said}"
    );
}

#[tokio::test]
async fn binary_files_are_named_and_not_printed() {
    let home = Home::new();
    home.write("early.bin", b"\0\x01needle\n");
    home.write(
        "late.bin",
        [&b"needle\n"[..], &b"hay\n".repeat(50_000), b"\0"].concat(),
    );
    home.write("text", "needle\n");
    let said = search(&home, json!({"query": "needle"})).await;
    assert_eq!(
        said,
        "text:1: needle\n[1 match in 1 of 3 files searched]\n\
         [1 binary file matches, not shown: late.bin]\n\
         [1 binary file not searched as text: early.bin]\n"
    );
    // A file that is named is searched to its end.
    let said = search(&home, json!({"query": "needle", "path": "early.bin"})).await;
    assert!(
        said.contains("1 binary file matches, not shown: early.bin"),
        "{said}"
    );
    let said = search(&home, json!({"query": "absent", "path": "early.bin"})).await;
    assert!(said.contains("searched, no match: early.bin"), "{said}");
}

/// Case R04.
#[tokio::test]
async fn utf_16_is_searched_with_and_without_a_byte_order_mark() {
    let home = Home::new();
    let words = "hello\r\nwörld 中文\r\n";
    let wide = |order: fn(u16) -> [u8; 2]| words.encode_utf16().flat_map(order).collect::<Vec<_>>();
    home.write(
        "le.txt",
        [b"\xff\xfe".to_vec(), wide(u16::to_le_bytes)].concat(),
    );
    home.write(
        "be.txt",
        [b"\xfe\xff".to_vec(), wide(u16::to_be_bytes)].concat(),
    );
    home.write("bare.txt", wide(u16::to_le_bytes));
    home.write("utf8.txt", format!("\u{feff}{words}"));
    let said = search(&home, json!({"query": "wörld"})).await;
    for hit in [
        "le.txt:2: wörld 中文\n",
        "be.txt:2: wörld 中文\n",
        "bare.txt:2: wörld 中文\n",
        "utf8.txt:2: wörld",
    ] {
        assert!(said.contains(hit), "{said}");
    }
    let said = search(&home, json!({"query": "^hello$"})).await;
    assert!(said.contains("[4 matches in 4 of 4"), "{said}");
}

#[tokio::test]
async fn only_the_files_are_named_where_only_these_are_wanted() {
    let home = Home::new();
    home.write("a.txt", "needle\nneedle needle\n");
    home.write("b/c.txt", "needle\n".repeat(5000));
    home.write("d.txt", "hay\n");
    let only = json!({"query": "needle", "files_only": true});
    let said = search(&home, only.clone()).await;
    assert_eq!(
        said,
        "a.txt: 2\nb/c.txt: 5000\n[5002 matches in 2 of 3 files searched]\n"
    );
    let said = search(
        &home,
        json!({"query": "hay", "path": "d.txt", "files_only": true}),
    )
    .await;
    assert_eq!(said, "d.txt: 1\n[1 match in 1 of 1 file searched]\n");
    let both = json!({"query": "needle", "files_only": true, "context": 1});
    let said = search(&home, both).await;
    assert!(said.contains("Give one of them"), "{said}");
    for file in 0..1200 {
        home.write(format!("many/{file:04}.txt"), "needle\n");
    }
    let said = search(&home, only).await;
    assert_eq!(
        said.lines().filter(|line| !line.starts_with('[')).count(),
        1000
    );
    assert!(
        said.contains("[stopped at what a result holds: at least ")
            && said.contains("of 1203 files"),
        "{said}"
    );
}

#[tokio::test]
async fn text_of_one_byte_a_letter_is_searched_by_its_letters() {
    let home = Home::new();
    home.write("latin.txt", b"un caf\xe9 noir\nplain\n");
    home.write("utf8.txt", "un café noir\n");
    for query in ["café", "caf. ", r"caf\w\b"] {
        let said = search(&home, json!({"query": query})).await;
        assert!(
            said.starts_with("latin.txt:1: un café noir\nutf8.txt:1: un café noir\n"),
            "{query}: {said}"
        );
    }
    // Bytes that are damaged are not another encoding.
    let damaged = ["Übergrößenträger ".as_bytes(), b"\xff caf\xc3\xa9\n"].concat();
    home.write("damaged.txt", damaged);
    let said = search(&home, json!({"query": "ger .+ café"})).await;
    assert!(!said.contains("damaged.txt:"), "{said}");
    let said = search(&home, json!({"query": "café", "path": "damaged.txt"})).await;
    assert!(said.contains("Übergrößenträger \u{fffd} café"), "{said}");
}

#[tokio::test]
async fn a_glob_that_fits_no_file_and_a_match_that_is_not_shown_are_said() {
    let home = Home::new();
    home.write("a.txt", "needle\n");
    let said = search(&home, json!({"query": "needle", "glob": "*.rs"})).await;
    assert!(
        said.contains("no file that is not skipped fits `glob` `*.rs`"),
        "{said}"
    );
    home.write("b.bin", b"needle\n\0");
    let said = search(&home, json!({"query": "needle", "path": "b.bin"})).await;
    assert!(
        said.starts_with("no matches in text for `needle`")
            && said.contains("1 binary file matches"),
        "{said}"
    );
}
