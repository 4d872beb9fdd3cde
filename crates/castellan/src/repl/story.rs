//! What a session does, told as rows: events come in, what is over goes out for good, what is under
//! way is drawn anew below.

use std::sync::Arc;
use std::time::Duration;

use castellan_core::event::{Answer, ApprovalItem, CallItem, Purpose, State as Activity, TurnEnd};
use castellan_core::model::Finish;
use castellan_core::text::shorten;
use castellan_core::{CallId, Clock, Event, Recorded};

use super::answer::scope_words;
use super::inbox::keep_tail;
use super::markdown::Markdown;
use super::safe::readable;
use super::style::{Break, Indent, Looks, Row, Tone, span, wrap};
use crate::output::counted;
use crate::words;

/// Who answers questions here, as the record calls it.
pub(crate) const SURFACE: &str = "terminal";
/// Lines of a running call's output that are drawn.
const LIVE_LINES: usize = 5;
/// Lines of reasoning that are drawn.
const REASONING_LINES: usize = 3;

/// A call that runs.
struct Running {
    call_id: CallId,
    header: String,
    began: Duration,
    /// The end of its output.
    output: String,
    /// How many lines there were.
    lines: usize,
}

pub(crate) struct Story {
    clock: Arc<dyn Clock>,
    looks: Looks,
    width: usize,
    answer: Markdown,
    /// Whether something of the present answer was drawn.
    answered: bool,
    reasoning: String,
    running: Vec<Running>,
    /// The calls somebody was asked about, where there were several.
    asked: Vec<CallItem>,
    /// What is waited for, and since when.
    waits: Option<(&'static str, Duration)>,
    /// Whether what is said next was typed here and stands on the screen already.
    typed: bool,
    /// Tokens of the last request, and tokens the model takes.
    pub(crate) usage: Option<(u64, Option<u64>)>,
}

impl Story {
    pub(crate) fn new(clock: Arc<dyn Clock>, looks: Looks, width: usize) -> Self {
        Self {
            clock,
            looks,
            width,
            answer: Markdown::new(width, looks),
            answered: false,
            reasoning: String::new(),
            running: Vec::new(),
            asked: Vec::new(),
            waits: None,
            typed: false,
            usage: None,
        }
    }

    pub(crate) const fn resize(&mut self, width: usize) {
        self.width = width;
        self.answer.resize(width);
    }

    /// What is said next stands on the screen as it was typed, and is not told again.
    pub(crate) const fn was_typed(&mut self) {
        self.typed = true;
    }

    /// Nothing is under way any more.
    pub(crate) fn rest(&mut self) -> Vec<Row> {
        let rows = self.end_answer();
        self.waits = None;
        self.running.clear();
        self.typed = false;
        rows
    }

    /// Takes in an event and returns what is told for good.
    pub(crate) fn take(&mut self, recorded: &Recorded) -> Vec<Row> {
        match &recorded.event {
            Event::UserTurn { text, pictures } => self.said(text, pictures.len()),
            Event::StateChange { state, reason } => self.state(*state, *reason),
            Event::Reasoning { text } => {
                self.reasoning.push_str(text);
                keep_tail(&mut self.reasoning);
                Vec::new()
            }
            Event::Content { text } => {
                self.reasoning.clear();
                self.waits = None;
                self.answered = true;
                self.answer.push(text)
            }
            Event::StreamEnd { complete } => self.stream_end(*complete),
            Event::ModelResponse { text, finish, .. } => self.response(text, finish),
            Event::ToolInfo { items } => {
                let mut rows = Vec::new();
                for item in items {
                    rows.extend(self.call(&item.header));
                    self.running.push(Running {
                        call_id: item.call_id,
                        header: item.header.clone(),
                        began: self.clock.monotonic(),
                        output: String::new(),
                        lines: 0,
                    });
                }
                rows
            }
            Event::ToolOutputChunk { call_id, text } => {
                self.says(*call_id, text);
                Vec::new()
            }
            Event::ToolProgress {
                call_id, message, ..
            }
            | Event::ToolLog {
                call_id, message, ..
            } => {
                if !message.is_empty() {
                    self.says(*call_id, &format!("{message}\n"));
                }
                Vec::new()
            }
            Event::ToolResult { .. } => self.result(&recorded.event),
            Event::ApproveRequest { items, .. } => {
                let item = |item: &ApprovalItem| CallItem {
                    call_id: item.call_id,
                    name: item.name.clone(),
                    header: item.header.clone(),
                };
                self.asked = items.iter().map(item).collect();
                Vec::new()
            }
            Event::ApprovalResolved { by, answers, .. } => self.decided(by, answers),
            Event::Status {
                usage,
                context_window,
            } => {
                let used = usage.prompt_tokens + usage.completion_tokens;
                self.usage = Some((used, *context_window));
                Vec::new()
            }
            _ => self.other(recorded),
        }
    }

    /// Events of which there are few.
    fn other(&mut self, recorded: &Recorded) -> Vec<Row> {
        match &recorded.event {
            Event::Notice { text, .. } => self.note(Tone::Dim, &format!("* {text}")),
            Event::ModelRequest {
                purpose: Purpose::Summary,
                ..
            } => {
                let now = self.clock.monotonic();
                self.waits = Some(("summarising the older part of the conversation", now));
                Vec::new()
            }
            Event::Compaction {
                tokens_before,
                tokens_after,
                problem,
                ..
            } => {
                self.waits = None;
                let told = words::compacted(*tokens_before, *tokens_after, problem.as_deref());
                self.note(Tone::Dim, &format!("* {told}"))
            }
            // One that is stored ends the turn, which tells it with a hint.
            Event::Error { message, .. } if recorded.seq.is_none() => {
                self.note(Tone::Warn, &format!("! {message}"))
            }
            _ => Vec::new(),
        }
    }

    fn decided(&self, by: &str, answers: &[Answer]) -> Vec<Row> {
        let mut rows = Vec::new();
        for answer in answers {
            let mut line = String::from("  → ");
            if by != SURFACE {
                line.push_str(&format!("already decided by {by}: "));
            }
            line.push_str(if answer.approve { "approved" } else { "denied" });
            if self.asked.len() > 1
                && let Some(item) = self
                    .asked
                    .iter()
                    .find(|item| item.call_id == answer.call_id)
            {
                line.push_str(&format!(": {}", shorten(&item.header, 60)));
            }
            if !answer.feedback.is_empty() {
                line.push_str(&format!(", with the words: {}", answer.feedback));
            }
            if let Some(always) = &answer.always {
                let scope = scope_words(always.scope);
                line.push_str(&format!("; from now on `{}` {scope}", always.grant));
            }
            let tone = if answer.approve {
                Tone::Good
            } else {
                Tone::Bad
            };
            rows.extend(self.note(tone, &line));
        }
        rows
    }

    fn said(&mut self, text: &str, pictures: usize) -> Vec<Row> {
        if std::mem::take(&mut self.typed) {
            return vec![Row::default()];
        }
        let mut rows = vec![Row::default()];
        rows.extend(self.spoken(text));
        if pictures > 0 {
            rows.extend(self.note(
                Tone::Dim,
                &format!("  with {}", counted(pictures, "picture")),
            ));
        }
        rows.push(Row::default());
        rows
    }

    /// What a person said, behind the sign of the prompt.
    pub(crate) fn spoken(&self, text: &str) -> Vec<Row> {
        let mut rows = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let mark = if number == 0 { "› " } else { "  " };
            let indent = Indent {
                first: vec![span(Tone::Accent, mark)],
                rest: vec![span(Tone::Plain, "  ")],
            };
            let words = span(Tone::Plain, readable(line));
            rows.extend(wrap(&[words], self.width, &indent, Break::Words));
        }
        rows
    }

    /// Takes in what a running call shows.
    fn says(&mut self, call_id: CallId, text: &str) {
        let mut running = self.running.iter_mut();
        if let Some(call) = running.find(|call| call.call_id == call_id) {
            call.lines += text.matches('\n').count();
            call.output.push_str(text);
            keep_tail(&mut call.output);
        }
    }

    fn state(&mut self, state: Activity, reason: Option<TurnEnd>) -> Vec<Row> {
        self.waits = match state {
            Activity::Thinking => Some(("thinking", self.clock.monotonic())),
            Activity::Running | Activity::Waiting | Activity::Idle => None,
        };
        match reason {
            Some(TurnEnd::Cancelled) => {
                let mut rows = self.end_answer();
                rows.extend(self.note(Tone::Warn, "■ stopped; /continue goes on"));
                rows
            }
            Some(TurnEnd::Done | TurnEnd::Failed | TurnEnd::Limit) | None => Vec::new(),
        }
    }

    fn stream_end(&mut self, complete: bool) -> Vec<Row> {
        self.waits = None;
        self.reasoning.clear();
        let was = self.answered;
        let mut rows = self.end_answer();
        if !complete && was {
            rows.extend(self.note(Tone::Bad, &format!("✗ {}", words::BROKE_OFF)));
        }
        self.answered = was && complete;
        rows
    }

    /// The complete answer: most of the time it stands there already.
    fn response(&mut self, text: &str, finish: &Finish) -> Vec<Row> {
        let mut rows = Vec::new();
        if !std::mem::take(&mut self.answered) && !text.trim().is_empty() {
            rows.extend(self.answer.push(text));
            rows.extend(self.end_answer());
        }
        self.waits = None;
        if let Some(cut) = words::cut_off(finish) {
            rows.extend(self.note(Tone::Warn, &format!("! {cut}")));
        }
        rows
    }

    fn end_answer(&mut self) -> Vec<Row> {
        self.answer.finish()
    }

    fn call(&self, header: &str) -> Vec<Row> {
        let mut indent = Indent::both("  ");
        indent.first = vec![span(Tone::Accent, "● ")];
        let line = readable(&header.replace('\n', "\\n"));
        wrap(
            &[span(Tone::Plain, line)],
            self.width,
            &indent,
            Break::Words,
        )
    }

    fn result(&mut self, event: &Event) -> Vec<Row> {
        let Event::ToolResult {
            call_id,
            name,
            output,
            outcome,
            is_error,
            duration_ms,
            spill,
            ..
        } = event
        else {
            return Vec::new();
        };
        let place = self
            .running
            .iter()
            .position(|call| call.call_id == *call_id);
        let run = place.map(|place| self.running.remove(place));
        let mut rows = Vec::new();
        if run.is_none() && self.looks == Looks::Bare {
            rows.extend(self.call(name));
        }
        // Output that was watched stays in part; what was not watched is counted.
        if let Some(run) = run.as_ref().filter(|run| !run.output.is_empty()) {
            rows.extend(self.tail(run));
        }
        let whose = match (&run, self.running.is_empty()) {
            (Some(run), false) => shorten(&readable(&run.header), 60),
            _ => name.clone(),
        };
        let seconds = Duration::from_millis(*duration_ms).as_secs_f64();
        let lines = output.lines().count();
        let mut line = format!(
            "  └ {whose}: {} · {seconds:.1} s",
            outcome.replace('_', " ")
        );
        if outcome == "denied" {
            line = format!("  └ {whose}: denied");
        }
        if lines > 1 {
            line.push_str(&format!(" · {}", counted(lines, "line")));
        }
        let tone = match (outcome.as_str(), is_error) {
            ("done", false) => Tone::Dim,
            ("cancelled", _) => Tone::Warn,
            _ => Tone::Bad,
        };
        rows.extend(self.note(tone, &line));
        if outcome != "done" || *is_error {
            let why = output.trim().lines().last().unwrap_or_default();
            if !why.is_empty() {
                rows.extend(self.indented(tone, &shorten(why, 400)));
            }
        }
        if let Some(spill) = spill {
            rows.extend(self.indented(Tone::Dim, &format!("all of it: {}", spill.display())));
        }
        rows
    }

    /// The last lines of a call's output.
    fn tail(&self, run: &Running) -> Vec<Row> {
        let lines: Vec<&str> = run.output.trim_end().lines().collect();
        let total = run.lines.max(lines.len());
        let shown = lines.len().saturating_sub(LIVE_LINES);
        let mut rows = Vec::new();
        if total > LIVE_LINES {
            let above = total - (lines.len() - shown);
            rows.push(
                Row::of(Tone::Dim, format!("  │ … {} above", counted(above, "line")))
                    .cut(self.width),
            );
        }
        for line in lines.iter().skip(shown) {
            rows.push(Row::of(Tone::Dim, format!("  │ {}", readable(line))).cut(self.width));
        }
        rows
    }

    /// A line of our own.
    pub(crate) fn note(&self, tone: Tone, text: &str) -> Vec<Row> {
        let line = |line: &str| {
            let blanks = line.len() - line.trim_start().len() + 2;
            let indent = Indent {
                first: Vec::new(),
                rest: vec![span(Tone::Plain, " ".repeat(blanks))],
            };
            wrap(
                &[span(tone, readable(line))],
                self.width,
                &indent,
                Break::Words,
            )
        };
        text.lines().flat_map(line).collect()
    }

    fn indented(&self, tone: Tone, text: &str) -> Vec<Row> {
        wrap(
            &[span(tone, readable(text))],
            self.width,
            &Indent::both("    "),
            Break::Words,
        )
    }

    /// What is under way.
    pub(crate) fn live(&self) -> Vec<Row> {
        let mut rows = self.answer.preview();
        if !self.reasoning.is_empty() && rows.is_empty() {
            let spans: Vec<&str> = self.reasoning.trim_end().lines().collect();
            let text = spans
                .into_iter()
                .rev()
                .take(REASONING_LINES)
                .collect::<Vec<_>>();
            for line in text.into_iter().rev() {
                let wrapped = wrap(
                    &[span(Tone::Dim, readable(line))],
                    self.width,
                    &Indent::both("  "),
                    Break::Words,
                );
                rows.extend(wrapped);
            }
            let surplus = rows.len().saturating_sub(REASONING_LINES);
            rows.drain(..surplus);
        }
        for call in &self.running {
            if self.running.len() > 1 {
                let header = shorten(&readable(&call.header), 60);
                rows.push(Row::of(Tone::Dim, format!("  {header}")).cut(self.width));
            }
            rows.extend(self.tail(call));
            rows.push(Row::of(
                Tone::Dim,
                format!("  running {}", self.since(call.began)),
            ));
        }
        if let Some((what, since)) = self.waits
            && self.running.is_empty()
        {
            rows.push(Row::of(
                Tone::Dim,
                format!("… {what} {}", self.since(since)),
            ));
        }
        rows
    }

    fn since(&self, began: Duration) -> String {
        format!(
            "{} s",
            self.clock.monotonic().saturating_sub(began).as_secs()
        )
    }
}
