//! Settings files that can't be read, must not be written, change meanwhile, or are unusual otherwise.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Stdio;

use castellan_testkit::Home;

use super::cases::{CASES, Case};
use super::{init, kept, mode, put, told, tree};
use crate::program::{PROGRAM, Run};
use crate::terminal::Terminal;

/// A client, what is in its file, and what is said of it.
const UNREADABLE: [(&str, &[u8], &str); 18] = [
    (
        "claude-code",
        b"{\n  \"a\": 1,\n  \"b\" 2\n}\n",
        "line 3, column 7: ",
    ),
    (
        "claude-code",
        b"{\n  // no\n}\n",
        "line 2, column 3: comments",
    ),
    (
        "claude-code",
        b"{\"a\": 1,}",
        "line 1, column 8: trailing commas",
    ),
    (
        "claude-desktop",
        b"{\"a\": 1",
        "line 1, column 1: unterminated object",
    ),
    (
        "claude-desktop",
        b"[1]",
        "line 1, column 1: it holds a list, not an object",
    ),
    (
        "claude-desktop",
        b"null",
        "line 1, column 1: it holds null, not an object",
    ),
    (
        "claude-code",
        b"{\n  \"a\": \"\x01\"\n}",
        "line 2, column 8: control character",
    ),
    ("gemini", b"{\n  \"a\": 1, // fine\n}\n", "trailing commas"),
    ("cursor", b"{\"a\": 1 \"b\": 2}", "line 1, column "),
    ("cursor", b"{a: 1}", "line 1, column 2: "),
    (
        "zed",
        b"{\"context_servers\": []}",
        "column 21: `context_servers` is a list, not an object",
    ),
    (
        "vscode",
        b"{\"servers\": {},\n \"servers\": {}}",
        "line 2, column 2: `servers` is there for the second time",
    ),
    (
        "vscode",
        b"{\"servers\": {\n \"castellan\": 1,\n \"\\u0063astellan\": 2}}",
        "line 3, column 2: `castellan` is there for the second time",
    ),
    ("vscode", b"\xff\xfe{\0}\0", "UTF-16"),
    ("vscode", b"{\"a\": \"\xe4\"}", "nothing was changed"),
    (
        "codex",
        b"model = \"x\"\nmodel = \"y\"\n",
        "line 2, column 1: duplicate key",
    ),
    ("codex", b"[a]\nb = \n", "line 2, column 5: "),
    (
        "codex",
        b"mcp_servers = 7\n",
        "line 1, column 15: `mcp_servers` is a number, not a table",
    ),
];

#[test]
fn a_file_that_its_client_could_not_read_is_not_touched_and_the_place_is_named() {
    for (client, content, said) in UNREADABLE {
        let home = Home::new();
        let case = CASES.iter().find(|case| case.client == client).unwrap();
        put(&home, case.file, content);
        let all = tree(home.root());
        for args in [&["--client", client][..], &["--client", client, "--remove"]] {
            let run = init(&home, args);
            assert_eq!(run.code, 1, "{client}, {said}: {run:?}");
            for part in [said, "nothing was changed", "\nhint: "] {
                assert!(run.stderr.contains(part), "{client}, {part}: {run:?}");
            }
            assert_eq!(run.stdout, "", "{client}, {said}");
        }
        let run = init(&home, &[]);
        assert!(
            run.code == 0 && run.stderr.contains(said),
            "{client}: {run:?}"
        );
        assert_eq!(tree(home.root()), all, "{client}, {said}");
    }
}

#[test]
fn a_thousand_groups_in_each_other_are_an_error_and_no_crash() {
    for (client, open, close) in [
        ("zed", "[", "]"),
        ("zed", "{\"a\":", "}"),
        ("codex", "a=[", "]"),
    ] {
        let home = Home::new();
        let case = CASES.iter().find(|case| case.client == client).unwrap();
        let deep = if client == "codex" {
            format!("a = {}1{}\n", "[".repeat(100_000), close.repeat(100_000))
        } else {
            format!(
                "{{\"x\": {}1{}}}",
                open.repeat(100_000),
                close.repeat(100_000)
            )
        };
        put(&home, case.file, &deep);
        let run = init(&home, &["--client", client]);
        assert_eq!(run.code, 1, "{client}: {run:?}");
    }
}

#[test]
fn line_ends_and_byte_order_mark_stay() {
    for Case {
        client,
        file,
        before,
        after,
    } in CASES
    {
        let home = Home::new();
        let other = |text: &str| format!("\u{feff}{}", text.replace('\n', "\r\n"));
        let path = put(&home, file, other(before));
        let run = init(&home, &["--client", client]);
        assert_eq!(run.code, 0, "{client}: {run:?}");
        assert_eq!(told(&path), other(after), "{client}");
        assert!(!run.stdout.contains('\r'), "{client}");
    }
}

#[test]
fn a_link_stays_a_link_and_permissions_stay() {
    let home = Home::new();
    let case = &CASES[5];
    let dotfiles = put(&home, "dotfiles/zed.json", case.before);
    fs::set_permissions(&dotfiles, Permissions::from_mode(0o640)).unwrap();
    let path = home.user_home().join(case.file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink("../../dotfiles/zed.json", &path).unwrap();
    let run = init(&home, &["--client", case.client]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(path.is_symlink());
    assert_eq!(told(&dotfiles), case.after);
    assert!(!kept(&path).is_symlink());
    assert_eq!((mode(&dotfiles), mode(&kept(&path))), (0o640, 0o640));

    // One that leads nowhere yet.
    let path = home.user_home().join(".cursor/mcp.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink("../dotfiles/new/cursor.json", &path).unwrap();
    let run = init(&home, &["--client", "cursor"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(path.is_symlink() && home.user_home().join("dotfiles/new/cursor.json").is_file());
}

#[test]
fn what_is_kept_of_a_private_file_is_private_and_no_older_one_is_lost() {
    let home = Home::new();
    let case = &CASES[0];
    let path = put(&home, case.file, case.before);
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let older = put(&home, ".claude.json.castellan-backup", "older");
    assert_eq!(init(&home, &["--client", case.client]).code, 0);
    let second = home.user_home().join(".claude.json.castellan-backup-2");
    assert_eq!((mode(&path), mode(&second)), (0o600, 0o600));
    assert_eq!(fs::read_to_string(&second).unwrap(), case.before);
    assert_eq!(fs::read_to_string(older).unwrap(), "older");

    // What is kept already is not kept twice.
    fs::write(&path, case.before).unwrap();
    let run = init(&home, &["--client", case.client]);
    assert!(run.stdout.contains("backup-2\n"), "{run:?}");
    assert!(
        !home
            .user_home()
            .join(".claude.json.castellan-backup-3")
            .exists()
    );
}

#[test]
fn what_is_not_meant_to_be_written_is_not() {
    let home = Home::new();
    let case = &CASES[4];
    let path = put(&home, case.file, case.before);
    fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
    put(&home, ".cursor/mcp.json/file", "");
    put(&home, ".config/zed", "");
    let all = tree(home.root());
    let said = |client: &str, part: &str| {
        let run = init(&home, &["--client", client]);
        assert!(
            run.code == 1 && run.stderr.contains(part),
            "{client}: {run:?}"
        );
    };
    said("codex", "is read-only (mode 0444)");
    said("cursor", "is a folder, where the settings file should be");
    said("zed", "is a file, not a folder");
    assert_eq!(tree(home.root()), all);
}

#[test]
fn halves_of_characters_that_a_client_wrote_stay() {
    let home = Home::new();
    let half = r#"{
  "history": ["cut \ud83d", "\udc00\ud83d\ude00 \\ud800", "\uD83D\uD83D"],
  "mcpServers": {
    "a": { "command": "a" }
  }
}
"#;
    let path = put(&home, CASES[0].file, half);
    let run = init(&home, &["--client", "claude-code"]);
    assert_eq!(run.code, 0, "{run:?}");
    let text = told(&path);
    let history = half.lines().nth(1).unwrap();
    assert!(
        text.contains(history) && text.contains("[PROGRAM]"),
        "{text}"
    );
    let run = init(&home, &["--client", "claude-code", "--remove"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), half);

    // Where such a line would have to be written anew, nothing is.
    let half = r#"{"cut": "\ud83d", "mcpServers": {"b": "\ud83d"}, "more": "\ud83d"}"#;
    fs::write(&path, half).unwrap();
    let run = init(&home, &["--client", "claude-code"]);
    assert!(
        run.code == 1 && run.stderr.contains("half of a character"),
        "{run:?}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), half);
}

#[test]
fn of_several_runs_at_once_one_writes_and_what_each_tells_of_is_there() {
    for before in [Some(CASES[0].before), None] {
        let home = Home::new();
        let path = home.user_home().join(CASES[0].file);
        if let Some(before) = before {
            put(&home, CASES[0].file, before);
        }
        let start = |_| {
            let mut command = home.command(PROGRAM);
            command.env_remove("CASTELLAN_HOME");
            command.args(["init", "--client", "claude-code"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        let running: Vec<_> = (0..8).map(start).collect();
        let ended = running
            .into_iter()
            .map(|child| Run::from(child.wait_with_output().unwrap()));
        let ended: Vec<Run> = ended.collect();
        let wrote = |run: &&Run| run.code == 0 && run.stdout.contains("was added to");
        assert_eq!(ended.iter().filter(wrote).count(), 1, "{ended:?}");
        for run in &ended {
            let beaten = run.stderr.contains("changed while it was being written");
            assert!(run.code == 0 || (run.code == 1 && beaten), "{run:?}");
            let kept = run.stdout.lines();
            for kept in kept.filter_map(|line| line.strip_prefix("the file as it was: ")) {
                assert_eq!(Some(&*fs::read_to_string(kept).unwrap()), before);
            }
        }
        let text = told(&path);
        match before {
            Some(_) => assert_eq!(text, CASES[0].after),
            None => assert_eq!(text.matches("[PROGRAM]").count(), 1, "{text}"),
        }
    }
}

#[test]
fn a_file_that_its_client_changed_meanwhile_stays_and_the_next_is_offered() {
    let home = Home::new();
    for case in [&CASES[2], &CASES[6]] {
        put(&home, case.file, case.before);
    }
    let terminal = Terminal::usual(&home, &["init"]);
    terminal.wait("Cursor: change it? y/n");
    let changed = "{\"mcpServers\": {}, \"new\": true}\n";
    let path = put(&home, CASES[2].file, changed);
    terminal.enter("y");
    terminal.wait("changed while it was being written");
    terminal.wait("Gemini CLI: change it? y/n");
    terminal.enter("y");
    terminal.wait("not changed as offered: the settings of Cursor");
    assert_eq!(terminal.ended().code(), Some(1));
    assert_eq!(fs::read_to_string(&path).unwrap(), changed);
    let gemini = home.user_home().join(CASES[6].file);
    assert!(fs::read_to_string(gemini).unwrap().contains("castellan"));
}
