//! 200 rounds of `kill -9` spread over every state of a turn. Afterwards nothing that was
//! acknowledged is lost, nothing ran twice, and an interrupted call is said to be one.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::PathBuf;

use castellan_testkit::{Gate, Home, ModelServer, RecordedRequest, Reply};
use serde_json::{Value, json};

use crate::program::{PROGRAM, config, piped, processes_in, run, wait_until};

/// Two commands at once, then one, then a file tool, then an answer.
fn model(request: &RecordedRequest) -> Reply {
    let results = request
        .messages()
        .iter()
        .filter(|message| message["role"] == "tool")
        .count();
    let append = |what: &str| {
        let command = format!("echo begun-{what} >> ledger; sleep 0.01; echo {what} >> ledger");
        ("bash", json!({"command": command}))
    };
    match results {
        0 => Reply::calls([append("a"), append("b")]),
        2 => Reply::calls([append("c")]),
        3 => Reply::calls([(
            "write_file",
            json!({"path": "ledger", "content": "d\n", "mode": "append"}),
        )]),
        _ => Reply::text("finished"),
    }
}

/// Kills `castellan args` once its trace has `lines` lines, or lets it end; returns the complete
/// lines that it printed.
fn killed_at(home: &Home, args: &[&str], lines: usize, spin: u32) -> Vec<Value> {
    let mut command = home.command(PROGRAM);
    let mut child = piped(command.args(args)).spawn().unwrap();
    let mut ended = false;
    wait_until("the trace", || {
        ended = child.try_wait().unwrap().is_some();
        ended || trace_lines(home) >= lines
    });
    // Not a wait for anything: it moves the moment of the kill off the moment of the write.
    for _ in 0..spin {
        std::hint::spin_loop();
    }
    if !ended {
        child.kill().unwrap();
    }
    let mut printed = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut printed)
        .unwrap();
    child.wait().unwrap();
    // A line without its end may be torn.
    printed
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn trace(home: &Home) -> Option<PathBuf> {
    let files = std::fs::read_dir(home.castellan_home().join("traces")).ok()?;
    files.flatten().map(|entry| entry.path()).next()
}

fn trace_lines(home: &Home) -> usize {
    let text = trace(home)
        .map(|file| std::fs::read(file).unwrap())
        .unwrap_or_default();
    text.iter().filter(|byte| **byte == b'\n').count()
}

/// The stored events by number, from what was printed or traced.
fn stored(events: &[Value]) -> BTreeMap<u64, Value> {
    events
        .iter()
        .filter_map(|event| Some((event["seq"].as_u64()?, event.clone())))
        .collect()
}

fn rounds(numbers: std::ops::Range<usize>) {
    let server = ModelServer::answering(model);
    let (mut unstored, mut interrupted) = (0, 0);
    for round in numbers {
        let home = Home::new();
        home.write_config(&config(&server));
        let spin = u32::try_from(round / 30).unwrap() * 40_000;
        let go = ["exec", "--json", "--skip-permissions", "go"];
        let mut acknowledged = stored(&killed_at(&home, &go, round % 30, spin));
        let Some(file) = trace(&home) else {
            unstored += 1;
            continue;
        };
        let id = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let resume = ["exec", "--json", "--skip-permissions", "--resume", &id];
        if round % 3 == 0 {
            let more = killed_at(&home, &resume, trace_lines(&home) + round % 7, spin);
            acknowledged.extend(stored(&more));
        }
        let last = run(&home, &resume);
        if acknowledged.is_empty() && last.code == 2 {
            // Killed before anything was acknowledged: there is no such session.
            unstored += 1;
            continue;
        }
        let over = last.code == 2 && last.stderr.contains("nothing to go on with");
        assert!(last.code == 0 || over, "round {round}: {last:?}");
        interrupted += check(&home, &id, &acknowledged, round);
    }
    assert!(interrupted > 0, "no call was met while it ran");
    assert!(
        unstored < 20,
        "{unstored} rounds were killed too early to say anything"
    );
}

/// Holds a home against what was promised; returns how many calls were interrupted.
fn check(home: &Home, id: &str, acknowledged: &BTreeMap<u64, Value>, round: usize) -> usize {
    let shown = run(home, &["trace", "show", "--json", id]);
    let log: Vec<Value> = shown
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let story = stored(&log);
    for (seq, event) in acknowledged {
        assert_eq!(
            story.get(seq),
            Some(event),
            "round {round}: an acknowledged event is lost"
        );
    }
    let numbers: Vec<u64> = story.keys().copied().collect();
    let wanted: Vec<u64> = (1..=numbers.len() as u64).collect();
    assert_eq!(numbers, wanted, "round {round}: the log has gaps");
    let ledger = home.read("ledger").unwrap_or_default();
    let times = |what: &str| ledger.lines().filter(|line| *line == what).count();
    let results: Vec<&Value> = log
        .iter()
        .filter(|event| event["kind"] == "tool_result")
        .collect();
    assert_eq!(results.len(), 4, "round {round}: {results:?}");
    for what in ["a", "b", "c", "d"] {
        assert!(
            times(&format!("begun-{what}")) <= 1,
            "round {round}: {what} ran twice: {ledger}"
        );
        assert!(
            times(what) <= 1,
            "round {round}: {what} ran twice: {ledger}"
        );
    }
    let done = results
        .iter()
        .filter(|result| result["outcome"] == "done")
        .count();
    let in_ledger = ["a", "b", "c", "d"]
        .iter()
        .filter(|what| times(what) == 1)
        .count();
    assert!(
        in_ledger >= done,
        "round {round}: a call is said to be done and is not: {ledger}"
    );
    for result in results.iter().filter(|result| result["outcome"] != "done") {
        assert_eq!(result["code"], "EFFECT_UNKNOWN", "round {round}");
        assert_eq!(result["effect"], "unknown", "round {round}");
    }
    let audit = run(home, &["audit", "--verify"]);
    assert_eq!(audit.code, 0, "round {round}: {audit:?}");
    wait_until("the last process", || processes_in(home.root()).is_empty());
    results.len() - done
}

#[test]
fn kill_9_while_the_model_answers_asks_again_and_counts_no_half_answer() {
    let gate = Gate::new();
    let half = json!({"choices": [{"delta": {"content": "half an ans"}}]});
    let server = ModelServer::scripted([
        Reply::sse_unfinished([half]).then_wait(&gate).then_hang(),
        Reply::text("a whole answer"),
    ]);
    let home = Home::new();
    home.write_config(&config(&server));
    let mut command = home.command(PROGRAM);
    let mut child = piped(command.args(["exec", "--json", "go"]))
        .spawn()
        .unwrap();
    gate.wait_reached();
    child.kill().unwrap();
    child.wait().unwrap();
    let id = trace(&home)
        .unwrap()
        .file_stem()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    let resumed = run(&home, &["exec", "--resume", &id]);
    assert_eq!(
        (resumed.code, resumed.stdout.as_str()),
        (0, "a whole answer\n"),
        "{resumed:?}"
    );
    let asked = &server.requests()[1];
    assert!(!asked.text.contains("half an ans"), "{}", asked.text);
}

#[test]
fn kill_9_while_a_person_is_asked_leaves_the_question_open() {
    let server = ModelServer::scripted([
        Reply::calls([("bash", json!({"command": "touch made"}))]),
        Reply::text("made it"),
    ]);
    let home = Home::new();
    home.write_config(&config(&server));
    let mut command = home.command(PROGRAM);
    let mut child = piped(command.args(["exec", "--json", "go"]))
        .spawn()
        .unwrap();
    let mut ended = false;
    wait_until("the question", || {
        ended = child.try_wait().unwrap().is_some();
        let file = trace(&home).map(|file| std::fs::read_to_string(file).unwrap());
        ended || file.unwrap_or_default().contains("approve_request")
    });
    if !ended {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let id = trace(&home)
        .unwrap()
        .file_stem()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    let asked = run(&home, &["exec", "--resume", &id]);
    assert!(asked.code == 3 && home.read("made").is_none(), "{asked:?}");
    let allowed = run(&home, &["exec", "--resume", &id, "--yes-to", "bash"]);
    assert_eq!(allowed.stdout, "made it\n", "{allowed:?}");
    assert_eq!(home.read("made").as_deref(), Some(""));
}

#[test]
fn kill_9_loses_nothing_and_repeats_nothing_rounds_1_to_50() {
    rounds(0..50);
}

#[test]
fn kill_9_loses_nothing_and_repeats_nothing_rounds_51_to_100() {
    rounds(50..100);
}

#[test]
fn kill_9_loses_nothing_and_repeats_nothing_rounds_101_to_150() {
    rounds(100..150);
}

#[test]
fn kill_9_loses_nothing_and_repeats_nothing_rounds_151_to_200() {
    rounds(150..200);
}
