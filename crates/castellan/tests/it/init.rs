//! `castellan init`: what clients are told, and what people are.

mod cases;
mod odd;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use castellan_testkit::Home;
use serde_json::{Value, json};

use cases::{CASES, Case};

use crate::program::{PROGRAM, Run};
use crate::terminal::Terminal;

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
        home.scrub(&run.stdout).replace("[ROOT]/home", "[HOME]"),
        "castellan init --client claude-code --profile ci  # Claude Code: [HOME]/.claude.json\n\
         castellan init --client codex --profile ci        # Codex: [HOME]/.codex/config.toml\n\
         castellan init --client zed --profile ci          # Zed: [HOME]/.config/zed/settings.json\n"
    );
    // This one has it with another profile.
    assert!(
        run.stderr.contains("Gemini CLI: error: castellan is in"),
        "{run:?}"
    );
    let run = init(&home, &["--remove"]);
    assert_eq!(
        home.scrub(&run.stdout).replace("[ROOT]/home", "[HOME]"),
        "castellan init --client gemini --remove  # Gemini CLI: [HOME]/.gemini/settings.json\n"
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
