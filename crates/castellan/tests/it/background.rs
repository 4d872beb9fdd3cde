//! Commands in the background: started, read, ended, and never left behind.

use std::io::{BufRead as _, BufReader};

use castellan_testkit::{Home, ModelServer, Reply};
use serde_json::{Value, json};

use crate::program::{
    PROGRAM, Run, Step, config, outputs, piped, plan_args, planned, planning_server, processes_in,
    run, steps, wait_until,
};

fn background(command: &str) -> (&'static str, Value) {
    ("bash", json!({"command": command, "background": true}))
}

fn bash(command: &str) -> (&'static str, Value) {
    ("bash", json!({"command": command}))
}

fn read(id: &str) -> (&'static str, Value) {
    ("bash_output", json!({"id": id}))
}

/// A step that is made once.
fn once((tool, arguments): (&'static str, Value)) -> Step<'static> {
    (tool, arguments, "")
}

/// A step that reads until it has read this.
fn read_until(id: &str, text: &'static str) -> Step<'static> {
    ("bash_output", json!({"id": id}), text)
}

#[test]
fn a_background_shell_is_read_as_it_goes_and_its_end_is_told() {
    let home = Home::new();
    let command = "for n in 1 2 3; do echo line $n; done; until [ -e go ]; do sleep 0.02; done; \
                   echo last >&2; exit 4";
    let filtered = json!({"id": "b1", "filter": "line [13]"});
    let steps = [
        once(background(command)),
        ("bash_output", filtered, "line 3\n"),
        once(read("b1")),
        // Nobody asks: until the session is told by itself.
        (
            "bash",
            json!({"command": "touch go; sleep 0.05"}),
            "[castellan: the background shell b1",
        ),
        read_until("b1", "last\n"),
        once(read("b1")),
    ];
    let (run, said) = planned(&home, &steps);
    assert!(
        said[0].starts_with("b1 runs in the background."),
        "{}",
        said[0]
    );
    assert!(
        said[1].contains("line 1\n") && !said[1].contains("line 2"),
        "{}",
        said[1]
    );
    assert!(said[1].contains("don't match `filter`"), "{}", said[1]);
    assert!(
        said[2].starts_with("[nothing new]\n[b1 (`for n in"),
        "{}",
        said[2]
    );
    assert!(said[2].contains("has been running for"), "{}", said[2]);
    let notices = run.kind("notice");
    assert_eq!(notices.len(), 1, "{notices:?}");
    let notice = notices[0]["text"].as_str().unwrap();
    assert!(
        notice.contains("exit code 4") && notice.contains("bytes of its output"),
        "{notice}"
    );
    assert!(said[4].starts_with("[stderr] last\n"), "{}", said[4]);
    assert!(
        said[4].contains("has ended after") && said[4].contains("exit code 4"),
        "{}",
        said[4]
    );
    assert!(said[5].starts_with("[nothing new]\n"), "{}", said[5]);
}

#[test]
fn its_tools_are_offered_from_the_first_one_on() {
    let home = Home::new();
    let steps = [bash("true"), background("sleep 3900"), bash("true")].map(once);
    let server = planning_server();
    home.write_config(&config(&server));
    let args = plan_args(&steps, &[]);
    let run = run(&home, &args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(run.code, 0, "{run:?}");
    let offered: Vec<bool> = server
        .requests()
        .iter()
        .map(|request| {
            let names = request.tool_names();
            let offered = ["bash_output", "kill_shell"].map(|name| names.contains(&name));
            assert_eq!(offered[0], offered[1]);
            offered[0]
        })
        .collect();
    assert_eq!(offered, [false, false, true, true]);
}

#[test]
fn kill_shell_ends_all_of_it_and_says_so() {
    let home = Home::new();
    let stubborn = "setsid sleep 3911 & trap '' TERM; echo up; while :; do sleep 3912; done";
    let steps = [
        once(background(stubborn)),
        read_until("b1", "up\n"),
        once(("kill_shell", json!({"id": "b1"}))),
        once(bash("ps -eo args | grep -c '^sleep 391[12]$'")),
        once(read("b1")),
        once(("kill_shell", json!({"id": "b1"}))),
        once(("kill_shell", json!({"id": "b7"}))),
    ];
    let (run, said) = planned(&home, &steps);
    assert!(
        said[2].starts_with("b1 with all it had started: ended on request"),
        "{}",
        said[2]
    );
    assert!(said[3].starts_with("0\n"), "{}", said[3]);
    assert!(
        said[4].starts_with("[nothing new]") && said[4].contains("has ended"),
        "{}",
        said[4]
    );
    assert!(said[5].contains("ended on request"), "{}", said[5]);
    assert!(
        said[6].contains("no background shell `b7`") && said[6].contains("b1"),
        "{}",
        said[6]
    );
    assert_eq!(run.kind("notice"), [Value::Null; 0]);
    assert_eq!(processes_in(home.root()), [0_u32; 0]);
}

#[test]
fn no_more_than_eight_run_and_the_list_says_which() {
    let home = Home::new();
    let mut calls: Vec<_> = (0..8)
        .map(|n| background(&format!("sleep 392{n}")))
        .collect();
    calls.push(background("sleep 3928"));
    calls.push(("kill_shell", json!({"id": "b3"})));
    calls.push(background("sleep 3929"));
    let run = steps(&home, &calls);
    let said = outputs(&run);
    assert!(said[7].starts_with("b8 runs"), "{}", said[7]);
    assert!(
        said[8].contains("8 background shells run") && said[8].contains("b3 (sleep 3922)"),
        "{}",
        said[8]
    );
    assert!(said[10].starts_with("b9 runs"), "{}", said[10]);
    // They end with the session, by name.
    assert_eq!(
        run.stderr.matches("ended with the session").count(),
        8,
        "{}",
        run.stderr
    );
    assert!(
        run.stderr
            .contains("background shell b9 ended with the session"),
        "{}",
        run.stderr
    );
    assert_eq!(processes_in(home.root()), [0_u32; 0]);
}

#[test]
fn a_timeout_is_kept_where_it_is_given_and_errors_are_said() {
    let home = Home::new();
    let timed = json!({"command": "sleep 3930", "background": true, "timeout": 1});
    let strict = json!({"command": "false; sleep 3931", "background": true, "stop_on_error": true});
    let steps = [
        once(("bash", timed)),
        read_until("b1", "timed out: the limit was 1 s"),
        once(("bash_output", json!({"id": "b1", "filter": "("}))),
        once(("bash", strict)),
        read_until("2", "exit code 1"),
        once((
            "bash",
            json!({"command": "x", "background": true, "timeout": 601}),
        )),
    ];
    let (_, said) = planned(&home, &steps);
    assert!(said[2].contains("`filter`"), "{}", said[2]);
    assert!(said[4].contains("[b2 "), "{}", said[4]);
    assert!(said[5].contains("1 to 600"), "{}", said[5]);
}

#[test]
fn a_resumed_session_knows_what_ended_with_the_last_process() {
    let home = Home::new();
    let first = steps(&home, &[background("echo begun; sleep 3905")]);
    let server = ModelServer::scripted([
        Reply::calls([read("b1")]),
        Reply::calls([background("true")]),
        Reply::text("done"),
    ]);
    home.write_config(&config(&server));
    let args = [
        "exec",
        "--json",
        "--skip-permissions",
        "--resume",
        &first.session(),
        "and?",
    ];
    let second = run(&home, &args);
    let notice = &second.kind("notice")[0]["text"];
    assert!(
        notice
            .as_str()
            .unwrap()
            .contains("b1 (`echo begun; sleep 3905`) ended when the session was left"),
        "{notice}"
    );
    let said = outputs(&second);
    assert!(
        said[0].contains("b1") && said[0].contains("has ended"),
        "{}",
        said[0]
    );
    assert!(said[1].starts_with("b2 runs"), "{}", said[1]);
    // It is told once.
    let server = ModelServer::scripted([Reply::text("done")]);
    home.write_config(&config(&server));
    let third = run(&home, &args);
    let again = third.kind("notice");
    let old = again
        .iter()
        .filter(|notice| notice["text"].as_str().unwrap().contains("b1"));
    assert_eq!(old.count(), 0, "{again:?}");
}

#[test]
fn a_background_shell_asks_like_any_other_and_is_approved_for_what_it_is() {
    let home = Home::new();
    let server = ModelServer::scripted([Reply::calls([background("sleep 3906")])]);
    home.write_config(&config(&server));
    let run = run(&home, &["exec", "--json", "go"]);
    let items = &run.kind("approve_request")[0]["items"];
    assert_eq!(items[0]["header"], "run in the background sleep 3906");
    assert_eq!(items[0]["preview"]["command"], "sleep 3906");
}

/// Waits for `file` in the workspace of a running program.
fn until_there(home: &Home, file: &str) {
    wait_until(file, || home.workspace().join(file).exists());
}

#[test]
fn a_cancelled_turn_leaves_it_running_until_the_program_leaves() {
    let home = Home::new();
    let server = ModelServer::scripted([
        Reply::calls([background("echo $$ > pid; sleep 3907")]),
        Reply::calls([bash("until [ -s pid ]; do :; done; touch both; sleep 3908")]),
    ]);
    home.write_config(&config(&server));
    let mut command = home.command(PROGRAM);
    let mut child = piped(command.args(["exec", "--skip-permissions", "go"]))
        .spawn()
        .unwrap();
    until_there(&home, "both");
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let said: Vec<String> = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap)
        .collect();
    assert!(!child.wait().unwrap().success());
    let text = said.join("\n");
    assert!(text.contains("bash cancelled"), "{text}");
    assert!(
        text.contains("background shell b1 ended with the session"),
        "{text}"
    );
    assert_eq!(processes_in(home.root()), [0_u32; 0]);
}

#[test]
fn it_dies_with_a_program_that_is_killed() {
    let home = Home::new();
    let stubborn = "trap '' TERM; setsid sleep 3909 & echo $$ > pid; while :; do sleep 3910; done";
    let server = ModelServer::scripted([
        Reply::calls([background(stubborn)]),
        Reply::calls([bash("until [ -s pid ]; do :; done; touch both; sleep 3913")]),
    ]);
    home.write_config(&config(&server));
    let mut command = home.command(PROGRAM);
    let mut child = piped(command.args(["exec", "--skip-permissions", "go"]))
        .spawn()
        .unwrap();
    until_there(&home, "both");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the end of everything", || {
        processes_in(home.root()).is_empty()
    });
}

#[test]
fn no_secret_is_read_from_the_background_either() {
    let home = Home::new();
    let steps = [
        once(background(
            "env; printf sk-test-; sleep 0.1; echo 123456; echo said",
        )),
        read_until("b1", "said\n"),
    ];
    let server = planning_server();
    home.write_config(&config(&server));
    let mut command = home.command(PROGRAM);
    command.args(plan_args(&steps, &[]));
    command.env("FAKE_PROVIDER_API_KEY", "sk-test-123456");
    let run: Run = command.output().unwrap().into();
    assert!(
        outputs(&run).concat().contains("[redacted]"),
        "{}",
        run.stdout
    );
    assert!(!run.stdout.contains("sk-test-123456"), "{}", run.stdout);
}
