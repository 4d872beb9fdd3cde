//! Prepare, govern, approve and seal, seen from outside.

use castellan_core::event::Decision;
use castellan_core::tool::Effect;
use castellan_core::{ErrorCode, Event, Outcome};
use castellan_gate::Handled;
use serde_json::{Value, json};

use castellan_testkit::FakeTool;

use crate::bench_of_tools::{Bench, Memory, Told};

fn writer() -> FakeTool {
    FakeTool::new("write", Effect::Writes, |args, _| async move {
        Outcome::read(format!("wrote {}", Value::Object(args)))
    })
}

#[tokio::test]
async fn one_bad_call_does_not_cost_its_neighbours() {
    let bench = Bench::new(vec![FakeTool::echo()]);
    let calls = [
        bench.call("ecko", "{}"),
        bench.call("echo", r#"{"text": "a", "nmber": 1}"#),
        bench.call("echo", r#"{"text": "good"}"#),
        bench.call("echo", r#"{"text": "cut"#),
    ];
    assert_eq!(bench.handle(&calls).await.unwrap(), Handled::Finished);
    let results = bench.memory.results();
    assert_eq!(results.len(), 4);
    assert!(results[0].2.contains("no tool named `ecko`") && results[0].2.contains("echo"));
    assert!(
        results[1].2.contains("did you mean `number`"),
        "{}",
        results[1].2
    );
    assert!(results[2].2.contains("ends inside a string") && results[2].2.contains("hello"));
    assert_eq!(results[3], ("echo".into(), "done".into(), "good".into()));
}

#[tokio::test]
async fn a_name_is_mended_only_where_one_tool_can_be_meant() {
    let bench = Bench::new(vec![FakeTool::echo()]);
    for name in [" echo ", "Echo", "functions.echo", "default_api.echo"] {
        bench.handle(&[bench.call(name, "\"x\"")]).await.unwrap();
    }
    assert!(
        bench
            .memory
            .results()
            .iter()
            .all(|(name, outcome, output)| {
                (name.as_str(), outcome.as_str(), output.as_str()) == ("echo", "done", "x")
            })
    );
    let twice = Bench::new(vec![
        FakeTool::new("Run", Effect::ReadOnly, |_, _| async { Outcome::read("1") }),
        FakeTool::new("rUn", Effect::ReadOnly, |_, _| async { Outcome::read("2") }),
    ]);
    twice.handle(&[twice.call("run", "{}")]).await.unwrap();
    assert_eq!(twice.memory.results()[0].1, "failed");
}

#[tokio::test]
async fn a_call_taken_from_the_text_passes_like_any_other_and_is_recorded_as_such() {
    let bench = Bench::new(vec![writer()]);
    let mut call = bench.call("write", r#"{"text": "x"}"#);
    call.issued.raw.from_text = true;
    let handled = bench.handle(&[call]).await.unwrap();
    assert!(matches!(handled, Handled::Waiting(_)));
    let repairs = bench
        .memory
        .events()
        .into_iter()
        .find_map(|event| match event {
            Event::ToolPrepared { repairs, .. } => Some(repairs),
            _ => None,
        });
    assert_eq!(repairs.unwrap(), ["taken from the text of the answer"]);
}

// L04: what is judged and recorded is what runs.
#[tokio::test]
async fn what_is_recorded_as_prepared_is_what_runs() {
    let mut bench = Bench::new(vec![writer()]);
    bench.permission.skip = true;
    let call = bench.call("write", r#"{'text': '[1,2]', "number": "20",}"#);
    bench.handle(&[call]).await.unwrap();
    let ran = json!({"text": "[1,2]", "number": 20});
    let prepared = bench
        .memory
        .events()
        .into_iter()
        .find_map(|event| match event {
            Event::ToolPrepared {
                arguments, repairs, ..
            } => Some((Value::Object(arguments), repairs)),
            _ => None,
        });
    let (arguments, repairs) = prepared.unwrap();
    assert_eq!(arguments, ran);
    assert_eq!(repairs.len(), 3, "{repairs:?}");
    assert_eq!(bench.memory.results()[0].2, format!("wrote {ran}"));
}

#[tokio::test]
async fn arguments_cut_off_in_mid_stream_are_never_made_into_a_call() {
    let bench = Bench::new(vec![FakeTool::echo()]);
    let mut call = bench.call("echo", "text that would pass as a bare string");
    call.issued.raw.complete = false;
    bench.handle(&[call]).await.unwrap();
    let results = bench.memory.results();
    assert!(results[0].1 == "failed" && results[0].2.contains("cut off"));
}

#[tokio::test]
async fn five_megabytes_of_arguments_are_taken_or_refused_without_harm() {
    let bench = Bench::new(vec![FakeTool::echo()]);
    let text = "x".repeat(5_000_000);
    let calls = [
        bench.call("echo", json!({"text": text}).to_string()),
        bench.call("echo", format!("{{\"text\": \"{text}")),
        bench.call("echo", "[".repeat(5_000_000)),
    ];
    bench.handle(&calls).await.unwrap();
    let results = bench.memory.results();
    assert!(results.iter().all(|(_, _, output)| output.len() < 12_000));
    assert_eq!(
        results
            .iter()
            .filter(|(_, outcome, _)| outcome == "failed")
            .count(),
        2
    );
    let done = results
        .iter()
        .find(|(_, outcome, _)| outcome == "done")
        .unwrap();
    assert!(done.2.contains("of 5000000 bytes"), "{}", done.2);
}

#[tokio::test]
async fn nothing_runs_before_a_person_has_decided_about_all_that_asks() {
    let bench = Bench::new(vec![FakeTool::echo(), writer()]);
    let calls = vec![bench.call("echo", "\"a\""), bench.call("write", "\"b\"")];
    let waiting = bench.handle(&calls).await.unwrap();
    assert!(matches!(waiting, Handled::Waiting(_)));
    assert_eq!(bench.memory.results(), []);
    // Asked again without an answer, the same round stays open.
    let asked = bench.asked(&calls);
    assert_eq!(bench.handle(&asked).await.unwrap(), waiting);
    let requests = |bench: &Bench| {
        let is_request = |event: &Event| matches!(event, Event::ApproveRequest { .. });
        bench
            .memory
            .events()
            .iter()
            .filter(|event| is_request(event))
            .count()
    };
    assert_eq!(requests(&bench), 1);
    let calls = bench.answered(&calls, true, "use full path");
    assert_eq!(bench.handle(&calls).await.unwrap(), Handled::Finished);
    let results = bench.memory.results();
    let written = results.iter().find(|(name, ..)| name == "write").unwrap();
    assert!(
        written.1 == "done" && written.2.contains("use full path"),
        "{written:?}"
    );
}

#[tokio::test]
async fn a_denial_reaches_the_model_with_its_reason_and_runs_nothing() {
    let bench = Bench::new(vec![writer()]);
    let calls = vec![bench.call("write", "\"b\"")];
    bench.handle(&calls).await.unwrap();
    let calls = bench.answered(&calls, false, "use the staging host");
    bench.handle(&calls).await.unwrap();
    let results = bench.memory.results();
    assert_eq!(results[0].1, "denied");
    assert!(results[0].2.contains("use the staging host") && results[0].2.contains("useless"));
    assert_eq!(
        bench.memory.audit.lock().unwrap()[0].code.as_deref(),
        Some("DENIED")
    );
}

#[tokio::test]
async fn a_yes_counts_only_for_what_was_shown() {
    let bench = Bench::new(vec![writer()]);
    let calls = vec![bench.call("write", "\"b\"")];
    bench.handle(&calls).await.unwrap();
    let mut calls = bench.answered(&calls, true, "");
    if let Some(asked) = &mut calls[0].asked {
        asked.item.header = "do something harmless".into();
    }
    assert!(matches!(
        bench.handle(&calls).await.unwrap(),
        Handled::Waiting(_)
    ));
    assert_eq!(bench.memory.results(), []);
}

#[tokio::test]
async fn a_high_impact_call_asks_in_spite_of_every_permission() {
    let tool = FakeTool::new("revoke", Effect::HighImpact, |_, _| async {
        Outcome::read("gone")
    });
    let mut bench = Bench::new(vec![tool]);
    bench.permission = castellan_gate::Permission {
        skip: true,
        grants: vec!["*".parse().unwrap()],
    };
    let waiting = bench.handle(&[bench.call("revoke", "{}")]).await.unwrap();
    assert!(matches!(waiting, Handled::Waiting(_)));
}

#[tokio::test]
async fn a_grant_that_came_meanwhile_closes_the_open_round() {
    let mut bench = Bench::new(vec![writer()]);
    let mut calls = vec![bench.call("write", "\"b\"")];
    let Handled::Waiting(cycle) = bench.handle(&calls).await.unwrap() else {
        panic!()
    };
    calls = bench.asked(&calls);
    bench.permission.grants = vec!["write".parse().unwrap()];
    assert_eq!(bench.handle(&calls).await.unwrap(), Handled::Finished);
    let events = bench.memory.events();
    assert!(events.iter().any(
        |event| matches!(event, Event::ApprovalResolved { cycle_id, .. } if *cycle_id == cycle)
    ));
    let decisions: Vec<Decision> = events
        .iter()
        .filter_map(|event| match event {
            Event::Policy { decision, .. } => Some(*decision),
            _ => None,
        })
        .collect();
    assert_eq!(decisions, [Decision::Ask, Decision::Allow]);
}

#[tokio::test]
async fn nothing_runs_that_could_not_be_recorded() {
    let bench = Bench::new(vec![FakeTool::new(
        "touch",
        Effect::ReadOnly,
        |_, _| async { unreachable!("it must not run") },
    )]);
    bench
        .memory
        .full
        .store(true, std::sync::atomic::Ordering::SeqCst);
    assert!(bench.handle(&[bench.call("touch", "{}")]).await.is_err());
}

#[tokio::test]
async fn the_start_is_on_record_before_the_call_runs() {
    let memory = std::sync::Arc::<Memory>::default();
    let looked = std::sync::Arc::clone(&memory);
    let tool = FakeTool::new("look", Effect::ReadOnly, move |_, _| {
        let told = looked.told.lock().unwrap().clone();
        async move {
            assert_eq!(told.last(), Some(&Told::Committed));
            let started = |told: &&Told| matches!(told, Told::Noted(Event::ToolInfo { .. }));
            assert_eq!(told.iter().filter(started).count(), 1);
            Outcome::read("seen")
        }
    });
    let mut bench = Bench::new(vec![tool]);
    bench.memory = memory;
    bench.handle(&[bench.call("look", "{}")]).await.unwrap();
    assert_eq!(bench.memory.results()[0].1, "done");
}

#[tokio::test]
async fn secrets_are_in_no_record_and_in_no_output() {
    let tool = FakeTool::new("leak", Effect::ReadOnly, |args, context| async move {
        context.progress.output("live sk-test-123\n");
        let token = args
            .get("token")
            .and_then(Value::as_str)
            .unwrap()
            .to_owned();
        assert_eq!(token, "t0ken", "the tool itself gets the value");
        Outcome::read("the key is sk-test-123")
    });
    let bench = Bench::new(vec![tool]);
    bench
        .handle(&[bench.call("leak", r#"{"token": "t0ken"}"#)])
        .await
        .unwrap();
    let all = format!(
        "{:?} {:?}",
        bench.memory.told.lock().unwrap(),
        bench.memory.audit
    );
    assert!(
        !all.contains("t0ken") && !all.contains("sk-test-123"),
        "{all}"
    );
    assert_eq!(bench.memory.live(), "live [redacted]\n");
}

#[tokio::test]
async fn a_marked_result_is_a_handle_that_later_calls_can_use() {
    let mut issue = FakeTool::new("issue", Effect::ReadOnly, |_, _| async {
        Outcome::read(r#"{"name": "w1", "token": "t0ken"}"#)
    });
    issue.spec.secret_results = vec!["token".into()];
    let used = FakeTool::new("use", Effect::ReadOnly, |args, _| async move {
        let right = args.get("token").and_then(Value::as_str) == Some("t0ken");
        Outcome::read(if right { "right" } else { "wrong" })
    });
    let bench = Bench::new(vec![issue, used]);
    bench.handle(&[bench.call("issue", "{}")]).await.unwrap();
    let shown: Value = serde_json::from_str(&bench.memory.results()[0].2).unwrap();
    let handle = shown["token"].as_str().unwrap();
    assert!(
        handle.starts_with("secret:") && shown["name"] == "w1",
        "{shown}"
    );
    bench
        .handle(&[bench.call("use", json!({"token": handle}).to_string())])
        .await
        .unwrap();
    assert_eq!(bench.memory.results()[1].2, "right");
    let unknown = "secret:call_00000000000000000000000000000000.token";
    bench
        .handle(&[bench.call("use", json!({"token": unknown}).to_string())])
        .await
        .unwrap();
    assert!(
        bench.memory.results()[2]
            .2
            .contains("not known here any more")
    );
    assert!(!format!("{:?}", bench.memory.told.lock().unwrap()).contains("t0ken"));
}

#[tokio::test]
async fn the_audit_has_a_row_for_all_but_good_reads_which_are_counted() {
    let fails = FakeTool::new("fails", Effect::ReadOnly, |_, _| async {
        Outcome::failed("no", "")
    });
    let mut bench = Bench::new(vec![FakeTool::echo(), writer(), fails]);
    bench.permission.skip = true;
    let calls = [
        bench.call("echo", "\"a\""),
        bench.call("echo", "\"b\""),
        bench.call("write", "\"content\""),
        bench.call("fails", "{}"),
        bench.call("nothing", "{}"),
    ];
    bench.handle(&calls).await.unwrap();
    let rows = bench.memory.audit.lock().unwrap().clone();
    let mut told: Vec<(&str, Option<&str>)> = rows
        .iter()
        .map(|row| (row.tool.as_str(), row.code.as_deref()))
        .collect();
    told.sort_unstable();
    let failed = Some(ErrorCode::ToolFailed.as_str());
    let missing = Some(ErrorCode::ToolNotFound.as_str());
    assert_eq!(
        told,
        [("fails", failed), ("nothing", missing), ("write", None)]
    );
    assert!(
        rows.iter()
            .all(|row| row.caller == "person:me" && !row.params.contains("content\""))
    );
    let reads = bench.gate.take_reads();
    assert_eq!(reads.iter().map(|read| read.calls).sum::<u64>(), 2);
    assert_eq!(bench.gate.take_reads(), []);
}
