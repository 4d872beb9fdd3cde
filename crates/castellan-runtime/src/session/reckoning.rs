//! What the state says of tokens: what was used, and how many a request has.

use std::collections::HashMap;

use castellan_core::event::{CompactionCause, ResultCut, Summarizer};
use castellan_core::message::IssuedCall;
use castellan_core::model::{Finish, Usage};
use castellan_core::text::head_and_tail;
use castellan_core::token::Ratio;
use castellan_core::{CallId, Event};

use super::state::{Counted, Entry, Nothing, Requested, State};
use crate::usage::Totals;

impl State {
    /// How many bytes of the conversation are a token, as far as the session shows.
    #[must_use]
    pub fn ratio(&self) -> Ratio {
        self.counted.map_or_else(Ratio::default, |counted| {
            Ratio::default().counted(counted.size, counted.tokens)
        })
    }

    /// How many tokens `model` takes: what is known of it, or what its server's refusals showed,
    /// whichever is less.
    #[must_use]
    pub fn window(&self, model: &str, known: Option<u64>) -> Option<u64> {
        let learnt = self
            .learnt_window
            .as_ref()
            .filter(|(name, _)| name == model)
            .map(|(_, tokens)| *tokens);
        match (known, learnt) {
            (Some(known), Some(learnt)) => Some(known.min(learnt)),
            (known, learnt) => known.or(learnt),
        }
    }

    /// Tokens of the whole session.
    #[must_use]
    pub fn session_tokens(&self) -> u64 {
        self.usage.values().map(Totals::tokens).sum()
    }

    /// Takes in what an answer used.
    pub(super) fn used(&mut self, usage: Option<&Usage>, text: &str, calls: &[IssuedCall]) {
        let Some(requested) = self.requested.clone() else {
            return;
        };
        if let Some(usage) = usage
            && requested.size > 0
        {
            self.counted = Some(Counted {
                size: requested.size,
                tokens: usage.prompt_tokens,
            });
        }
        let calls = calls
            .iter()
            .map(|call| call.raw.name.len() + call.raw.arguments.len());
        self.add(requested, usage, text.len() + calls.sum::<usize>());
    }

    /// Counts a request whose answer had `written` bytes.
    fn add(&mut self, requested: Requested, usage: Option<&Usage>, written: usize) {
        let ratio = self.ratio();
        let estimate = Usage {
            prompt_tokens: ratio.tokens(requested.size),
            completion_tokens: ratio.tokens(written as u64),
            ..Usage::default()
        };
        let used = usage.unwrap_or(&estimate);
        let tokens = used.prompt_tokens.saturating_add(used.completion_tokens);
        self.turn_tokens = self.turn_tokens.saturating_add(tokens);
        self.usage
            .entry(requested.model)
            .or_default()
            .add(usage, &estimate);
    }

    pub(super) fn came_to_nothing(&mut self, finish: &Finish, has_reasoning: bool) {
        let before = self.nothing.as_ref().map_or(0, |nothing| nothing.times);
        self.nothing = Some(Nothing {
            times: before + 1,
            finish: finish.clone(),
            has_reasoning,
            is_told: false,
        });
    }

    /// Takes in that less of the conversation is shown from now on.
    pub(super) fn compacted(&mut self, event: &Event) {
        let Event::Compaction {
            cause,
            summary,
            by,
            replaces,
            keeps,
            cuts,
            window,
            asked,
            usage,
            ..
        } = event
        else {
            return;
        };
        if *cause != CompactionCause::Person {
            self.squeezes += 1;
        }
        if let Some(requested) = &self.requested {
            if let Some(window) = window {
                self.learnt_window = Some((requested.model.clone(), *window));
            }
            if let Some(tokens) = asked {
                self.counted = Some(Counted {
                    size: requested.size,
                    tokens: *tokens,
                });
            }
        }
        if (usage.is_some() || *by == Summarizer::Model)
            && let Some(requested) = self.summary_requested.take()
        {
            self.add(requested, usage.as_ref(), summary.len());
        }
        for cut in cuts {
            self.cut(cut);
        }
        if *replaces > 0 {
            let replaces = (*replaces).min(self.entries.len());
            let mut entries = Vec::with_capacity(self.entries.len() - replaces + keeps.len() + 1);
            entries.push(Entry::Summary {
                text: summary.clone(),
                by: *by,
            });
            for (position, entry) in std::mem::take(&mut self.entries).into_iter().enumerate() {
                if position >= replaces || keeps.contains(&position) {
                    entries.push(entry);
                }
            }
            self.entries = entries;
            self.calls = places(&self.entries);
            // Entries have other places now; every call to come is later than all of them.
            self.folder_by = (0, 0);
        }
    }

    fn cut(&mut self, cut: &ResultCut) {
        self.on_call(cut.call_id, |call| {
            if let Some(result) = &mut call.result
                && let Some(shorter) = head_and_tail(&result.output, cut.limit, None)
            {
                result.output = shorter.text;
            }
        });
    }
}

/// Where each call stands, by entry and position.
fn places(entries: &[Entry]) -> HashMap<CallId, (usize, usize)> {
    let mut places = HashMap::new();
    for (entry, said) in entries.iter().enumerate() {
        if let Entry::Assistant { calls, .. } = said {
            for (position, call) in calls.iter().enumerate() {
                places.insert(call.issued.call_id, (entry, position));
            }
        }
    }
    places
}
