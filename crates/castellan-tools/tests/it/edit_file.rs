//! `edit_file`. What counts is the bytes on disk.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use castellan_core::EffectStatus;
use castellan_core::tool::{Preview, SessionView};
use castellan_testkit::Home;
use castellan_tools::edit_file::EditFile;
use castellan_tools::file::Closed;
use serde_json::{Value, json};

use crate::drive::{after, call, call_with, reader, text, view};

fn tool() -> EditFile {
    EditFile::new(Closed::default())
}

/// The view of a session that has read the file.
async fn read(home: &Home, path: &str) -> SessionView {
    let view = view(&home.workspace());
    let read = call(reader(Closed::default()), json!({"path": path}), &view).await;
    after(&view, &read)
}

/// Reads the file, then edits it; the answer.
async fn edit(home: &Home, arguments: Value) -> String {
    let view = read(home, arguments["path"].as_str().unwrap()).await;
    text(call(tool(), arguments, &view).await)
}

fn bytes(home: &Home, path: &str) -> Vec<u8> {
    std::fs::read(home.workspace().join(path)).unwrap()
}

/// Edits a file with these bytes and gives the bytes afterwards, and the answer.
async fn edited(before: &[u8], old: &str, new: &str) -> (Vec<u8>, String) {
    let home = Home::new();
    home.write("f", before);
    let said = edit(
        &home,
        json!({"path": "f", "old_string": old, "new_string": new}),
    )
    .await;
    (bytes(&home, "f"), said)
}

/// The bytes before, old_string, new_string, the bytes afterwards.
type Case = (&'static [u8], &'static str, &'static str, &'static [u8]);

/// Cases E01, E02, E03, E05, E07, R04 and their kind.
const CASES: &[Case] = &[
    // CRLF, also over several lines; added lines too.
    (
        b"one\r\ntwo\r\nthree\r\n",
        "one\ntwo",
        "ONE\nTWO",
        b"ONE\r\nTWO\r\nthree\r\n",
    ),
    (
        b"one\r\ntwo\r\n",
        "one\n",
        "1\n2\n3\n",
        b"1\r\n2\r\n3\r\ntwo\r\n",
    ),
    (b"one\r\ntwo\r\n", "one\r\ntwo", "1\r\n2", b"1\r\n2\r\n"),
    // Mixed.
    (b"a\r\nb\nc\r\n", "b", "B", b"a\r\nB\nc\r\n"),
    (b"a\r\nb\nc\r\n", "a\nb\nc\n", "A\nb\nC\n", b"A\r\nb\nC\r\n"),
    // Byte order mark.
    (
        b"\xef\xbb\xbfalpha\nbeta\n",
        "alpha",
        "ALPHA",
        b"\xef\xbb\xbfALPHA\nbeta\n",
    ),
    (
        b"\xef\xbb\xbfa\r\nb",
        "\u{feff}a\nb",
        "\u{feff}b",
        b"\xef\xbb\xbfb",
    ),
    // Latin-1, GBK, CRLF with both; and text in the encoding itself.
    (
        b"n = 1\n# caf\xe9 bar\n",
        "n = 1",
        "n = 2",
        b"n = 2\n# caf\xe9 bar\n",
    ),
    (
        b"n = 1\r\n# \xd6\xd0\xce\xc4\r\n",
        "n = 1",
        "n = 2",
        b"n = 2\r\n# \xd6\xd0\xce\xc4\r\n",
    ),
    (b"caf\xe9 \x93x\x94\n", "café “x”", "thé", b"th\xe9\n"),
    (
        "日本\u{301}語 文字 x".as_bytes(),
        "x",
        "ü",
        "日本\u{301}語 文字 ü".as_bytes(),
    ),
    (
        b"\xe4\xb8\xad\xe6\x96\x87\xff a\n",
        "a",
        "b",
        b"\xe4\xb8\xad\xe6\x96\x87\xff b\n",
    ),
    // The end of the file.
    (b"a\nb\nc", "a", "A", b"A\nb\nc"),
    (b"x\ny\n\n", "x", "X", b"X\ny\n\n"),
    (b"a\nb\n", "b\n", "b", b"a\nb"),
    (b"a\nb", "b", "b\n", b"a\nb\n"),
    // Literal text.
    (
        b"log(\"x\");",
        "log(\"x\");",
        r#"log("$& $0 $1 $$ ${name} \1");"#,
        br#"log("$& $0 $1 $$ ${name} \1");"#,
    ),
    // UTF-16 with and without mark.
    (
        b"\xff\xfeh\0i\0\r\0\n\0",
        "hi\n",
        "ho\nw\n",
        b"\xff\xfeh\0o\0\r\0\n\0w\0\r\0\n\0",
    ),
    (
        b"\xfe\xff\0h\0i\xd8\x3d",
        "hi",
        "\u{4e2d}",
        b"\xfe\xff\x4e\x2d\xd8\x3d",
    ),
    (b"h\0e\0l\0l\0o\0\n\0", "hello", "w", b"w\0\n\0"),
    // Deletion.
    (b"a\r\nb\r\nc\r\n", "b\n", "", b"a\r\nc\r\n"),
];

#[tokio::test]
async fn only_the_bytes_of_the_place_change_whatever_surrounds_it() {
    for (before, old, new, wanted) in CASES {
        let (after, said) = edited(before, old, new).await;
        let shown = (String::from_utf8_lossy(before), old, &said);
        assert_eq!(after, *wanted, "{shown:?}");
    }
}

/// Cases E01, E05.
#[tokio::test]
async fn every_occurrence_is_replaced_with_its_own_line_ends() {
    let home = Home::new();
    home.write("f", b"one\r\ntwo\r\n-\none\ntwo\r\n");
    let arguments = json!({"path": "f", "old_string": "one\ntwo", "new_string": "$&\n\\1", "replace_all": true});
    let said = edit(&home, arguments).await;
    assert_eq!(bytes(&home, "f"), b"$&\r\n\\1\r\n-\n$&\n\\1\r\n");
    assert!(said.contains("(2 places, +4 -4 lines)"), "{said}");
}

/// Case E03.
#[tokio::test]
async fn text_that_the_encoding_can_not_hold_is_refused_and_the_file_untouched() {
    let latin = b"n = 1\n# caf\xe9\n";
    let (after, said) = edited(latin, "n = 1", "n = 中").await;
    assert!(
        after == latin && said.contains("'中'") && said.contains("single-byte"),
        "{said}"
    );
    let damaged = b"\xe4\xb8\xad\xe6\x96\x87\xff a\n";
    let (after, said) = edited(damaged, "\u{fffd} a", "b").await;
    assert!(
        after == damaged && said.contains("not valid UTF-8"),
        "{said}"
    );
}

#[tokio::test]
async fn the_answer_and_the_preview_are_the_diff() {
    let home = Home::new();
    let content: String = (1..=9).map(|n| format!("line {n}\n")).collect();
    home.write("f", content);
    let view = read(&home, "f").await;
    let arguments = json!({"path": "f", "old_string": "line 5\n", "new_string": "five\n5\n"});
    let mut previewed = String::new();
    let report = call_with(tool(), arguments, &view, |inspection| {
        let Preview::Diff {
            unified,
            added,
            removed,
            before,
            ..
        } = &inspection.preview
        else {
            unreachable!("an edit previews a diff")
        };
        assert_eq!((*added, *removed, before.is_some()), (2, 1, true));
        assert_eq!(
            (inspection.label.as_str(), inspection.header.as_str()),
            ("edit_file", "edit f")
        );
        previewed.clone_from(unified);
    })
    .await;
    let wanted = "@@ -2,7 +2,8 @@\n line 2\n line 3\n line 4\n-line 5\n+five\n+5\n line 6\n line 7\n line 8\n";
    assert_eq!(report.outcome.effect(), EffectStatus::Committed);
    assert!(text(report).ends_with(wanted));
    assert_eq!(previewed, wanted);
}

#[tokio::test]
async fn several_places_are_listed_and_near_line_takes_the_nearest() {
    let home = Home::new();
    let content = "x\n-\n-\nx\n-\n-\n-\nx\n";
    home.write("f", content);
    let with = |more: Value| {
        let mut arguments = json!({"path": "f", "old_string": "x\n", "new_string": "y\n"});
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        arguments
    };
    let said = edit(&home, with(json!({}))).await;
    assert!(said.contains("3 times, on lines 1, 4, 8"), "{said}");
    let said = edit(&home, with(json!({"near_line": 6}))).await;
    assert!(said.contains("lines 4 and 8 are equally near"), "{said}");
    for more in [
        json!({"near_line": 1, "replace_all": true}),
        json!({"near_line": 0}),
        json!({"edits": [{"old_string": "-", "new_string": "+"}]}),
    ] {
        let said = edit(&home, with(more.clone())).await;
        assert!(said.starts_with("Error"), "{more}: {said}");
    }
    assert_eq!(home.read("f").as_deref(), Some(content));
    edit(&home, with(json!({"near_line": 5}))).await;
    assert_eq!(home.read("f").as_deref(), Some("x\n-\n-\ny\n-\n-\n-\nx\n"));
    home.write("many", "x\n".repeat(100));
    let said = edit(
        &home,
        json!({"path": "many", "old_string": "x", "new_string": "y"}),
    )
    .await;
    assert!(
        said.contains("100 times") && said.contains("19, 20, …") && !said.contains("21"),
        "{said}"
    );
}

#[tokio::test]
async fn a_text_that_is_not_there_is_answered_with_the_nearest() {
    let python = b"def f():\n    x = 1\n    return x\n";
    let (after, said) = edited(python, "    x  =  1", "    x = 2").await;
    assert!(
        after == python
            && said.contains("nearest text is at line 2")
            && said.contains("     2\t    x = 1"),
        "{said}"
    );
    let (after, said) = edited(python, "def f():\n    y = 1\n    return x\n", "").await;
    assert!(
        after == python && said.contains("line 2 of old_string is the first"),
        "{said}"
    );
    let (_, said) = edited(python, "nothing like this at all, 12345", "").await;
    assert!(said.contains("nor anything like it"), "{said}");
    let quotes = "say(“hi”)\n".as_bytes();
    let (after, said) = edited(quotes, "say(\"hi\")", "x").await;
    assert!(after == quotes && said.starts_with("Error"), "{said}");
}

/// Case E11.
#[tokio::test]
async fn blanks_are_overlooked_only_where_the_place_is_certain() {
    let scopes = b"f(){\n    ok();\n}\ng(){\n        ok();\n}";
    let (after, said) = edited(scopes, "            ok();", "no();").await;
    assert!(after == scopes && said.contains("on lines 2, 5"), "{said}");
    let tabs = b"f:\n\tif x:\n\t\ty\n  z  \r\n";
    let (after, said) = edited(
        tabs,
        "    if x:\n        y\n",
        "    if x:\n        y\n        w\n",
    )
    .await;
    assert_eq!(after, b"f:\n\tif x:\n\t\ty\n\t\tw\n  z  \r\n");
    assert!(
        said.contains("lines 2 to 3 matched with other indentation"),
        "{said}"
    );
    let (after, said) = edited(b"a  \nb\n  c  \n", "a\nb", "A\nB").await;
    assert_eq!(after, b"A\nB\n  c  \n");
    assert!(said.contains("blanks at line ends"), "{said}");
}

#[tokio::test]
async fn several_edits_are_all_made_or_none() {
    let home = Home::new();
    home.write("f", "one\ntwo\nthree\n");
    let edits = |edits: Value| json!({"path": "f", "edits": edits});
    for (bad, part) in [
        (
            json!([{"old_string": "one\ntwo", "new_string": "1"}, {"old_string": "two", "new_string": "2"}]),
            "edits[0] and edits[1] change the same text",
        ),
        (
            json!([{"old_string": "one", "new_string": "1"}, {"old_string": "four", "new_string": "4"}]),
            "edits[1]: old_string is not in the file",
        ),
        (json!([]), "neither"),
        (
            json!([{"old_string": "", "new_string": "4"}]),
            "old_string is empty",
        ),
    ] {
        let said = edit(&home, edits(bad)).await;
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(home.read("f").as_deref(), Some("one\ntwo\nthree\n"));
    // They are found in the file as it is: the second doesn't see what the first has made.
    let good = json!([{"old_string": "three", "new_string": "one"}, {"old_string": "one", "new_string": "two"}, {"old_string": "\ntwo", "new_string": ""}]);
    let said = edit(&home, edits(good)).await;
    assert!(said.contains("3 places"), "{said}");
    assert_eq!(home.read("f").as_deref(), Some("two\none\n"));
}

#[tokio::test]
async fn incomplete_and_empty_requests_are_refused() {
    for (arguments, part) in [
        (
            json!({"path": "f", "old_string": "a"}),
            "new_string is missing",
        ),
        (json!({"path": "f", "new_string": "a"}), "neither"),
        (
            json!({"path": "f", "old_string": "", "new_string": "x"}),
            "old_string is empty",
        ),
        (
            json!({"path": "f", "old_string": "a", "new_string": "a"}),
            "are the same",
        ),
        (
            json!({"path": "absent", "old_string": "a", "new_string": "b"}),
            "does not exist",
        ),
        (
            json!({"path": ".", "old_string": "a", "new_string": "b"}),
            "is a folder",
        ),
        (
            json!({"path": "binary", "old_string": "a", "new_string": "b"}),
            "is a binary file",
        ),
    ] {
        let home = Home::new();
        home.write("f", "a\n");
        home.write("binary", b"a\0\x01\x02b");
        let said = edit(&home, arguments.clone()).await;
        assert!(
            said.starts_with("Error") && said.contains(part),
            "{arguments}: {said}"
        );
        assert_eq!(home.read("f").as_deref(), Some("a\n"));
    }
}

#[tokio::test]
async fn a_file_must_have_been_read_and_be_what_was_read() {
    let home = Home::new();
    home.write("f", "a\n");
    let arguments = json!({"path": "f", "old_string": "a", "new_string": "b"});
    let said = text(call(tool(), arguments.clone(), &view(&home.workspace())).await);
    assert!(said.contains("has not read"), "{said}");
    let known = read(&home, "f").await;
    home.write("f", "another\n");
    let said = text(call(tool(), arguments.clone(), &known).await);
    assert!(
        said.contains("changed since this session last read it"),
        "{said}"
    );
    let known = read(&home, "f").await;
    let changed = call_with(tool(), arguments.clone(), &known, |_| {
        home.write("f", "a third\n");
    });
    let said = text(changed.await);
    assert!(said.contains("changed while the call waited"), "{said}");
    assert_eq!(home.read("f").as_deref(), Some("a third\n"));
    // Its own edit counts as known.
    let known = read(&home, "f").await;
    let report = call(tool(), arguments, &known).await;
    let known = after(&known, &report);
    let again = json!({"path": "f", "old_string": "b third", "new_string": "c"});
    call(tool(), again, &known).await;
    assert_eq!(home.read("f").as_deref(), Some("c\n"));
}

/// Cases E08, E09.
#[tokio::test]
async fn links_modes_and_hard_links_stay() {
    let home = Home::new();
    let folder = home.workspace();
    home.write("real.md", "world\n");
    symlink("real.md", folder.join("l1")).unwrap();
    symlink("l1", folder.join("l2")).unwrap();
    symlink("loop", folder.join("loop")).unwrap();
    symlink("absent", folder.join("dangling")).unwrap();
    let change = |path: &str| json!({"path": path, "old_string": "world", "new_string": "there"});
    edit(&home, change("l2")).await;
    assert_eq!(home.read("real.md").as_deref(), Some("there\n"));
    assert!(folder.join("l1").is_symlink() && folder.join("l2").is_symlink());
    for (path, part) in [("loop", "loop of links"), ("dangling", "does not exist")] {
        let said = edit(&home, change(path)).await;
        assert!(said.contains(part), "{said}");
    }
    for mode in [0o755, 0o600, 0o444] {
        home.write("file", "world\n");
        let path = folder.join("file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let said = edit(&home, change("file")).await;
        let now = std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        let read_only = mode == 0o444;
        assert_eq!(
            (now, said.contains("read-only (mode 0444)")),
            (mode, read_only),
            "{said}"
        );
        let wanted = if read_only { "world\n" } else { "there\n" };
        assert_eq!(home.read("file").as_deref(), Some(wanted));
        std::fs::remove_file(path).unwrap();
    }
    home.write("one", "world\n");
    std::fs::hard_link(folder.join("one"), folder.join("two")).unwrap();
    let inode = std::fs::metadata(folder.join("two")).unwrap().ino();
    edit(&home, change("one")).await;
    assert_eq!(home.read("two").as_deref(), Some("there\n"));
    assert_eq!(std::fs::metadata(folder.join("one")).unwrap().ino(), inode);
    let left = std::fs::read_dir(&folder).unwrap().flatten();
    let hidden = left.filter(|entry| entry.file_name().to_string_lossy().starts_with('.'));
    assert_eq!(hidden.count(), 0);
}

#[tokio::test]
async fn a_change_in_a_large_file_is_made_and_shown_without_its_rest() {
    let home = Home::new();
    let line = "some text that stands on every line of it\n";
    let mut content = line.repeat(250_000);
    content.push_str("the end");
    home.write("big", &content);
    let said = edit(
        &home,
        json!({"path": "big", "old_string": "the end", "new_string": "an end"}),
    )
    .await;
    assert!(
        said.len() < 2000 && said.contains("@@ -249998,4 +249998,4 @@"),
        "{said}"
    );
    assert_eq!(
        home.read("big").unwrap(),
        content.replace("the end", "an end")
    );
    let said = edit(
        &home,
        json!({"path": "big", "old_string": "text", "new_string": "TEXT", "replace_all": true}),
    )
    .await;
    assert!(
        said.contains("250000 places, +250000 -250000 lines") && said.len() < 70_000,
        "{}",
        said.len()
    );
    assert_eq!(
        home.read("big").unwrap(),
        content.replace("the end", "an end").replace("text", "TEXT")
    );
}

/// It is known by its identity, and what was read of it is kept while the call waits.
#[tokio::test]
async fn a_large_file_that_changes_while_the_call_waits_is_left_as_it_is() {
    let home = Home::new();
    let content = "a line\n".repeat(1_500_000) + "the end\r\n";
    home.write("big", &content);
    std::fs::hard_link(
        home.workspace().join("big"),
        home.workspace().join("other name"),
    )
    .unwrap();
    let arguments = json!({"path": "big", "old_string": "the end", "new_string": "an end"});
    let view = read(&home, "big").await;
    let changed = content.replace("the end", "nothing");
    let between = |_: &_| {
        home.write("big", &changed);
    };
    let report = call_with(tool(), arguments.clone(), &view, between).await;
    assert!(text(report).contains("changed while the call waited"));
    assert_eq!(home.read("big").unwrap(), changed);

    home.write("big", &content);
    let report = call(tool(), arguments, &read(&home, "big").await).await;
    let view = after(&view, &report);
    assert_eq!(report.outcome.effect(), EffectStatus::Committed);
    assert_eq!(
        home.read("other name").unwrap(),
        content.replace("the end", "an end")
    );
    // Its own write is known.
    let arguments = json!({"path": "big", "old_string": "an end", "new_string": "The End"});
    let report = call(tool(), arguments, &view).await;
    assert!(text(report).starts_with("edited"));
}
