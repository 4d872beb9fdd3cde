//! Rules, hooks and calls that need a person on the path of a call.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use castellan_core::event::{ApprovalItem, Decision};
use castellan_core::port::{Elicitation, Elicited, HookEnd, HookJob, Hooks};
use castellan_core::tool::Effect;
use castellan_core::{Cancel, Event, Outcome, Surface};
use castellan_gate::hooks::{Hook, HookEvent, HookList, Matcher};
use castellan_gate::policy::RuleText;
use castellan_gate::{Catalog, Guards, Handled, Policy};
use castellan_store::grants::Place;
use castellan_testkit::FakeTool;
use futures::future::{BoxFuture, FutureExt as _};
use serde_json::{Value, json};

use crate::bench_of_tools::Bench;
use crate::standing::{give, with_store_of};

/// Hooks that answer as their test says, in turn, and remember what they were told.
#[derive(Default)]
struct Scripted {
    answers: Mutex<VecDeque<HookEnd>>,
    told: Mutex<Vec<(String, Value)>>,
}

impl Hooks for Scripted {
    fn run(&self, job: HookJob, cancel: Cancel) -> BoxFuture<'_, HookEnd> {
        let input = serde_json::from_str(&job.input).unwrap();
        self.told.lock().unwrap().push((job.command, input));
        let answer = self.answers.lock().unwrap().pop_front();
        match answer {
            Some(answer) => futures::future::ready(answer).boxed(),
            // One that hangs.
            None => cancel.map(|()| HookEnd::Cancelled).boxed(),
        }
    }
}

impl Scripted {
    fn told(&self) -> Vec<(String, Value)> {
        self.told.lock().unwrap().clone()
    }
}

fn exits(code: i32, stdout: &Value, stderr: &str) -> HookEnd {
    let stdout = if stdout.is_null() {
        String::new()
    } else {
        stdout.to_string()
    };
    HookEnd::Exited {
        code,
        stdout: stdout.into_bytes(),
        stderr: stderr.into(),
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "every caller makes it in place"
)]
fn says(stdout: Value) -> HookEnd {
    exits(0, &stdout, "")
}

fn silent() -> HookEnd {
    says(Value::Null)
}

fn hook(event: HookEvent, matcher: &str, command: &str) -> Hook {
    Hook {
        event,
        matcher: Matcher::new(matcher).unwrap(),
        command: command.to_owned(),
        timeout: Duration::from_secs(10),
    }
}

/// `bash`, which says what it was given; `look`, which only reads; `revoke`, of high impact.
pub(crate) fn tools() -> Vec<FakeTool> {
    let said = |args: serde_json::Map<String, Value>| async move {
        Outcome::read(format!("ran {}", Value::Object(args)))
    };
    let mut tools = vec![
        FakeTool::new("bash", Effect::Executes, move |args, _| said(args)),
        FakeTool::new("look", Effect::ReadOnly, move |args, _| said(args)),
        FakeTool::new("revoke", Effect::HighImpact, move |args, _| said(args)),
    ];
    for tool in &mut tools {
        tool.spec.surfaces = Surface::ALL.to_vec();
    }
    tools
}

fn hooked(hooks: Vec<Hook>, answers: Vec<HookEnd>) -> (Bench, Arc<Scripted>) {
    let runner = Arc::new(Scripted {
        answers: Mutex::new(answers.into()),
        ..Scripted::default()
    });
    let guards = Guards {
        hooks: HookList::new(hooks, Arc::clone(&runner) as _),
        ..Guards::default()
    };
    (Bench::guarded(tools(), guards), runner)
}

fn before(answers: Vec<HookEnd>) -> (Bench, Arc<Scripted>) {
    let hooks = (1..=answers.len().max(1))
        .map(|number| hook(HookEvent::PreTool, "", &format!("h{number}")))
        .collect();
    hooked(hooks, answers)
}

pub(crate) async fn one(bench: &Bench, tool: &str, arguments: Value) -> Handled {
    let call = bench.call(tool, arguments.to_string());
    bench.handle(&[call]).await.unwrap()
}

/// What a person is asked.
pub(crate) fn question(bench: &Bench) -> ApprovalItem {
    let events = bench.memory.events();
    let items = events.into_iter().rev().find_map(|event| match event {
        Event::ApproveRequest { items, .. } => Some(items),
        _ => None,
    });
    items.unwrap().remove(0)
}

/// What policy said, in order: who and what.
fn policies(bench: &Bench) -> Vec<(String, Decision)> {
    let policy = |event| match event {
        Event::Policy { by, decision, .. } => Some((by, decision)),
        _ => None,
    };
    bench
        .memory
        .events()
        .into_iter()
        .filter_map(policy)
        .collect()
}

#[tokio::test]
async fn a_hook_denies_with_a_reason_that_the_model_reads() {
    let (bench, runner) = before(vec![exits(2, &Value::Null, "no pushes today\n")]);
    assert_eq!(
        one(&bench, "bash", json!({"text": "git push"})).await,
        Handled::Finished
    );
    let (_, outcome, output) = bench.memory.results().remove(0);
    assert_eq!(outcome, "denied");
    assert!(
        output.contains("hook h1") && output.contains("no pushes today"),
        "{output}"
    );
    assert!(output.contains("useless"), "{output}");
    let (command, told) = runner.told().remove(0);
    assert_eq!(command, "h1");
    assert_eq!(told["hook_event_name"], "PreToolUse");
    assert_eq!(told["tool_name"], "Bash");
    assert_eq!(told["tool"], "bash");
    assert_eq!(told["tool_input"], json!({"text": "git push"}));
    let expected = ("hook h1".to_owned(), Decision::Deny);
    assert_eq!(policies(&bench), [expected.clone(), expected]);
}

#[tokio::test]
async fn a_hook_allows_what_would_be_asked_and_asks_about_what_would_run() {
    let (bench, _) = before(vec![says(json!({"decision": "allow"}))]);
    assert_eq!(
        one(&bench, "bash", json!({"text": "ls"})).await,
        Handled::Finished
    );
    let (bench, _) = before(vec![says(json!({"decision": "ask", "reason": "hm"}))]);
    assert!(matches!(
        one(&bench, "look", json!({})).await,
        Handled::Waiting(_)
    ));
    assert!(question(&bench).reason.contains("hm"));
}

#[tokio::test]
async fn a_hook_that_fails_needs_a_person_whatever_was_permitted() {
    for failure in [
        HookEnd::Broken("did not end within 10 s".to_owned()),
        HookEnd::Broken("wrote more than 1 MiB".to_owned()),
        HookEnd::Broken("was ended by SIGKILL".to_owned()),
        exits(1, &json!({"decision": "allow"}), "boom"),
        exits(127, &Value::Null, "not found"),
        exits(0, &json!("allow"), ""),
        says(json!({"decision": "yes"})),
        // Says nothing of a change it makes to something the tool doesn't take.
        says(json!({"decision": "allow", "input": {"text": 5, "more": 1}})),
        says(json!({"input": {"number": "many"}})),
    ] {
        let (mut bench, _) = before(vec![failure.clone()]);
        bench.permission.skip = true;
        bench.permission.grants = vec!["*".parse().unwrap()];
        let handled = one(&bench, "bash", json!({"text": "ls"})).await;
        assert!(matches!(handled, Handled::Waiting(_)), "{failure:?}");
        let reason = question(&bench).reason;
        assert!(reason.contains("the hook failed"), "{reason}");
        assert!(question(&bench).grants.is_empty());
    }
}

#[tokio::test]
async fn a_hook_that_says_nothing_leaves_the_call_as_it_is() {
    let (bench, _) = before(vec![silent(), says(json!({}))]);
    assert!(matches!(
        one(&bench, "bash", json!({})).await,
        Handled::Waiting(_)
    ));
    let (bench, _) = before(vec![silent()]);
    assert_eq!(one(&bench, "look", json!({})).await, Handled::Finished);
}

#[tokio::test]
async fn of_several_hooks_the_strictest_counts_and_all_reasons_are_kept() {
    let (bench, runner) = before(vec![
        exits(2, &Value::Null, "first reason"),
        says(json!({"decision": "allow"})),
        says(json!({"decision": "block", "reason": "third reason"})),
    ]);
    one(&bench, "bash", json!({"text": "ls"})).await;
    let (_, outcome, output) = bench.memory.results().remove(0);
    assert_eq!(outcome, "denied");
    assert!(
        output.contains("first reason") && output.contains("third reason"),
        "{output}"
    );
    assert_eq!(runner.told().len(), 3);
}

#[tokio::test]
async fn nothing_that_allows_lets_a_high_impact_call_through() {
    let (mut bench, _) = before(vec![says(json!({"decision": "allow"}))]);
    bench.permission.skip = true;
    bench.permission.grants = vec!["*".parse().unwrap()];
    assert!(matches!(
        one(&bench, "revoke", json!({})).await,
        Handled::Waiting(_)
    ));
    assert!(question(&bench).reason.contains("needs a person"));
    let (bench, _) = before(vec![exits(2, &Value::Null, "never")]);
    one(&bench, "revoke", json!({})).await;
    assert_eq!(bench.memory.results()[0].1, "denied");
}

#[tokio::test]
async fn a_changed_input_is_shown_recorded_and_exactly_what_runs() {
    let (bench, runner) = before(vec![
        says(json!({"hookSpecificOutput": {"updatedInput": {"text": "ls -l", "number": "3"}}})),
        says(json!({"input": {"text": "ls -la", "number": 3}})),
    ]);
    let calls = vec![bench.call("bash", json!({"text": "ls"}).to_string())];
    assert!(matches!(
        bench.handle(&calls).await.unwrap(),
        Handled::Waiting(_)
    ));
    let told = runner.told();
    assert_eq!(
        told[1].1["tool_input"],
        json!({"text": "ls -l", "number": 3})
    );
    let reason = question(&bench).reason;
    assert!(
        reason.contains("hook h1, hook h2") && reason.contains("ls -la"),
        "{reason}"
    );
    let calls = bench.answered(&calls, true, "");
    assert_eq!(bench.handle(&calls).await.unwrap(), Handled::Finished);
    // The hooks were heard once, though the call was judged twice.
    assert_eq!(runner.told().len(), 2);
    let recorded = bench
        .memory
        .events()
        .into_iter()
        .find_map(|event| match event {
            Event::ToolPrepared {
                arguments, repairs, ..
            } => Some((Value::Object(arguments), repairs)),
            _ => None,
        });
    let (arguments, repairs) = recorded.unwrap();
    assert_eq!(arguments, json!({"text": "ls -la", "number": 3}));
    assert!(
        repairs.last().unwrap().contains("hook h1, hook h2"),
        "{repairs:?}"
    );
    assert_eq!(bench.memory.results()[0].2, format!("ran {arguments}"));
}

#[tokio::test]
async fn what_a_hook_allowed_is_not_what_a_later_one_made_of_it() {
    let change = json!({"input": {"text": "git push"}});
    let changes = |decision: &str| {
        let mut change = change.clone();
        change["decision"] = decision.into();
        says(change)
    };
    let allow = || says(json!({"decision": "allow", "reason": "reads"}));
    for (answers, runs) in [
        (vec![allow(), says(change.clone())], false),
        (
            vec![changes("allow"), says(json!({"input": {"text": "rm x"}}))],
            false,
        ),
        (vec![allow(), says(change.clone()), allow()], true),
        (vec![says(change.clone()), allow()], true),
        (vec![changes("allow")], true),
        (vec![allow(), changes("allow")], true),
        (vec![allow(), says(json!({"input": {"text": "ls"}}))], true),
    ] {
        let case = format!("{answers:?}");
        let (bench, _) = before(answers);
        let handled = one(&bench, "bash", json!({"text": "ls"})).await;
        assert_eq!(handled == Handled::Finished, runs, "{case}");
    }
    // What was said stands in the record all the same.
    let (bench, _) = before(vec![allow(), says(change)]);
    one(&bench, "bash", json!({"text": "ls"})).await;
    let reasons: Vec<String> = bench
        .memory
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Policy { by, reason, .. } => Some(format!("{by}: {reason}")),
            _ => None,
        })
        .collect();
    assert_eq!(reasons[0], "hook h1: reads; then hook h2 changed the call");
}

fn deny_commands(pattern: &str) -> Policy {
    let catalog = tools()
        .into_iter()
        .map(|tool| Arc::new(tool) as _)
        .collect();
    let catalog = Catalog::new(catalog).unwrap();
    let text = RuleText {
        tool: vec![],
        domain: vec![],
        effects: vec![],
        caller: vec![],
        surface: vec![],
        command: vec![pattern.to_owned()],
        path: vec![],
        host: vec![],
        action: Decision::Deny,
        reason: "not here".to_owned(),
        place: "config.toml:3".to_owned(),
    };
    Policy::new(vec![text], &catalog, None).unwrap()
}

#[tokio::test]
async fn rules_judge_what_a_hook_made_of_a_call() {
    let (mut bench, _) = before(vec![says(
        json!({"decision": "allow", "input": {"text": "git push --force"}}),
    )]);
    bench.rules = deny_commands("git push --force");
    one(&bench, "bash", json!({"text": "git status"})).await;
    let (_, outcome, output) = bench.memory.results().remove(0);
    assert_eq!(outcome, "denied");
    assert!(
        output.contains("policy (config.toml:3)") && output.contains("not here"),
        "{output}"
    );
}

#[tokio::test]
async fn a_rule_denies_whatever_was_permitted() {
    let mut bench = Bench::new(tools());
    bench.rules = deny_commands("git push");
    bench.permission.skip = true;
    bench.permission.grants = vec!["bash".parse().unwrap(), "bash:git push".parse().unwrap()];
    for (command, expected) in [
        ("git push", "denied"),
        ("bash -c 'git push'", "denied"),
        ("git status", "done"),
    ] {
        one(&bench, "bash", json!({"text": command})).await;
        let results = bench.memory.results();
        assert_eq!(results.last().unwrap().1, expected, "{command}");
    }
    // What may be denied needs a person.
    let handled = one(&bench, "bash", json!({"text": "$X push"})).await;
    assert!(matches!(handled, Handled::Waiting(_)));
    assert!(question(&bench).grants.is_empty());
}

#[tokio::test]
async fn a_secret_is_a_handle_in_what_a_hook_sees() {
    let hooks = vec![
        hook(HookEvent::PreTool, "bash", "pre"),
        hook(HookEvent::PostTool, "bash", "post"),
    ];
    let (mut bench, runner) = hooked(hooks, vec![silent(), silent()]);
    bench.permission.skip = true;
    let mut call = bench.call("bash", json!({"text": "ls", "token": "s3cret"}).to_string());
    call.issued = bench.gate.conceal(Surface::Interactive, call.issued);
    bench.handle(&[call]).await.unwrap();
    let told = runner.told();
    assert_eq!(told.len(), 2);
    for (_, told) in &told {
        assert!(!told["tool_input"].to_string().contains("s3cret"), "{told}");
    }
    assert!(bench.memory.results()[0].2.contains("s3cret"));
}

#[tokio::test]
async fn a_hook_after_a_call_adds_a_note_and_changes_nothing_else() {
    for (end, expected) in [
        (
            exits(2, &Value::Null, "run the formatter"),
            "run the formatter",
        ),
        (
            says(json!({"hookSpecificOutput": {"additionalContext": "see docs"}})),
            "see docs",
        ),
        (
            exits(1, &Value::Null, "boom"),
            "it failed with exit code 1: boom",
        ),
        (
            HookEnd::Broken("wrote more than 1 MiB".into()),
            "more than 1 MiB",
        ),
    ] {
        let (bench, runner) = hooked(vec![hook(HookEvent::PostTool, "look", "post")], vec![end]);
        one(&bench, "look", json!({"text": "x"})).await;
        let (_, outcome, output) = bench.memory.results().remove(0);
        assert_eq!(outcome, "done");
        assert!(output.starts_with("ran {\"text\":\"x\"}"), "{output}");
        assert!(output.contains(expected), "{output}");
        let told = &runner.told()[0].1;
        assert_eq!(told["hook_event_name"], "PostToolUse");
        assert_eq!(told["tool_input"], json!({"text": "x"}));
        assert_eq!(told["tool_response"]["output"], "ran {\"text\":\"x\"}");
    }
}

#[tokio::test]
async fn a_hook_after_a_call_can_not_take_it_back() {
    let denial = says(json!({"decision": "deny", "input": {}}));
    let (bench, _) = hooked(
        vec![hook(HookEvent::PostTool, "look", "post")],
        vec![denial],
    );
    one(&bench, "look", json!({"text": "x"})).await;
    let (_, outcome, output) = bench.memory.results().remove(0);
    assert_eq!(outcome, "done");
    assert_eq!(output, "ran {\"text\":\"x\"}");
}

#[tokio::test]
async fn a_cancel_while_a_hook_hangs_ends_the_call_before_it_began() {
    let (bench, runner) = before(vec![]);
    let call = bench.call("look", "{}");
    let calls = [call];
    let handling = bench.handle(&calls);
    let stop = async {
        while runner.told().is_empty() {
            tokio::task::yield_now().await;
        }
        bench.stop.cancel();
    };
    let (handled, ()) = futures::future::join(handling, stop).await;
    assert_eq!(handled.unwrap(), Handled::Finished);
    let (_, outcome, output) = bench.memory.results().remove(0);
    assert_eq!(outcome, "cancelled");
    assert!(output.contains("before it began"), "{output}");
}

#[tokio::test]
async fn a_hook_is_about_the_tools_its_matcher_names() {
    for (matcher, matches) in [
        ("", true),
        ("*", true),
        (".*", true),
        ("bash", true),
        ("Bash", true),
        ("Edit|Bash", true),
        ("look | b*", true),
        ("Edit|Write", false),
        ("bas", false),
    ] {
        assert_eq!(
            Matcher::new(matcher).unwrap().matches("bash"),
            matches,
            "{matcher}"
        );
    }
    for wrong in ["a b", "|", "bash|", "(bash)"] {
        assert!(Matcher::new(wrong).is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn where_nobody_can_be_asked_what_would_ask_is_denied() {
    for surface in [Surface::Mcp, Surface::Episode] {
        let mut bench = Bench::new(tools());
        bench.surface = surface;
        assert_eq!(
            one(&bench, "bash", json!({"text": "ls"})).await,
            Handled::Finished
        );
        let (_, outcome, output) = bench.memory.results().remove(0);
        assert_eq!(outcome, "denied");
        assert!(output.contains("needs a person"), "{output}");
        one(&bench, "revoke", json!({})).await;
        assert_eq!(bench.memory.results()[1].1, "denied");
        one(&bench, "look", json!({})).await;
        assert_eq!(bench.memory.results()[2].1, "done");
        bench.permission.grants = vec!["bash".parse().unwrap()];
        one(&bench, "bash", json!({"text": "ls"})).await;
        assert_eq!(bench.memory.results()[3].1, "done");
    }
}

struct Somebody;

impl Elicitation for Somebody {
    fn ask(&self, _question: String, _schema: Value) -> BoxFuture<'_, Elicited> {
        futures::future::ready(Elicited::Declined).boxed()
    }
}

#[tokio::test]
async fn a_client_that_can_ask_its_person_is_asked() {
    let mut bench = Bench::new(tools());
    bench.surface = Surface::Mcp;
    bench.elicitation = Some(Arc::new(Somebody));
    for tool in ["bash", "revoke"] {
        let handled = one(&bench, tool, json!({"text": "ls"})).await;
        assert!(matches!(handled, Handled::Waiting(_)), "{tool}");
        assert_eq!(question(&bench).name, tool);
    }
}

/// A `bash` whose calls go so far that they need a permission of their own.
fn far_reaching() -> FakeTool {
    let mut tool = tools().remove(0).inspected(|inspection| {
        inspection.own_grant = true;
        "bash_far".clone_into(&mut inspection.label);
    });
    tool.spec.labels = vec!["bash_far".to_owned()];
    tool
}

#[tokio::test]
async fn a_call_that_needs_its_own_permission_is_covered_by_no_other() {
    let call = json!({"text": "ls"});
    for (grant, covered) in [
        ("bash", false),
        ("*", false),
        ("bash*", false),
        ("bash:ls", false),
        ("bash_far", true),
    ] {
        let mut bench = Bench::new(vec![far_reaching()]);
        bench.permission.grants = vec![grant.parse().unwrap()];
        let handled = one(&bench, "bash", call.clone()).await;
        assert_eq!(handled == Handled::Finished, covered, "{grant}");
    }
    let (mut bench, other, _folder) = with_store_of(vec![far_reaching()]);
    give(&other, &bench, "bash", Place::Everywhere).await;
    let handled = one(&bench, "bash", call.clone()).await;
    assert!(matches!(handled, Handled::Waiting(_)));
    // It can be permitted for good nowhere but in the configuration and on the command line.
    assert!(question(&bench).grants.is_empty());
    give(&other, &bench, "bash_far", Place::Everywhere).await;
    assert_eq!(one(&bench, "bash", call.clone()).await, Handled::Finished);
    bench.rules = deny_commands("ls");
    one(&bench, "bash", call.clone()).await;
    assert_eq!(bench.memory.results()[1].1, "denied");
    // A hook that allows what it takes for an ordinary call.
    let runner = Arc::new(Scripted::default());
    runner
        .answers
        .lock()
        .unwrap()
        .push_back(says(json!({"decision": "allow"})));
    let guards = Guards {
        hooks: HookList::new(vec![hook(HookEvent::PreTool, "", "h")], runner),
        ..Guards::default()
    };
    let bench = Bench::guarded(vec![far_reaching()], guards);
    assert!(matches!(
        one(&bench, "bash", call).await,
        Handled::Waiting(_)
    ));
}

#[tokio::test]
async fn a_call_that_a_person_must_look_at_is_let_through_by_nothing_else() {
    let tool = tools().remove(0).inspected(|inspection| {
        inspection.needs_person = Some("it is long".to_owned());
    });
    let mut bench = Bench::new(vec![tool]);
    bench.permission.skip = true;
    bench.permission.grants = vec!["bash".parse().unwrap()];
    let calls = [bench.call("bash", json!({"text": "ls"}).to_string())];
    assert!(matches!(
        bench.handle(&calls).await.unwrap(),
        Handled::Waiting(_)
    ));
    assert_eq!(question(&bench).reason, "it is long");
    assert!(question(&bench).grants.is_empty());
    let calls = bench.answered(&calls, true, "");
    assert_eq!(bench.handle(&calls).await.unwrap(), Handled::Finished);
}

#[tokio::test]
async fn a_project_s_own_rules_are_changed_by_nobody_but_a_person() {
    let tools = || {
        let said = |_, _| async { Outcome::read("") };
        vec![
            FakeTool::new("bash", Effect::Executes, said),
            FakeTool::new("look", Effect::ReadOnly, said),
            FakeTool::new("write_file", Effect::Writes, said),
        ]
    };
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("project/.castellan")).unwrap();
    std::fs::create_dir(root.join("bare")).unwrap();
    std::fs::write(root.join("rules"), "").unwrap();
    std::os::unix::fs::symlink("../../rules", root.join("project/.castellan/policy.toml")).unwrap();
    std::os::unix::fs::symlink("project", root.join("link")).unwrap();
    let at = |path: &str| json!({"path": root.join(path)});
    let runs = |command: &str| json!({"text": command});
    for (workspace, tool, arguments, asks) in [
        (
            "project",
            "write_file",
            at("project/.castellan/policy.toml"),
            true,
        ),
        ("project", "write_file", at("project/.castellan/new"), true),
        // Where the link leads to, and by a link to the project.
        ("project", "write_file", at("rules"), true),
        (
            "link",
            "write_file",
            at("project/.castellan/policy.toml"),
            true,
        ),
        ("project", "bash", runs("rm -rf .castellan"), true),
        ("project", "bash", runs("rm -rf .c*"), true),
        ("project/.castellan", "bash", runs("rm *"), false),
        (
            "project",
            "look",
            at("project/.castellan/policy.toml"),
            false,
        ),
        ("project", "write_file", at("project/src"), false),
        ("project", "bash", runs("make"), false),
        // Where there are none there is nothing to guard.
        (
            "bare",
            "write_file",
            at("bare/.castellan/policy.toml"),
            false,
        ),
        ("bare", "bash", runs("ls .castellan"), false),
    ] {
        let runner = Arc::new(Scripted::default());
        runner
            .answers
            .lock()
            .unwrap()
            .push_back(says(json!({"decision": "allow"})));
        let guards = Guards {
            hooks: HookList::new(vec![hook(HookEvent::PreTool, "", "h")], runner),
            ..Guards::default()
        };
        let mut bench = Bench::guarded(tools(), guards);
        bench.permission.skip = true;
        bench.workspace = root.join(workspace);
        let handled = one(&bench, tool, arguments.clone()).await;
        let asked = matches!(handled, Handled::Waiting(_));
        assert_eq!(asked, asks, "{workspace}: {tool} {arguments}");
    }
    // A command in that folder need not name it.
    let mut bench = Bench::new(tools());
    bench.permission.skip = true;
    bench.workspace = root.join("project");
    bench.cwd = Some(root.join("project/.castellan"));
    let handled = one(&bench, "bash", runs("rm *")).await;
    assert!(matches!(handled, Handled::Waiting(_)));
    assert!(question(&bench).reason.contains(".castellan"));
}

#[tokio::test]
async fn an_answer_that_came_too_late_is_a_denial_by_the_clock() {
    let bench = Bench::new(tools());
    let calls = vec![bench.call("bash", "{}")];
    bench.handle(&calls).await.unwrap();
    let mut calls = bench.answered(&calls, false, "nobody answered in time");
    calls[0].answered_by = Some("timeout".into());
    bench.handle(&calls).await.unwrap();
    let output = bench.memory.results().remove(0).2;
    assert!(
        output.starts_with("Denied by timeout: nobody answered in time"),
        "{output}"
    );
}
