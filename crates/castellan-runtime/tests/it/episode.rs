//! Episodes on tools that keep signals in memory, and their replay.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use castellan_core::secret::Redaction;
use castellan_core::tool::{DefaultDecision, Effect};
use castellan_core::{
    Cancel, CancelSource, EffectStatus, ErrorCode, Event, ModelError, Outcome, Recorded, Timestamp,
    Tool,
};
use castellan_gate::gate::Settings as GateSettings;
use castellan_gate::policy::NoProjectRules;
use castellan_gate::trace::{self, Line};
use castellan_gate::{Guards, Permission, Profile};
use castellan_runtime::TraceTo;
use castellan_runtime::episode::gridworld::{DEPOSIT, READ, Settings};
use castellan_runtime::episode::{
    Access, Act, Ended, Gridworld, How, Onlooker, Plan, Plugin, Stage, StageParts, Standing, Time,
    ToolUse, Trouble, Turn, Watch, run,
};
use castellan_runtime::meta::{self, Looking};
use castellan_runtime::principals::Local;
use castellan_runtime::replay::{Record, Unreplayable, Verdict, read};
use castellan_runtime::{Error, Limits};
use castellan_testkit::{FakeTool, ManualClock};
use futures::future::{BoxFuture, FutureExt as _};
use serde_json::{Value, json};

use crate::world::{FunctionModel, Seen, calls, error, kinds, results, says};

type Field = Arc<Mutex<BTreeMap<(String, String), (f64, Timestamp)>>>;

/// How strong a signal is that fades by half in 600 s.
fn faded((strength, at): (f64, Timestamp), now: Timestamp) -> f64 {
    strength * (-now.since(at).as_secs_f64() / 600.0).exp2()
}

/// The two tools of signals, and one that needs a person.
fn tools() -> Vec<Arc<dyn Tool>> {
    let field = Field::default();
    let text =
        |args: &serde_json::Map<String, Value>, key: &str| args[key].as_str().unwrap().to_owned();
    let kept = Arc::clone(&field);
    let mut deposit = FakeTool::new(DEPOSIT, Effect::Writes, move |args, context| {
        let (key, now) = (
            (text(&args, "zone"), text(&args, "signal")),
            context.clock.now(),
        );
        let mut kept = kept.lock().unwrap();
        let before = kept.get(&key).map_or(0.0, |mark| faded(*mark, now));
        let after = (before + args["amount"].as_f64().unwrap()).max(0.0);
        kept.insert(key, (after, now));
        async move {
            Outcome::Done {
                output: json!({"before": before, "after": after}).to_string(),
                effect: EffectStatus::Committed,
            }
        }
    });
    deposit.spec.default = DefaultDecision::Allow;
    deposit.spec.domain = "substrate".to_owned();
    let mut look = FakeTool::new(READ, Effect::ReadOnly, move |args, context| {
        let (zone, now) = (text(&args, "zone"), context.clock.now());
        let field = field.lock().unwrap();
        let here = field.iter().filter(|((at, _), _)| *at == zone);
        let signals: Vec<Value> = here
            .map(|((_, signal), mark)| json!({"signal": signal, "strength": faded(*mark, now)}))
            .collect();
        async move { Outcome::read(json!({"zone": zone, "signals": signals}).to_string()) }
    });
    look.spec.domain = "substrate".to_owned();
    for tool in [&mut deposit, &mut look] {
        tool.spec.primary_key = None;
        tool.spec.secret_parameters = Vec::new();
        tool.spec.parameters = json!({"type": "object", "properties": {
            "zone": {"type": "string"}, "signal": {"type": "string"},
            "amount": {"type": "number"}, "evaporate": {"type": "boolean"}}});
    }
    let ask = FakeTool::new("dangerous", Effect::Writes, |_, _| async {
        Outcome::read("it was done")
    });
    let echo = FakeTool::echo();
    vec![
        Arc::new(deposit),
        Arc::new(look),
        Arc::new(ask),
        Arc::new(echo),
    ]
}

fn stage(seed: u64, trace: &Path) -> Result<Stage, Error> {
    let looking = Looking::default();
    let mut all = meta::tools(&looking);
    all.extend(tools());
    Stage::new(StageParts {
        tools: all,
        looking,
        meter: Arc::default(),
        time: Time::simulated(seed, Arc::new(ManualClock::new())),
        principals: Arc::new(Local),
        redaction: Redaction::new(["sk-secret-1".to_owned()]),
        settings: GateSettings {
            parallel: 4,
            timeout: Duration::from_secs(60),
            spill: PathBuf::from("/nowhere"),
        },
        guards: Guards::default(),
        permission: Permission::default(),
        rules: Arc::new(NoProjectRules),
        profile: Profile::named("team").unwrap(),
        store: None,
        trace: TraceTo::File(trace.to_owned()),
        workspace: PathBuf::from("/"),
    })
}

fn plan(seed: u64) -> Plan {
    Plan {
        goal: "bring food home".to_owned(),
        mcp: true,
        max_steps: 300,
        seed,
        zones: "own".to_owned(),
        version: "0".to_owned(),
    }
}

struct Silent;

impl Onlooker for Silent {
    fn step(&self, _standing: &Standing<'_>) {}
}

fn watch() -> Watch {
    Watch {
        events: Arc::<Seen>::default(),
        steps: Arc::new(Silent),
    }
}

async fn play(plan: &Plan, plugin: impl Plugin + 'static, trace: &Path) -> Ended {
    let never = CancelSource::new();
    played(plan, plugin, trace, never.token()).await.unwrap()
}

async fn played(
    plan: &Plan,
    plugin: impl Plugin + 'static,
    trace: &Path,
    cancel: Cancel,
) -> Result<Ended, Error> {
    let stage = stage(plan.seed, trace)?;
    run(&stage, plan, Box::new(plugin), watch(), cancel).await
}

/// A small world, so that its trace is short.
fn gridworld() -> Gridworld {
    let settings = Settings {
        agents: 2,
        width: 6,
        height: 5,
        food: 3,
        walls: 10,
        deposits: true,
    };
    Gridworld::new(settings).unwrap()
}

/// A plugin that is a function of what it is shown.
struct Acting<F>(F);

impl<F: Fn(&Value) -> Result<Act, Trouble> + Send> Plugin for Acting<F> {
    fn name(&self) -> String {
        "./acting".to_owned()
    }

    fn settings(&self) -> Value {
        json!({"program": true})
    }

    fn act<'a>(
        &'a mut self,
        observation: &'a Value,
        _access: &'a Access<'a>,
    ) -> BoxFuture<'a, Result<Act, Trouble>> {
        std::future::ready((self.0)(observation)).boxed()
    }
}

fn wants(calls: &[(&str, Value)]) -> Act {
    let wanted = calls
        .iter()
        .map(|(tool, args)| ToolUse::new(tool, args.clone()));
    Act {
        mcp_tools: wanted.collect(),
        ..Act::default()
    }
}

fn done(note: &str) -> Act {
    Act {
        done: true,
        note: note.to_owned(),
        ..Act::default()
    }
}

fn traced(file: &Path) -> Vec<Recorded> {
    let lines = trace::read(file).unwrap();
    lines
        .map(|line| match line {
            Line::Event(event) => Ok(*event),
            Line::Unreadable { problem, .. } => Err(problem),
        })
        .collect::<Result<_, _>>()
        .unwrap()
}

/// The observations on record.
fn observations(file: &Path) -> Vec<Value> {
    let events = traced(file).into_iter();
    events
        .filter_map(|recorded| match recorded.event {
            Event::Observation { observation, .. } => Some(observation),
            _ => None,
        })
        .collect()
}

async fn replayed(file: &Path) -> Verdict {
    let episode = match read(file).unwrap() {
        Record::Episode(episode) => Some(episode),
        Record::Session(_) => None,
    };
    let episode = episode.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let again = folder.path().join("again.jsonl");
    let stage = stage(episode.plan().seed, &again).unwrap();
    let never = CancelSource::new();
    episode.replay(&stage, &again, never.token()).await.unwrap()
}

#[tokio::test]
async fn the_same_seed_gives_the_same_trace_to_the_byte() {
    let folder = tempfile::tempdir().unwrap();
    let mut traces = Vec::new();
    for (name, seed) in [("a", 7), ("b", 7), ("c", 8)] {
        let file = folder.path().join(name);
        let ended = play(&plan(seed), gridworld(), &file).await;
        assert_eq!(ended.how, How::Reached, "{ended:?}");
        assert!(ended.calls > 50 && ended.failed == 0, "{ended:?}");
        traces.push(std::fs::read(file).unwrap());
    }
    assert!(traces[0] == traces[1]);
    assert!(traces[0] != traces[2]);
}

#[tokio::test]
async fn a_trace_tells_the_whole_episode() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t");
    let plugin = Acting(|observation: &Value| {
        Ok(match observation["step"].as_u64() {
            Some(1) => wants(&[
                ("castellan_search_tools", json!({"query": "test"})),
                (
                    DEPOSIT,
                    json!({"zone": "grid", "signal": "s", "amount": 2.0}),
                ),
                (READ, json!({"zone": "grid"})),
            ]),
            _ => done("enough"),
        })
    });
    let ended = play(&plan(1), plugin, &file).await;
    assert_eq!((ended.how, ended.reason.as_str()), (How::Reached, "enough"));
    let call = ["tool_prepared", "policy", "tool_info", "tool_result"];
    let mut expected = vec!["episode_start", "observation"];
    for kind in ["mcp_discovery", "mcp_tool", "mcp_tool"] {
        expected.push(kind);
        expected.extend(call);
    }
    expected.extend(["observation", "episode_end"]);
    let events = traced(&file);
    assert_eq!(kinds(&events), expected);
    let numbers: Vec<u64> = events.iter().filter_map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
    let shown = &observations(&file)[1];
    assert_eq!(shown["results"][1]["result"]["after"], 2.0);
    assert_eq!(shown["results"][2]["result"]["signals"][0]["strength"], 2.0);
    assert_eq!(shown["goal"], "bring food home");
}

#[tokio::test]
async fn without_mcp_a_payload_with_tools_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t");
    let plan = Plan {
        mcp: false,
        ..plan(1)
    };
    let ended = play(&plan, gridworld(), &file).await;
    assert_eq!(ended.how, How::PluginFailed);
    assert!(ended.reason.contains("without --mcp"), "{}", ended.reason);
    assert_eq!(ended.calls, 0);
    let kinds = kinds(&traced(&file));
    assert_eq!(kinds, ["episode_start", "observation", "episode_end"]);
}

#[tokio::test]
async fn what_needs_a_person_is_denied_and_what_fails_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t");
    let plugin = Acting(|observation: &Value| {
        Ok(match observation["step"].as_u64() {
            Some(1) => wants(&[
                ("dangerous", json!({})),
                ("no_such_tool", json!({})),
                ("echo", json!("just a string")),
                ("echo", json!({"text": 5, "nonsense": true})),
            ]),
            _ => done(""),
        })
    });
    let ended = play(&plan(1), plugin, &file).await;
    assert_eq!((ended.calls, ended.failed), (4, 3));
    let results = observations(&file)[1]["results"].clone();
    let codes: Vec<_> = (0..4)
        .map(|at| results[at]["error_code"].as_str())
        .collect();
    assert_eq!(
        codes,
        [
            Some("DENIED"),
            Some("TOOL_NOT_FOUND"),
            None,
            Some("VALIDATION")
        ]
    );
    assert!(results[0]["error"].as_str().unwrap().contains("person"));
    assert_eq!(results[2]["result"], "just a string");
}

#[tokio::test]
async fn a_plugin_that_wants_too_much_at_once_has_failed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t");
    let flood = Acting(|_: &Value| Ok(wants(&vec![("echo", json!({})); 101])));
    let ended = play(&plan(1), flood, &file).await;
    assert_eq!((ended.how, ended.calls), (How::PluginFailed, 0));
    assert!(ended.reason.contains("101"), "{}", ended.reason);
}

#[tokio::test]
async fn steps_that_are_used_up_end_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t");
    let idle = Acting(|_: &Value| Ok(Act::default()));
    let plan = Plan {
        max_steps: 5,
        ..plan(1)
    };
    let ended = play(&plan, idle, &file).await;
    assert_eq!((ended.how, ended.steps), (How::NotReached, 5));
    assert_eq!(ended.reason, "the 5 steps are used up");
    let times: Vec<Value> = observations(&file)
        .iter()
        .map(|one| one["time"].clone())
        .collect();
    assert_eq!(times[0], "2000-01-01T00:00:10.000Z");
    assert_eq!(times[4], "2000-01-01T00:00:50.000Z");
}

#[tokio::test]
async fn a_wish_to_stop_ends_it_whatever_the_plugin_does() {
    struct Hangs;
    impl Plugin for Hangs {
        fn name(&self) -> String {
            "hangs".to_owned()
        }
        fn settings(&self) -> Value {
            Value::Null
        }
        fn act<'a>(
            &'a mut self,
            _: &'a Value,
            access: &'a Access<'a>,
        ) -> BoxFuture<'a, Result<Act, Trouble>> {
            drop(access.cancel.clone());
            std::future::pending().boxed()
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t");
    let stop = CancelSource::new();
    let token = stop.token();
    let plan = plan(1);
    let running = played(&plan, Hangs, &file, token);
    let (ended, ()) = futures::join!(running, async { stop.cancel() });
    let ended = ended.unwrap();
    assert_eq!(
        (ended.how, ended.reason.as_str()),
        (How::NotReached, "stopped from outside")
    );
    assert_eq!(kinds(&traced(&file)).last(), Some(&"episode_end"));
}

#[tokio::test]
async fn an_episode_that_can_not_be_traced_does_not_run() {
    let acted = Arc::new(Mutex::new(0));
    let count = Arc::clone(&acted);
    let plugin = Acting(move |_: &Value| {
        *count.lock().unwrap() += 1;
        Ok(Act::default())
    });
    let never = CancelSource::new();
    let failed = played(&plan(1), plugin, Path::new("/dev/full"), never.token()).await;
    let words = castellan_core::text::chain(&failed.unwrap_err());
    assert!(words.contains("No space left"), "{words}");
    assert_eq!(*acted.lock().unwrap(), 0);
}

#[tokio::test]
async fn what_a_plugin_says_of_its_state_is_recorded_without_known_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t");
    let plugin = Acting(|observation: &Value| {
        Ok(match observation["step"].as_u64() {
            Some(1) => Act {
                state: json!({"key": "sk-secret-1"}),
                ..wants(&[("echo", json!({"text": "sk-secret-1"}))])
            },
            _ => done("it is sk-secret-1"),
        })
    });
    let ended = play(&plan(1), plugin, &file).await;
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("sk-secret-1"), "{text}");
    assert!(!ended.reason.contains("sk-secret-1"));
    assert_eq!(observations(&file)[1]["state"]["key"], "[redacted]");
}

/// A model that deposits, reads, and then says what it found.
fn depositor() -> Turn {
    let model = FunctionModel::new(|messages| match results(messages) {
        0 => calls(&[
            (DEPOSIT, r#"{"zone": "grid", "signal": "s", "amount": 2.0}"#),
            (READ, r#"{"zone": "grid"}"#),
        ]),
        2 => calls(&[(READ, r#"{"zone": "elsewhere",}"#)]),
        _ => says("the signal is there"),
    });
    Turn::new(model, Limits::turns(10), 0.8)
}

#[tokio::test]
async fn a_model_works_towards_the_goal_through_the_gate() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t");
    let ended = play(&plan(3), depositor(), &file).await;
    assert_eq!(ended.how, How::Reached, "{ended:?}");
    assert_eq!(ended.reason, "the model says: the signal is there");
    assert_eq!((ended.steps, ended.calls, ended.failed), (3, 3, 0));
    let events = traced(&file);
    let count = |kind| kinds(&events).iter().filter(|one| **one == kind).count();
    assert_eq!((count("model_request"), count("model_response")), (3, 3));
    assert_eq!(count("mcp_tool"), 3);
}

#[tokio::test]
async fn a_model_that_can_not_be_asked_is_a_plugin_that_failed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t");
    let model = FunctionModel::new(|_| Err(error("nobody there")));
    let ended = play(&plan(3), Turn::new(model, Limits::turns(10), 0.8), &file).await;
    assert_eq!(ended.how, How::PluginFailed);
    assert!(ended.reason.contains("nobody there"), "{}", ended.reason);
    let agrees = replayed(&file).await;
    assert!(matches!(agrees, Verdict::Agrees { .. }), "{agrees:?}");
}

#[tokio::test]
async fn a_model_that_uses_up_its_requests_has_not_reached_the_goal() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t");
    let model = FunctionModel::new(|messages| {
        let zone = format!("{{\"zone\": \"z{}\"}}", results(messages));
        calls(&[(READ, &zone)])
    });
    let ended = play(&plan(3), Turn::new(model, Limits::turns(4), 0.8), &file).await;
    assert_eq!((ended.how, ended.calls), (How::NotReached, 4));
    assert!(ended.reason.contains("asked 4 times"), "{}", ended.reason);
}

/// A model that echoes long texts, and is shown no more than `most` bytes at once: `window` is what it
/// says of itself.
fn forgetful(window: Option<u64>, most: usize) -> Turn {
    let model = FunctionModel::with_window(window, move |messages| {
        let size: usize = messages.iter().map(|one| format!("{one:?}").len()).sum();
        if size > most {
            return Err(ModelError::new(
                ErrorCode::ModelContextOverflow,
                "the prompt is too long",
            ));
        }
        let said = format!("{messages:?}");
        match (0..12).find(|round| !said.contains(&format!("round {round};"))) {
            Some(round) if !said.contains("round 11;") => {
                let text = format!("round {round}; {}", "words ".repeat(300));
                calls(&[("echo", &json!({ "text": text }).to_string())])
            }
            _ => says("enough"),
        }
    });
    Turn::new(model, Limits::turns(60), 0.8)
}

#[tokio::test]
async fn a_conversation_that_grows_too_long_is_made_shorter_and_replayed() {
    let folder = tempfile::tempdir().unwrap();
    for (name, turn, cause) in [
        ("known", forgetful(Some(8_000), usize::MAX), "full"),
        ("refused", forgetful(None, 24_000), "overflow"),
    ] {
        let file = folder.path().join(name);
        let ended = play(&plan(3), turn, &file).await;
        assert_eq!(ended.how, How::Reached, "{name}: {ended:?}");
        let causes: Vec<Value> = traced(&file)
            .iter()
            .filter(|one| matches!(one.event, Event::Compaction { .. }))
            .map(|one| serde_json::to_value(&one.event).unwrap()["cause"].clone())
            .collect();
        assert!(
            !causes.is_empty() && causes.iter().all(|one| one == cause),
            "{name}: {causes:?}"
        );
        let agrees = replayed(&file).await;
        assert!(
            matches!(agrees, Verdict::Agrees { .. }),
            "{name}: {agrees:?}"
        );
    }
}

#[tokio::test]
async fn what_can_not_be_made_short_enough_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t");
    let ended = play(&plan(3), forgetful(None, 100), &file).await;
    assert_eq!(ended.how, How::PluginFailed);
    assert!(ended.reason.contains("too long"), "{}", ended.reason);
    let agrees = replayed(&file).await;
    assert!(matches!(agrees, Verdict::Agrees { .. }), "{agrees:?}");
}

/// Everything that ends in another way, each with a name.
async fn recorded(folder: &Path) -> Vec<PathBuf> {
    let file = |name: &str| folder.join(name);
    let failing = || Err(Trouble::Plugin("ended with exit code 1".to_owned()));
    let deposits = || wants(&[(DEPOSIT, json!({"zone": "a", "signal": "b", "amount": 1}))]);
    play(&plan(7), gridworld(), &file("gridworld")).await;
    play(&plan(7), depositor(), &file("session")).await;
    let program = Acting(move |shown: &Value| {
        Ok(match shown["step"].as_u64() {
            Some(1..=3) => Act {
                state: json!({"round": shown["step"]}),
                ..deposits()
            },
            _ => done("three are there"),
        })
    });
    play(&plan(7), program, &file("program")).await;
    let crash = Acting(move |shown: &Value| match shown["step"].as_u64() {
        Some(1) => Ok(deposits()),
        _ => failing(),
    });
    play(&plan(7), crash, &file("crash")).await;
    let gives_up = Acting(move |_: &Value| {
        Ok(Act {
            done: true,
            reached: Some(false),
            ..deposits()
        })
    });
    play(&plan(7), gives_up, &file("gives_up")).await;
    let short = Plan {
        max_steps: 4,
        ..plan(7)
    };
    play(
        &short,
        Acting(move |_: &Value| Ok(deposits())),
        &file("used_up"),
    )
    .await;
    let unarmed = Plan {
        mcp: false,
        ..plan(7)
    };
    play(&unarmed, gridworld(), &file("unarmed")).await;
    let names = [
        "gridworld",
        "session",
        "program",
        "crash",
        "gives_up",
        "used_up",
        "unarmed",
    ];
    names.map(file).to_vec()
}

#[tokio::test]
async fn every_episode_agrees_with_its_replay() {
    let folder = tempfile::tempdir().unwrap();
    for file in recorded(folder.path()).await {
        let total = std::fs::read_to_string(&file).unwrap().lines().count();
        let verdict = replayed(&file).await;
        let note = String::new();
        assert_eq!(
            verdict,
            Verdict::Agrees { lines: total, note },
            "{}",
            file.display()
        );
    }
}

#[tokio::test]
async fn a_changed_line_is_found_where_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    for file in recorded(folder.path()).await {
        let text = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let results = lines.iter().enumerate();
        let results = results.filter(|(_, line)| line.contains(r#""kind":"tool_result""#));
        for (at, line) in results.step_by(40) {
            let mut changed = lines.clone();
            let other = line.replacen(r#""outcome":"done""#, r#""outcome":"odd""#, 1);
            changed[at] = &other;
            std::fs::write(&file, changed.join("\n") + "\n").unwrap();
            let verdict = replayed(&file).await;
            let Verdict::Diverges { line, what } = verdict else {
                panic!("{}: {verdict:?}", file.display());
            };
            assert_eq!(line, at + 1);
            assert!(what.contains("/outcome") && what.contains("odd"), "{what}");
        }
        std::fs::write(&file, lines[..lines.len() - 1].join("\n") + "\n").unwrap();
        let verdict = replayed(&file).await;
        let Verdict::Agrees { note, .. } = &verdict else {
            panic!("{}: {verdict:?}", file.display());
        };
        assert_eq!(note, "the record has no end");
    }
}

#[tokio::test]
async fn a_stopped_episode_agrees_as_far_as_it_went() {
    struct StopAfter(u64, CancelSource);
    impl Onlooker for StopAfter {
        fn step(&self, standing: &Standing<'_>) {
            if standing.step == self.0 {
                self.1.cancel();
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t");
    let stop = CancelSource::new();
    let token = stop.token();
    let steps = Arc::new(StopAfter(5, stop));
    let events = Arc::<Seen>::default();
    let stage = stage(7, &file).unwrap();
    let watch = Watch { events, steps };
    let ended = run(&stage, &plan(7), Box::new(gridworld()), watch, token)
        .await
        .unwrap();
    assert_eq!((ended.how, ended.steps), (How::NotReached, 5));
    let verdict = replayed(&file).await;
    assert!(matches!(verdict, Verdict::Agrees { .. }), "{verdict:?}");
}

#[tokio::test]
async fn what_depends_on_others_is_not_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t");
    let shared = Plan {
        zones: "shared".to_owned(),
        ..plan(1)
    };
    play(&shared, Acting(|_: &Value| Ok(done(""))), &file).await;
    let Err(Unreplayable::Other(why)) = read(&file) else {
        panic!("it was taken");
    };
    assert!(why.contains("others use"), "{why}");
    for (text, word) in [("", "no event"), ("hello\n", "no event")] {
        std::fs::write(&file, text).unwrap();
        let why = read(&file).unwrap_err().to_string();
        assert!(why.contains(word), "{why}");
    }
    assert!(matches!(
        read(&folder.path().join("none")),
        Err(Unreplayable::Read { .. })
    ));
}
