//! Rules, hooks and permissions for good as their users meet them.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use castellan_core::id::GrantId;
use castellan_core::{Clock as _, Timestamp};
use castellan_host::{SystemClock, SystemIds};
use castellan_store::grants::{self, GrantRow, Place};
use castellan_store::{Settings, Store};
use castellan_testkit::{Gate, Home, ModelServer, Reply};
use serde_json::{Value, json};

use crate::program::{PROGRAM, Run, config, piped, processes_in, run};

/// A run of one turn in which the model makes these calls and then says "done", with more in the
/// configuration.
fn turn(home: &Home, more: &str, flags: &[&str], calls: &[(&str, Value)]) -> Run {
    let server = ModelServer::scripted([Reply::calls(calls.iter().cloned()), Reply::text("done")]);
    home.write_config(&format!("{}{more}", config(&server)));
    let args = [&["exec", "--json"][..], flags, &["go"]].concat();
    run(home, &args)
}

fn script(home: &Home, name: &str, text: &str) -> String {
    home.write(name, text);
    let path = home.workspace().join(name);
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&path, mode).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A script as people have them for other agents: it knows the tool by its familiar name, reads
/// the command with a line of Python, and objects with exit code 2.
const GUARD: &str = r#"#!/usr/bin/env bash
input=$(cat)
field() { python3 -c "import json, sys; print(json.load(sys.stdin)$1)" <<<"$input"; }
[ "$(field "['tool_name']")" = Bash ] || exit 0
command=$(field "['tool_input']['command']")
if [[ $command == *"git push"*--force* ]]; then
    echo "Force pushes rewrite what others work on; push a new commit instead." >&2
    exit 2
fi
exit 0
"#;

#[test]
fn a_script_for_other_agents_denies_a_force_push_with_a_reason_the_model_reads() {
    let home = Home::new();
    let guard = script(&home, "guard.sh", GUARD);
    let hook =
        format!("[[hooks]]\nevent = \"pre_tool\"\nmatcher = \"Bash\"\ncommand = \"{guard}\"\n");
    let calls = [
        ("bash", json!({"command": "git push --force origin main"})),
        ("bash", json!({"command": "echo git push"})),
        (
            "write_file",
            json!({"path": "a", "content": "git push --force"}),
        ),
    ];
    let server = ModelServer::scripted([Reply::calls(calls), Reply::text("I'll add a commit.")]);
    home.write_config(&format!("{}{hook}", config(&server)));
    let run = run(&home, &["exec", "--json", "--skip-permissions", "go"]);
    assert_eq!(run.code, 0, "{run:?}");
    let told: Vec<String> = server.requests()[1]
        .messages()
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect();
    assert!(told[0].starts_with("Denied by hook "), "{}", told[0]);
    assert!(told[0].contains("push a new commit instead"), "{}", told[0]);
    assert!(told[0].contains("useless"), "{}", told[0]);
    assert_eq!(told[1], "git push\n");
    assert_eq!(home.read("a").as_deref(), Some("git push --force"));
    let said: Vec<Value> = run.kind("policy");
    let by = said[0]["by"].as_str().unwrap();
    assert!(by.starts_with("hook ") && by.contains("guard.sh"), "{by}");
}

fn hook(event: &str, command: &str) -> String {
    format!("[[hooks]]\nevent = \"{event}\"\ncommand = '''{command}'''\ntimeout = 2\n")
}

#[test]
fn a_hook_that_misbehaves_asks_and_leaves_nothing_behind() {
    for (command, expected) in [
        ("sleep 300", "did not end within 2 s"),
        ("yes", "more than 1 MiB"),
        ("head -c 10000000 /dev/zero", "more than 1 MiB"),
        ("kill -9 $$", "SIGKILL"),
        ("echo fine", "no JSON"),
        ("exit 1", "exit code 1"),
        ("no-such-hook", "exit code 127"),
        ("echo '{\"decision\": \"allow\"}'; exit 3", "exit code 3"),
        (
            "echo '{\"decision\": \"allow\", \"input\": {\"cmd\": \"ls\"}}'",
            "does not take",
        ),
    ] {
        let home = Home::new();
        let calls = [("bash", json!({"command": "touch made"}))];
        let run = turn(
            &home,
            &hook("pre_tool", command),
            &["--skip-permissions"],
            &calls,
        );
        assert_eq!(run.code, 3, "{command}: {run:?}");
        assert_eq!(home.read("made"), None, "{command}");
        let asked = run.kind("approve_request");
        let reason = asked[0]["items"][0]["reason"].as_str().unwrap();
        assert!(reason.contains(expected), "{command}: {reason}");
        assert!(
            run.stderr.contains("a person must answer"),
            "{}",
            run.stderr
        );
        let go_on = format!(
            "answer it in the terminal: castellan --resume {}",
            run.session()
        );
        assert!(run.stderr.contains(&go_on), "{}", run.stderr);
    }
}

#[test]
fn a_hook_that_lies_ignores_its_input_or_leaves_children_is_taken_at_its_exit_code() {
    for (command, code, output) in [
        (
            "echo '{\"decision\": \"allow\"}'; echo no >&2; exit 2",
            0,
            "Denied by hook",
        ),
        ("exec <&-; echo '{\"decision\": \"allow\"}'", 0, "hello"),
        (
            "setsid sleep 300 & echo '{\"decision\": \"allow\"}'",
            0,
            "hello",
        ),
        ("true", 3, ""),
    ] {
        let home = Home::new();
        let calls = [("bash", json!({"command": "echo hello"}))];
        let run = turn(&home, &hook("pre_tool", command), &[], &calls);
        assert_eq!(run.code, code, "{command}: {run:?}");
        if code == 0 {
            let result = &run.results()[0].1;
            assert!(result.contains(output), "{command}: {result}");
        }
        assert_eq!(processes_in(home.root()), [] as [u32; 0]);
    }
}

#[test]
fn a_hook_that_deletes_itself_is_heard_once_and_missed_after_that() {
    let home = Home::new();
    let once = script(
        &home,
        "once.sh",
        "#!/bin/sh\nrm \"$0\"\necho '{\"decision\": \"allow\"}'\n",
    );
    let calls = [
        ("bash", json!({"command": "echo one"})),
        ("bash", json!({"command": "echo two"})),
    ];
    let run = turn(&home, &hook("pre_tool", &once), &[], &calls);
    assert_eq!(run.code, 3);
    let asked = run.kind("approve_request");
    let items = asked[0]["items"].as_array().unwrap();
    assert_eq!(items.len(), 1, "{items:?}");
    assert!(items[0]["header"].as_str().unwrap().contains("echo two"));
}

#[test]
fn a_hook_may_change_a_call_and_rules_judge_what_it_made_of_it() {
    let home = Home::new();
    let change = "echo '{\"input\": {\"command\": \"echo changed\"}}'";
    let calls = [("bash", json!({"command": "echo original"}))];
    let changed = turn(
        &home,
        &hook("pre_tool", change),
        &["--yes-to", "bash:echo"],
        &calls,
    );
    assert_eq!(changed.results()[0].1, "changed\n", "{changed:?}");
    assert_eq!(
        changed.kind("tool_prepared")[0]["arguments"],
        json!({"command": "echo changed"})
    );
    let worse = "echo '{\"decision\": \"allow\", \"input\": {\"command\": \"sudo rm -r x\"}}'";
    let rule = "[[policy]]\ncommand = \"rm\"\naction = \"deny\"\nreason = \"keep things\"\n";
    let more = format!("{}{rule}", hook("pre_tool", worse));
    let denied = turn(&home, &more, &["--skip-permissions"], &calls);
    let result = &denied.results()[0].1;
    assert!(
        result.contains("Denied by policy (config.toml:"),
        "{result}"
    );
    assert!(result.contains("keep things"), "{result}");
}

#[test]
fn a_hook_after_a_call_leaves_word_for_the_model_and_the_result_as_it_is() {
    let home = Home::new();
    let calls = [(
        "write_file",
        json!({"path": "a.rs", "content": "fn main(){}"}),
    )];
    let more = hook(
        "post_tool",
        "echo 'run the formatter on' $(pwd) >&2; exit 2",
    );
    let run = turn(&home, &more, &["--skip-permissions"], &calls);
    let result = &run.results()[0].1;
    assert!(result.contains("created"), "{result}");
    assert!(result.contains("run the formatter on"), "{result}");
    assert_eq!(run.kind("tool_result")[0]["is_error"], false);
}

#[test]
fn a_rule_about_paths_holds_for_every_spelling() {
    let home = Home::new();
    home.write("secret/key", "s3cret\n");
    home.write("open/a", "text\n");
    symlink(
        home.workspace().join("secret"),
        home.workspace().join("link"),
    )
    .unwrap();
    symlink(
        home.workspace().join("secret/key"),
        home.workspace().join("open/b"),
    )
    .unwrap();
    let rules = "[[policy]]\npath = \"secret\"\naction = \"deny\"\nreason = \"not yours\"\n\
                 [[policy]]\npath = \"open/**\"\naction = \"allow\"\n";
    let absolute = home.workspace().join("secret/key");
    for path in [
        "secret/key",
        "./secret/../secret/key",
        "open/../secret/key",
        "link/key",
        "open/b",
        absolute.to_str().unwrap(),
    ] {
        let calls = [
            ("read_file", json!({"path": path})),
            ("write_file", json!({"path": path, "content": "x"})),
        ];
        let run = turn(&home, rules, &["--skip-permissions"], &calls);
        for (tool, output) in run.results() {
            assert!(output.contains("not yours"), "{tool} {path}: {output}");
        }
    }
    assert_eq!(home.read("secret/key").as_deref(), Some("s3cret\n"));
    let calls = [("write_file", json!({"path": "open/new", "content": "x"}))];
    assert_eq!(turn(&home, rules, &[], &calls).code, 0);
    let calls = [("write_file", json!({"path": "new", "content": "x"}))];
    assert_eq!(turn(&home, rules, &[], &calls).code, 3);
    // A search through all of it would read what is denied.
    let calls = [("search", json!({"query": "s3cret"}))];
    assert_eq!(turn(&home, rules, &["--skip-permissions"], &calls).code, 3);
}

#[test]
fn a_wrong_rule_blocks_and_is_named_by_line_and_key() {
    let home = Home::new();
    for (rule, expected) in [
        (
            "[[policy]]\ntool = \"bsh\"\naction = \"deny\"\n",
            "line 7 (`tool`)",
        ),
        ("[[policy]]\nactoin = \"deny\"\n", "line 7"),
        (
            "[[policy]]\ntool = \"bash\"\naction = \"forbid\"\n",
            "line 8",
        ),
        ("[[policy]]\naction = \"deny\"\n", "line 6 (`policy`)"),
        ("[[policy]]\ntool = \"bash\"\n", "missing field `action`"),
        (
            "[[policy]]\ntool = 5\naction = \"deny\"\n",
            "a text or a list of texts",
        ),
        (
            "[[policy]]\npath = []\naction = \"deny\"\n",
            "line 7 (`path`)",
        ),
        (
            "[[policy]]\npath = \"a[\"\naction = \"deny\"\n",
            "line 7 (`path`): `a[` is not a glob",
        ),
        ("[[hooks]]\nevent = \"pre\"\ncommand = \"x\"\n", "line 7"),
        (
            "[[hooks]]\nevent = \"pre_tool\"\nmatcher = \"Bsh\"\ncommand = \"x\"\n",
            "line 8 (`matcher`)",
        ),
        (
            "[[hooks]]\nevent = \"pre_tool\"\ncommand = \"x\"\ntimeout = 600\n",
            "line 9 (`timeout`)",
        ),
    ] {
        let calls = [("bash", json!({"command": "touch made"}))];
        let wrong = turn(&home, rule, &["--skip-permissions"], &calls);
        assert_eq!(wrong.code, 2, "{rule}: {wrong:?}");
        assert!(wrong.stderr.contains(expected), "{rule}: {}", wrong.stderr);
        assert!(wrong.stderr.contains("config.toml"), "{}", wrong.stderr);
        assert_eq!(home.read("made"), None);
        let doctor = run(&home, &["doctor"]);
        assert_eq!(doctor.code, 1);
        assert!(
            doctor.stdout.contains(expected),
            "{rule}: {}",
            doctor.stdout
        );
    }
}

#[test]
fn a_project_can_make_things_stricter_and_nothing_else() {
    let home = Home::new();
    let calls = [("bash", json!({"command": "touch made"}))];
    home.write(
        ".castellan/policy.toml",
        "[[policy]]\ncommand = \"touch\"\naction = \"deny\"\nreason = \"hands off\"\n",
    );
    let run = turn(&home, "", &["--skip-permissions"], &calls);
    let result = &run.results()[0].1;
    assert!(
        result.contains("policy (.castellan/policy.toml:1)") && result.contains("hands off"),
        "{result}"
    );
    for (text, expected) in [
        (
            "[[policy]]\ntool = \"bash\"\naction = \"allow\"\n",
            "line 3 (`action`): a project can't allow anything",
        ),
        (
            "[[policy]]\ntol = \"bash\"\naction = \"deny\"\n",
            "line 2 (`tol`)",
        ),
        ("[[hooks]]\ncommand = \"x\"\n", "unknown field `hooks`"),
        ("[[policy]\n", "line 1"),
    ] {
        home.write(".castellan/policy.toml", text);
        let run = turn(&home, "", &["--skip-permissions"], &calls);
        assert_eq!(run.code, 2, "{text}: {run:?}");
        assert!(run.stderr.contains("policy.toml"), "{}", run.stderr);
        assert!(run.stderr.contains(expected), "{text}: {}", run.stderr);
        assert_eq!(home.read("made"), None);
    }
}

#[test]
fn what_makes_no_calls_works_whatever_is_wrong_with_rules() {
    let home = Home::new();
    assert_eq!(
        turn(&home, "", &[], &[("bash", json!({"command": "x"}))]).code,
        3
    );
    give(&home, "bash", Place::Everywhere);
    let wrong = "[[policy]]\ntool = \"bsh\"\naction = \"deny\"\n";
    home.write_config(wrong);
    home.write(".castellan/policy.toml", "[[policy]\n");
    for args in [
        &["sessions"][..],
        &["audit"],
        &["audit", "--verify"],
        &["grants"],
        &["tools"],
        &["config", "show"],
        &["grants", "revoke", "--all"],
    ] {
        let run = run(&home, args);
        assert_eq!(run.code, 0, "{args:?}: {run:?}");
        assert!(!run.stdout.is_empty(), "{args:?}");
    }
    for args in [&["exec", "go"][..], &[]] {
        let run = run(&home, args);
        assert_eq!(run.code, 2, "{args:?}: {run:?}");
        assert!(run.stderr.contains("line 2 (`tool`)"), "{}", run.stderr);
    }
}

#[test]
fn a_damaged_permission_is_listed_and_can_be_taken_away() {
    let home = Home::new();
    give(&home, "write_file", Place::Everywhere);
    let id = give(&home, "bash", Place::Everywhere).to_string();
    let damage = {
        let id = id.clone();
        move |tx: &castellan_store::Tx<'_>| {
            let sql = "UPDATE grants SET text = 'ba sh' WHERE id = $1";
            tx.execute(sql, &[(&id).into()])
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    assert_eq!(runtime.block_on(store(&home).write(damage)).unwrap(), 1);
    let listed = run(&home, &["grants"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    assert!(listed.stdout.contains("write_file"), "{}", listed.stdout);
    let said = format!("the grant {id} can't be read and permits nothing");
    assert!(listed.stderr.contains(&said), "{}", listed.stderr);
    let json: Value = serde_json::from_str(&run(&home, &["grants", "--json"]).stdout).unwrap();
    assert_eq!(
        (&json["total"], &json["damaged"][0]["id"]),
        (&json!(2), &json!(id))
    );
    let gone = run(&home, &["grants", "revoke", &id]);
    assert_eq!(gone.code, 0, "{gone:?}");
    assert!(gone.stdout.contains("could not be read"), "{}", gone.stdout);
    let left = run(&home, &["grants"]);
    assert_eq!((left.stderr.as_str(), left.stdout.lines().count()), ("", 2));
}

#[test]
fn a_command_too_much_to_be_searched_needs_a_person() {
    let home = Home::new();
    let command = format!("touch made; {} (", "rm -f x y; ".repeat(5_000));
    let calls = [("bash", json!({"command": command}))];
    let turn = turn(&home, "", &["--skip-permissions"], &calls);
    assert_eq!(turn.code, 3, "{turn:?}");
    assert!(
        turn.stdout.contains("more than is searched"),
        "{}",
        turn.stdout
    );
    assert_eq!(home.read("made"), None);
}

/// A project with rules of its own, and a call that would be rid of them.
#[test]
fn a_project_s_rules_can_not_be_taken_away_by_who_they_are_for() {
    let home = Home::new();
    let rules = "[[policy]]\ncommand = \"touch\"\naction = \"deny\"\n";
    home.write(".castellan/policy.toml", rules);
    for call in [
        ("bash", json!({"command": "rm -r .castellan"})),
        ("bash", json!({"command": "rm -r .ca*"})),
        (
            "write_file",
            json!({"path": ".castellan/policy.toml", "content": ""}),
        ),
        (
            "write_file",
            json!({"path": ".castellan/new", "content": ""}),
        ),
    ] {
        let turn = turn(
            &home,
            "",
            &["--skip-permissions"],
            std::slice::from_ref(&call),
        );
        assert_eq!(turn.code, 3, "{call:?}: {turn:?}");
        assert_eq!(home.read(".castellan/policy.toml").as_deref(), Some(rules));
    }
    // What does not name them the sandbox stops, where it can.
    let call = json!({"command": "find . -name 'policy*' -delete; ls -A"});
    let turn = turn(&home, "", &["--skip-permissions"], &[("bash", call)]);
    let sandboxed = run(&home, &["doctor"]).stdout.contains("bubblewrap");
    if sandboxed {
        assert_eq!(home.read(".castellan/policy.toml").as_deref(), Some(rules));
        assert!(turn.results()[0].1.contains(".castellan"), "{turn:?}");
    } else {
        println!("SKIPPED: no bubblewrap here");
    }
}

#[test]
fn the_configuration_and_the_doctor_show_rules_and_hooks() {
    let home = Home::new();
    let rules = "[[policy]]\ncommand = [\"git push\", \"rm\"]\naction = \"deny\"\n\
                 [[hooks]]\nevent = \"pre_tool\"\nmatcher = \"Edit|Write\"\ncommand = \"./check\"\n";
    home.write_config(rules);
    let shown = run(&home, &["config", "show"]).stdout;
    for part in [
        "[[policy]]",
        "\"git push\"",
        "action = \"deny\"",
        "[[hooks]]",
        "./check",
    ] {
        assert!(shown.contains(part), "{part} not in {shown}");
    }
    home.write(
        ".castellan/policy.toml",
        "[[policy]]\ntool = \"*\"\naction = \"ask\"\n",
    );
    let doctor = run(&home, &["doctor"]).stdout;
    assert!(
        doctor.contains("1 rule, 1 hook; 1 rule in .castellan/policy.toml"),
        "{doctor}"
    );
}

fn store(home: &Home) -> Store {
    let path = home.castellan_home().join("castellan.db");
    Store::open(path, Settings::default()).unwrap()
}

/// Keeps a permission, as another process does with an answer.
fn give(home: &Home, text: &str, place: Place) -> GrantId {
    let id = GrantId::mint(&SystemIds);
    let row = GrantRow {
        id,
        grant: text.parse().unwrap(),
        place,
        who: "person:me".into(),
        surface: "interactive".into(),
        session: None,
        given: SystemClock::new().now(),
        uses: 0,
        last_used: None::<Timestamp>,
    };
    let store = store(home);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let given = runtime.block_on(store.write(move |tx| grants::give(tx, &row)));
    assert!(given.unwrap());
    id
}

#[test]
fn a_permission_for_good_holds_until_it_is_revoked_and_says_how_often() {
    let home = Home::new();
    let project = Place::Project(home.workspace());
    let id = give(&home, "bash:touch", project).to_string();
    let other = give(&home, "write_file", Place::Everywhere).to_string();
    let calls = |name: &str| [("bash", json!({"command": format!("touch {name}")}))];
    assert_eq!(turn(&home, "", &[], &calls("one")).code, 0);
    let listed = run(&home, &["grants"]);
    assert_eq!(listed.stdout, run(&home, &["grants", "list"]).stdout);
    for part in [&*id, "bash:touch", "write_file", "everywhere"] {
        assert!(listed.stdout.contains(part), "{}", listed.stdout);
    }
    let rows = |args: &[&str]| -> Value { serde_json::from_str(&run(&home, args).stdout).unwrap() };
    let json = rows(&["grants", "list", "--json", "--project", "."]);
    assert_eq!(json["total"], 1);
    let row = &json["grants"][0];
    assert_eq!((&row["id"], &row["uses"]), (&json!(id), &json!(1)));
    assert_eq!(
        (&row["scope"], &row["grant"]),
        (&json!("project"), &json!("bash:touch"))
    );

    let revoked = run(&home, &["grants", "revoke", &id]);
    assert_eq!(revoked.code, 0, "{revoked:?}");
    assert!(revoked.stdout.contains("bash:touch"), "{}", revoked.stdout);
    assert_eq!(turn(&home, "", &[], &calls("two")).code, 3);
    assert_eq!(home.read("two"), None);
    let audit = run(&home, &["audit"]).stdout;
    assert!(audit.contains("revoked: `bash:touch` in"), "{audit}");

    let beginning = other.get(..other.len() - 6).unwrap();
    assert_eq!(run(&home, &["grants", "revoke", beginning]).code, 0);
    let empty = run(&home, &["grants"]);
    assert_eq!((empty.code, empty.stdout.as_str()), (0, ""));
    assert!(empty.stderr.contains("no permissions"), "{}", empty.stderr);
}

#[test]
fn a_permission_given_and_revoked_by_another_process_counts_in_a_running_session() {
    let home = Home::new();
    let gates = [Gate::new(), Gate::new()];
    let touch = |name: &str| Reply::calls([("bash", json!({"command": format!("touch {name}")}))]);
    let server = ModelServer::scripted([
        touch("one").held_at(&gates[0]),
        touch("two").held_at(&gates[1]),
        Reply::text("done"),
    ]);
    home.write_config(&config(&server));
    let child = piped(home.command(PROGRAM).args(["exec", "go"]))
        .spawn()
        .unwrap();
    gates[0].wait_reached();
    let id = give(&home, "bash:touch", Place::Everywhere).to_string();
    gates[0].open();
    gates[1].wait_reached();
    assert!(home.read("one").is_some());
    assert_eq!(run(&home, &["grants", "revoke", &id]).code, 0);
    gates[1].open();
    let waiting: Run = child.wait_with_output().unwrap().into();
    assert_eq!(waiting.code, 3, "{waiting:?}");
    assert_eq!(home.read("two"), None);
}

#[test]
fn revoking_what_is_not_there_says_so_and_revokes_nothing() {
    let home = Home::new();
    let id = give(&home, "bash", Place::Everywhere).to_string();
    for (args, expected) in [
        (
            &["grants", "revoke", &id, "grant_ffffffff"][..],
            "there is no grant",
        ),
        (&["grants", "revoke", "bash"], "is not a grant's id"),
        (&["grants", "revoke", "grant_0"], "too short"),
        (&["grants", "revoke"], "required"),
        (&["grants", "revoke", &id, "--all"], "cannot be used with"),
        (
            &["grants", "list", "--session", "ws_ffffffff"],
            "there is no session",
        ),
    ] {
        let run = run(&home, args);
        assert_eq!(run.code, 2, "{args:?}: {run:?}");
        assert!(run.stderr.contains(expected), "{args:?}: {}", run.stderr);
    }
    let all = |args: &[&str]| run(&home, args).stdout.lines().count();
    assert_eq!(all(&["grants", "revoke", "--all-project", "/nowhere"]), 0);
    assert_eq!(all(&["grants", "revoke", "--all"]), 1);
}
