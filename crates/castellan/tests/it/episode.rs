//! Episodes and replays through the whole program.

use std::path::{Path, PathBuf};
use std::time::Duration;

use castellan_testkit::{Home, ModelServer, Reply};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::program::{PROGRAM, Run, config, piped, run};

/// Runs an episode with the usual goal.
fn episode(home: &Home, args: &[&str]) -> Run {
    run(
        home,
        &[&["run", "--goal", "bring food home"], args].concat(),
    )
}

/// A home in which commands and plugins are not enclosed: these tests are about what they say.
fn home() -> Home {
    let home = Home::new();
    home.write_config("sandbox = \"off\"\n");
    home
}

/// A plugin in the workspace.
fn plugin(home: &Home, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    home.write("plugin", text);
    let path = home.workspace().join("plugin");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/coordinate.py")
}

const SMALL: [&str; 6] = ["--set", "food=4", "--set", "width=8", "--set", "agents=3"];

#[test]
fn the_same_seed_gives_the_same_trace_and_its_replay_agrees() {
    let home = home();
    let mut traces = Vec::new();
    for name in ["a.jsonl", "b.jsonl"] {
        let plays = [
            "--plugin",
            "gridworld",
            "--mcp",
            "--seed",
            "7",
            "--trace",
            name,
        ];
        let ran = episode(&home, &[&plays[..], &SMALL].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.stdout.contains("reached after"), "{}", ran.stdout);
        traces.push(home.read(name).unwrap());
    }
    assert!(traces[0] == traces[1]);
    let ran = run(&home, &["trace", "replay", "a.jsonl"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let total = traces[0].lines().count();
    assert_eq!(ran.stdout, format!("agrees in {total} lines\n"));
    // Nothing is left of either world.
    let left = std::fs::read_dir(home.temp()).unwrap().count();
    assert_eq!(left, 0);
}

#[test]
fn a_changed_trace_diverges_at_its_line() {
    let home = home();
    let plays = ["--plugin", "gridworld", "--mcp", "--trace", "t.jsonl"];
    let ran = episode(&home, &[&plays[..], &SMALL].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let trace = home.read("t.jsonl").unwrap();
    let mut lines: Vec<String> = trace.lines().map(str::to_owned).collect();
    let at = lines
        .iter()
        .position(|line| line.contains("\\\"after\\\":"))
        .unwrap();
    lines[at] = lines[at].replace("\\\"after\\\":", "\\\"After\\\":");
    home.write("t.jsonl", lines.join("\n") + "\n");
    let ran = run(&home, &["trace", "replay", "t.jsonl", "--json"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let verdict: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(verdict["verdict"], "diverges");
    assert_eq!(verdict["line"], at + 1);
    assert!(ran.stderr.contains("/output"), "{}", ran.stderr);
}

#[test]
fn the_field_is_shown_as_it_forms() {
    let home = home();
    let ran = episode(&home, &["--plugin", "gridworld", "--mcp"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let stills: Vec<&str> = ran.stdout.split("\n\n").collect();
    assert!(stills.len() > 3, "{}", ran.stdout);
    assert!(
        stills[0].contains('H') && !stills[0].contains('9'),
        "{}",
        stills[0]
    );
    assert!(
        stills.iter().any(|still| still.contains('9')),
        "{}",
        ran.stdout
    );
    // Without --trace it is traced all the same.
    let traces: Vec<_> = std::fs::read_dir(home.castellan_home().join("traces"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(traces.len(), 1);
    let id = traces[0].strip_suffix(".jsonl").unwrap();
    let shown = run(&home, &["trace", "show", id]);
    assert!(shown.stdout.contains("episode_start"), "{shown:?}");
}

#[test]
fn with_deposits_off_the_colony_does_not_make_it() {
    let home = home();
    let plays = [
        "--plugin",
        "gridworld",
        "--mcp",
        "--seed",
        "7",
        "--max-steps",
        "200",
    ];
    let without = [&plays[..], &["--set", "deposits=off", "--trace", "w.jsonl"]].concat();
    let ran = episode(&home, &without);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.stderr.contains("200 steps are used up"),
        "{}",
        ran.stderr
    );
    assert!(
        !home
            .read("w.jsonl")
            .unwrap()
            .contains("castellan_deposit_signal")
    );
    assert_eq!(episode(&home, &plays).code, 0);
}

#[test]
fn events_are_printed_as_they_are_traced() {
    let home = home();
    let plays = [
        "--plugin",
        "gridworld",
        "--mcp",
        "--json",
        "--trace",
        "t.jsonl",
    ];
    let ran = episode(&home, &[&plays[..], &SMALL].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout == home.read("t.jsonl").unwrap());
    assert_eq!(ran.kind("episode_end")[0]["reached"], true);
}

#[test]
fn the_example_of_the_docs_reaches_its_goal() {
    let home = home();
    let example = example();
    assert!(std::fs::read_to_string(&example).unwrap().lines().count() <= 30);
    let plays = [
        "--mcp",
        "--trace",
        "t.jsonl",
        "--plugin",
        example.to_str().unwrap(),
    ];
    let ran = episode(&home, &plays);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("coordination is at"), "{}", ran.stdout);
    let trace = home.read("t.jsonl").unwrap();
    assert!(trace.contains(r#""args":{"zone":"grid","signal":"coordination","amount":2.0}"#));
    let replayed = run(&home, &["trace", "replay", "t.jsonl"]);
    assert_eq!(replayed.code, 0, "{replayed:?}");
}

#[test]
fn a_plugin_that_misbehaves_has_failed_and_it_is_said_how() {
    for (text, word) in [
        (
            "#!/bin/sh\necho oops >&2; exit 3\n",
            "ended with exit code 3 before it was done; it said: oops",
        ),
        ("#!/bin/sh\nread line; echo hello\n", "not JSON"),
        ("#!/bin/sh\nread line; echo '[]'\n", "no object"),
        (
            "#!/bin/sh\nread line; echo '{\"mcp_tools\": 5}'\n",
            "no answer",
        ),
        ("#!/bin/sh\nread line; yes\n", "not JSON"),
        (
            "#!/bin/sh\nread line; tr '\\0' x </dev/zero\n",
            "more than 1048576 bytes",
        ),
        (
            "#!/bin/sh\nread line; sleep 300\n",
            "did not answer within 2 s",
        ),
        ("#!/bin/sh\nread line; kill -9 $$\n", "SIGKILL"),
        ("#!/no/such/interpreter\n", "could not be started"),
    ] {
        let home = home();
        plugin(&home, text);
        let plays = [
            "--mcp",
            "--plugin",
            "./plugin",
            "--step-timeout",
            "2",
            "--trace",
            "t",
        ];
        let ran = episode(&home, &plays);
        assert_eq!(ran.code, 3, "{text}: {ran:?}");
        assert!(ran.stderr.contains(word), "{text}: {}", ran.stderr);
        let end = home.read("t").unwrap();
        assert!(end.lines().last().unwrap().contains("episode_end"), "{end}");
        let replayed = run(&home, &["trace", "replay", "t"]);
        assert_eq!(replayed.code, 0, "{text}: {replayed:?}");
    }
}

#[test]
fn a_payload_with_tools_needs_mcp() {
    let home = home();
    let ran = episode(&home, &["--plugin", "gridworld"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stderr.contains("without --mcp"), "{}", ran.stderr);
}

#[test]
fn wrong_usage_is_said_before_anything_begins() {
    let home = home();
    home.write("script", "#!/bin/sh\n");
    home.write("full.jsonl", "something\n");
    for (args, word) in [
        (&["--plugin", "gridwrld"][..], "did you mean `gridworld`"),
        (&["--plugin", "./script"], "chmod +x"),
        (&["--plugin", "gridworld", "--set", "agents=0"], "1 to 12"),
        (&["--plugin", "gridworld", "--set", "agents"], "KEY=VALUE"),
        (
            &[
                "--plugin",
                "gridworld",
                "--set",
                "food=2",
                "--set",
                "food=3",
            ],
            "twice",
        ),
        (
            &["--plugin", "gridworld", "--trace", "full.jsonl"],
            "holds something",
        ),
        (&["--plugin", "gridworld", "--max-steps", "0"], "max-steps"),
    ] {
        let ran = episode(&home, args);
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(word), "{args:?}: {}", ran.stderr);
    }
    assert_eq!(home.read("full.jsonl").as_deref(), Some("something\n"));
    assert_eq!(run(&home, &["run", "--plugin", "gridworld"]).code, 2);
    let ran = run(&home, &["trace", "replay", "full.jsonl"]);
    assert_eq!(ran.code, 2, "{ran:?}");
}

#[test]
fn an_episode_that_can_not_be_traced_ends_and_says_so() {
    let home = home();
    let ran = episode(
        &home,
        &["--plugin", "gridworld", "--mcp", "--trace", "/dev/full"],
    );
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("No space left"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("none runs without its trace"),
        "{}",
        ran.stderr
    );
}

#[test]
fn shared_zones_are_those_of_everybody() {
    let home = home();
    let example = example();
    let plays = [
        "--mcp",
        "--zones",
        "shared",
        "--plugin",
        example.to_str().unwrap(),
    ];
    let steps = |ran: &Run| {
        let (_, rest) = ran.stdout.split_once("reached after ").unwrap();
        rest.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let first = episode(&home, &plays);
    let second = episode(&home, &plays);
    assert_eq!((first.code, second.code), (0, 0), "{first:?} {second:?}");
    assert!(steps(&second) < steps(&first), "{first:?} {second:?}");
}

#[test]
fn a_model_works_towards_the_goal() {
    let deposit = json!({"zone": "grid", "signal": "coordination", "amount": 2.0});
    let server = ModelServer::scripted([
        Reply::calls([("castellan_deposit_signal", deposit)]),
        Reply::calls([("castellan_read_signal", json!({"zone": "grid"}))]),
        Reply::text("It is there."),
    ]);
    let home = Home::new();
    home.write_config(&config(&server));
    let ran = episode(&home, &["--mcp", "--trace", "t.jsonl"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.stdout.contains("the model says: It is there."),
        "{}",
        ran.stdout
    );
    let asked = server.requests();
    let said = asked[0].messages().last().unwrap()["content"].to_string();
    assert!(said.contains("bring food home"), "{said}");
    let result = asked[2].messages().last().unwrap()["content"].to_string();
    assert!(result.contains("2.0") || result.contains("2"), "{result}");
    drop(server);
    let replayed = run(&home, &["trace", "replay", "t.jsonl"]);
    assert_eq!(replayed.code, 0, "{replayed:?}");
}

#[test]
fn a_session_is_replayed_from_its_trace() {
    let server = ModelServer::scripted([
        Reply::calls([("read_file", json!({"path": "a.txt"}))]),
        Reply::text("done"),
    ]);
    let home = Home::new();
    home.write("a.txt", "line one\n");
    home.write_config(&config(&server));
    let ran = run(&home, &["exec", "--json", "go"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    drop(server);
    std::fs::remove_file(home.workspace().join("a.txt")).unwrap();
    let id = ran.session();
    let replayed = run(&home, &["trace", "replay", &id]);
    assert_eq!(replayed.code, 0, "{replayed:?}");
    let trace = home.castellan_home().join(format!("traces/{id}.jsonl"));
    let text = std::fs::read_to_string(&trace).unwrap();
    let changed = text.replace("line one", "line two and more");
    assert_ne!(changed, text);
    std::fs::write(&trace, changed).unwrap();
    let replayed = run(&home, &["trace", "replay", &id]);
    assert_eq!(replayed.code, 1, "{replayed:?}");
    assert!(
        replayed.stderr.contains("model_request"),
        "{}",
        replayed.stderr
    );
}

#[test]
fn ctrl_c_ends_it_and_its_program() {
    let home = home();
    let text = "#!/bin/sh\nread line; echo $$ >pid.new; mv pid.new pid; sleep 300\n";
    plugin(&home, text);
    let args = ["run", "--goal", "x", "--plugin", "./plugin", "--trace", "t"];
    let child = piped(home.command(PROGRAM).args(args)).spawn().unwrap();
    let pid = loop {
        match home.read("pid") {
            Some(text) => break text.trim().parse::<i32>().unwrap(),
            None => std::thread::park_timeout(Duration::from_millis(5)),
        }
    };
    let own = i32::try_from(child.id()).unwrap();
    kill(Pid::from_raw(own), Signal::SIGINT).unwrap();
    let ran: Run = child.wait_with_output().unwrap().into();
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.stderr.contains("stopped from outside"),
        "{}",
        ran.stderr
    );
    assert!(kill(Pid::from_raw(pid), None).is_err());
    let replayed = run(&home, &["trace", "replay", "t"]);
    assert_eq!(replayed.code, 0, "{replayed:?}");
}
