//! Ctrl-C: once stops the turn, twice leaves at once. Nothing is left running either way.

use std::io::Read as _;

use castellan_testkit::{Gate, Home, ModelServer, Reply};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::program::{PROGRAM, config, piped, processes_in, run, wait_until};

fn trace(home: &Home) -> String {
    let files = std::fs::read_dir(home.castellan_home().join("traces"));
    let file = files.ok().and_then(|files| files.flatten().next());
    file.map_or_else(String::new, |file| {
        std::fs::read_to_string(file.path()).unwrap()
    })
}

fn interrupt(child: &std::process::Child) {
    kill(
        Pid::from_raw(child.id().try_into().unwrap()),
        Signal::SIGINT,
    )
    .unwrap();
}

#[test]
fn the_first_ctrl_c_ends_the_turn_with_a_result_for_every_call() {
    let command = json!({"command": "touch begun; sleep 300"});
    let server =
        ModelServer::scripted([Reply::calls([("bash", command.clone()), ("bash", command)])]);
    let home = Home::new();
    home.write_config(&config(&server));
    let mut command = home.command(PROGRAM);
    let args = ["exec", "--json", "--skip-permissions", "go"];
    let child = piped(command.args(args)).spawn().unwrap();
    wait_until("the command", || home.read("begun").is_some());
    interrupt(&child);
    let run = crate::program::Run::from(child.wait_with_output().unwrap());
    assert_eq!(run.code, 1, "{run:?}");
    assert!(
        run.stderr.contains("cancelled") && run.stderr.contains("--resume"),
        "{run:?}"
    );
    assert_eq!(run.kind("tool_result").len(), 2, "{run:?}");
    let end = &run.kind("state_change");
    assert_eq!(end.last().unwrap()["reason"], "cancelled");
    wait_until("the last process", || processes_in(home.root()).is_empty());
}

#[test]
fn the_first_ctrl_c_ends_the_wait_for_a_model_and_the_wait_for_another_try() {
    let gate = Gate::new();
    for reply in [
        Reply::text("late").held_at(&gate),
        Reply::error(503, "overloaded").header("retry-after", "30"),
    ] {
        let server = ModelServer::scripted([reply]);
        let home = Home::new();
        home.write_config(&config(&server));
        let mut command = home.command(PROGRAM);
        let child = piped(command.args(["exec", "--json", "go"]))
            .spawn()
            .unwrap();
        server.wait_arrived(1);
        interrupt(&child);
        let run = crate::program::Run::from(child.wait_with_output().unwrap());
        assert_eq!(run.code, 1, "{run:?}");
        assert_eq!(
            run.kind("state_change").last().unwrap()["reason"],
            "cancelled"
        );
    }
    gate.open();
}

#[test]
fn the_second_ctrl_c_leaves_at_once_whatever_holds_the_program_up() {
    // Nobody reads what it prints, so that it can't come to its end by itself.
    let text = "head -c 400000 /dev/zero | tr '\\0' x; touch begun; sleep 300";
    let server = ModelServer::scripted([Reply::calls([("bash", json!({"command": text}))])]);
    let home = Home::new();
    home.write_config(&config(&server));
    let mut command = home.command(PROGRAM);
    let args = ["exec", "--json", "--skip-permissions", "go"];
    let mut child = piped(command.args(args)).spawn().unwrap();
    wait_until("the command", || home.read("begun").is_some());
    interrupt(&child);
    wait_until("the end of the turn", || {
        trace(&home).contains("\"cancelled\"}")
    });
    assert!(
        child.try_wait().unwrap().is_none(),
        "it still has something to print"
    );
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    wait_until("the last process", || processes_in(home.root()).is_empty());
    let mut printed = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut printed)
        .unwrap();
    let first: Value = serde_json::from_str(printed.lines().next().unwrap()).unwrap();
    // What is stored is whole: the session goes on.
    let server = ModelServer::scripted([Reply::text("as I was saying")]);
    home.write_config(&config(&server));
    let id = first["session"].as_str().unwrap();
    let resumed = run(&home, &["exec", "--resume", id]);
    assert_eq!(resumed.stdout, "as I was saying\n", "{resumed:?}");
}

#[test]
fn two_ctrl_c_while_a_command_runs_leave_no_command_behind() {
    let text = "touch begun; trap '' INT TERM HUP; sleep 300";
    let server = ModelServer::scripted([Reply::calls([("bash", json!({"command": text}))])]);
    let home = Home::new();
    home.write_config(&config(&server));
    let mut command = home.command(PROGRAM);
    let args = ["exec", "--json", "--skip-permissions", "go"];
    let child = piped(command.args(args)).spawn().unwrap();
    wait_until("the command", || home.read("begun").is_some());
    interrupt(&child);
    interrupt(&child);
    let code = child.wait_with_output().unwrap().status.code();
    assert!(matches!(code, Some(1 | 130)), "{code:?}");
    wait_until("the last process", || processes_in(home.root()).is_empty());
}
