//! Runs the program and looks at what it did.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use castellan_testkit::{Home, ModelServer, PATIENCE, RecordedRequest, Reply};
use serde_json::{Value, json};

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_castellan");

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// The events a run with `--json` printed.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Those of one kind.
    pub(crate) fn kind(&self, kind: &str) -> Vec<Value> {
        self.events()
            .into_iter()
            .filter(|event| event["kind"] == kind)
            .collect()
    }

    /// The session's id.
    pub(crate) fn session(&self) -> String {
        self.events()[0]["session"].as_str().unwrap().to_owned()
    }

    /// The outputs of calls by tool, sorted.
    pub(crate) fn results(&self) -> Vec<(String, String)> {
        let text = |event: &Value, key: &str| event[key].as_str().unwrap().to_owned();
        let results = self.kind("tool_result");
        let mut all: Vec<_> = results
            .iter()
            .map(|event| (text(event, "name"), text(event, "output")))
            .collect();
        all.sort();
        all
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Runs the program to its end.
pub(crate) fn run(home: &Home, args: &[&str]) -> Run {
    home.command(PROGRAM).args(args).output().unwrap().into()
}

/// The same with something on standard input.
pub(crate) fn run_with_input(home: &Home, args: &[&str], input: &str) -> Run {
    let mut child = piped(home.command(PROGRAM).args(args))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap().into()
}

/// Output to pipes, which `spawn` would otherwise inherit.
pub(crate) fn piped(command: &mut Command) -> &mut Command {
    command.stdout(Stdio::piped()).stderr(Stdio::piped())
}

/// A home whose default model is this server.
pub(crate) fn home_with(server: &ModelServer) -> Home {
    let home = Home::new();
    home.write_config(&config(server));
    home
}

/// A configuration whose default model is this server. Commits are not synced: no test here cuts
/// the power.
pub(crate) fn config(server: &ModelServer) -> String {
    format!(
        "[models.test]\nbase_url = \"{}\"\nmodel = \"scripted\"\n\
         [database]\nsynchronous = \"normal\"\n",
        server.base_url()
    )
}

/// The same without a sandbox: for what works outside the workspace, or looks at processes.
pub(crate) fn unenclosed(server: &ModelServer) -> String {
    format!("sandbox = \"off\"\n{}", config(server))
}

/// A home, and what one turn comes to in which the model makes these calls and then says "done".
pub(crate) fn turn(home: &Home, calls: &[(&str, Value)]) -> Run {
    let server = ModelServer::scripted([Reply::calls(calls.iter().cloned()), Reply::text("done")]);
    home.write_config(&config(&server));
    let run = run(home, &["exec", "--json", "--skip-permissions", "go"]);
    assert_eq!(run.code, 0, "{run:?}");
    run
}

/// A call of a plan: the tool, its arguments, and text that its output must have. The call is made
/// again and again until it has.
pub(crate) type Step<'a> = (&'a str, Value, &'a str);

/// What one turn comes to in which the model makes one call after the other and then says "done".
/// Returns the outputs by step; those of a repeated call are joined.
pub(crate) fn planned(home: &Home, steps: &[Step<'_>]) -> (Run, Vec<String>) {
    let server = planning_server();
    home.write_config(&config(&server));
    let args = plan_args(steps, &[]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let run = run(home, &args);
    assert_eq!(run.code, 0, "{run:?}");
    let said = settled(steps, server.requests().last().unwrap());
    (run, said)
}

/// The same without any repetition.
pub(crate) fn steps(home: &Home, calls: &[(&str, Value)]) -> Run {
    let steps: Vec<Step<'_>> = calls
        .iter()
        .map(|(tool, arguments)| (*tool, arguments.clone(), ""))
        .collect();
    planned(home, &steps).0
}

/// A model that follows the plan in what it is asked.
pub(crate) fn planning_server() -> ModelServer {
    ModelServer::answering(|request| {
        let asked = |message: &Value| message["role"] == "user";
        let place = request.messages().iter().rposition(asked).unwrap();
        let plan = request.messages()[place]["content"].as_str().unwrap();
        let plan: Vec<(String, Value, String)> =
            serde_json::from_str(plan.lines().next().unwrap()).unwrap();
        let steps: Vec<Step<'_>> = plan
            .iter()
            .map(|(tool, arguments, until)| (tool.as_str(), arguments.clone(), until.as_str()))
            .collect();
        match steps.get(settled(&steps, request).len()) {
            Some((tool, arguments, _)) => Reply::calls([(*tool, arguments.clone())]),
            None => Reply::text("done"),
        }
    })
}

/// The arguments of a run with a plan, and with `more`.
pub(crate) fn plan_args<const N: usize>(steps: &[Step<'_>], more: &[&str; N]) -> Vec<String> {
    let plan = serde_json::to_string(steps).unwrap();
    let fixed = [
        "exec",
        "--json",
        "--skip-permissions",
        "--max-turns",
        "2000",
    ];
    let args = fixed.iter().chain(more).map(|arg| (*arg).to_owned());
    args.chain([plan]).collect()
}

/// The outputs of the steps that are over, as the model is shown them.
pub(crate) fn settled(steps: &[Step<'_>], request: &RecordedRequest) -> Vec<String> {
    let results = request.messages().iter().rev();
    let results = results.take_while(|message| message["role"] != "user");
    let results: Vec<&Value> = results
        .filter(|message| message["role"] == "tool")
        .collect();
    let mut said = Vec::new();
    let mut joined = String::new();
    for result in results.into_iter().rev() {
        joined.push_str(result["content"].as_str().unwrap());
        let (_, _, until) = steps[said.len()];
        if joined.contains(until) {
            said.push(std::mem::take(&mut joined));
        }
    }
    said
}

/// The outputs of the calls, in the order they ended.
pub(crate) fn outputs(run: &Run) -> Vec<String> {
    let results = run.kind("tool_result");
    let text = |event: &Value| event["output"].as_str().unwrap().to_owned();
    results.iter().map(text).collect()
}

/// The output of one bash command in a fresh home.
pub(crate) fn bash(command: &str) -> String {
    let run = turn(&Home::new(), &[("bash", json!({"command": command}))]);
    run.results().remove(0).1
}

/// Processes that work in this folder or below.
pub(crate) fn processes_in(folder: &Path) -> Vec<u32> {
    let numbered = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(numbered)
        .filter(|pid| {
            let cwd = std::fs::read_link(format!("/proc/{pid}/cwd"));
            cwd.is_ok_and(|cwd| cwd.starts_with(folder))
        })
        .collect()
}

/// Waits until `reached`, giving other threads the processor meanwhile.
pub(crate) fn wait_until(what: &str, mut reached: impl FnMut() -> bool) {
    #[expect(clippy::disallowed_methods, reason = "only to give up with a message")]
    let begun = std::time::Instant::now();
    while !reached() {
        assert!(begun.elapsed() < PATIENCE, "waited too long for {what}");
        std::thread::yield_now();
    }
}
