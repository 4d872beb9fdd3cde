//! Makes a conversation shorter: decides how far, has a summary written, and notes what the model is
//! shown from now on. The record keeps everything.

use castellan_core::event::{CompactionCause, Purpose, Summarizer};
use castellan_core::model::{Overflow, ToolCard, Usage};
use castellan_core::token::Ratio;
use castellan_core::{Cancel, ErrorCode, Event, Recorded, token};
use castellan_gate::Recorder as _;

use super::asking::{Shown, Sized};
use super::digest::{self, Digest};
use super::driver::Session;
use super::request::messages;
use super::squeeze::{Aim, Plan, plan};
use super::state::State;
use crate::error::Error;

/// How often a conversation is made shorter for one request.
const TRIES: u32 = 2;
/// How often a summary is asked for; each time of half as much.
const SUMMARY_TRIES: u32 = 3;
/// The most tokens that are left free for an answer, whatever the window.
const ANSWER: u64 = 8_192;
/// No model takes fewer tokens than this.
const LEAST_WINDOW: u64 = 1_000;
/// How many tokens of the newest messages stay where a person asks for a compaction.
const KEPT_FOR_PERSON: u64 = 8_000;
/// Why a mechanical summary is one where none was asked for.
const UNASKED: &str = "none is asked for here";
/// How many bytes of the record a summary is made of where nothing is known of the model.
const BLIND_RECORD: u64 = 96 * 1_024;

/// What a compaction came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compacted {
    /// How many tokens the next request would have been, roughly.
    pub tokens_before: u64,
    /// How many it is now, roughly.
    pub tokens_after: u64,
    /// Who wrote the summary.
    pub by: Summarizer,
    /// Why the model didn't.
    pub problem: Option<String>,
}

/// What trying to make a conversation shorter came to.
#[derive(Debug)]
pub(super) enum Squeezed {
    Done(Compacted),
    /// There is nothing that could be left out.
    Nothing,
    /// Someone asked to stop. Nothing was changed.
    Stopped,
}

/// Why and how far a conversation is to be made shorter.
#[derive(Debug, Clone)]
pub(crate) struct Pressure {
    cause: CompactionCause,
    aim: Aim,
    fixed: u64,
    ratio: Ratio,
    /// How many bytes of the record a summary is made of.
    record: u64,
    window: Option<u64>,
    asked: Option<u64>,
}

impl Pressure {
    /// For a window of `window` tokens.
    fn within(cause: CompactionCause, window: u64, ratio: Ratio, fixed: u64, tries: u32) -> Self {
        let bytes = ratio.bytes(window);
        Self {
            cause,
            aim: Aim::within(bytes, tries),
            fixed,
            ratio,
            record: bytes / 2,
            window: None,
            asked: None,
        }
    }

    /// For a request that the server refused, `told` being the sizes it named; `None` where it has
    /// been tried often enough.
    pub(crate) fn refused(
        state: &State,
        known: Option<u64>,
        sized: &Sized,
        told: Overflow,
    ) -> Option<Self> {
        if state.squeezes >= TRIES {
            return None;
        }
        // A size that is none, such as a number of something else, would leave nothing of the
        // conversation.
        let limit = told.limit.filter(|limit| *limit >= LEAST_WINDOW);
        let mut asked = told.asked;
        let mut ratio = match asked {
            Some(asked) => state.ratio().counted(sized.whole, asked),
            None => state.ratio(),
        };
        if let Some(limit) = limit
            && ratio.tokens(sized.whole) <= limit
        {
            // It was longer than we thought, by nobody knows how much.
            asked = Some(limit + limit / 10);
            ratio = ratio.counted(sized.whole, limit + limit / 10);
        }
        let guess = ratio.tokens(sized.whole) / 10 * 9;
        let window = limit
            .filter(|limit| ratio.tokens(sized.whole) > *limit)
            .unwrap_or_else(|| known.map_or(guess, |known| known.min(guess)));
        let pressure = Self::within(
            CompactionCause::Overflow,
            window,
            ratio,
            sized.fixed,
            state.squeezes,
        );
        Some(Self {
            window: Some(window),
            asked,
            ..pressure
        })
    }
}

/// The pressure that the next request is under: `sized` in a window of `window` tokens, of which it may
/// have the part `compact_at`. `None` where it fits, or where it is to be tried anyway.
pub(crate) fn full(
    state: &State,
    window: Option<u64>,
    sized: Sized,
    compact_at: f64,
) -> Option<Pressure> {
    let window = window.filter(|_| state.squeezes < TRIES)?;
    let ratio = state.ratio();
    if ratio.tokens(sized.whole) <= room(window, compact_at) {
        return None;
    }
    let tries = state.squeezes;
    let mut pressure = Pressure::within(CompactionCause::Full, window, ratio, sized.fixed, tries);
    if tries > 0 {
        // One summary for one request; what still doesn't fit is cut.
        pressure.aim.least_gain = None;
    }
    Some(pressure)
}

/// Makes a conversation shorter without a model's summary, so that it follows from the state alone;
/// `None` where there is nothing that could be left out.
pub(crate) fn mechanical(
    state: &State,
    pressure: &Pressure,
    tools: &[ToolCard],
    recorded: impl Fn(Event) -> Recorded,
) -> Option<Event> {
    let planned = plan(state, pressure.fixed, &pressure.aim)?;
    let room = usize::try_from(planned.summary).unwrap_or(usize::MAX);
    let summary = match planned.replaces {
        0 => String::new(),
        replaces => {
            let older = state.entries.get(..replaces).unwrap_or(&state.entries);
            digest::mechanical(older, UNASKED.to_owned(), room).text
        }
    };
    let event = |tokens_before, tokens_after| Event::Compaction {
        cause: pressure.cause,
        focus: None,
        summary: summary.clone(),
        by: Summarizer::Program,
        problem: None,
        replaces: planned.replaces,
        keeps: planned.keeps.clone(),
        cuts: planned.cuts.clone(),
        tokens_before,
        tokens_after,
        window: pressure.window,
        asked: pressure.asked,
        usage: None,
        duration_ms: 0,
    };
    let tokens = |state: &State| pressure.ratio.estimate(&messages(state), tools);
    let mut after = state.clone();
    after.apply(&recorded(event(0, 0)));
    Some(event(tokens(state), tokens(&after)))
}

impl Session {
    /// How many tokens its model takes, where that is known.
    pub(super) fn window(&self, state: &State) -> Option<u64> {
        let info = self.parts.model.info();
        state.window(&info.model, info.context_window)
    }

    /// How many tokens the next request has, roughly, and how many the model takes, where that is
    /// known.
    #[must_use]
    pub fn context(&self) -> (u64, Option<u64>) {
        let request = self.request();
        self.journal.read(|state| {
            let tokens = state.ratio().estimate(&request.messages, &request.tools);
            (tokens, self.window(state))
        })
    }

    /// Makes the conversation shorter because a person asks for it: what is older is replaced by a
    /// summary that dwells on `focus`.
    ///
    /// # Errors
    /// [`Error::NothingToCompact`] where there is nothing older, [`Error::Stopped`] where `cancel`
    /// ended it, and what keeps it from being recorded.
    pub async fn compact(
        &mut self,
        focus: Option<String>,
        cancel: Cancel,
    ) -> Result<Compacted, Error> {
        let focus = focus.map(|focus| self.parts.gate.redact(focus.trim().to_owned()));
        let focus = focus.filter(|focus| !focus.is_empty());
        let request = self.request();
        let sized = Sized::of(&request);
        let (ratio, window) = self
            .journal
            .read(|state| (state.ratio(), self.window(state)));
        let kept = window.map_or(KEPT_FOR_PERSON, |window| KEPT_FOR_PERSON.min(window / 5));
        let pressure = Pressure {
            cause: CompactionCause::Person,
            aim: Aim::asked_for(sized.fixed, ratio.bytes(kept)),
            fixed: sized.fixed,
            ratio,
            record: window.map_or(BLIND_RECORD, |window| ratio.bytes(window) / 2),
            window: None,
            asked: None,
        };
        match self.squeeze(pressure, focus, &cancel).await? {
            Squeezed::Done(compacted) => Ok(compacted),
            Squeezed::Nothing => Err(Error::NothingToCompact(self.id())),
            Squeezed::Stopped => Err(Error::Stopped),
        }
    }

    /// The pressure the next request is under; `None` where it fits, or where it is to be tried
    /// anyway.
    pub(super) fn pressure(&self, sized: Sized) -> Option<Pressure> {
        self.journal
            .read(|state| full(state, self.window(state), sized, self.parts.compact_at))
    }

    /// Makes the conversation shorter.
    pub(super) async fn squeeze(
        &self,
        pressure: Pressure,
        focus: Option<String>,
        cancel: &Cancel,
    ) -> Result<Squeezed, Error> {
        let began = self.parts.clock.monotonic();
        let planned = self
            .journal
            .read(|state| plan(state, pressure.fixed, &pressure.aim));
        let Some(planned) = planned else {
            return Ok(Squeezed::Nothing);
        };
        let mut usage = None;
        let summary = if planned.replaces == 0 {
            Digest {
                text: String::new(),
                by: Summarizer::Program,
                problem: None,
            }
        } else {
            let asked = self.summarise(&pressure, &planned, focus.as_deref(), cancel);
            match asked.await? {
                Some((digest, used)) => {
                    usage = used;
                    digest
                }
                None => return Ok(Squeezed::Stopped),
            }
        };
        let standing = self.journal.read(standing);
        let text = match standing {
            Some(standing) if planned.replaces > 0 => format!("{}\n\n{standing}", summary.text),
            _ => summary.text,
        };
        let took = self.parts.clock.monotonic().saturating_sub(began);
        let mut event = Event::Compaction {
            cause: pressure.cause,
            focus,
            summary: self.parts.gate.redact(text),
            by: summary.by,
            problem: summary.problem.clone(),
            replaces: planned.replaces,
            keeps: planned.keeps,
            cuts: planned.cuts,
            tokens_before: 0,
            tokens_after: 0,
            window: pressure.window,
            asked: pressure.asked,
            usage,
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        };
        let (before, after) = self.measure(&event, pressure.ratio);
        if let Event::Compaction {
            tokens_before,
            tokens_after,
            ..
        } = &mut event
        {
            (*tokens_before, *tokens_after) = (before, after);
        }
        self.journal.note(event);
        self.journal.commit().await?;
        Ok(Squeezed::Done(Compacted {
            tokens_before: before,
            tokens_after: after,
            by: summary.by,
            problem: summary.problem,
        }))
    }

    /// How many tokens the next request has before and after this event, roughly.
    fn measure(&self, event: &Event, ratio: Ratio) -> (u64, u64) {
        let tools = self.request().tools;
        let mut state = self.journal.read(State::clone);
        let before = ratio.estimate(&messages(&state), &tools);
        state.apply(&Recorded {
            ts: self.parts.clock.now(),
            seq: None,
            session: self.id(),
            event: event.clone(),
        });
        (before, ratio.estimate(&messages(&state), &tools))
    }

    /// A summary of what `planned` leaves out, by the model or, where it gives none, without it;
    /// `None` once someone asked to stop. A request that is itself too long is tried again with
    /// less, a few times.
    async fn summarise(
        &self,
        pressure: &Pressure,
        planned: &Plan,
        focus: Option<&str>,
        cancel: &Cancel,
    ) -> Result<Option<(Digest, Option<Usage>)>, Error> {
        let older: Vec<_> = self.journal.read(|state| {
            state
                .entries
                .iter()
                .take(planned.replaces)
                .cloned()
                .collect()
        });
        let limit = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let room = limit(planned.summary);
        let mut problem = String::new();
        for tries in 0..SUMMARY_TRIES {
            let request = digest::request(&older, focus, limit(pressure.record >> tries));
            let size = token::size(&request.messages, &request.tools);
            self.on_record(&request, size, Purpose::Summary).await?;
            match self.hear(request, cancel, Shown::Troubles).await {
                Ok(reply) => {
                    let usage = reply.usage;
                    match digest::understood(&reply, room) {
                        Ok(digest) => return Ok(Some((digest, usage))),
                        Err(said) => {
                            return Ok(Some((digest::mechanical(&older, said, room), usage)));
                        }
                    }
                }
                Err(error) if error.code == ErrorCode::Cancelled => return Ok(None),
                Err(error) => {
                    problem = error.message;
                    if error.code != ErrorCode::ModelContextOverflow {
                        break;
                    }
                }
            }
        }
        Ok(Some((digest::mechanical(&older, problem, room), None)))
    }
}

/// How many commands that run in the background are named, and how much of each.
const NAMED_SHELLS: usize = 20;
const SHELL_NAME: usize = 200;

/// What no summary may forget, because the session knows it for certain.
fn standing(state: &State) -> Option<String> {
    let mut lines = Vec::new();
    if state.cwd != state.workspace {
        lines.push(format!(
            "The working folder is now {}.",
            state.cwd.display()
        ));
    }
    let running: Vec<_> = state
        .shells
        .iter()
        .filter(|(_, shell)| shell.running)
        .collect();
    if !running.is_empty() {
        let named = running.iter().take(NAMED_SHELLS).map(|(id, shell)| {
            let command = castellan_core::text::one_line(&shell.command);
            format!(
                "\n- {id}: {}",
                castellan_core::text::shorten(&command, SHELL_NAME)
            )
        });
        let named: String = named.collect();
        lines.push(format!(
            "Running in the background ({}):{named}",
            running.len()
        ));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// How many tokens of a window a request may have.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a part of a window of at most a few million tokens"
)]
fn room(window: u64, compact_at: f64) -> u64 {
    let part = (window as f64 * compact_at.clamp(0.0, 1.0)) as u64;
    part.min(window - ANSWER.min(window / 5))
}
