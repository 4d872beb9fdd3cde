//! What the whole program costs: its start, a turn with two tool calls, and its memory while it
//! waits.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark measures real time, prints it, and stops where something is wrong"
)]

use std::time::{Duration, Instant};

use castellan_testkit::{Gate, Home, ModelServer, RecordedRequest, Reply};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_castellan");

fn main() {
    version();
    for synchronous in ["normal", "full"] {
        turn(synchronous);
    }
    memory();
}

fn version() {
    let home = Home::new();
    let mut times: Vec<f64> = (0..50)
        .map(|_| {
            let begun = Instant::now();
            home.command(PROGRAM).arg("--version").output().unwrap();
            milliseconds(begun.elapsed())
        })
        .collect();
    println!(
        "program: castellan --version: {:.1} ms at the median",
        median(&mut times)
    );
}

/// Two reads at once, then an answer.
fn model(request: &RecordedRequest) -> Reply {
    if request
        .messages()
        .iter()
        .any(|message| message["role"] == "tool")
    {
        return Reply::text("done");
    }
    let read = || ("read_file", json!({"path": "in.txt"}));
    Reply::calls([read(), read()])
}

fn turn(synchronous: &str) {
    let server = ModelServer::answering(model);
    let home = Home::new();
    home.write("in.txt", "a line\n");
    home.write_config(&format!(
        "[models.test]\nbase_url = \"{}\"\nmodel = \"scripted\"\n[database]\nsynchronous = \
         \"{synchronous}\"\n",
        server.base_url()
    ));
    let (mut whole, mut inside) = (Vec::new(), Vec::new());
    for _ in 0..30 {
        let begun = Instant::now();
        let run = home
            .command(PROGRAM)
            .args(["exec", "--json", "go"])
            .output()
            .unwrap();
        whole.push(milliseconds(begun.elapsed()));
        assert!(run.status.success());
        inside.push(between_first_and_last_event(
            &String::from_utf8(run.stdout).unwrap(),
        ));
    }
    println!(
        "program: a turn with two tool calls, synchronous = {synchronous}: {:.1} ms at the median \
         from its first to its last event, {:.1} ms from the start of the process to its end",
        median(&mut inside),
        median(&mut whole),
    );
}

fn between_first_and_last_event(printed: &str) -> f64 {
    let times: Vec<f64> = printed
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).unwrap()["ts"].as_f64())
        .collect();
    times.iter().fold(f64::MIN, |most, time| most.max(*time))
        - times.iter().fold(f64::MAX, |least, time| least.min(*time))
}

fn memory() {
    let gate = Gate::new();
    let server = ModelServer::scripted([Reply::text("late").held_at(&gate)]);
    let home = Home::new();
    home.write_config(&format!(
        "[models.test]\nbase_url = \"{}\"\nmodel = \"scripted\"\n",
        server.base_url()
    ));
    let mut child = home
        .command(PROGRAM)
        .args(["exec", "--json", "go"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    gate.wait_reached();
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    let kilobytes: f64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    println!(
        "program: memory while it waits for the model: {:.1} MB",
        kilobytes / 1024.0
    );
    gate.open();
    child.wait().unwrap();
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
