//! What the state says of tokens: what was used, and how many a request has.

use std::collections::HashMap;

use castellan_core::event::ResultCut;
use castellan_core::message::IssuedCall;
use castellan_core::model::{Finish, Usage};
use castellan_core::text::head_and_tail;
use castellan_core::token::Ratio;
use castellan_core::{CallId, Event};

use super::state::{Counted, Entry, Nothing, State};

impl State {
    /// How many bytes of the conversation are a token, as far as the session shows.
    #[must_use]
    pub fn ratio(&self) -> Ratio {
        self.counted
            .map_or_else(Ratio::default, |counted| {
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
        self.usage.values().map(super::super::usage::Totals::tokens).sum()
    }

    /// Takes in what an answer used.
    pub(super) fn used(&mut self, usage: Option<&Usage>, text: &str, calls: &[IssuedCall]) {
        let Some(requested) = self.requested.clone() else {
            return;
        };
        let written: usize = text.len()
            + calls
                .iter()
                .map(|call| call.raw.name.len() + call.raw.arguments.len())
                .sum::<usize>();
        let ratio = self.ratio();
        let estimate = Usage {
            prompt_tokens: ratio.tokens(requested.size),
            completion_tokens: ratio.tokens(written as u64),
            ..Usage::default()
        };
        if let Some(usage) = usage
            && requested.size > 0
        {
            self.counted = Some(Counted {
                size: requested.size,
                tokens: usage.prompt_tokens,
            });
        }
        let used = usage.unwrap_or(&estimate);
        self.turn_tokens += used.prompt_tokens + used.completion_tokens;
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
        self.squeezes += 1;
        let model = self.requested.as_ref().map(|asked| asked.model.clone());
        if let (Some(model), Some(window)) = (&model, window) {
            self.learnt_window = Some((model.clone(), *window));
        }
        if let (Some(requested), Some(tokens)) = (&self.requested, asked) {
            self.counted = Some(Counted {
                size: requested.size,
                tokens: *tokens,
            });
        }
        if let (Some(model), Some(usage)) = (model, usage) {
            self.turn_tokens += usage.prompt_tokens + usage.completion_tokens;
            let totals = self.usage.entry(model).or_default();
            totals.add(Some(usage), &Usage::default());
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
