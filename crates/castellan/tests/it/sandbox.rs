//! The sandbox, through the whole program.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use castellan_testkit::{Home, ModelServer, Reply};
use serde_json::{Value, json};

use crate::program::{PROGRAM, Run, config, run, turn};

/// A home without a usable bubblewrap: the first one on its search path fails.
struct Lesser {
    home: Home,
    folder: PathBuf,
}

impl Lesser {
    fn new() -> Self {
        let home = Home::new();
        let folder = home.root().join("bin");
        fs::create_dir(&folder).unwrap();
        let bwrap = folder.join("bwrap");
        fs::write(&bwrap, "#!/bin/sh\necho no namespaces here >&2\nexit 1\n").unwrap();
        fs::set_permissions(&bwrap, fs::Permissions::from_mode(0o755)).unwrap();
        Self { home, folder }
    }

    fn run(&self, args: &[&str]) -> Run {
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.folder.display());
        let mut command = self.home.command(PROGRAM);
        command
            .env("PATH", path)
            .args(args)
            .output()
            .unwrap()
            .into()
    }
}

/// The rung the program finds by itself, from the header of a session.
fn header(run: &Run) -> &str {
    let line = run
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("sandbox: "));
    line.unwrap_or_else(|| panic!("no sandbox in {}", run.stderr))
}

/// A turn in which the model makes one bash call; `toml` goes before the models.
fn one_call(home: &Home, toml: &str, call: Value, args: &[&str]) -> (ModelServer, Run) {
    let server = ModelServer::scripted([Reply::calls([("bash", call)]), Reply::text("done")]);
    home.write_config(&format!("{toml}\n{}", config(&server)));
    let run = run(home, &[&["exec"], args, &["go"]].concat());
    (server, run)
}

/// Where neither rung works there is nothing to test, which is said.
fn works_here() -> bool {
    let home = Home::new();
    let (_, run) = one_call(
        &home,
        "",
        json!({"command": "true"}),
        &["--skip-permissions"],
    );
    let header = header(&run);
    if header.starts_with("none") {
        println!("SKIPPED: no sandbox works on this machine: {header}");
    }
    !header.starts_with("none")
}

#[test]
fn a_write_outside_is_stopped_and_the_model_is_told_so() {
    if !works_here() {
        return;
    }
    let home = Home::new();
    let outside = home.user_home().join("planted");
    let command = format!("echo inside > made.txt && echo x > {}", outside.display());
    let run = turn(&home, &[("bash", json!({"command": command}))]);
    let (_, output) = &run.results()[0];
    assert!(!outside.exists());
    assert_eq!(home.read("made.txt").as_deref(), Some("inside\n"));
    assert!(
        output.contains("may have stopped this") && output.contains("outside_sandbox"),
        "{output}"
    );
    assert!(
        output.contains("/workspace") && output.contains("[exit code 1]"),
        "{output}"
    );
}

#[test]
fn a_command_that_succeeds_is_not_annotated() {
    let home = Home::new();
    let command = "echo x > ../home/f; echo 'f: Read-only file system'; true";
    let run = turn(&home, &[("bash", json!({"command": command}))]);
    let (_, output) = &run.results()[0];
    assert!(!output.contains("may have stopped"), "{output}");
}

#[test]
fn the_session_says_once_what_encloses_commands() {
    let home = Home::new();
    let (_, run) = one_call(
        &home,
        "",
        json!({"command": "true"}),
        &["--skip-permissions"],
    );
    assert_eq!(run.stderr.matches("sandbox: ").count(), 1, "{}", run.stderr);
    let (_, run) = one_call(
        &home,
        "sandbox = \"off\"",
        json!({"command": "echo x > ../home/planted"}),
        &["--skip-permissions"],
    );
    assert_eq!(header(&run), "none (switched off in the configuration)");
    assert!(home.user_home().join("planted").exists());
}

#[test]
fn outside_the_sandbox_a_person_is_asked_whatever_else_is_permitted() {
    if !works_here() {
        return;
    }
    let call = json!({"command": "echo x > ../home/planted", "outside_sandbox": true});
    let home = Home::new();
    let planted = home.user_home().join("planted");
    let (_, asked) = one_call(
        &home,
        "",
        call.clone(),
        &["--yes-to", "bash", "--yes-to", "*"],
    );
    assert_eq!(asked.code, 3, "{asked:?}");
    assert!(
        asked.stderr.contains("run outside the sandbox echo x"),
        "{}",
        asked.stderr
    );
    assert!(
        asked.stderr.contains("--yes-to bash_outside_sandbox"),
        "{}",
        asked.stderr
    );
    assert!(!planted.exists());
    let hook = "[[hooks]]\nevent = \"pre_tool\"\nmatcher = \"bash\"\n\
                command = \"echo '{\\\"decision\\\":\\\"allow\\\"}'\"\n";
    let (_, hooked) = one_call(&home, hook, call.clone(), &[]);
    assert_eq!((hooked.code, planted.exists()), (3, false), "{hooked:?}");
    let (_, allowed) = one_call(
        &home,
        "",
        call.clone(),
        &["--yes-to", "bash_outside_sandbox"],
    );
    assert_eq!((allowed.code, planted.exists()), (0, true), "{allowed:?}");
    fs::remove_file(&planted).unwrap();
    let (_, skipped) = one_call(&home, "", call, &["--skip-permissions"]);
    assert_eq!((skipped.code, planted.exists()), (0, true), "{skipped:?}");
}

#[test]
fn a_required_sandbox_is_left_by_nothing() {
    if !works_here() {
        return;
    }
    let home = Home::new();
    let call = json!({"command": "echo x > ../home/planted", "outside_sandbox": true});
    let args = ["--json", "--skip-permissions"];
    let (_, run) = one_call(&home, "sandbox = \"require\"", call, &args);
    let result = &run.kind("tool_result")[0];
    assert_eq!(result["outcome"], "denied", "{result}");
    assert!(!home.user_home().join("planted").exists());
}

#[test]
fn a_required_sandbox_that_cannot_be_had_refuses_at_the_start() {
    let lesser = Lesser::new();
    let server = ModelServer::scripted([Reply::text("never")]);
    let toml = "[sandbox]\nmode = \"require\"\nwrite = [\"~/no-such-folder\"]\n";
    lesser
        .home
        .write_config(&format!("{toml}{}", config(&server)));
    let run = lesser.run(&["exec", "go"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(
        run.stderr.contains("no-such-folder can't be opened"),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.contains("out of `write` in [sandbox]"),
        "{}",
        run.stderr
    );
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn a_broken_bubblewrap_is_passed_over_and_the_doctor_says_why() {
    let lesser = Lesser::new();
    let server = ModelServer::scripted([
        Reply::calls([("bash", json!({"command": "echo x > ../home/planted"}))]),
        Reply::text("done"),
    ]);
    lesser.home.write_config(&config(&server));
    let run = lesser.run(&["exec", "--skip-permissions", "go"]);
    let enclosed = header(&run).starts_with("Landlock");
    assert_eq!(enclosed, !lesser.home.user_home().join("planted").exists());
    let doctor = lesser.run(&["doctor"]);
    let reason = "bubblewrap: it ended with code 1: no namespaces here";
    assert!(doctor.stdout.contains(reason), "{}", doctor.stdout);
    if !enclosed {
        println!(
            "SKIPPED in part: Landlock does not work here: {}",
            header(&run)
        );
    }
}

#[test]
fn commands_see_nothing_of_our_state_but_outputs_that_were_too_long() {
    let home = Home::new();
    let look = "cat ../castellan/config.toml; ls ../castellan/traces; echo x > ../castellan/x; \
                wc -l ../castellan/spill/*/* ; seq 1 100000";
    let server = ModelServer::scripted([
        Reply::calls([("bash", json!({"command": "seq 1 100000"}))]),
        Reply::calls([("bash", json!({"command": look}))]),
        Reply::text("done"),
    ]);
    home.write_config(&config(&server));
    let run = run(&home, &["exec", "--json", "--skip-permissions", "go"]);
    let header = crate::program::run(&home, &["doctor"]);
    if !header.stdout.contains("bubblewrap 0") {
        println!("SKIPPED: only bubblewrap closes a part of a writable folder");
        return;
    }
    let results = run.results();
    let output = &results
        .iter()
        .find(|(_, text)| text.contains("total") || text.contains("spill"));
    assert!(!format!("{results:?}").contains("base_url"), "{output:?}");
    assert!(!home.castellan_home().join("x").exists());
    assert!(
        format!("{results:?}").contains("100000 ../castellan/spill/"),
        "{results:?}"
    );
}

#[test]
fn a_sandbox_that_leaves_everything_writable_says_so() {
    if !works_here() {
        return;
    }
    let home = Home::new();
    let (_server, run) = one_call(
        &home,
        "sandbox = {write = [\"/\"]}",
        json!({"command": "true"}),
        &["--yes-to", "bash"],
    );
    assert!(header(&run).contains("everything is writable"), "{run:?}");
    let doctor = crate::program::run(&home, &["doctor"]);
    assert!(
        doctor.stdout.contains("everything is writable"),
        "{doctor:?}"
    );
}

#[test]
fn a_required_folder_that_can_not_be_given_has_a_hint_of_its_own() {
    if !works_here() {
        return;
    }
    let home = Home::new();
    let (_server, run) = one_call(
        &home,
        "sandbox = {mode = \"require\", write = [\"/no/such/folder\"]}",
        json!({"command": "true"}),
        &["--yes-to", "bash"],
    );
    assert_eq!(run.code, 1, "{run:?}");
    let doctor = crate::program::run(&home, &["doctor"]);
    for told in [&run.stderr, &doctor.stdout] {
        assert!(told.contains("out of `write` in [sandbox]"), "{told}");
        assert!(!told.contains("bubblewrap (Debian"), "{told}");
    }
}
