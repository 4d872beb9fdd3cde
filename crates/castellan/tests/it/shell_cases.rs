//! The cases of the shell tool that were reported from the field, each as it was reported.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use castellan_testkit::{Home, ModelServer, Reply};
use serde_json::{Value, json};

use crate::program::{
    PROGRAM, Run, Step, bash, config, outputs, planned, processes_in, run, steps, turn,
};

fn call(command: &str) -> (&'static str, Value) {
    ("bash", json!({"command": command}))
}

fn timed(command: &str, timeout: u32) -> (&'static str, Value) {
    ("bash", json!({"command": command, "timeout": timeout}))
}

fn background(command: &str) -> (&'static str, Value) {
    ("bash", json!({"command": command, "background": true}))
}

/// A step that is made once.
fn once((tool, arguments): (&'static str, Value)) -> Step<'static> {
    (tool, arguments, "")
}

/// A step that reads a background shell until it has ended.
fn read_to_the_end(id: &str) -> Step<'static> {
    ("bash_output", json!({"id": id}), "has ended after")
}

/// A command that waits for a file and prints the most memory the program has taken, in KiB.
fn peak_after(file: &str) -> (&'static str, Value) {
    let command = format!(
        "until [ -e {file} ]; do sleep 0.05; done; \
         main=$(awk '/^PPid/ {{print $2}}' /proc/$PPID/status); \
         awk '/^VmHWM/ {{print $2}}' /proc/$main/status"
    );
    // Inside a sandbox the program itself is not to be seen.
    let (tool, mut arguments) = timed(&command, 600);
    arguments["outside_sandbox"] = json!(true);
    (tool, arguments)
}

/// The number in the line that [`peak_after`] prints.
fn kibibytes(said: &str) -> u64 {
    said.lines().next().unwrap().trim().parse().unwrap()
}

#[test]
fn s01_a_background_child_holds_nothing_up() {
    for command in [
        "sleep 300 & echo done",
        "sleep 300 >/dev/null & echo done",
        "(while :; do echo t; sleep 1; done) & echo done",
    ] {
        let home = Home::new();
        let run = turn(&home, &[call(command)]);
        let result = &run.kind("tool_result")[0];
        let output = result["output"].as_str().unwrap();
        assert!(output.contains("done\n"), "{output}");
        assert!(output.contains("ended with the command: "), "{output}");
        assert!(result["duration_ms"].as_u64().unwrap() < 5000, "{result}");
        assert_eq!(processes_in(home.root()), [0_u32; 0], "{command}");

        // The same in the background: the shell ends, and its children with it.
        let home = Home::new();
        let steps = [once(background(command)), read_to_the_end("b1")];
        let said = planned(&home, &steps).1.remove(1);
        assert!(
            said.contains("done\n") && said.contains("exit code 0"),
            "{said}"
        );
        assert_eq!(processes_in(home.root()), [0_u32; 0], "{command}");
    }
}

#[test]
fn s03_what_ignores_or_escapes_a_group_kill_dies_at_the_timeout() {
    let command = "setsid sleep 333 & (trap '' TERM; sleep 334) & sleep 335";
    let home = Home::new();
    let run = turn(&home, &[timed(command, 2)]);
    let result = &run.kind("tool_result")[0];
    assert_eq!(result["outcome"], "timed_out");
    let output = result["output"].as_str().unwrap();
    assert!(
        output.contains("sleep 333") && output.contains("sleep 334"),
        "{output}"
    );
    assert_eq!(processes_in(home.root()), [0_u32; 0]);

    let home = Home::new();
    let timed = json!({"command": command, "timeout": 2, "background": true});
    let steps = [once(("bash", timed)), read_to_the_end("b1")];
    let said = planned(&home, &steps).1.remove(1);
    assert!(said.contains("timed out: the limit was 2 s"), "{said}");
    assert_eq!(processes_in(home.root()), [0_u32; 0]);
}

#[test]
fn s04_endless_output_takes_no_memory_and_delays_nothing() {
    let home = Home::new();
    let idle = steps(&home, &[call("touch now"), peak_after("now")]);
    let idle = kibibytes(&outputs(&idle)[1]);

    let home = Home::new();
    let poll = |id: &str| once(("bash_output", json!({"id": id})));
    let steps = [
        once(background("timeout 10 yes; touch yes-over")),
        poll("b1"),
        once(call("timeout 10 yes")),
        poll("b1"),
        once(timed("head -c 300000000 /dev/zero", 600)),
        once(background(
            "head -c 300000000 /dev/zero | tr '\\0' x; touch zero-over",
        )),
        poll("b2"),
        once(timed("until [ -e yes-over ]; do sleep 0.05; done", 600)),
        poll("b1"),
        once(peak_after("zero-over")),
        read_to_the_end("b2"),
    ];
    let (_, said) = planned(&home, &steps);
    let (yes, zero) = (&said[2], &said[4]);
    assert!(
        yes.starts_with("y\ny\n") && yes.contains("bytes left out"),
        "{}",
        yes.len()
    );
    assert_eq!(
        zero,
        "[all 300000000 bytes of the output are NUL and left out]\n"
    );
    for polled in [1, 3, 6, 8] {
        assert!(
            said[polled].len() <= 256 * 1024,
            "{polled}: {}",
            said[polled].len()
        );
    }
    assert!(said[3].contains("pushed out unread"), "{}", said[3].len());
    assert!(
        said[10].contains("300000000 bytes in 0 lines"),
        "{}",
        said[10].len()
    );
    let peak = kibibytes(&said[9]);
    assert!(
        peak < idle + 48 * 1024,
        "{peak} KiB at most, {idle} KiB when idle"
    );
}

#[test]
fn s04_a_timeout_ends_endless_output_in_time() {
    let run = turn(&Home::new(), &[timed("yes", 1)]);
    let result = &run.kind("tool_result")[0];
    assert_eq!(result["outcome"], "timed_out");
    assert!(
        result["duration_ms"].as_u64().unwrap() < 6000,
        "{}",
        result["duration_ms"]
    );
}

#[test]
fn s06_nothing_finds_a_terminal() {
    let said = bash("python3 -c \"open('/dev/tty').readline()\"");
    assert!(
        said.contains("No such device") && said.contains("nobody can answer here"),
        "{said}"
    );
    // The empty line that `echo` writes is all there is.
    assert_eq!(bash("read -p name? x; echo $x"), "(no output)");
    let said = bash("read -p name? x && echo $x");
    assert!(said.contains("exit code 1"), "{said}");
    let said = bash("python3 -c \"input('sure?')\"");
    assert!(said.contains("nobody can answer here"), "{said}");
    // A success is not second-guessed.
    assert_eq!(bash("echo 'not a tty'"), "not a tty\n");
}

#[test]
fn s06_git_opens_no_editor() {
    let said = bash(
        "git init -q . && touch a && git add a && \
         git -c user.name=n -c user.email=e@e.invalid commit",
    );
    assert!(
        said.contains("not interactive") && said.contains("git commit -m"),
        "{said}"
    );
}

/// A server that answers every request with 401, on a port of its own.
fn locked_server() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _read = stream.read(&mut request);
            let answer = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\n\
                          Content-Length: 0\r\nConnection: close\r\n\r\n";
            let _written = stream.write_all(answer.as_bytes());
        }
    });
    port
}

#[test]
fn s06_git_asks_for_no_password() {
    let port = locked_server();
    let ask = format!("git ls-remote http://127.0.0.1:{port}/x.git");
    for command in [
        ask.clone(),
        format!("unset http_proxy HTTP_PROXY all_proxy ALL_PROXY; {ask}"),
    ] {
        let run = turn(&Home::new(), &[timed(&command, 30)]);
        let result = &run.kind("tool_result")[0];
        assert_eq!(result["outcome"], "failed", "{result}");
        let said = result["output"].as_str().unwrap();
        assert!(said.contains("terminal prompts disabled"), "{said}");
        assert!(said.contains("nobody can answer here"), "{said}");
    }
}

#[test]
fn s06_the_environment_says_that_nobody_is_there() {
    let said = bash(
        "echo $TERM $GIT_TERMINAL_PROMPT $PAGER $GIT_PAGER $DEBIAN_FRONTEND $SSH_ASKPASS \
         $SUDO_ASKPASS $GIT_ASKPASS $EDITOR; echo $GIT_SSH_COMMAND; ps -o tty= -p $$",
    );
    assert_eq!(
        said,
        "dumb 0 cat cat noninteractive false false false false\nssh -oBatchMode=yes\n?\n"
    );
}

#[test]
fn s07_standard_input_is_at_its_end() {
    for (command, said) in [
        ("cat", "(no output)"),
        ("python3 -", "(no output)"),
        ("wc -l", "0\n"),
    ] {
        assert_eq!(bash(command), said, "{command}");
    }
    let said = bash("if command -v rg >/dev/null; then rg foo; else grep foo; fi; echo ended");
    assert!(said.ends_with("ended\n"), "{said}");
    let steps = [once(background("cat")), read_to_the_end("b1")];
    let said = planned(&Home::new(), &steps).1.remove(1);
    assert!(said.contains("exit code 0"), "{said}");
}

/// One turn with these variables in the program's own environment.
fn with_variables(settings: &str, calls: &[(&str, Value)]) -> Run {
    let server = ModelServer::scripted([Reply::calls(calls.iter().cloned()), Reply::text("done")]);
    let home = Home::new();
    home.write_config(&format!("{}{settings}", config(&server)));
    let mut command = home.command(PROGRAM);
    command.args(["exec", "--json", "--skip-permissions", "go"]);
    command
        .env("FAKE_PROVIDER_API_KEY", "sk-test-123")
        .env("X_KEYS_0", "yellow")
        .env("DATABASE_URL", "postgres://here")
        .env("X_MODE", "fast");
    command.output().unwrap().into()
}

#[test]
fn s08_no_secret_is_in_reach() {
    let run = with_variables(
        "",
        &[
            call("env"),
            call("tr '\\0' '\\n' < /proc/$PPID/environ; echo looked"),
        ],
    );
    assert!(run.stdout.contains("looked"), "{}", run.stdout);
    for secret in ["sk-test-123", "yellow", "postgres://here"] {
        assert!(!run.stdout.contains(secret), "{secret}: {}", run.stdout);
    }
}

#[test]
fn what_the_user_names_reaches_commands_and_secrets_only_by_their_full_name() {
    let settings = "[tools]\nenvironment = [\"DATABASE_URL\", \"X_*\", \"PAGER\"]\n";
    let run = with_variables(settings, &[call("env")]);
    let said = outputs(&run).remove(0);
    assert!(
        said.contains("DATABASE_URL=postgres://here\n") && said.contains("X_MODE=fast\n"),
        "{said}"
    );
    assert!(
        said.contains("PAGER=cat\n"),
        "a name that is not set changes nothing: {said}"
    );
    assert!(
        !said.contains("yellow") && !said.contains("FAKE_PROVIDER"),
        "{said}"
    );

    let settings = "[tools]\nenvironment = [\"FAKE_PROVIDER_API_KEY\"]\n";
    let run = with_variables(settings, &[call("echo ${#FAKE_PROVIDER_API_KEY}; env")]);
    let said = outputs(&run).remove(0);
    assert!(said.starts_with("11\n"), "{said}");
    assert!(said.contains("FAKE_PROVIDER_API_KEY=[redacted]"), "{said}");
}

#[test]
fn s12_output_before_a_timeout_is_kept() {
    let run = turn(&Home::new(), &[timed("echo early; sleep 60", 1)]);
    let result = &run.kind("tool_result")[0];
    assert_eq!(result["outcome"], "timed_out");
    let said = result["output"].as_str().unwrap();
    assert!(said.starts_with("early\n"), "{said}");
    assert!(
        said.contains("[timed out: the limit was 1 s; ended after 1."),
        "{said}"
    );

    let buffered = "python3 -c \"print('buffered'); import time; time.sleep(60)\"";
    let run = turn(&Home::new(), &[timed(buffered, 1)]);
    let said = outputs(&run).remove(0);
    assert!(
        said.contains("nothing was written until then; buffered output is lost"),
        "{said}"
    );
    assert!(
        said.contains("[timed out: the limit was 1 s; ended after 1."),
        "{said}"
    );
}

#[test]
fn a_timeout_that_cuts_endless_output_says_both() {
    let server = ModelServer::scripted([Reply::calls([timed("yes", 1)]), Reply::text("done")]);
    let home = Home::new();
    home.write_config(&config(&server));
    let run = run(&home, &["exec", "--json", "--skip-permissions", "go"]);
    let said = outputs(&run).remove(0);
    assert!(
        said.contains("the command wrote") && said.contains("[timed out"),
        "{}",
        said.len()
    );
}
