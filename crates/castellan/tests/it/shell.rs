//! What `bash` promises, through the whole program.

use castellan_testkit::{Home, ModelServer, Reply};
use serde_json::json;

use crate::program::{PROGRAM, Run, bash, config, processes_in, turn};

#[test]
fn a_background_child_holds_nothing_up_and_is_said_to_be_ended() {
    for command in [
        "sleep 300 & echo done",
        "sleep 300 >/dev/null & echo done",
        "(while :; do echo t; sleep 1; done) & echo done",
    ] {
        let home = Home::new();
        let run = turn(&home, &[("bash", json!({"command": command}))]);
        let (_, output) = &run.results()[0];
        assert!(
            output.contains("done\n") && output.contains("ended with the command"),
            "{output}"
        );
        assert_eq!(processes_in(home.root()), [0_u32; 0], "{command}");
    }
}

#[test]
fn nothing_survives_a_timeout() {
    let home = Home::new();
    let command = "echo early; setsid sleep 333 & (trap '' TERM; sleep 334) & sleep 335";
    let run = turn(
        &home,
        &[("bash", json!({"command": command, "timeout": 1}))],
    );
    let result = &run.kind("tool_result")[0];
    assert_eq!(result["outcome"], "timed_out");
    let output = result["output"].as_str().unwrap();
    assert!(
        output.starts_with("early\n") && output.contains("the limit was 1 s"),
        "{output}"
    );
    assert_eq!(processes_in(home.root()), [0_u32; 0]);
}

#[test]
fn a_command_that_reads_input_or_the_terminal_returns_at_once() {
    let inputs =
        "cat; echo \"cat $?\"; python3 -; echo \"python $?\"; wc -l; read -r x || echo end";
    assert_eq!(bash(inputs), "cat 0\npython 0\n0\nend\n");
    let output = bash("python3 -c \"open('/dev/tty').readline()\"");
    assert!(output.contains("No such device"), "{output}");
}

#[test]
fn no_secret_of_ours_is_in_reach_of_a_command() {
    let look = "env; tr '\\0' '\\n' < /proc/$PPID/environ; \
                for p in /proc/[0-9]*; do [ \"$(readlink $p/exe)\" = \"$(readlink /proc/$PPID/exe)\" ] \
                && tr '\\0' '\\n' < $p/environ; done; echo looked";
    let server = ModelServer::scripted([
        Reply::calls([("bash", json!({"command": look}))]),
        Reply::text("done"),
    ]);
    let home = Home::new();
    // In a sandbox it would see even less.
    home.write_config(&format!("sandbox = \"off\"\n{}", config(&server)));
    let mut command = home.command(PROGRAM);
    command.args(["exec", "--json", "--skip-permissions", "go"]);
    command
        .env("FAKE_PROVIDER_API_KEY", "sk-test-123")
        .env("X_KEYS_0", "yellow");
    let run: Run = command.output().unwrap().into();
    let (_, output) = &run.results()[0];
    assert!(output.contains("looked"), "{output}");
    assert!(
        !output.contains("sk-test-123") && !output.contains("X_KEYS_0=yellow"),
        "{output}"
    );
}

#[test]
fn exit_codes_of_commands_are_told_and_only_from_2_on_are_failures() {
    let home = Home::new();
    let call = |command: &str| ("bash", json!({"command": command}));
    let run = turn(
        &home,
        &[
            call("exit 1"),
            call("exit 2"),
            call("kill -9 $$"),
            call("true"),
        ],
    );
    let results = run.kind("tool_result");
    let error = |text: &str| {
        let found = results
            .iter()
            .find(|result| result["output"].as_str().unwrap().contains(text));
        found.unwrap_or_else(|| panic!("{text} not in {results:?}"))["is_error"]
            .as_bool()
            .unwrap()
    };
    assert!(!error("[exit code 1]"));
    assert!(error("exit code 2"));
    assert!(error("SIGKILL"));
    assert!(!error("(no output)"));
}

#[test]
fn endless_output_is_cut_with_its_size_said() {
    let output = bash("head -c 30000000 /dev/zero | tr '\\0' x; echo; echo the end");
    assert!(output.len() < 300_000, "{}", output.len());
    assert!(
        output.contains("the end") && output.contains("of 30000009 bytes"),
        "{}",
        output.len()
    );
}

#[test]
fn a_command_that_kills_its_supervisor_is_reported_and_leaves_nothing() {
    let home = Home::new();
    let command = "(setsid sleep 300 &) ; kill -9 $PPID; sleep 300";
    let server = ModelServer::scripted([
        Reply::calls([("bash", json!({"command": command}))]),
        Reply::text("done"),
    ]);
    // In a sandbox it can't.
    home.write_config(&format!("sandbox = \"off\"\n{}", config(&server)));
    let run = crate::program::run(&home, &["exec", "--json", "--skip-permissions", "go"]);
    let result = &run.kind("tool_result")[0];
    assert_eq!(
        (&result["outcome"], &result["effect"]),
        (&json!("failed"), &json!("unknown"))
    );
    assert_eq!(processes_in(home.root()), [0_u32; 0]);
}

#[test]
fn what_a_failing_command_said_reaches_the_model() {
    let output = bash("echo why; echo because >&2; exit 3");
    assert!(output.starts_with("why\n[stderr] because\n"), "{output}");
    assert!(output.contains("exit code 3"), "{output}");
}

#[test]
fn an_output_that_is_too_long_stands_whole_in_the_named_file() {
    let home = Home::new();
    let run = turn(&home, &[("bash", json!({"command": "seq 1 200000"}))]);
    let result = &run.kind("tool_result")[0];
    let output = result["output"].as_str().unwrap();
    assert!(
        output.len() <= 256 * 1024 && output.starts_with("1\n"),
        "{}",
        output.len()
    );
    let file = result["spill"].as_str().unwrap();
    assert!(output.contains(file), "{file}");
    let whole: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
    assert!(std::fs::read_to_string(file).unwrap() == whole);
}

#[test]
fn a_small_context_window_still_leaves_room_for_output() {
    let server = ModelServer::scripted([
        Reply::calls([("bash", json!({"command": "seq 1 100000"}))]),
        Reply::text("done"),
    ]);
    let home = Home::new();
    home.write_config(&config(&server).replace("[database]", "context_window = 4096\n[database]"));
    let run = crate::program::run(&home, &["exec", "--json", "--skip-permissions", "go"]);
    let (_, output) = &run.results()[0];
    assert!(
        output.len() < 4096 && output.starts_with("1\n2\n3\n"),
        "{output}"
    );
    assert!(output.contains("\n100000\n"), "{output}");
}
