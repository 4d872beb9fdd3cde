//! Failures of file tools that have been seen in the field, each with its input as it was. Cases of
//! `search` are beside its other tests.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::Duration;

use castellan_core::tool::SessionView;
use castellan_testkit::Home;
use castellan_tools::diff_file::DiffFile;
use castellan_tools::edit_file::EditFile;
use castellan_tools::file::Closed;
use castellan_tools::search::Search;
use castellan_tools::write_file::WriteFile;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::drive::{after, call, call_with, reader, text, unprivileged, view};

async fn run(home: &Home, tool: &str, arguments: Value) -> String {
    run_in(&home.workspace(), tool, arguments).await
}

/// Runs a tool; `edit` reads the file first.
async fn run_in(folder: &Path, tool: &str, arguments: Value) -> String {
    let view = view(folder);
    let closed = Closed::default();
    let report = match tool {
        "read" => call(reader(closed), arguments, &view).await,
        "write" => call(WriteFile::new(closed), arguments, &view).await,
        "diff" => call(DiffFile::new(closed), arguments, &view).await,
        "search" => call(Search::new(closed), arguments, &view).await,
        _ => {
            let view = read(folder, &arguments["path"]).await;
            call(EditFile::new(closed), arguments, &view).await
        }
    };
    text(report)
}

async fn read(folder: &Path, path: &Value) -> SessionView {
    let view = view(folder);
    let tool = reader(Closed::default());
    let report = call(tool, json!({"path": path}), &view).await;
    after(&view, &report)
}

async fn edit(home: &Home, path: &str, old: &str, new: &str, all: bool) -> String {
    let mut arguments = json!({"path": path, "old_string": old, "new_string": new});
    if all {
        arguments["replace_all"] = Value::from(true);
    }
    run(home, "edit", arguments).await
}

fn bytes(home: &Home, path: &str) -> Vec<u8> {
    std::fs::read(home.workspace().join(path)).unwrap()
}

/// Case E01.
#[tokio::test]
async fn a_text_over_several_lines_is_found_in_a_file_with_crlf() {
    let home = Home::new();
    for all in [false, true] {
        home.write("a.txt", "one\r\ntwo\r\nthree\r\n");
        edit(&home, "a.txt", "one\ntwo", "ONE\nTWO", all).await;
        assert_eq!(bytes(&home, "a.txt"), b"ONE\r\nTWO\r\nthree\r\n");
        home.write("mixed.txt", "a\r\nb\nc\r\n");
        edit(&home, "mixed.txt", "b", "B", all).await;
        assert_eq!(bytes(&home, "mixed.txt"), b"a\r\nB\nc\r\n");
    }
}

/// Case E02.
#[tokio::test]
async fn a_byte_order_mark_is_not_seen_and_not_lost() {
    let home = Home::new();
    home.write("b.txt", b"\xef\xbb\xbfalpha\nbeta\n");
    let shown = run(&home, "read", json!({"path": "b.txt"})).await;
    assert_eq!(shown, "     1\talpha\n     2\tbeta\n");
    edit(&home, "b.txt", "alpha", "ALPHA", false).await;
    assert_eq!(bytes(&home, "b.txt"), b"\xef\xbb\xbfALPHA\nbeta\n");
    for content in ["new\n", "\u{feff}newer\n"] {
        run(&home, "write", json!({"path": "b.txt", "content": content})).await;
        let wanted = [
            b"\xef\xbb\xbf",
            content.trim_start_matches('\u{feff}').as_bytes(),
        ]
        .concat();
        assert_eq!(bytes(&home, "b.txt"), wanted);
    }
}

/// Case E03.
#[tokio::test]
async fn bytes_of_another_encoding_survive_an_edit_beside_them() {
    let home = Home::new();
    for end in ["\n", "\r\n"] {
        for word in [&b"caf\xe9"[..], b"\xd6\xd0\xce\xc4"] {
            let with = |n: &str| {
                [
                    format!("n = {n}{end}# ").as_bytes(),
                    word,
                    format!(" bar{end}").as_bytes(),
                ]
                .concat()
            };
            home.write("c.txt", with("1"));
            edit(&home, "c.txt", "n = 1", "n = 2", false).await;
            assert_eq!(bytes(&home, "c.txt"), with("2"));
        }
    }
}

/// Case E05.
#[tokio::test]
async fn new_text_is_written_as_it_is_sent() {
    let home = Home::new();
    let new = r#"log("$& $0 $1 $$ ${name} \1");"#;
    for all in [false, true] {
        home.write("d.js", "log(\"x\");");
        edit(&home, "d.js", "log(\"x\");", new, all).await;
        assert_eq!(home.read("d.js").as_deref(), Some(new));
    }
}

/// Case E07.
#[tokio::test]
async fn the_end_of_a_file_stays_what_it_was() {
    let home = Home::new();
    for (before, old, new, wanted) in [
        ("a\nb\nc", "a", "A", "A\nb\nc"),
        ("x\ny\n\n", "x", "X", "X\ny\n\n"),
    ] {
        home.write("e.txt", before);
        edit(&home, "e.txt", old, new, false).await;
        assert_eq!(home.read("e.txt").as_deref(), Some(wanted));
        run(&home, "write", json!({"path": "e.txt", "content": before})).await;
        assert_eq!(home.read("e.txt").as_deref(), Some(before));
        let compared = json!({"path_a": "e.txt", "content_b": wanted});
        let said = run(&home, "diff", compared).await;
        assert!(said.contains("[+1 -1 lines]"), "{said}");
    }
}

/// Case E08.
#[tokio::test]
async fn links_stay_and_what_they_lead_to_is_changed_and_judged() {
    let home = Home::new();
    let folder = home.workspace();
    home.write("real.md", "world\n");
    std::fs::write(home.root().join("outside.md"), "world\n").unwrap();
    for (link, target) in [
        ("l1", "real.md"),
        ("l2", "l1"),
        ("loop", "loop"),
        ("missing", "absent"),
        ("out", "../outside.md"),
    ] {
        symlink(target, folder.join(link)).unwrap();
    }
    edit(&home, "l2", "world", "there", false).await;
    assert_eq!(home.read("real.md").as_deref(), Some("there\n"));
    for (path, part) in [
        ("loop", "is a loop of links"),
        ("missing", "does not exist"),
    ] {
        let said = edit(&home, path, "world", "there", false).await;
        assert!(said.contains(part), "{said}");
    }
    for link in ["l1", "l2", "loop", "missing", "out"] {
        assert!(folder.join(link).is_symlink(), "{link}");
    }
    let mut judged = Vec::new();
    let view = read(&folder, &json!("out")).await;
    let arguments = json!({"path": "out", "old_string": "world", "new_string": "there"});
    let tool = EditFile::new(Closed::default());
    call_with(tool, arguments, &view, |inspection| {
        judged.clone_from(&inspection.paths);
    })
    .await;
    let outside = home.root().canonicalize().unwrap().join("outside.md");
    assert_eq!(judged, [outside]);
}

/// Case E09; the rest of it is in `faults.rs`.
#[tokio::test]
async fn a_mode_stays_and_a_read_only_file_is_not_written() {
    let home = Home::new();
    let path = home.workspace().join("run.sh");
    for mode in [0o755, 0o600, 0o444] {
        for tool in ["edit", "write"] {
            home.write("run.sh", "world\n");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let arguments = match tool {
                "edit" => json!({"path": "run.sh", "old_string": "world", "new_string": "there"}),
                _ => json!({"path": "run.sh", "content": "there\n"}),
            };
            let said = run(&home, tool, arguments).await;
            let (wanted, refused) = if mode == 0o444 {
                ("world\n", true)
            } else {
                ("there\n", false)
            };
            assert_eq!(said.contains("read-only (mode 0444)"), refused, "{said}");
            assert_eq!(home.read("run.sh").as_deref(), Some(wanted));
            let now = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(now & 0o7777, mode);
            std::fs::remove_file(&path).unwrap();
        }
    }
    assert_eq!(std::fs::read_dir(home.workspace()).unwrap().count(), 0);
}

/// Case E11.
#[tokio::test]
async fn blanks_are_overlooked_only_at_the_ends_of_lines_and_only_where_that_is_certain() {
    let home = Home::new();
    let scopes = "f(){\n    ok();\n}\ng(){\n        ok();\n}";
    home.write("s.js", scopes);
    let said = edit(&home, "s.js", "            ok();", "no();", false).await;
    assert!(said.contains("on lines 2, 5"), "{said}");
    assert_eq!(home.read("s.js").as_deref(), Some(scopes));
    home.write("t.mk", "all:\n\tone  \n\ttwo\n    three \n");
    let said = edit(
        &home,
        "t.mk",
        "    one\n    two",
        "    one\n    2\n        3",
        false,
    )
    .await;
    assert!(said.contains("re-indented"), "{said}");
    let wanted = "all:\n\tone  \n\t2\n\t\t3\n    three \n";
    assert_eq!(home.read("t.mk").as_deref(), Some(wanted));
    home.write("p.py", "def f():\n    x = 1\n");
    let said = edit(&home, "p.py", "    x  =  1", "    x = 2", false).await;
    let nearest = "line 2. Copy the text from the file as read_file shows it, without line \
                   numbers:\n     2\t    x = 1\n";
    assert!(said.ends_with(nearest), "{said}");
    assert_eq!(home.read("p.py").as_deref(), Some("def f():\n    x = 1\n"));
}

/// Case R01.
#[tokio::test]
async fn every_tool_refuses_what_is_no_regular_file_by_its_kind() {
    let home = Home::new();
    let folder = home.workspace();
    nix::unistd::mkfifo(&folder.join("ff"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(folder.join("sock")).unwrap();
    let begun = Instant::now();
    for (number, (target, kind)) in [
        ("ff", "a named pipe (FIFO)"),
        ("sock", "a socket"),
        ("/dev/zero", "a character device"),
        // Where the tests run without a terminal, a pipe or /dev/null.
        ("/dev/stdin", "not a regular file"),
        ("/proc/kmsg", ""),
    ]
    .into_iter()
    .enumerate()
    {
        let link = format!("link-{number}");
        symlink(target, folder.join(&link)).unwrap();
        for path in [target, &link] {
            for (tool, arguments) in [
                ("read", json!({"path": path})),
                ("search", json!({"path": path, "query": "x"})),
                (
                    "edit",
                    json!({"path": path, "old_string": "x", "new_string": "y"}),
                ),
                ("diff", json!({"path_a": path, "content_b": "x"})),
                ("write", json!({"path": path, "content": "x"})),
            ] {
                let said = run(&home, tool, arguments).await;
                assert!(
                    said.starts_with("Error: ") && said.contains(kind),
                    "{tool} {path}: {said}"
                );
            }
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(5));
}

/// Case R02.
#[tokio::test]
async fn a_huge_line_is_clipped_with_its_length_and_hides_nothing_behind_it() {
    let home = Home::new();
    let huge = "x".repeat(5_000_000);
    home.write("m.js", &huge);
    home.write("three.js", format!("first\n{huge}\nlast\n"));
    for arguments in [
        json!({"path": "m.js"}),
        json!({"path": "m.js", "offset": 1}),
        json!({"path": "three.js"}),
    ] {
        let shown = run(&home, "read", arguments.clone()).await;
        assert!(shown.len() < 10_000 && shown.contains("5000000"), "{shown}");
        assert!(!shown.contains("continue with"), "{shown}");
        if arguments["path"] == "three.js" {
            assert!(shown.contains("     3\tlast\n"), "{shown}");
        }
    }
}

/// Case R04; what search makes of it is beside its other tests.
#[tokio::test]
async fn utf_16_is_read_as_text_and_stays_utf_16_when_it_is_edited() {
    let home = Home::new();
    let wide = |text: &str, order: fn(u16) -> [u8; 2]| -> Vec<u8> {
        text.encode_utf16().flat_map(order).collect()
    };
    let text = "hello\r\nwörld 中文";
    for (mark, order, name) in [
        (
            &b"\xff\xfe"[..],
            u16::to_le_bytes as fn(u16) -> [u8; 2],
            "little",
        ),
        (b"\xfe\xff", u16::to_be_bytes, "big"),
        (b"", u16::to_le_bytes, "little"),
    ] {
        home.write("w.txt", [mark, &wide(text, order)].concat());
        let shown = run(&home, "read", json!({"path": "w.txt"})).await;
        assert!(
            shown.starts_with("     1\thello\n     2\twörld 中文\n"),
            "{shown}"
        );
        assert!(
            shown.contains(&format!("UTF-16 ({name} endian)")),
            "{shown}"
        );
        edit(&home, "w.txt", "hello", "bye", false).await;
        let wanted = [mark, &wide(&text.replace("hello", "bye"), order)].concat();
        assert_eq!(bytes(&home, "w.txt"), wanted);
    }
}

/// Case R08.
#[tokio::test]
async fn numbers_of_16_bits_are_a_binary_file_for_every_tool() {
    let home = Home::new();
    let random = [1, 2, 3, 7, 200, 255];
    let pair = |number: usize| {
        [
            if number % 5 == 4 {
                b'k'
            } else {
                random[number * 7 % 6]
            },
            0,
        ]
    };
    let data: Vec<u8> = (0..20_000).flat_map(pair).collect();
    home.write("small", &data);
    home.write("large", data.repeat(1000));
    for path in ["small", "large"] {
        for (tool, arguments) in [
            ("read", json!({"path": path})),
            ("search", json!({"path": path, "query": "needle"})),
        ] {
            let said = run(&home, tool, arguments).await;
            assert!(said.contains("binary file") && said.len() < 300, "{said}");
        }
    }
}

/// Case R09.
#[test]
fn each_odd_read_has_its_own_line() {
    let home = Home::new();
    home.write("empty", "");
    home.write("three", "1\n2\n3\n");
    home.write("shut", "secret\n");
    let pairs: Vec<String> = (0..7000).map(|n| format!("\"key {n}\": {n}")).collect();
    home.write("one-level.json", format!("{{{}}}", pairs.join(",\n")));
    home.write("one-line.json", format!("{{{}}}", pairs.join(",")));
    std::fs::create_dir(home.workspace().join("folder")).unwrap();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(home.root(), 0o755);
    mode(&home.workspace().join("shut"), 0o000);
    let runtime = unprivileged();
    let mut said = Vec::new();
    for (arguments, part) in [
        (json!({"path": "empty"}), "is empty"),
        (json!({"path": "three", "offset": 9}), "has 3 lines"),
        (json!({"path": "three", "limit": 0}), "`limit` is 0"),
        (json!({"path": "three", "offset": -1}), "`offset` is -1"),
        (json!({"path": "folder"}), "`ls` lists it"),
        (json!({"path": "shut"}), "permission denied"),
        (json!({"path": "one-line.json"}), "bytes"),
        (
            json!({"path": "one-level.json", "limit": 100}),
            "continue with offset 101",
        ),
    ] {
        let folder = home.workspace();
        let asked = async move { run_in(&folder, "read", arguments).await };
        let shown = runtime.block_on(async { runtime.spawn(asked).await.unwrap() });
        assert!(
            shown.contains(part) && shown.len() < 10_000,
            "{part}: {shown}"
        );
        said.push(shown);
    }
    let different: std::collections::BTreeSet<_> = said.iter().collect();
    assert_eq!(different.len(), said.len());
    mode(&home.workspace().join("shut"), 0o644);
}
