//! Programs that act in episodes: the example of the docs, and what those do that misbehave.

use std::path::PathBuf;
use std::process::Child;

use castellan_testkit::Home;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::episode::{episode, example, home};
use crate::program::{PROGRAM, Run, piped, processes_in, run, wait_until};

/// A plugin in the workspace.
pub(crate) fn plugin(home: &Home, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    home.write("plugin", text);
    let path = home.workspace().join("plugin");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Runs an episode with this program as its plugin, traced in `t`.
fn played(home: &Home, text: &str, more: &[&str]) -> Run {
    plugin(home, text);
    let plays = ["--mcp", "--plugin", "./plugin", "--trace", "t"];
    episode(home, &[&plays[..], more].concat())
}

/// The observations on record.
fn observations(home: &Home) -> Vec<Value> {
    let trace = home.read("t").unwrap();
    let events = trace
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    events
        .filter(|event| event["kind"] == "observation")
        .collect()
}

fn nothing_is_left(home: &Home) {
    let workspace = home.workspace();
    wait_until("all of it ends", || processes_in(&workspace).is_empty());
}

#[test]
fn the_example_of_the_docs_reaches_its_goal() {
    let home = home();
    let example = example();
    assert!(std::fs::read_to_string(&example).unwrap().lines().count() <= 30);
    let plays = [
        "--mcp",
        "--trace",
        "t",
        "--plugin",
        example.to_str().unwrap(),
    ];
    let ran = episode(&home, &plays);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("coordination is at"), "{}", ran.stdout);
    let trace = home.read("t").unwrap();
    assert!(trace.contains(r#""args":{"zone":"grid","signal":"coordination","amount":2.0}"#));
    let replayed = run(&home, &["trace", "replay", "t"]);
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
            "#!/bin/sh\nread line; printf '{\"done\": true, \"note\": \"\\377\"}\\n'\n",
            "not UTF-8",
        ),
        (
            "#!/bin/sh\nread line; sleep 300\n",
            "did not answer within 2 s",
        ),
        // One that does not even listen.
        ("#!/bin/sh\nsleep 300\n", "did not answer within 2 s"),
        ("#!/bin/sh\nread line; kill -9 $$\n", "SIGKILL"),
        ("#!/no/such/interpreter\n", "could not be started"),
        // Two answers to one question, in one piece.
        (
            "#!/bin/sh\nread line; printf '{}\\n{\"done\": true}\\n'; read line; sleep 300\n",
            "spoke before it was asked: {\"done\": true}",
        ),
    ] {
        let home = home();
        let ran = played(&home, text, &["--step-timeout", "2"]);
        assert_eq!(ran.code, 3, "{text}: {ran:?}");
        assert!(ran.stderr.contains(word), "{text}: {}", ran.stderr);
        let end = home.read("t").unwrap();
        assert!(end.lines().last().unwrap().contains("episode_end"), "{end}");
        let replayed = run(&home, &["trace", "replay", "t"]);
        assert_eq!(replayed.code, 0, "{text}: {replayed:?}");
        nothing_is_left(&home);
    }
}

#[test]
fn a_plugin_that_will_not_leave_is_ended_with_all_it_started() {
    let home = home();
    let text = "#!/bin/sh\ntrap '' TERM HUP INT\n(trap '' TERM; sleep 300) &\n\
                setsid sleep 301 &\nread line\necho '{\"done\": true, \"note\": \"bye\"}'\n\
                while :; do sleep 302; done\n";
    let ran = played(&home, text, &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.stdout.contains("reached after 1 step: bye"),
        "{}",
        ran.stdout
    );
    nothing_is_left(&home);
}

#[test]
fn a_large_observation_arrives_whole() {
    let home = home();
    // A slot is written once and read so often that the next observation has some megabytes.
    let text = r#"#!/bin/bash
read -r line
text=$(head -c 60000 /dev/zero | tr '\0' x)
printf '{"mcp_tools": [{"tool": "castellan_write_blackboard", "args": {"slot": "a", "value": "%s"}}' "$text"
for _ in $(seq 99); do
    printf ', {"tool": "castellan_read_blackboard", "args": {"slot": "a"}}'
done
printf ']}\n'
bytes=$(head -n 1 | wc -c)
printf '{"done": true, "note": "it had %s bytes"}\n' "$bytes"
"#;
    let ran = played(&home, text, &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let said = ran.stdout.split("it had ").nth(1).unwrap();
    let heard: usize = said.split(' ').next().unwrap().parse().unwrap();
    let shown = observations(&home).remove(1)["observation"].take();
    assert!(heard > 3_000_000, "{heard}");
    // The line has `{"observation":` before it, and `}` and its end after it.
    assert_eq!(heard, shown.to_string().len() + 17);
    assert_eq!(shown["results"].as_array().unwrap().len(), 100);
}

#[test]
fn settings_and_the_state_it_keeps_are_shown_to_a_plugin() {
    let home = home();
    let text = r#"#!/bin/sh
read -r line
case $line in *'"settings":{"zone":"here","size":"3"}'*) ;; *) exit 4 ;; esac
echo '{"state": {"round": 1}}'
read -r line
case $line in *'"state":{"round":1}'*) echo '{"done": true, "reached": false}' ;; *) exit 5 ;; esac
"#;
    let ran = played(&home, text, &["--set", "zone=here", "--set", "size=3"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("the plugin gave up"), "{}", ran.stderr);
    assert_eq!(observations(&home)[1]["observation"]["state"]["round"], 1);
}

/// Starts an episode and waits until its program, and what that has started, say that they run.
fn started(home: &Home) -> Child {
    let text = "#!/bin/sh\nread line; setsid sleep 300 & echo \"$$\" >pid.new; mv pid.new pid; \
                sleep 300\n";
    plugin(home, text);
    let args = ["run", "--goal", "x", "--plugin", "./plugin", "--trace", "t"];
    let child = piped(home.command(PROGRAM).args(args)).spawn().unwrap();
    wait_until("the plugin runs", || home.read("pid").is_some());
    child
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

#[test]
fn ctrl_c_ends_it_and_its_program() {
    let home = home();
    let child = started(&home);
    kill(pid(&child), Signal::SIGINT).unwrap();
    let ran: Run = child.wait_with_output().unwrap().into();
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.stderr.contains("stopped from outside"),
        "{}",
        ran.stderr
    );
    nothing_is_left(&home);
    let replayed = run(&home, &["trace", "replay", "t"]);
    assert_eq!(replayed.code, 0, "{replayed:?}");
}

#[test]
fn a_program_dies_with_us() {
    let home = home();
    let mut child = started(&home);
    kill(pid(&child), Signal::SIGKILL).unwrap();
    child.wait().unwrap();
    nothing_is_left(&home);
    // What is on record until then agrees, and is said to have no end.
    let replayed = run(&home, &["trace", "replay", "t"]);
    assert_eq!(replayed.code, 0, "{replayed:?}");
    assert!(
        replayed.stdout.contains("the record has no end"),
        "{}",
        replayed.stdout
    );
}

#[test]
fn hooks_are_heard_in_an_episode_and_none_is_started_by_its_replay() {
    let home = Home::new();
    let log = home.workspace().join("log");
    let hook = |command: &str| {
        home.write_config(&format!(
            "sandbox = \"off\"\n[[hooks]]\nevent = \"pre_tool\"\nmatcher = \"*deposit*\"\n\
             command = {command:?}\n"
        ));
    };
    let text = "#!/bin/sh\nread line\necho '{\"mcp_tools\": [{\"tool\": \
                \"castellan_deposit_signal\", \"args\": {\"zone\": \"a\", \"signal\": \"b\", \
                \"amount\": 1}}]}'\nread line\necho '{\"done\": true}'\n";
    let heard = || std::fs::read_to_string(&log).unwrap_or_default();
    hook(&format!("echo heard >>{}", log.display()));
    assert_eq!(played(&home, text, &[]).code, 0);
    assert_eq!(heard(), "heard\n");
    let replayed = run(&home, &["trace", "replay", "t"]);
    assert_eq!(replayed.code, 0, "{replayed:?}");
    assert_eq!(heard(), "heard\n");

    std::fs::remove_file(home.workspace().join("t")).unwrap();
    hook(&format!(
        "echo heard >>{}; echo not here >&2; exit 2",
        log.display()
    ));
    assert_eq!(played(&home, text, &[]).code, 0);
    let shown = observations(&home).remove(1)["observation"].take();
    assert_eq!(shown["results"][0]["error_code"], "DENIED");
    assert!(shown.to_string().contains("not here"), "{shown}");
    let replayed = run(&home, &["trace", "replay", "t"]);
    assert_eq!(replayed.code, 2, "{replayed:?}");
    assert!(
        replayed.stderr.contains("hooks had a say"),
        "{}",
        replayed.stderr
    );
    assert_eq!(heard(), "heard\nheard\n");
}

#[test]
fn every_tool_of_an_episode_answers_the_same_in_another_place() {
    let mut traces = Vec::new();
    for _ in 0..2 {
        let home = home();
        let listed = run(&home, &["tools", "--surface", "episode", "--json"]);
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
        let tools = listed.as_array().unwrap();
        assert!(tools.len() >= 15, "{}", tools.len());
        let call = |tool: &Value| {
            let args = &tool["examples"][0];
            assert!(args.is_object(), "{tool}");
            json!({"tool": tool["name"], "args": args})
        };
        let calls: Vec<Value> = tools.iter().map(call).collect();
        home.write("answer", json!({ "mcp_tools": calls }).to_string() + "\n");
        let text = "#!/bin/sh\nfor _ in 1 2 3; do read line; cat answer; done\n\
                    read line; echo '{\"done\": true}'\n";
        let ran = played(&home, text, &[]);
        assert_eq!(ran.code, 0, "{ran:?}");
        traces.push(home.read("t").unwrap());
        let replayed = run(&home, &["trace", "replay", "t"]);
        assert_eq!(replayed.code, 0, "{replayed:?}");
    }
    assert!(traces[0] == traces[1]);
}
