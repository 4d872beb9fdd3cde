//! `castellan init`: settings files of every client, before and after.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use castellan_testkit::Home;
use serde_json::{Value, json};

use crate::program::{PROGRAM, Run};
use crate::terminal::Terminal;

/// A client, its file below the user's home, what a user may have in it, and what is in it then.
struct Case {
    client: &'static str,
    file: &'static str,
    before: &'static str,
    after: &'static str,
}

const CASES: [Case; 7] = [
    Case {
        client: "claude-code",
        file: ".claude.json",
        before: r#"{
  "numStartups": 34,
  "tipsHistory": { "new-user-warmup": 2 },
  "mcpServers": {
    "github": {
      "type": "http",
      "url": "https://api.example.org/mcp/"
    }
  },
  "projects": {
    "/home/me/notes": {
      "allowedTools": [],
      "mcpServers": {}
    }
  },
  "bigNumber": 12345678901234567890123
}
"#,
        after: r#"{
  "numStartups": 34,
  "tipsHistory": { "new-user-warmup": 2 },
  "mcpServers": {
    "github": {
      "type": "http",
      "url": "https://api.example.org/mcp/"
    },
    "castellan": {
      "type": "stdio",
      "command": "[PROGRAM]",
      "args": ["mcp"]
    }
  },
  "projects": {
    "/home/me/notes": {
      "allowedTools": [],
      "mcpServers": {}
    }
  },
  "bigNumber": 12345678901234567890123
}
"#,
    },
    Case {
        client: "claude-desktop",
        file: ".config/Claude/claude_desktop_config.json",
        before: r#"{
    "mcpServers": {
        "filesystem": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/me"]
        }
    },
    "globalShortcut": ""
}"#,
        after: r#"{
    "mcpServers": {
        "filesystem": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/me"]
        },
        "castellan": {
            "command": "[PROGRAM]",
            "args": ["mcp"]
        }
    },
    "globalShortcut": ""
}"#,
    },
    Case {
        client: "cursor",
        file: ".cursor/mcp.json",
        before: "{\n\t\"mcpServers\": {\n\t\t\"a\": { \"command\": \"a\" }\n\t}\n}\n",
        after: "{\n\t\"mcpServers\": {\n\t\t\"a\": { \"command\": \"a\" },\n\t\t\"castellan\": {\n\t\t\t\
                \"command\": \"[PROGRAM]\",\n\t\t\t\"args\": [\"mcp\"]\n\t\t}\n\t}\n}\n",
    },
    Case {
        client: "vscode",
        file: ".config/Code/User/mcp.json",
        before: r#"// Servers of mine.
{
  "inputs": [], // none yet
  "servers": {
    /* the old one */
    "memory": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "memory",],
    }, // stays
  },
}
"#,
        after: r#"// Servers of mine.
{
  "inputs": [], // none yet
  "servers": {
    /* the old one */
    "memory": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "memory",],
    }, // stays
    "castellan": {
      "type": "stdio",
      "command": "[PROGRAM]",
      "args": ["mcp"],
    },
  },
}
"#,
    },
    Case {
        client: "codex",
        file: ".codex/config.toml",
        before: r#"# My settings.
model = "gpt-5"   # the large one
approval_policy = "on-request"

[mcp_servers.docs]
command = "docs-server"
args = [
  "--port", # the usual one
  "4000",
]

[mcp_servers.docs.env]
PLACE = "here"

# About the look.
[tui]
notifications = true
"#,
        after: r#"# My settings.
model = "gpt-5"   # the large one
approval_policy = "on-request"

[mcp_servers.docs]
command = "docs-server"
args = [
  "--port", # the usual one
  "4000",
]

[mcp_servers.docs.env]
PLACE = "here"

[mcp_servers.castellan]
command = "[PROGRAM]"
args = ["mcp"]

# About the look.
[tui]
notifications = true
"#,
    },
    Case {
        client: "zed",
        file: ".config/zed/settings.json",
        before: r#"// Zed settings
//
// For information on how to configure Zed, see the Zed documentation.
{
  "ui_font_size": 16,
  "theme": {
    "mode": "system" // or "dark"
  }
}
"#,
        after: r#"// Zed settings
//
// For information on how to configure Zed, see the Zed documentation.
{
  "ui_font_size": 16,
  "theme": {
    "mode": "system" // or "dark"
  },
  "context_servers": {
    "castellan": {
      "source": "custom",
      "command": "[PROGRAM]",
      "args": ["mcp"]
    }
  }
}
"#,
    },
    Case {
        client: "gemini",
        file: ".gemini/settings.json",
        before: r#"{
  // What I like.
  "ui": { "theme": "GitHub" },
  "mcpServers": { "a": { "command": "a", "trust": false } }
}
"#,
        after: r#"{
  // What I like.
  "ui": { "theme": "GitHub" },
  "mcpServers": {
    "a": { "command": "a", "trust": false },
    "castellan": {
      "command": "[PROGRAM]",
      "args": ["mcp"]
    }
  }
}
"#,
    },
];

/// Runs `castellan init` for a user with nothing set.
fn init(home: &Home, args: &[&str]) -> Run {
    let mut command = home.command(PROGRAM);
    command.env_remove("CASTELLAN_HOME").arg("init").args(args);
    command.output().unwrap().into()
}

/// A file of the user's, with the folders on its way.
fn put(home: &Home, file: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = home.user_home().join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    path
}

/// The file with the program's path replaced.
fn told(path: &Path) -> String {
    let program = Path::new(PROGRAM).canonicalize().unwrap();
    let text = fs::read_to_string(path).unwrap();
    text.replace(program.to_str().unwrap(), "[PROGRAM]")
}

fn kept(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap().to_owned();
    name.push(".castellan-backup");
    path.with_file_name(name)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Everything below a folder: names and contents.
fn tree(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push((path.clone(), fs::read(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn every_client_is_told_in_its_own_words_once_and_can_forget_it() {
    for Case {
        client,
        file,
        before,
        after,
    } in CASES
    {
        let home = Home::new();
        let path = put(&home, file, before);
        let run = init(&home, &["--client", client]);
        assert_eq!(run.code, 0, "{client}: {run:?}");
        assert_eq!(told(&path), after, "{client}");
        assert_eq!(fs::read_to_string(kept(&path)).unwrap(), before, "{client}");
        for part in [
            "castellan was added to",
            "the file as it was: ",
            "next: ",
            "\n+",
            "--- ",
        ] {
            assert!(run.stdout.contains(part), "{client}, {part}: {run:?}");
        }

        let all = tree(&home.user_home());
        let again = init(&home, &["--client", client]);
        assert_eq!(again.code, 0, "{client}: {again:?}");
        assert!(again.stdout.contains(" already"), "{client}: {again:?}");
        assert_eq!(tree(&home.user_home()), all, "{client}");

        let gone = init(&home, &["--client", client, "--remove"]);
        assert_eq!(gone.code, 0, "{client}: {gone:?}");
        let left = fs::read_to_string(&path).unwrap();
        assert_eq!(
            left.replace(char::is_whitespace, ""),
            before.replace(char::is_whitespace, ""),
            "{client}"
        );
        let again = init(&home, &["--client", client, "--remove"]);
        assert!(
            again.code == 0 && again.stdout.contains("castellan is not in"),
            "{again:?}"
        );
    }
}

#[test]
fn a_client_without_settings_gets_a_file_that_nobody_else_reads() {
    for Case { client, file, .. } in CASES {
        let home = Home::new();
        let run = init(&home, &["--client", client]);
        assert_eq!(run.code, 0, "{client}: {run:?}");
        let path = home.user_home().join(file);
        assert!(run.stdout.contains("--- /dev/null\n"), "{run:?}");
        assert!(!kept(&path).exists() && mode(&path) == 0o600, "{client}");
        let text = told(&path);
        assert!(
            text.ends_with('\n') && !text.ends_with("\n\n") && text.contains("[PROGRAM]"),
            "{client}: {text}"
        );
        let again = init(&home, &["--client", client]);
        assert!(again.stdout.contains("already"), "{client}: {again:?}");
        // An empty file is none.
        fs::write(&path, "").unwrap();
        assert_eq!(init(&home, &["--client", client]).code, 0);
        assert_eq!(told(&path), text, "{client}");
    }
}

#[test]
fn a_dry_run_shows_the_change_and_makes_none() {
    for Case {
        client,
        file,
        before,
        ..
    } in CASES
    {
        let home = Home::new();
        put(&home, file, before);
        let all = tree(home.root());
        let run = init(&home, &["--client", client, "--dry-run"]);
        assert!(run.code == 0 && run.stderr.contains("dry run"), "{run:?}");
        assert!(
            run.stdout.contains("+++ ") && run.stdout.contains("castellan"),
            "{run:?}"
        );
        let run = init(&home, &["--dry-run"]);
        assert!(run.code == 0 && run.stdout.contains("+++ "), "{run:?}");
        assert_eq!(tree(home.root()), all, "{client}");
    }
}

#[test]
fn a_file_that_its_client_could_not_read_is_not_touched_and_the_place_is_named() {
    let cases: [(&str, &[u8], &str); 18] = [
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
    for (client, content, said) in cases {
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
fn other_settings_of_ours_are_told_and_replaced_only_when_that_is_said() {
    for (client, before, after) in [
        (
            "gemini",
            "{\"mcpServers\": {\"castellan\": {\n  // the old place\n  \"command\": \"/old/castellan\",\n  \
             \"args\": [\"mcp\"],\n  \"timeout\": 5\n}}}\n",
            json!({"mcpServers": {"castellan": {"command": "[PROGRAM]", "args": ["mcp"], "timeout": 5}}}),
        ),
        (
            "zed",
            "{\"context_servers\": {\"castellan\": {\"url\": \"http://127.0.0.1:7/mcp\"}}}\n",
            json!({"context_servers": {"castellan":
                {"source": "custom", "command": "[PROGRAM]", "args": ["mcp"]}}}),
        ),
    ] {
        let home = Home::new();
        let case = CASES.iter().find(|case| case.client == client).unwrap();
        let path = put(&home, case.file, before);
        let run = init(&home, &["--client", client]);
        assert_eq!(run.code, 1, "{run:?}");
        for part in [
            "with other settings: ",
            "`command` is ",
            "--replace --dry-run",
        ] {
            assert!(run.stderr.contains(part), "{part}: {run:?}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), before);
        let run = init(&home, &["--client", client, "--replace"]);
        assert!(
            run.code == 0 && run.stdout.contains("was updated in"),
            "{run:?}"
        );
        let text = told(&path);
        assert_eq!(text.contains("// the old place"), client == "gemini");
        let text = text.replace("// the old place", "");
        let told: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(told, after);
        assert_eq!(fs::read_to_string(kept(&path)).unwrap(), before);
    }

    let home = Home::new();
    let path = put(
        &home,
        ".codex/config.toml",
        "[mcp_servers.castellan]\ncommand = \"/old\" # moved\nstartup_timeout_sec = 20\n\n\
         [mcp_servers.castellan.env]\nRUST_LOG = \"info\"\n\n[tui]\n",
    );
    assert_eq!(init(&home, &["--client", "codex"]).code, 1);
    let run = init(&home, &["--client", "codex", "--replace"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(
        told(&path),
        "[tui]\n\n[mcp_servers.castellan]\ncommand = \"[PROGRAM]\"\nstartup_timeout_sec = 20\n\
         env = { RUST_LOG = \"info\" }\nargs = [\"mcp\"]\n"
    );
}

#[test]
fn a_profile_goes_into_the_command_if_there_is_one_of_that_name() {
    let home = Home::new();
    let run = init(&home, &["--client", "cursor", "--profile", "solo"]);
    assert_eq!(run.code, 0, "{run:?}");
    let path = home.user_home().join(".cursor/mcp.json");
    let told: Value = serde_json::from_str(&told(&path)).unwrap();
    assert_eq!(
        told["mcpServers"]["castellan"]["args"],
        json!(["mcp", "--profile", "solo"])
    );
    let run = init(&home, &["--client", "cursor", "--profile", "sole"]);
    assert!(
        run.code == 2 && run.stderr.contains("no profile `sole`"),
        "{run:?}"
    );
}

#[test]
fn the_command_is_the_path_by_which_the_program_is_found_and_it_finds_its_state() {
    let home = Home::new();
    let folder = home.root().join("bin");
    fs::create_dir(&folder).unwrap();
    let link = folder.join("castellan");
    symlink(PROGRAM, &link).unwrap();
    let mut command = home.command(PROGRAM);
    let path = format!("/nowhere:{}:/bin", folder.display());
    command
        .env("PATH", &path)
        .args(["init", "--client", "cursor"]);
    let run = Run::from(command.output().unwrap());
    assert_eq!(run.code, 0, "{run:?}");
    let told = fs::read_to_string(home.user_home().join(".cursor/mcp.json")).unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(
        told["mcpServers"]["castellan"],
        json!({"command": link, "args": ["mcp"], "env": {"CASTELLAN_HOME": home.castellan_home()}})
    );

    // Another program of that name is not ours.
    fs::remove_file(&link).unwrap();
    fs::write(&link, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&link, Permissions::from_mode(0o755)).unwrap();
    let mut command = home.command(PROGRAM);
    command
        .env("PATH", &path)
        .args(["init", "--client", "cursor"]);
    let run = Run::from(command.output().unwrap());
    assert!(run.code == 1 && run.stderr.contains(PROGRAM), "{run:?}");

    // What can't be started is no program at all.
    fs::set_permissions(&link, Permissions::from_mode(0o644)).unwrap();
    let second = home.root().join("second");
    fs::create_dir(&second).unwrap();
    symlink(PROGRAM, second.join("castellan")).unwrap();
    let mut command = home.command(PROGRAM);
    command
        .env("PATH", format!("{path}:{}", second.display()))
        .args(["init", "--client", "cursor", "--dry-run", "--replace"]);
    let run = Run::from(command.output().unwrap());
    assert!(
        run.stdout.contains("/second/castellan\"") && run.code == 0,
        "{run:?}"
    );
}

#[test]
fn keys_of_other_servers_are_not_shown() {
    let home = Home::new();
    put(
        &home,
        ".cursor/mcp.json",
        "{\n  \"mcpServers\": {\n    \"a\": {\n      \"command\": \"a\",\n      \"env\": { \"PLACE\": \
         \"hunter2-hunter2\" }\n    }\n  },\n  \"apiKey\": \"sk-test-1234567\"\n}\n",
    );
    for args in [
        &["--client", "cursor", "--dry-run"][..],
        &["--dry-run"],
        &["--client", "cursor"],
    ] {
        let run = init(&home, args);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.stdout.contains("[redacted]"), "{run:?}");
        let said = format!("{}{}", run.stdout, run.stderr);
        assert!(
            !said.contains("hunter2") && !said.contains("sk-test"),
            "{run:?}"
        );
    }
    let text = fs::read_to_string(home.user_home().join(".cursor/mcp.json")).unwrap();
    assert!(text.contains("hunter2-hunter2") && text.contains("sk-test-1234567"));
}

#[test]
fn without_a_client_it_prints_a_command_for_each_that_is_there() {
    let home = Home::new();
    let none = init(&home, &[]);
    assert!(none.code == 0 && none.stdout.is_empty(), "{none:?}");
    assert!(
        none.stderr.contains("claude-code, claude-desktop, cursor"),
        "{none:?}"
    );

    for case in [&CASES[0], &CASES[4], &CASES[6]] {
        put(&home, case.file, case.before);
    }
    fs::create_dir_all(home.user_home().join(".config/zed")).unwrap();
    assert_eq!(init(&home, &["--client", "gemini"]).code, 0);
    let all = tree(home.root());
    let run = init(&home, &["--profile", "ci"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(
        home.scrub(&run.stdout),
        "castellan init --client claude-code --profile ci  # Claude Code: [ROOT]/home/.claude.json\n\
         castellan init --client codex --profile ci        # Codex: [ROOT]/home/.codex/config.toml\n\
         castellan init --client zed --profile ci          # Zed: [ROOT]/home/.config/zed/settings.json\n"
    );
    // This one has it with another profile.
    assert!(
        run.stderr.contains("Gemini CLI: error: castellan is in"),
        "{run:?}"
    );
    let run = init(&home, &["--remove"]);
    assert_eq!(
        home.scrub(&run.stdout),
        "castellan init --client gemini --remove  # Gemini CLI: [ROOT]/home/.gemini/settings.json\n"
    );
    assert_eq!(tree(home.root()), all);
}

#[test]
fn on_a_terminal_it_asks_for_each_client() {
    let home = Home::new();
    for case in [&CASES[2], &CASES[6]] {
        put(&home, case.file, case.before);
    }
    let terminal = Terminal::usual(&home, &["init"]);
    terminal.wait("Cursor: change it? y/n");
    terminal.enter("n");
    terminal.wait("nothing was changed");
    terminal.wait("Gemini CLI: change it? y/n");
    terminal.enter("y");
    terminal.wait("start Gemini CLI anew");
    assert!(terminal.ended().success());
    let read = |case: &Case| fs::read_to_string(home.user_home().join(case.file)).unwrap();
    assert_eq!(read(&CASES[2]), CASES[2].before);
    assert!(read(&CASES[6]).contains("castellan"));
}

#[test]
fn the_group_of_servers_goes_with_the_last_of_them_but_not_what_is_said_of_it() {
    let ours = "{ \"command\": \"castellan\" }";
    for (client, before, after) in [
        ("gemini", "{\"mcpServers\": {\"castellan\": X}}\n", "{}\n"),
        (
            "cursor",
            "{\n  \"a\": 1, // a\n  \"mcpServers\": {\n    \"castellan\": X\n  }\n}\n",
            "{\n  \"a\": 1 // a\n}\n",
        ),
        (
            "cursor",
            "{\n  \"mcpServers\": {\n    \"castellan\": X,\n  },\n  \"a\": 1,\n}\n",
            "{\n  \"a\": 1,\n}\n",
        ),
        (
            "zed",
            "{\n  \"context_servers\": {\n    // none yet\n    \"castellan\": X\n  }\n}\n",
            "{\n  \"context_servers\": {\n    // none yet\n  }\n}\n",
        ),
        (
            "vscode",
            "{\n  \"servers\": {\n    \"castellan\": X\n  } // mine\n}\n",
            "{\n  \"servers\": {} // mine\n}\n",
        ),
        (
            "vscode",
            "{\n  // All of them.\n  \"servers\": {\n    \"castellan\": X\n  }\n}\n",
            "{\n  // All of them.\n}\n",
        ),
    ] {
        let home = Home::new();
        let case = CASES.iter().find(|case| case.client == client).unwrap();
        let path = put(&home, case.file, before.replace('X', ours));
        let run = init(&home, &["--client", client, "--remove"]);
        assert_eq!(run.code, 0, "{before}: {run:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), after, "{before}");
    }
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
