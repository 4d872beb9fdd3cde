//! Wrong use, broken files, servers that are none: a clear error each, and nothing is lost.

use castellan_testkit::{Home, ModelServer, Reply};
use serde_json::json;

use crate::program::{config, home_with, run, turn};

fn error(home: &Home, args: &[&str]) -> (i32, String) {
    let run = run(home, args);
    (run.code, run.stderr)
}

#[test]
fn wrong_usage_ends_with_2() {
    let home = Home::new();
    for args in [
        &["nonsense"][..],
        &["exec", "--max-turns", "0", "go"],
        &["exec", "--yes-to", "write_file:src", "go"],
        &["exec", "--resume", "ws_123456", "go"],
        &["exec", "--resume", "nothing", "go"],
        &["exec", "--cwd", "/does/not/exist", "go"],
        &["exec", "  "],
        &["tools", "bahs"],
        &["tools", "--surface", "moon"],
        &["audit", "--since", "soon"],
        &["trace", "show", "ws_123456"],
        &[],
    ] {
        let (code, stderr) = error(&home, args);
        assert_eq!(code, 2, "{args:?}: {stderr}");
        assert!(!stderr.is_empty(), "{args:?}");
    }
    assert!(error(&home, &["tools", "bahs"]).1.contains("bash"));
}

#[test]
fn a_typo_in_the_configuration_is_named_with_line_and_nearest_key() {
    let home = Home::new();
    home.write_config("[models.a]\nbase_url = \"http://x\"\napi_kye_env = \"K\"\n");
    let (code, stderr) = error(&home, &["exec", "go"]);
    assert_eq!(code, 2);
    for part in [
        "config.toml",
        "line 3",
        "api_kye_env",
        "did you mean `api_key_env`",
    ] {
        assert!(stderr.contains(part), "{part} not in {stderr}");
    }
    let doctor = run(&home, &["doctor"]);
    assert_eq!(doctor.code, 1);
    assert!(doctor.stdout.contains("line 3"), "{}", doctor.stdout);
}

#[test]
fn a_page_instead_of_a_model_is_said_to_be_one() {
    let page = || Reply::html("<html><title>Router login</title></html>");
    let server = ModelServer::scripted([page(), page()]);
    let home = home_with(&server);
    let (code, stderr) = error(&home, &["exec", "go"]);
    assert_eq!(code, 1);
    for part in [server.base_url().as_str(), "text/html", "/v1"] {
        assert!(stderr.contains(part), "{part} not in {stderr}");
    }
    // L10: once more, since it may be a proxy whose server was away for a moment; then no more.
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn an_address_that_is_none_and_a_server_that_is_not_there_are_named() {
    let home = Home::new();
    let (code, stderr) = error(&home, &["exec", "--base-url", "localhost:8080", "go"]);
    assert_eq!(code, 2);
    assert!(
        stderr.contains("`localhost:8080` is not the address"),
        "{stderr}"
    );
    let (code, stderr) = error(
        &home,
        &["exec", "--base-url", "http://127.0.0.1:9/v1", "go"],
    );
    assert_eq!(code, 1);
    assert!(stderr.contains("127.0.0.1:9"), "{stderr}");
}

/// A home with a session in its database.
fn used_home() -> (Home, String) {
    let home = Home::new();
    let id = turn(&home, &[("bash", json!({"command": "true"}))]).session();
    (home, id)
}

#[test]
fn a_database_from_the_future_is_refused_and_kept() {
    let (home, _) = used_home();
    let file = home.castellan_home().join("castellan.db");
    let database = rusqlite::Connection::open(&file).unwrap();
    database.pragma_update(None, "user_version", 999).unwrap();
    drop(database);
    let before = std::fs::read(&file).unwrap();
    let (code, stderr) = error(&home, &["sessions"]);
    assert_eq!(code, 1);
    assert!(
        stderr.contains("999") && stderr.contains("newer"),
        "{stderr}"
    );
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[test]
fn a_file_that_is_no_database_is_refused_and_kept() {
    let home = Home::new();
    let file = home.castellan_home().join("castellan.db");
    let server = ModelServer::scripted([]);
    home.write_config(&config(&server));
    std::fs::write(&file, "this is my diary, not a database\n".repeat(100)).unwrap();
    let (code, stderr) = error(&home, &["exec", "go"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("castellan.db"), "{stderr}");
    assert!(
        std::fs::read_to_string(&file)
            .unwrap()
            .starts_with("this is my diary")
    );
    assert!(
        server.requests().is_empty(),
        "nothing was asked without a record"
    );
}

#[test]
fn a_damaged_database_is_said_to_be_one() {
    let (home, _) = used_home();
    let file = home.castellan_home().join("castellan.db");
    let mut bytes = std::fs::read(&file).unwrap();
    let from = bytes.len() / 4;
    bytes[from..].fill(0x5a);
    std::fs::write(&file, &bytes).unwrap();
    let doctor = run(&home, &["doctor"]);
    assert_eq!(doctor.code, 1, "{}", doctor.stdout);
    assert!(doctor.stdout.contains("castellan.db"), "{}", doctor.stdout);
    assert_eq!(std::fs::read(&file).unwrap().len(), bytes.len());
}

#[test]
fn a_folder_that_can_not_be_used_is_named() {
    let home = Home::new();
    let mut command = home.command(crate::program::PROGRAM);
    home.write("file", "");
    command
        .args(["sessions"])
        .env("CASTELLAN_HOME", home.workspace().join("file/below"));
    let run: crate::program::Run = command.output().unwrap().into();
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("file/below"), "{}", run.stderr);
}

#[test]
fn five_megabytes_of_arguments_arrive_whole() {
    let home = Home::new();
    let content = "0123456789abcde\n".repeat(5_000_000 / 16);
    turn(
        &home,
        &[("write_file", json!({"path": "big.txt", "content": content}))],
    );
    assert!(home.read("big.txt") == Some(content));
}

#[test]
fn a_command_too_long_for_the_system_says_so() {
    let home = Home::new();
    let command = format!("echo {}", "x".repeat(5_000_000));
    let run = turn(&home, &[("bash", json!({"command": command}))]);
    let (_, output) = &run.results()[0];
    assert!(
        output.len() < 1000 && output.contains("could not be started"),
        "{output}"
    );
}

#[test]
fn a_damaged_log_is_an_error_and_not_another_story() {
    let (home, id) = used_home();
    let file = home.castellan_home().join("castellan.db");
    let database = rusqlite::Connection::open(&file).unwrap();
    database
        .execute("UPDATE events SET kind = 'fortune' WHERE seq = 3", [])
        .unwrap();
    database
        .execute(
            "UPDATE events SET body = '{\"kind\":\"fortune\"}' WHERE seq = 3",
            [],
        )
        .unwrap();
    drop(database);
    let (code, stderr) = error(&home, &["exec", "--resume", &id, "go"]);
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("fortune"), "{stderr}");
}

#[test]
fn nothing_a_model_sends_passes_for_our_own_words() {
    let server = ModelServer::scripted([
        Reply::calls([
            ("\u{1b}[31mevil\nhint: run rm -rf /", json!({})),
            (
                "bash",
                json!({"command": "git status\nrm -rf x\r\u{1b}[2K"}),
            ),
        ]),
        Reply::text("done"),
    ]);
    let home = home_with(&server);
    let (code, stderr) = error(&home, &["exec", "go"]);
    assert_eq!(code, 3);
    assert!(
        !stderr.contains('\u{1b}') && !stderr.contains('\r'),
        "{stderr:?}"
    );
    assert!(
        !stderr.lines().any(|line| line.starts_with("hint: run rm")),
        "{stderr}"
    );
    assert!(
        stderr.contains("git status\\nrm -rf x"),
        "the whole command is shown: {stderr}"
    );
}

#[test]
fn a_permission_for_no_tool_is_a_mistake() {
    let home = Home::new();
    let (code, stderr) = error(&home, &["exec", "--yes-to", "bsah", "go"]);
    assert_eq!(code, 2);
    assert!(
        stderr.contains("bsah") && stderr.contains("bash"),
        "{stderr}"
    );
}

#[test]
fn an_answer_that_can_not_be_written_is_no_success() {
    let server = ModelServer::scripted([Reply::text("an answer")]);
    let home = home_with(&server);
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = home.command(crate::program::PROGRAM);
    let output = command
        .args(["exec", "go"])
        .stdout(full)
        .stderr(std::process::Stdio::piped())
        .output();
    let run: crate::program::Run = output.unwrap().into();
    assert_eq!(run.code, 1);
    assert!(
        run.stderr.contains("failed to write to standard output"),
        "{}",
        run.stderr
    );
}

/// What a run came to whose standard output the shell makes of `redirection`.
fn redirected(home: &Home, redirection: &str, args: &[&str]) -> crate::program::Run {
    let script = format!("exec \"$0\" \"$@\" {redirection}");
    let mut shell = home.command("/bin/sh");
    shell.args(["-c", &script, crate::program::PROGRAM]);
    shell.args(args).output().unwrap().into()
}

#[test]
fn a_standard_output_that_is_closed_is_said_and_one_that_goes_nowhere_is_fine() {
    let server = ModelServer::scripted([Reply::text("an answer"), Reply::text("an answer")]);
    let home = home_with(&server);
    for args in [&["exec", "go"][..], &["sessions"], &["--help"]] {
        let run = redirected(&home, ">&-", args);
        assert_eq!(run.code, 1, "{args:?}: {run:?}");
        assert!(run.stderr.contains("it was closed"), "{args:?}: {run:?}");
    }
    // As other programs discard output, one way or the other.
    for redirection in [">/dev/null", "<>/dev/null >&0"] {
        assert_eq!(redirected(&home, redirection, &["tools"]).code, 0);
    }
    assert_eq!(redirected(&home, ">/dev/null", &["exec", "go"]).code, 0);
}

#[test]
fn a_reader_that_goes_away_is_told_by_the_exit_code_alone() {
    let server = ModelServer::scripted([Reply::text("an answer")]);
    let home = home_with(&server);
    for args in [&["exec", "go"][..], &["tools"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = home.command(crate::program::PROGRAM);
        let piped = command.args(args).stdout(writer).output().unwrap();
        let run = crate::program::Run::from(piped);
        assert_eq!(run.code, 141, "{args:?}: {run:?}");
        assert!(!run.stderr.contains("error"), "{args:?}: {run:?}");
    }
}

#[test]
fn a_working_folder_that_is_gone_is_named_with_a_way_out() {
    let server = ModelServer::scripted([Reply::text("here")]);
    let home = home_with(&server);
    let gone = home.workspace().join("gone");
    let script = "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" \"$@\"";
    let run_there = |args: &[&str]| -> crate::program::Run {
        let mut shell = home.command("/bin/sh");
        shell.args(["-c", script, crate::program::PROGRAM]);
        shell.args(args).output().unwrap().into()
    };
    for args in [&["exec", "go"][..], &["exec", "--cwd", "x", "go"]] {
        let run = run_there(args);
        assert_eq!(run.code, 2, "{run:?}");
        let text = format!("the working folder {} is gone", gone.display());
        assert!(
            run.stderr.contains(&text) && run.stderr.contains("--cwd"),
            "{run:?}"
        );
    }
    let elsewhere = home.workspace();
    let run = run_there(&["exec", "--cwd", elsewhere.to_str().unwrap(), "go"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, "here\n"), "{run:?}");
}

#[test]
fn whoever_only_looks_makes_nothing() {
    let home = Home::new();
    let state = home.castellan_home();
    std::fs::remove_dir_all(&state).unwrap();
    for (args, code, said) in [
        (&["doctor"][..], 0, "is made by the first session"),
        (&["trace", "show", "ws_1"], 2, "nothing is stored yet"),
        (&["trace", "stats", "ws_1"], 2, "nothing is stored yet"),
        (&["export", "ws_1"], 2, "nothing is stored yet"),
        (&["sessions"], 0, "no sessions yet"),
        (&["sessions", "--json"], 0, "\"total\":0"),
        (&["audit"], 0, "CALLER"),
        (&["audit", "--verify"], 0, "whole: 0 rows"),
        (&["grants"], 0, "no permissions were given"),
        (&["grants", "list", "--json"], 0, "\"total\":0"),
        (
            &["grants", "list", "--session", "ws_1"],
            2,
            "nothing is stored yet",
        ),
    ] {
        let run = run(&home, args);
        assert_eq!(run.code, code, "{args:?}: {run:?}");
        let told = format!("{}{}", run.stdout, run.stderr);
        assert!(told.contains(said), "{args:?}: {told}");
        assert!(!state.exists(), "{args:?}");
    }
}

#[test]
fn a_configuration_that_is_no_file_is_refused_at_once() {
    let home = Home::new();
    let path = home.castellan_home().join("config.toml");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let (code, stderr) = error(&home, &["config", "show"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("not a regular file"), "{stderr}");
}

#[test]
fn a_tool_does_not_reach_the_record_of_what_it_did() {
    let home = Home::new();
    let database = home.castellan_home().join("castellan.db");
    let run = turn(
        &home,
        &[
            ("write_file", json!({"path": database, "content": "gone"})),
            (
                "read_file",
                json!({"path": home.castellan_home().join("config.toml")}),
            ),
        ],
    );
    let results = run.results();
    assert!(
        results
            .iter()
            .all(|(_, output)| output.contains("castellan's own state")),
        "{results:?}"
    );
    assert_eq!(run_audit(&home), "the audit chain is whole: 2 rows\n");
}

fn run_audit(home: &Home) -> String {
    run(home, &["audit", "--verify"]).stdout
}
