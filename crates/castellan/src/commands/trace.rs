//! `castellan trace`: reads what happened.

use std::collections::BTreeMap;
use std::path::PathBuf;

use castellan_core::event::Purpose;
use castellan_core::model::Usage;
use castellan_core::text::{plain, shorten};
use castellan_core::{EpisodeId, Event, Recorded, SessionId};
use castellan_gate::trace::{Line, path, read};
use castellan_store::{Store, episodes, sessions};
use serde_json::{Value, json};

use crate::error::CommandError;
use crate::output::{counted, line, note, out, table, word};
use crate::wiring::World;

/// The file that `name` means: a path, what an episode's trace is called, a session's id, or the
/// beginning of one.
pub(crate) async fn find(world: &World, name: &str) -> Result<PathBuf, CommandError> {
    let as_path = PathBuf::from(name);
    if as_path.is_file() {
        return Ok(as_path);
    }
    let episode = world.home.traces().join(format!("{name}.jsonl"));
    if name.starts_with("ep_") && !name.contains('/') && episode.is_file() {
        return Ok(episode);
    }
    let store = world.stored()?.ok_or_else(|| nothing_stored(name))?;
    if let Ok(id) = name.parse::<EpisodeId>() {
        let row = store.read(move |tx| episodes::get(tx, id)).await?;
        return row.map(|row| PathBuf::from(row.trace)).ok_or_else(|| {
            CommandError::usage(format!("there is no episode `{name}`"))
                .hint("castellan run says the id of each at its end")
        });
    }
    let id = resolve(&store, name).await?;
    Ok(path(&world.home.traces(), id))
}

/// What to say of a session by this name where there is none at all.
pub(crate) fn nothing_stored(name: &str) -> CommandError {
    CommandError::usage(format!(
        "there is no session `{name}`: nothing is stored yet"
    ))
    .hint("castellan exec \"…\" begins one")
}

/// The session that `name` means.
pub(crate) async fn resolve(store: &Store, name: &str) -> Result<SessionId, CommandError> {
    let wanted = name.to_owned();
    let found = store.read(move |tx| sessions::find(tx, &wanted)).await;
    found
        .map(|row| row.id)
        .map_err(|error| CommandError::usage(error).hint("castellan sessions lists what is stored"))
}

pub(crate) fn show(file: &std::path::Path, as_json: bool) -> Result<(), CommandError> {
    for item in read(file)? {
        match item {
            Line::Event(event) if as_json => {
                line(&serde_json::to_string(&*event).map_err(CommandError::failed)?)?;
            }
            Line::Event(event) => out(&told(&event))?,
            Line::Unreadable { number, problem } => {
                note(&format!(
                    "line {number} is not an event and was passed over: {problem}"
                ));
            }
        }
    }
    Ok(())
}

/// An event as a line, or several where its text has several.
pub(crate) fn told(recorded: &Recorded) -> String {
    let seq = recorded.seq.unwrap_or(0);
    let words = plain(&in_words(&recorded.event));
    let words = words.trim_end().replace('\n', "\n    ");
    format!(
        "{} {seq:>4} {:<17} {words}\n",
        recorded.ts,
        recorded.event.kind()
    )
}

fn in_words(event: &Event) -> String {
    match event {
        Event::SessionStart { cwd, caller, .. } => {
            format!("{} in {}", caller.principal, cwd.display())
        }
        Event::UserTurn { text, pictures } => {
            let pictures: String = pictures.iter().map(|one| format!(" [{one}]")).collect();
            format!("{}{pictures}", shorten(text, 400))
        }
        Event::ModelRequest {
            model,
            messages,
            tools,
            purpose,
            ..
        } => {
            let what = match purpose {
                Purpose::Turn => "",
                Purpose::Summary => ", for a summary",
            };
            let messages = counted(*messages, "message");
            let tools = counted(*tools, "tool");
            format!("{model}: {messages}, {tools}{what}")
        }
        Event::Compaction { .. } => compaction_in_words(event),
        Event::ModelResponse {
            text,
            calls,
            duration_ms,
            ..
        } => {
            let calls: Vec<String> = calls
                .iter()
                .map(|call| format!("{} {}", call.raw.name, shorten(&call.raw.arguments, 120)))
                .collect();
            let parts = [shorten(text, 400), calls.join("; ")];
            let words: Vec<&str> = parts
                .iter()
                .map(String::as_str)
                .filter(|part| !part.is_empty())
                .collect();
            format!("({duration_ms} ms) {}", words.join(" → "))
        }
        Event::Error { code, message } => format!("{code}: {message}"),
        Event::StateChange { state, reason } => {
            format!("{} {}", word(state), word(reason))
        }
        Event::Reasoning { text } | Event::Content { text } | Event::Notice { text, .. } => {
            shorten(text, 200)
        }
        Event::StreamEnd { .. } | Event::Status { .. } | Event::SessionEnd { .. } => String::new(),
        _ => call_in_words(event),
    }
}

fn compaction_in_words(event: &Event) -> String {
    let Event::Compaction {
        cause,
        summary,
        by,
        problem,
        replaces,
        keeps,
        cuts,
        tokens_before,
        tokens_after,
        ..
    } = event
    else {
        return String::new();
    };
    let mut text = format!(
        "({}) about {tokens_before} → {tokens_after} tokens",
        word(cause)
    );
    if *replaces > 0 {
        let kept = match keeps.len() {
            0 => String::new(),
            kept => format!(", {kept} of them kept"),
        };
        text.push_str(&format!(
            "; a summary by the {} stands for the first {replaces} entries{kept}",
            word(by)
        ));
    }
    if let Some(problem) = problem {
        text.push_str(&format!(" ({problem})"));
    }
    if !cuts.is_empty() {
        text.push_str(&format!("; results cut: {}", cuts.len()));
    }
    if summary.is_empty() {
        text
    } else {
        format!("{text}\n{summary}")
    }
}

fn call_in_words(event: &Event) -> String {
    match event {
        Event::ToolPrepared {
            header, repairs, ..
        } if repairs.is_empty() => header.clone(),
        Event::ToolPrepared {
            header, repairs, ..
        } => {
            format!("{header} [mended: {}]", repairs.join(", "))
        }
        Event::Policy {
            decision,
            by,
            reason,
            ..
        } => {
            format!("{} by {by}: {reason}", word(decision))
        }
        Event::ToolInfo { items } => items
            .iter()
            .map(|item| item.header.as_str())
            .collect::<Vec<_>>()
            .join("; "),
        Event::ApproveRequest { items, .. } => items
            .iter()
            .map(|item| item.header.as_str())
            .collect::<Vec<_>>()
            .join("; "),
        Event::ApprovalResolved { by, answers, .. } => {
            let yes = answers.iter().filter(|answer| answer.approve).count();
            format!("by {by}: {yes} of {} approved", answers.len())
        }
        Event::ToolResult {
            name,
            outcome,
            output,
            duration_ms,
            effect,
            ..
        } => {
            let output = shorten(output.trim(), 200);
            format!(
                "{name} {outcome} ({duration_ms} ms, effect {}): {output}",
                word(effect)
            )
        }
        Event::ToolOutputChunk { text, .. } => shorten(text, 200),
        Event::McpDiscovery { tool, args, .. } | Event::McpTool { tool, args, .. } => {
            format!("{tool} {}", shorten(&args.to_string(), 200))
        }
        Event::Mutation {
            action,
            version,
            drift,
            reason,
            ..
        } => format!(
            "{} version {version}, drift {drift:.3} {reason}",
            word(action)
        ),
        Event::EpisodeStart {
            goal, plugin, seed, ..
        } => format!("{plugin}, seed {seed}: {}", shorten(goal, 200)),
        Event::Observation { step, observation } => {
            format!("step {step}: {}", shorten(&observation.to_string(), 200))
        }
        Event::EpisodeEnd {
            reached,
            steps,
            reason,
        } => {
            let how = if *reached { "reached" } else { "not reached" };
            format!("{how} after {steps} steps: {}", shorten(reason, 200))
        }
        _ => String::new(),
    }
}

#[derive(Default)]
struct Stats {
    events: u64,
    unreadable: u64,
    turns: u64,
    model_calls: u64,
    compactions: u64,
    model_ms: u64,
    prompt_tokens: u64,
    completion_tokens: u64,
    /// Of an episode.
    steps: u64,
    /// Whether an episode reached its goal; `None` where there is no end of one.
    reached: Option<bool>,
    tools: BTreeMap<String, ToolStats>,
}

#[derive(Default)]
struct ToolStats {
    calls: u64,
    errors: u64,
    ms: u64,
}

pub(crate) fn stats(file: &std::path::Path, as_json: bool) -> Result<(), CommandError> {
    let mut stats = Stats::default();
    for item in read(file)? {
        match item {
            Line::Event(event) => stats.count(&event.event),
            Line::Unreadable { .. } => stats.unreadable += 1,
        }
    }
    if as_json {
        return line(&stats.as_json().to_string());
    }
    let cell = |name: &str, value: u64| vec![name.to_owned(), value.to_string()];
    let mut rows = vec![
        cell("events", stats.events),
        cell("unreadable lines", stats.unreadable),
        cell("turns", stats.turns),
        cell("model calls", stats.model_calls),
        cell("compactions", stats.compactions),
        cell("model ms", stats.model_ms),
        cell("prompt tokens", stats.prompt_tokens),
        cell("completion tokens", stats.completion_tokens),
    ];
    if stats.steps > 0 {
        rows.push(cell("steps", stats.steps));
        let goal = match stats.reached {
            Some(true) => "reached",
            Some(false) => "not reached",
            None => "no end is on record",
        };
        rows.push(vec!["goal".to_owned(), goal.to_owned()]);
    }
    for (name, tool) in &stats.tools {
        let text = format!(
            "{}, {} failed, {} ms",
            counted(tool.calls, "call"),
            tool.errors,
            tool.ms
        );
        rows.push(vec![format!("tool {name}"), text]);
    }
    out(&table(&rows))
}

impl Stats {
    fn as_json(&self) -> Value {
        let tools: BTreeMap<_, _> = self
            .tools
            .iter()
            .map(|(name, tool)| {
                (
                    name,
                    json!({"calls": tool.calls, "errors": tool.errors, "ms": tool.ms}),
                )
            })
            .collect();
        let mut object = json!({
            "events": self.events, "unreadable_lines": self.unreadable, "turns": self.turns,
            "model_calls": self.model_calls, "compactions": self.compactions,
            "model_ms": self.model_ms,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens, "tools": tools,
        });
        if let (true, Value::Object(fields)) = (self.steps > 0, &mut object) {
            fields.insert("steps".to_owned(), self.steps.into());
            fields.insert("reached".to_owned(), self.reached.into());
        }
        object
    }

    fn count_tokens(&mut self, usage: Option<&Usage>) {
        self.prompt_tokens += usage.map_or(0, |usage| usage.prompt_tokens);
        self.completion_tokens += usage.map_or(0, |usage| usage.completion_tokens);
    }

    fn count(&mut self, event: &Event) {
        self.events += 1;
        match event {
            Event::UserTurn { .. } => self.turns += 1,
            Event::Observation { .. } => self.steps += 1,
            Event::EpisodeEnd { reached, .. } => self.reached = Some(*reached),
            Event::Compaction {
                usage, duration_ms, ..
            } => {
                self.compactions += 1;
                self.model_ms += duration_ms;
                self.count_tokens(usage.as_ref());
            }
            Event::ModelResponse {
                usage, duration_ms, ..
            } => {
                self.model_calls += 1;
                self.model_ms += duration_ms;
                self.count_tokens(usage.as_ref());
            }
            Event::ToolResult {
                name,
                is_error,
                duration_ms,
                ..
            } => {
                let tool = self.tools.entry(name.clone()).or_default();
                tool.calls += 1;
                tool.errors += u64::from(*is_error);
                tool.ms += duration_ms;
            }
            _ => {}
        }
    }
}
