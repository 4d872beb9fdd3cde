//! Episodes through the whole program, and their replays.

use std::path::{Path, PathBuf};

use castellan_testkit::{Home, ModelServer, Reply};
use nix::unistd::geteuid;
use serde_json::{Value, json};

use crate::plugins::plugin;
use crate::program::{PROGRAM, Run, config, run, run_with_input};
use crate::terminal::Terminal;

/// Runs an episode with the usual goal.
pub(crate) fn episode(home: &Home, args: &[&str]) -> Run {
    run(
        home,
        &[&["run", "--goal", "bring food home"], args].concat(),
    )
}

/// A home in which commands and plugins are not enclosed: these tests are about what they say.
pub(crate) fn home() -> Home {
    let home = Home::new();
    home.write_config("sandbox = \"off\"\n");
    home
}

pub(crate) fn example() -> PathBuf {
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
        "2",
        "--max-steps",
        "100",
    ];
    let without = [&plays[..], &["--set", "deposits=off", "--trace", "w.jsonl"]].concat();
    let ran = episode(&home, &without);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.stderr.contains("100 steps are used up"),
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
fn a_file_that_may_not_grow_ends_it_and_it_is_said() {
    let home = home();
    // What it keeps on record is most of the trace.
    plugin(
        &home,
        "#!/bin/sh\nstate=$(head -c 100000 /dev/zero | tr '\\0' x)\n\
         while read -r line; do echo \"{\\\"state\\\": \\\"$state\\\"}\"; done\n",
    );
    let text = "ulimit -f 1024; exec \"$0\" \"$@\"";
    let plays = ["run", "--goal", "x", "--plugin", "./plugin", "--trace", "t"];
    let mut command = home.command("bash");
    let output = command.args(["-c", text, PROGRAM]).args(plays).output();
    let ran: Run = output.unwrap().into();
    untraced(&home, &ran, "File too large");
    let size = std::fs::metadata(home.workspace().join("t")).unwrap().len();
    assert_eq!(size, 1024 * 1024);
    // As far as it goes, torn line included, it is a record.
    let replayed = run(&home, &["trace", "replay", "t"]);
    assert_eq!(replayed.code, 0, "{replayed:?}");
    assert!(
        replayed.stdout.contains("the record has no end"),
        "{}",
        replayed.stdout
    );
}

#[test]
fn a_disk_that_fills_up_ends_it_and_it_is_said() {
    let home = home();
    let disk = home.workspace().join("disk");
    std::fs::create_dir(&disk).unwrap();
    // In a mount namespace of its own, so that the disk goes when the process does.
    let text = "mount -t tmpfs -o size=1m none disk && exec \"$0\" \"$@\"";
    let plays = [
        "run",
        "--goal",
        "x",
        "--plugin",
        "gridworld",
        "--mcp",
        "--trace",
        "disk/t",
    ];
    let mut command = home.command("unshare");
    if !geteuid().is_root() {
        command.arg("--map-root-user");
    }
    let command = command.args(["--mount", "sh", "-c", text, PROGRAM]);
    let ran: Run = command.args(plays).output().unwrap().into();
    untraced(&home, &ran, "No space left");
}

/// What is said and kept of an episode that could no longer be traced.
fn untraced(home: &Home, ran: &Run, why: &str) {
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains(why), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("none runs without its trace"),
        "{}",
        ran.stderr
    );
    let database = home.castellan_home().join("castellan.db");
    let database = rusqlite::Connection::open(database).unwrap();
    let (how, steps, reason): (String, i64, String) = database
        .query_row("SELECT how, steps, reason FROM episodes", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    assert_eq!(how, "untraced");
    assert!(steps > 1 && reason.contains(why), "{steps} {reason}");
}

/// What a client of the MCP server reads at this URI: the structured answer.
fn resource(home: &Home, uri: &str) -> Value {
    let ask = |id: u64, method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    };
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "probe", "version": "1"},
    });
    let call = json!({"name": "castellan_read_resource", "arguments": {"uri": uri}});
    let lines = [
        ask(1, "initialize", hello),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string(),
        ask(2, "tools/call", call),
        String::new(),
    ];
    let ran = run_with_input(home, &["mcp"], &lines.join("\n"));
    let mut answers = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let answer = answers.find(|answer| answer["id"] == 2);
    assert!(answer.is_some(), "{ran:?}");
    answer.unwrap()["result"]["structuredContent"].take()
}

/// The address that an episode is kept under.
fn kept(ran: &Run) -> String {
    let (_, rest) = ran.stdout.split_once("kept as ").unwrap();
    rest.trim_end().to_owned()
}

#[test]
fn what_an_episode_came_to_is_a_resource() {
    let home = home();
    let plays = [
        "--plugin",
        "gridworld",
        "--mcp",
        "--seed",
        "18446744073709551615",
        "--trace",
        "t.jsonl",
    ];
    let ran = episode(&home, &[&plays[..], &SMALL].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let uri = kept(&ran);
    let read = resource(&home, &uri);
    assert_eq!((&read["ok"], &read["uri"]), (&json!(true), &json!(uri)));
    let told: Value = serde_json::from_str(read["text"].as_str().unwrap()).unwrap();
    let trace = home.workspace().join("t.jsonl");
    for (key, value) in [
        ("goal", json!("bring food home")),
        ("plugin", json!("gridworld")),
        ("seed", json!(u64::MAX)),
        ("state", json!("reached")),
        ("reached", json!(true)),
        ("failed_calls", json!(0)),
        ("trace", json!(trace)),
        ("trace_bytes", json!(trace.metadata().unwrap().len())),
    ] {
        assert_eq!(told[key], value, "{key}: {told}");
    }
    assert_eq!(told["settings"]["plugin"]["food"], 4);
    let steps = told["steps"].as_u64().unwrap();
    assert!(ran.stdout.contains(&format!("after {steps} steps")));
    // Its id is a name for its trace as well.
    let id = uri.strip_prefix("episode://").unwrap();
    let replayed = run(&home, &["trace", "replay", id]);
    assert_eq!(replayed.code, 0, "{replayed:?}");
    for missing in ["episode://nothing", &uri.replace("ep_0", "ep_f")] {
        let read = resource(&home, missing);
        assert_eq!(read["ok"], false, "{read}");
        assert_eq!(read["error_code"], "NOT_FOUND", "{read}");
        assert!(read.to_string().contains(&uri), "{read}");
    }
}

#[test]
fn an_episode_finds_others_only_where_its_zones_are_shared() {
    let home = home();
    let plays = ["--plugin", "gridworld", "--mcp"];
    let ran = episode(&home, &[&plays[..], &SMALL].concat());
    let uri = kept(&ran);
    let text = format!(
        "#!/bin/sh\nread line\necho '{{\"mcp_tools\": [{{\"tool\": \
         \"castellan_read_resource\", \"args\": {{\"uri\": \"{uri}\"}}}}]}}'\n\
         read line\ncase $line in *'\"ok\":true'*) echo '{{\"done\": true}}' ;;\n\
         *) echo '{{\"done\": true, \"reached\": false}}' ;; esac\n"
    );
    plugin(&home, &text);
    let plays = ["--plugin", "./plugin", "--mcp"];
    assert_eq!(episode(&home, &plays).code, 1);
    let shared = episode(&home, &[&plays[..], &["--zones", "shared"]].concat());
    assert_eq!(shared.code, 0, "{shared:?}");
}

#[test]
fn a_model_that_is_not_there_is_said_to_be_needed() {
    let home = home();
    let ran = episode(&home, &["--mcp"]);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("model"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("the plugin `session` is a model"),
        "{}",
        ran.stderr
    );
    // Nothing has begun.
    assert!(!home.castellan_home().join("traces").exists());
}

#[test]
fn on_a_terminal_the_picture_moves_in_its_place() {
    let home = home();
    let plays = ["run", "--goal", "x", "--plugin", "gridworld", "--mcp"];
    let terminal = Terminal::usual(&home, &[&plays[..], &SMALL].concat());
    let screen = terminal.wait("kept as episode://");
    let lines: Vec<&str> = screen.lines().collect();
    let moving = lines
        .iter()
        .filter(|line| line.starts_with("step "))
        .count();
    assert_eq!(moving, 1, "{screen}");
    assert!(lines.iter().any(|line| line.contains('H')), "{screen}");
    assert!(terminal.ended().success());
    // Where there is no room for the picture, as much of it is shown as fits.
    let low = Terminal::start(&home, &[&plays[..], &SMALL].concat(), (60, 6), &[]);
    let bytes = low.until("its end", |screen| screen.contains("kept as"));
    drop(bytes);
    let sent = String::from_utf8(low.bytes()).unwrap();
    assert!(!sent.contains("\u{1b}[6A"), "{sent}");
    assert!(low.ended().success());
}

#[test]
fn a_trace_of_an_episode_is_summed_up() {
    let home = home();
    let plays = ["--plugin", "gridworld", "--mcp", "--trace", "t.jsonl"];
    assert_eq!(episode(&home, &[&plays[..], &SMALL].concat()).code, 0);
    let ran = run(&home, &["trace", "stats", "t.jsonl", "--json"]);
    let stats: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(stats["steps"].as_u64().unwrap() > 1, "{stats}");
    assert_eq!(stats["reached"], true);
    let calls = &stats["tools"]["castellan_read_signal"]["calls"];
    assert!(calls.as_u64().unwrap() > 10, "{stats}");
    let ran = run(&home, &["trace", "stats", "t.jsonl"]);
    assert!(ran.stdout.contains("reached"), "{}", ran.stdout);
}
