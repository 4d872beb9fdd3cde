//! `castellan exec` as its users meet it.

use castellan_testkit::{Gate, Home, ModelServer, Reply};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::program::{
    PROGRAM, config, home_with, piped, processes_in, run, run_with_input, turn, wait_until,
};

#[test]
fn three_tools_run_in_parallel_and_the_session_goes_on() {
    let home = Home::new();
    home.write("in.txt", "line one\n");
    let turn = turn(
        &home,
        &[
            (
                "bash",
                json!({"command": "printf hello > made.txt; cat made.txt; echo oops >&2"}),
            ),
            ("read_file", json!({"path": "in.txt"})),
            (
                "write_file",
                json!({"path": "sub/out.txt", "content": "written\n"}),
            ),
        ],
    );
    assert_eq!(home.read("made.txt").as_deref(), Some("hello"));
    assert_eq!(home.read("sub/out.txt").as_deref(), Some("written\n"));
    let results = turn.results();
    assert_eq!(results[0].1, "hello\n[stderr] oops\n");
    assert_eq!(results[1].1, "     1\tline one\n");
    assert!(results[2].1.contains("created") && results[2].1.contains("8 bytes"));

    let id = turn.session();
    let server = ModelServer::scripted([Reply::text("as I said")]);
    home.write_config(&config(&server));
    let more = run(&home, &["exec", "--resume", &id, "and now?"]);
    assert_eq!(
        (more.code, more.stdout.as_str()),
        (0, "as I said\n"),
        "{}",
        more.stderr
    );
    let asked = &server.requests()[0];
    let roles: Vec<_> = asked
        .messages()
        .iter()
        .map(|message| &message["role"])
        .collect();
    assert_eq!(
        roles,
        [
            "system",
            "user",
            "assistant",
            "tool",
            "tool",
            "tool",
            "assistant",
            "user"
        ]
    );

    let story = run(&home, &["trace", "show", &id]);
    assert!(story.stdout.contains("tool_result") && story.stdout.contains("hello"));
    let stats = run(&home, &["trace", "stats", &id, "--json"]);
    let stats: serde_json::Value = serde_json::from_str(&stats.stdout).unwrap();
    assert_eq!(
        (&stats["turns"], &stats["tools"]["bash"]["calls"]),
        (&json!(2), &json!(1))
    );
    let audit = run(&home, &["audit", "--verify"]);
    assert_eq!(audit.stdout, "the audit chain is whole: 2 rows\n");
}

#[test]
fn only_the_answer_goes_to_standard_output() {
    let server = ModelServer::scripted([
        Reply::text_and_calls("Let me look. ", [("bash", json!({"command": "echo hi"}))]),
        Reply::text("It says hi."),
    ]);
    let home = home_with(&server);
    let run = run(
        &home,
        &["exec", "--yes-to", "bash:echo", "what does it say?"],
    );
    assert_eq!(run.stdout, "It says hi.\n");
    assert!(run.stderr.contains("run echo hi"), "{}", run.stderr);
}

#[test]
fn a_prompt_can_be_piped_in() {
    let server = ModelServer::scripted([Reply::text("ok"), Reply::text("ok")]);
    let home = home_with(&server);
    assert_eq!(run_with_input(&home, &["exec"], "from a pipe\n").code, 0);
    assert_eq!(
        run_with_input(&home, &["exec", "-"], "from a dash\n").code,
        0
    );
    let asked: Vec<_> = server
        .requests()
        .iter()
        .map(|r| r.last_text().to_owned())
        .collect();
    assert_eq!(asked, ["from a pipe\n", "from a dash\n"]);
    let empty = run_with_input(&home, &["exec"], "");
    assert_eq!(empty.code, 2);
    assert!(
        empty.stderr.contains("there is no prompt"),
        "{}",
        empty.stderr
    );
}

#[test]
fn a_call_that_needs_a_person_ends_with_3_and_goes_on_once_it_is_allowed() {
    let server = ModelServer::scripted([
        Reply::calls([("bash", json!({"command": "touch made"}))]),
        Reply::text("made it"),
    ]);
    let home = home_with(&server);
    let asked = run(&home, &["exec", "--json", "make it"]);
    assert_eq!(asked.code, 3);
    assert_eq!(home.read("made"), None);
    assert!(asked.stderr.contains("--yes-to bash"), "{}", asked.stderr);
    let id = asked.session();
    let again = run(&home, &["exec", "--resume", &id]);
    assert_eq!(again.code, 3, "{}", again.stderr);
    assert!(again.stderr.contains("run touch made"), "{}", again.stderr);
    let allowed = run(&home, &["exec", "--resume", &id, "--yes-to", "bash"]);
    assert_eq!(
        (allowed.code, allowed.stdout.as_str()),
        (0, "made it\n"),
        "{}",
        allowed.stderr
    );
    assert_eq!(home.read("made").as_deref(), Some(""));
    let nothing = run(&home, &["exec", "--resume", &id]);
    assert_eq!(nothing.code, 2);
    assert!(
        nothing.stderr.contains("nothing to go on with"),
        "{}",
        nothing.stderr
    );
}

#[test]
fn a_turn_that_asks_too_often_ends_with_1() {
    let reply = || Reply::calls([("read_file", json!({"path": "x"}))]);
    let server = ModelServer::scripted([reply(), reply(), Reply::text("done")]);
    let home = home_with(&server);
    let first = run(&home, &["exec", "--json", "--max-turns", "2", "go"]);
    assert_eq!(first.code, 1);
    let then = run(&home, &["exec", "--resume", &first.session()]);
    assert_eq!(then.stdout, "done\n", "{}", then.stderr);
}

#[test]
fn a_model_that_refuses_ends_with_1_and_its_own_words() {
    let server = ModelServer::scripted([Reply::error(400, "temperature must be below 2")]);
    let home = home_with(&server);
    let run = run(&home, &["exec", "go"]);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert!(
        run.stderr.contains("temperature must be below 2"),
        "{}",
        run.stderr
    );
}

#[test]
fn without_a_model_it_says_what_it_looked_for_and_how_to_add_one() {
    let home = Home::new();
    let run: crate::program::Run = home
        .command(PROGRAM)
        .args(["exec", "hello"])
        // Nothing local may answer: whatever runs on this machine is not part of the test.
        .env("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        .output()
        .unwrap()
        .into();
    if run.code == 0 {
        // A model server runs on this machine: then using it is right.
        assert!(
            run.stderr.contains("no model is configured; using"),
            "{}",
            run.stderr
        );
        return;
    }
    assert_eq!(run.code, 1);
    for part in [
        "OPENAI_BASE_URL",
        "11434",
        "OPENAI_API_KEY: not set",
        "[models.",
        "--base-url",
    ] {
        assert!(run.stderr.contains(part), "{part} not in {}", run.stderr);
    }
}

#[test]
fn a_key_from_the_environment_is_sent_to_its_model_and_shown_nowhere() {
    let server = ModelServer::scripted([
        Reply::calls([("bash", json!({"command": "env; cat leak.txt"}))]),
        Reply::error(401, "bad key sk-from-env-123"),
    ]);
    let home = home_with(&server);
    home.write_config(&format!(
        "[models.test]\nbase_url = \"{}\"\nmodel = \"m\"\napi_key_env = \"MY_MODEL_KEY\"\n",
        server.base_url()
    ));
    home.write("leak.txt", "the key is sk-from-env-123\n");
    let mut command = home.command(PROGRAM);
    command
        .args(["exec", "--json", "--skip-permissions", "go"])
        .env("MY_MODEL_KEY", "sk-from-env-123");
    let run: crate::program::Run = command.output().unwrap().into();
    assert_eq!(run.code, 1);
    assert_eq!(
        server.requests()[0].header("authorization"),
        Some("Bearer sk-from-env-123")
    );
    assert!(
        !run.stdout.contains("sk-from-env") && !run.stderr.contains("sk-from-env"),
        "{run:?}"
    );
    assert!(run.stderr.contains("MY_MODEL_KEY"), "{}", run.stderr);
    assert!(
        run.results()[0].1.contains("the key is [redacted]"),
        "{run:?}"
    );
    let unset = crate::program::run(&home, &["exec", "go"]);
    assert!(
        unset.stderr.contains("MY_MODEL_KEY, which is not set"),
        "{}",
        unset.stderr
    );
}

#[test]
fn an_interrupt_ends_the_turn_and_leaves_no_process() {
    let server = ModelServer::scripted([Reply::calls([(
        "bash",
        json!({"command": "echo up; sleep 300"}),
    )])]);
    let home = home_with(&server);
    let mut command = home.command(PROGRAM);
    let child = piped(command.args(["exec", "--json", "--skip-permissions", "go"]))
        .spawn()
        .unwrap();
    let sleeping = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.starts_with(b"sleep\0")
    };
    wait_until("the command", || {
        processes_in(home.root()).iter().any(sleeping)
    });
    kill(
        Pid::from_raw(child.id().try_into().unwrap()),
        Signal::SIGINT,
    )
    .unwrap();
    let run: crate::program::Run = child.wait_with_output().unwrap().into();
    assert_eq!(run.code, 1);
    let result = &run.kind("tool_result")[0];
    assert_eq!(result["outcome"], "cancelled");
    assert!(
        result["output"].as_str().unwrap().starts_with("up\n"),
        "{result}"
    );
    assert_eq!(processes_in(home.root()), [0_u32; 0]);
}

#[test]
fn an_interrupt_ends_a_wait_for_the_model() {
    let gate = Gate::new();
    let server = ModelServer::scripted([Reply::text("late").held_at(&gate)]);
    let home = home_with(&server);
    let mut command = home.command(PROGRAM);
    let child = piped(command.args(["exec", "go"])).spawn().unwrap();
    gate.wait_reached();
    kill(
        Pid::from_raw(child.id().try_into().unwrap()),
        Signal::SIGTERM,
    )
    .unwrap();
    let run: crate::program::Run = child.wait_with_output().unwrap().into();
    assert!(run.code == 1 && run.stderr.contains("cancelled"), "{run:?}");
}

#[test]
fn extra_body_reaches_the_server_as_it_stands() {
    let server = ModelServer::scripted([Reply::text("ok")]);
    let home = home_with(&server);
    home.write_config(&format!(
        "{}[models.test.extra_body]\ntool_choice = {{ type = \"function\", function = {{ name = \
         \"read_file\" }} }}\ntemperature = 0.5\n",
        config(&server).replace("[database]\nsynchronous = \"normal\"\n", "")
    ));
    assert_eq!(run(&home, &["exec", "go"]).code, 0);
    let body = &server.requests()[0].body;
    assert_eq!(body["tool_choice"]["function"]["name"], "read_file");
    assert_eq!(body["temperature"], 0.5);
}

#[test]
fn calls_of_one_answer_that_write_one_file_follow_each_other() {
    let home = Home::new();
    let write = |content: &str, mode: &str| {
        (
            "write_file",
            json!({"path": "log", "content": content, "mode": mode}),
        )
    };
    let run = turn(
        &home,
        &[
            write("1\n", "overwrite"),
            write("2\n", "append"),
            write("3\n", "append"),
        ],
    );
    assert_eq!(home.read("log").as_deref(), Some("1\n2\n3\n"), "{run:?}");
    turn(
        &home,
        &[write("a\n", "overwrite"), write("b\n", "overwrite")],
    );
    assert_eq!(home.read("log").as_deref(), Some("b\n"));
}

#[test]
fn a_cut_answer_is_said_to_be_one() {
    let chunk = |delta: serde_json::Value, finish: serde_json::Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let server = ModelServer::scripted([Reply::sse([
        chunk(
            json!({"role": "assistant", "content": "The first half"}),
            json!(null),
        ),
        chunk(json!({}), json!("length")),
    ])]);
    let home = home_with(&server);
    let run = run(&home, &["exec", "go"]);
    assert_eq!(run.stdout, "The first half\n");
    assert!(
        run.stderr.contains("cut off by the output limit"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_hint_to_go_on_reaches_the_same_model() {
    let server = ModelServer::scripted([
        Reply::calls([("bash", json!({"command": "touch made"}))]),
        Reply::text("made it"),
    ]);
    let home = Home::new();
    let asked = run(
        &home,
        &[
            "exec",
            "--base-url",
            &server.base_url(),
            "--model",
            "m",
            "make it",
        ],
    );
    assert_eq!(asked.code, 3);
    let hint = asked
        .stderr
        .lines()
        .find_map(|line| line.split_once("allow it and go on: castellan "));
    let words: Vec<&str> = hint
        .unwrap()
        .1
        .split(' ')
        .map(|word| word.trim_matches('\''))
        .collect();
    let allowed = run(&home, &words);
    assert_eq!(
        (allowed.code, allowed.stdout.as_str()),
        (0, "made it\n"),
        "{}",
        allowed.stderr
    );
}

#[test]
fn a_key_given_as_an_argument_can_not_be_read_from_outside() {
    let server = ModelServer::scripted([
        Reply::calls([(
            "bash",
            json!({"command": "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | sort"}),
        )]),
        Reply::text("done"),
    ]);
    let home = Home::new();
    // In a sandbox it might not even see the process.
    home.write_config("sandbox = \"off\"\n");
    let url = server.base_url();
    let args = [
        "exec",
        "--json",
        "--skip-permissions",
        "--base-url",
        &url,
        "--model",
        "m",
    ];
    let run = run(
        &home,
        &[&args[..], &["--api-key", "sk-argument-123", "go"]].concat(),
    );
    assert_eq!(
        server.requests()[0].header("authorization"),
        Some("Bearer sk-argument-123")
    );
    let (_, output) = &run.results()[0];
    assert!(
        output.contains("--api-key") && !output.contains("sk-argument"),
        "{output}"
    );
    assert!(
        !output.contains("[redacted]"),
        "it is not even there to be redacted: {output}"
    );
}

#[test]
fn a_file_is_searched_read_and_edited_without_touching_its_other_bytes() {
    let server = ModelServer::scripted([
        Reply::calls([("search", json!({"query": "colou?r", "path": "."}))]),
        Reply::calls([(
            "edit_file",
            json!({"path": "a.txt", "old_string": "x", "new_string": "y"}),
        )]),
        Reply::calls([("read_file", json!({"path": "a.txt"}))]),
        Reply::calls([(
            "edit_file",
            json!({"path": "a.txt", "old_string": "one\ncolor", "new_string": "ONE\ncolour"}),
        )]),
        Reply::text("done"),
    ]);
    let home = home_with(&server);
    home.write("a.txt", b"\xef\xbb\xbfone\r\ncolor\nlast");
    let run = run(&home, &["exec", "--json", "--yes-to", "edit_file", "go"]);
    assert_eq!(run.code, 0, "{run:?}");
    let outputs: Vec<String> = run
        .kind("tool_result")
        .iter()
        .map(|event| event["output"].as_str().unwrap().to_owned())
        .collect();
    assert!(outputs[0].contains("a.txt:2: color"), "{}", outputs[0]);
    assert!(
        outputs[1].starts_with("Error"),
        "an edit needs a read: {}",
        outputs[1]
    );
    assert!(
        outputs[3].contains("-color") && outputs[3].contains("+colour"),
        "{}",
        outputs[3]
    );
    let bytes = std::fs::read(home.workspace().join("a.txt")).unwrap();
    assert_eq!(bytes, b"\xef\xbb\xbfONE\r\ncolour\nlast");
}
