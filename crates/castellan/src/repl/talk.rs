//! The two states of the conversation: at the prompt, and while the session is watched.

use std::time::Duration;

use castellan_core::ModelError;
use castellan_core::event::{State as Activity, TurnEnd};
use castellan_runtime::{Question, Refusal, Standing};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Repl;
use super::answer::{self, Said as Answered};
use super::commands::Next;
use super::editor::Typed;
use super::keyboard::Input;
use super::preview::{Extent, choices, question};
use super::screen::Region;
use super::slash::{self, Line};
use super::story::SURFACE;
use super::style::{Row, Tone};
use crate::arguments::to_resume;
use crate::error::{CommandError, EndedBy, Kind, io};

/// How often what is under way is drawn anew.
const FRAME: Duration = Duration::from_millis(33);
/// How many frames pass until the seconds are drawn anew although nothing happened.
const STILL: u32 = 15;
/// The sign of the line in which a question is answered.
const ASKS: &str = "y/n/a › ";
/// The sign of the line whose words are queued.
const QUEUES: &str = "» ";

/// What came of what is typed while nothing can be done with it.
enum Collected {
    Kept,
    Interrupt,
    End,
}

/// The wish to end the program that comes from outside.
struct Ending {
    terminate: Signal,
    hangup: Signal,
    interrupt: Signal,
    /// What wanted the end.
    by: Option<EndedBy>,
}

/// What a signal wants.
enum Wanted {
    Leave,
    Interrupt,
}

impl Ending {
    fn new() -> Result<Self, CommandError> {
        let listen = |kind| signal(kind).map_err(io("wait for signals"));
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
            interrupt: listen(SignalKind::interrupt())?,
            by: None,
        })
    }

    async fn next(&mut self) -> Wanted {
        let by = tokio::select! {
            _ = self.terminate.recv() => EndedBy::Terminate,
            _ = self.hangup.recv() => EndedBy::Hangup,
            // Where the terminal makes a signal of Ctrl-C.
            _ = self.interrupt.recv() => return Wanted::Interrupt,
        };
        self.by = Some(by);
        Wanted::Leave
    }
}

/// The question that is on the screen.
#[derive(Default)]
struct Asked {
    question: Option<Question>,
    /// Whether what is typed answers it: not while a message is being typed.
    in_line: bool,
    /// Whether it has been drawn: what was typed before that is no answer to it.
    drawn: bool,
    /// Whether it was answered here.
    answered: bool,
}

impl Asked {
    const fn is_open(&self) -> bool {
        self.question.is_some() && !self.answered
    }
}

/// Whether the watching goes on.
enum Watch {
    On,
    Leave,
}

impl Repl {
    /// Talks until the person leaves.
    ///
    /// # Errors
    /// What keeps the conversation from going on, a signal among it.
    pub(super) async fn talk(&mut self) -> Result<(), CommandError> {
        let mut ending = Ending::new()?;
        let done = self.until_left(&mut ending).await;
        // A terminal that is gone with the signal fails everything else too.
        match ending.by {
            Some(by) => Err(self.ended(by)),
            None => done,
        }
    }

    /// What to say where a signal ended it.
    fn ended(&self, by: EndedBy) -> CommandError {
        let error = CommandError::new(Kind::Signal(by), format!("ended by {}", by.name()));
        match &self.open {
            Some(open) => {
                let options = to_resume(open.live.id(), &self.arguments.model);
                error.hint(format!("go on with: castellan {options}"))
            }
            None => error,
        }
    }

    async fn until_left(&mut self, ending: &mut Ending) -> Result<(), CommandError> {
        if self
            .open
            .as_ref()
            .is_some_and(|open| open.standing.borrow().question.is_some())
            && let Next::Leave = self.watch(ending).await?
        {
            return Ok(());
        }
        loop {
            if let Some(line) = self.pending.pop_front() {
                let rows = self.story.spoken(&line);
                self.print(&rows)?;
                if let Next::Leave = self.line_and_more(&line, ending).await? {
                    return Ok(());
                }
                continue;
            }
            self.keyboard.prompt(self.editor.take());
            let input = tokio::select! {
                input = self.keyboard.next() => input.unwrap_or(Input::End),
                wanted = ending.next() => match wanted {
                    Wanted::Leave => return Ok(()),
                    Wanted::Interrupt => Input::Interrupt,
                },
                () = self.inbox.arrived() => {
                    if self.keyboard.has_keys() {
                        self.keyboard.break_off();
                        self.keyboard.next().await.unwrap_or(Input::End)
                    } else {
                        Input::Broken(String::new())
                    }
                }
            };
            let next = match input {
                Input::Line(line) => self.line_and_more(&line, ending).await?,
                Input::Interrupt if self.interrupts > 0 => Next::Leave,
                Input::Interrupt => {
                    self.interrupts = 1;
                    self.tell(Tone::Dim, "Ctrl-C once more, Ctrl-D or /quit leaves")?;
                    Next::Prompt
                }
                Input::End => Next::Leave,
                Input::Failed(why) => {
                    return Err(CommandError::failed(format!(
                        "failed to read what is typed: {why}"
                    )));
                }
                Input::Broken(typed) => {
                    self.editor.set(typed);
                    self.watch(ending).await?
                }
                Input::Key(_) | Input::Paste(_) | Input::Resized | Input::Resting => Next::Prompt,
            };
            if let Next::Leave = next {
                return Ok(());
            }
            self.measure();
        }
    }

    /// Does what a line says, and watches the session where there is something to watch.
    async fn line_and_more(
        &mut self,
        line: &str,
        ending: &mut Ending,
    ) -> Result<Next, CommandError> {
        self.interrupts = 0;
        self.measure();
        match self.line(line, ending).await? {
            Next::Watch => self.watch(ending).await,
            next => Ok(next),
        }
    }

    fn measure(&mut self) {
        self.screen.measure();
        self.story.resize(self.screen.width());
    }

    /// Does what a line at the prompt says.
    async fn line(&mut self, line: &str, ending: &mut Ending) -> Result<Next, CommandError> {
        let done = match slash::parse(line) {
            Line::Blank => Ok(Next::Prompt),
            Line::Say(text) => self.say(text, ending).await,
            Line::Command(command, arguments) => self.command(command, &arguments).await,
            Line::Unknown(name, near) => Err(unknown(&name, near)),
        };
        match done {
            Ok(next) => Ok(next),
            Err(error) => {
                self.complain(&error)?;
                Ok(Next::Prompt)
            }
        }
    }

    /// Says something to the model, with what was attached.
    async fn say(&mut self, text: String, ending: &mut Ending) -> Result<Next, CommandError> {
        match self.wait_for_model(ending).await? {
            Next::Watch => {}
            next => return Ok(next),
        }
        let found = self.models.now().and_then(|chosen| chosen.found.clone());
        if let (None, Some(found)) = (&self.open, found) {
            self.tell(Tone::Dim, &found)?;
        }
        self.begin().await?;
        match self.send(&text).await {
            Ok(()) => {
                self.story.was_typed();
                Ok(Next::Watch)
            }
            Err(error) => {
                self.editor.set(slash::to_say(text));
                Err(error)
            }
        }
    }

    /// Waits until a model is found; [`Next::Watch`] where one is and something can be said.
    async fn wait_for_model(&mut self, ending: &mut Ending) -> Result<Next, CommandError> {
        if self.open.is_some() {
            return Ok(Next::Watch);
        }
        if self.models.idle() {
            self.look_for_model();
        }
        if self.models.now().is_some() {
            return Ok(Next::Watch);
        }
        self.keyboard.keys();
        let region = Region {
            rows: vec![Row::of(Tone::Dim, "… looking for a model")],
            cursor: (0, 0),
        };
        self.screen
            .show(&[], region)
            .map_err(io("write to the terminal"))?;
        let mut left = false;
        let found = loop {
            tokio::select! {
                found = self.models.get() => break found,
                wanted = ending.next() => {
                    left = matches!(wanted, Wanted::Leave);
                    break None;
                }
                input = self.keyboard.next() => {
                    match self.collect(input.unwrap_or(Input::End)) {
                        Collected::Kept => {}
                        Collected::Interrupt => break None,
                        Collected::End => {
                            left = true;
                            break None;
                        }
                    }
                }
            }
        };
        left |= self.settle_keys().await == Next::Leave;
        self.print(&[])?;
        match found {
            _ if left => Ok(Next::Leave),
            Some(Err(error)) => Err(error),
            Some(Ok(_)) => Ok(Next::Watch),
            None => Ok(Next::Prompt),
        }
    }

    /// Keeps what is typed while nothing can be done with it.
    fn collect(&mut self, input: Input) -> Collected {
        match input {
            Input::Key(key) => match self.editor.key(key) {
                Typed::Edited => {}
                Typed::Line(line) => self.pending.push_back(line),
                Typed::Interrupt => return Collected::Interrupt,
                Typed::End => return Collected::End,
            },
            Input::Line(line) => self.pending.push_back(line),
            Input::Paste(text) => self.editor.paste(&text),
            Input::Interrupt => return Collected::Interrupt,
            Input::End | Input::Failed(_) => return Collected::End,
            Input::Resized | Input::Resting | Input::Broken(_) => {}
        }
        Collected::Kept
    }

    /// Ends the reading of keys. What was typed until now is kept, and what it asks for done.
    async fn settle_keys(&mut self) -> Next {
        if !self.keyboard.has_keys() {
            return Next::Prompt;
        }
        let mut next = Next::Prompt;
        self.keyboard.rest();
        while let Some(input) = self.keyboard.next().await {
            if let Input::Resting = input {
                break;
            }
            match self.collect(input) {
                Collected::Kept => {}
                Collected::End => next = Next::Leave,
                Collected::Interrupt => {
                    self.interrupts += 1;
                    if self.interrupts > 1 {
                        next = Next::Leave;
                    }
                }
            }
        }
        next
    }

    /// Watches the session until it rests.
    async fn watch(&mut self, ending: &mut Ending) -> Result<Next, CommandError> {
        self.keyboard.keys();
        let mut watched = self.watching(ending).await;
        if let Ok(Next::Prompt) = watched {
            watched = Ok(self.settle_keys().await);
        }
        let mut rows = self.story.rest();
        self.sent.clear();
        self.tell_status(0);
        if let Ok(Next::Prompt) = watched {
            rows.extend(self.how_it_ended());
            rows.push(Row::default());
        }
        self.print(&rows)?;
        watched
    }

    async fn watching(&mut self, ending: &mut Ending) -> Result<Next, CommandError> {
        let mut frame = tokio::time::interval(FRAME);
        frame.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut asked = Asked::default();
        let mut done = Vec::new();
        let mut still = 0;
        // Whether something happened since the last frame.
        let mut stirred = true;
        loop {
            let Some(open) = &mut self.open else {
                return Ok(Next::Prompt);
            };
            let mut due = false;
            tokio::select! {
                biased;
                input = self.keyboard.next() => {
                    let input = input.unwrap_or(Input::End);
                    if let Watch::Leave = self.typed(input, &mut asked, &mut done).await? {
                        return Ok(Next::Leave);
                    }
                    stirred = true;
                }
                wanted = ending.next() => match wanted {
                    Wanted::Leave => return Ok(Next::Leave),
                    Wanted::Interrupt => if let Watch::Leave = self.interrupt(&mut done) {
                        return Ok(Next::Leave);
                    },
                },
                _ = frame.tick() => {
                    still += 1;
                    due = stirred || still >= STILL;
                }
                () = self.inbox.arrived() => stirred = true,
                _ = open.standing.changed() => stirred = true,
                Some(compacted) = self.compactions.join_next() => {
                    // What it came to is an event; what kept it from that is not.
                    if let Ok(Err(refusal)) = compacted {
                        done.extend(self.story.note(Tone::Bad, &refused(refusal).text()));
                    }
                }
            }
            let standing = self.standing();
            // What led to where it stands is told first.
            for event in self.inbox.take() {
                if event.seq.is_some() {
                    self.name_session(Some(event.session));
                }
                done.extend(self.story.take(&event));
            }
            self.ask(&standing, &mut asked, &mut done);
            if is_at_rest(&standing) && self.compactions.is_empty() && self.inbox.is_empty() {
                if standing.left
                    && let Some(error) = self.fallen().await
                {
                    done.extend(self.story.note(Tone::Bad, &error.text()));
                    done.extend(
                        self.story
                            .note(Tone::Dim, "/resume ID goes on from what is stored"),
                    );
                }
                self.print(&std::mem::take(&mut done))?;
                return Ok(Next::Prompt);
            }
            if due {
                (still, stirred) = (0, false);
                self.draw(&standing, &asked, &std::mem::take(&mut done))?;
                if asked.is_open() && !asked.drawn {
                    asked.drawn = true;
                    asked.in_line = self.editor.is_empty();
                    self.draw(&standing, &asked, &[])?;
                }
            }
        }
    }

    /// Where the session stands; left, where there is none.
    fn standing(&mut self) -> Standing {
        match &mut self.open {
            Some(open) => open.standing.borrow_and_update().clone(),
            None => Standing {
                activity: Activity::Idle,
                question: None,
                queued: 0,
                last: None,
                unfinished: false,
                left: true,
            },
        }
    }

    /// Puts an open question on the screen, once.
    fn ask(&self, standing: &Standing, asked: &mut Asked, done: &mut Vec<Row>) {
        if standing.question == asked.question {
            asked.in_line |= asked.drawn && self.editor.is_empty();
            return;
        }
        *asked = Asked {
            question: standing.question.clone(),
            in_line: false,
            drawn: false,
            answered: false,
        };
        if let Some(open) = &asked.question {
            done.extend(question(open, self.screen.width(), Extent::Short));
            done.extend(choices(open, self.screen.width()));
        }
    }

    fn draw(
        &mut self,
        standing: &Standing,
        asked: &Asked,
        done: &[Row],
    ) -> Result<(), CommandError> {
        let width = self.screen.width();
        let mut rows = self.story.live();
        let answers = asked.is_open() && asked.in_line;
        if asked.is_open() && asked.drawn && !asked.in_line {
            let text = "a question waits: send this message first, or clear it with Ctrl-U";
            rows.extend(self.story.note(Tone::Warn, text));
        }
        self.tell_status(standing.queued);
        let status = self.status_row(width.saturating_sub(1));
        let (sign, tone) = if answers {
            (ASKS, Tone::Warn)
        } else {
            (QUEUES, Tone::Accent)
        };
        let (line, cursor) = self.editor.draw(sign, tone, width.saturating_sub(1));
        // The line that is typed always has room.
        let room = self.screen.room().saturating_sub(line.len() + 1);
        rows.drain(..rows.len().saturating_sub(room));
        rows.push(status);
        let above = rows.len();
        rows.extend(line);
        let region = Region {
            rows,
            cursor: (above + cursor.0, cursor.1),
        };
        self.screen
            .show(done, region)
            .map_err(io("write to the terminal"))
    }

    fn tell_status(&self, queued: usize) {
        let usage = self.story.usage;
        self.on_status(|status| {
            status.queued = queued;
            if let Some((used, window)) = usage {
                status.used = Some(used);
                status.window = window.or(status.window);
            }
        });
    }

    /// What a key or a line came to while the session is watched.
    async fn typed(
        &mut self,
        input: Input,
        asked: &mut Asked,
        done: &mut Vec<Row>,
    ) -> Result<Watch, CommandError> {
        match input {
            Input::Key(key) => match self.editor.key(key) {
                Typed::Edited => self.interrupts = 0,
                Typed::Line(line) => return self.said(&line, asked, done).await,
                Typed::Interrupt => return Ok(self.interrupt(done)),
                Typed::End => return self.end_of_input(asked).await,
            },
            Input::Line(line) => return self.said(&line, asked, done).await,
            Input::Paste(text) => self.editor.paste(&text),
            Input::Resized => {
                self.measure();
            }
            Input::Resting => {}
            Input::End => return self.end_of_input(asked).await,
            Input::Interrupt => return Ok(self.interrupt(done)),
            Input::Broken(text) => self.editor.set(text),
            Input::Failed(why) => {
                return Err(CommandError::failed(format!(
                    "failed to read what is typed: {why}"
                )));
            }
        }
        Ok(Watch::On)
    }

    /// Ctrl-C: stops the turn; once more leaves.
    fn interrupt(&mut self, done: &mut Vec<Row>) -> Watch {
        self.interrupts += 1;
        if self.interrupts > 1 {
            return Watch::Leave;
        }
        if let Some(open) = &self.open {
            let back = open.live.stop();
            done.extend(self.take_back(back));
        }
        Watch::On
    }

    /// No more input: what is asked is denied.
    async fn end_of_input(&self, asked: &mut Asked) -> Result<Watch, CommandError> {
        if let (Some(question), Some(open)) = (asked.question.take(), &self.open) {
            let answers = answer::refuse(&question.items, "the person left without an answer");
            // Whoever was quicker has decided.
            drop(open.live.decide(question.cycle_id, SURFACE, answers).await);
        }
        Ok(Watch::Leave)
    }

    /// A line that was sent while the session is watched: an answer, a command or a message.
    async fn said(
        &mut self,
        line: &str,
        asked: &mut Asked,
        done: &mut Vec<Row>,
    ) -> Result<Watch, CommandError> {
        self.interrupts = 0;
        if let Some(question) = asked.question.clone()
            && asked.is_open()
            && asked.in_line
            && !line.starts_with('/')
        {
            self.answer(line, &question, asked, done).await;
            return Ok(Watch::On);
        }
        match slash::parse(line) {
            Line::Blank => {}
            Line::Say(text) => match self.send(&text).await {
                Ok(()) => {
                    let first = text.lines().next().unwrap_or_default();
                    let words = castellan_core::text::shorten(first, 60);
                    let line = format!("queued: {words}");
                    done.extend(self.story.note(Tone::Dim, &line));
                }
                Err(error) => {
                    self.editor.set(slash::to_say(text));
                    done.extend(self.story.note(Tone::Bad, &error.text()));
                }
            },
            Line::Unknown(name, near) => {
                done.extend(self.story.note(Tone::Bad, &unknown(&name, near).text()));
            }
            Line::Command(command, arguments) => {
                if command == slash::Command::Quit {
                    return Ok(Watch::Leave);
                }
                done.extend(self.command_meanwhile(command, &arguments).await);
            }
        }
        Ok(Watch::On)
    }

    async fn answer(
        &mut self,
        line: &str,
        open: &Question,
        asked: &mut Asked,
        done: &mut Vec<Row>,
    ) {
        let width = self.screen.width();
        match answer::parse(line, open) {
            Answered::Again(why) => done.extend(self.story.note(Tone::Warn, &format!("? {why}"))),
            Answered::ShowAll => {
                done.extend(question(open, width, Extent::Whole));
                done.extend(choices(open, width));
            }
            Answered::Answers(answers) => {
                let Some(session) = &self.open else { return };
                let decided = session.live.decide(open.cycle_id, SURFACE, answers).await;
                // What was not taken leaves the question open.
                asked.answered = decided.is_ok();
                if let Err(refusal) = decided {
                    done.extend(
                        self.story
                            .note(Tone::Warn, &format!("! {}", refused(refusal).text())),
                    );
                }
            }
        }
    }

    /// How the last turn ended, where that is not plain from what stands above.
    fn how_it_ended(&mut self) -> Vec<Row> {
        let standing = self.standing();
        let Some((end, failure)) = standing.last else {
            return Vec::new();
        };
        let (tone, mark, next) = match end {
            TurnEnd::Failed => (Tone::Bad, "✗", "/continue tries again"),
            // Its hint says what it takes to go on.
            TurnEnd::Limit => (Tone::Warn, "!", "to go on: /continue"),
            TurnEnd::Done | TurnEnd::Cancelled => return Vec::new(),
        };
        let (message, hint) = failure.map_or_else(
            || ("the turn failed".to_owned(), String::new()),
            |ModelError { message, hint, .. }| (message, hint),
        );
        let mut rows = self.story.note(tone, &format!("{mark} {message}"));
        if !hint.is_empty() {
            rows.extend(self.story.note(Tone::Dim, &format!("hint: {hint}")));
        }
        rows.extend(self.story.note(Tone::Dim, next));
        rows
    }

    pub(super) fn status_row(&self, width: usize) -> Row {
        self.status
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .row(width)
    }
}

/// Whether there is nothing to watch.
fn is_at_rest(standing: &Standing) -> bool {
    standing.left
        || standing.activity == Activity::Idle
            && standing.question.is_none()
            && standing.queued == 0
}

pub(super) fn refused(refusal: Refusal) -> CommandError {
    match refusal {
        Refusal::Session(error) => error.into(),
        other => CommandError::failed(other),
    }
}

fn unknown(name: &str, near: Option<&str>) -> CommandError {
    let near = near.map_or_else(String::new, |near| format!("did you mean /{near}? "));
    CommandError::usage(format!("there is no /{name}")).hint(format!(
        "{near}/help lists what there is; //{name} says it to the model"
    ))
}
