//! What a session has used: tokens by model, and what they cost where prices are known.

use castellan_core::model::Usage;

/// Tokens of the requests to one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// How many requests were answered.
    pub requests: u64,
    /// Tokens read, those from the provider's cache included.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
    /// Of the tokens read: those the provider had in its cache, as far as it says.
    pub cached_tokens: u64,
    /// How many of the requests the server did not count; theirs are estimated.
    pub estimated: u64,
}

impl Totals {
    /// Tokens read and written.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }

    /// Adds a request. One that was not counted counts as `estimate`.
    pub(crate) const fn add(&mut self, usage: Option<&Usage>, estimate: &Usage) {
        let used = match usage {
            Some(counted) => counted,
            None => {
                self.estimated += 1;
                estimate
            }
        };
        self.requests += 1;
        self.prompt_tokens = self.prompt_tokens.saturating_add(used.prompt_tokens);
        self.completion_tokens = self
            .completion_tokens
            .saturating_add(used.completion_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(used.cached_tokens);
    }
}

/// What a model costs, in any one currency, for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Of tokens read.
    pub input: f64,
    /// Of tokens written.
    pub output: f64,
    /// Of tokens read from the provider's cache; as other tokens read where it is not known.
    pub cached_input: Option<f64>,
}

impl Price {
    /// What these tokens cost.
    #[must_use]
    pub fn of(&self, totals: &Totals) -> f64 {
        let fresh = totals.prompt_tokens.saturating_sub(totals.cached_tokens);
        let cached = self.cached_input.unwrap_or(self.input);
        let millionths = amount(fresh) * self.input
            + amount(totals.cached_tokens) * cached
            + amount(totals.completion_tokens) * self.output;
        millionths / 1e6
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of tokens are exact up to 2^53"
)]
const fn amount(tokens: u64) -> f64 {
    tokens as f64
}

/// What a session has used of one model.
#[derive(Debug, Clone, PartialEq)]
pub struct Spent {
    /// The model's name at its server.
    pub model: String,
    /// The tokens.
    pub totals: Totals,
    /// What they cost; `None` where no price is known.
    pub cost: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTED: Usage = Usage {
        prompt_tokens: 1_000_000,
        completion_tokens: 100_000,
        cached_tokens: 400_000,
        reasoning_tokens: 0,
    };

    #[test]
    fn cached_tokens_have_a_price_of_their_own() {
        let mut totals = Totals::default();
        totals.add(Some(&COUNTED), &Usage::default());
        let mut price = Price {
            input: 2.0,
            output: 10.0,
            cached_input: Some(0.5),
        };
        assert!((price.of(&totals) - 2.4).abs() < 1e-9);
        price.cached_input = None;
        assert!((price.of(&totals) - 3.0).abs() < 1e-9);
    }

    #[test]
    fn what_was_not_counted_is_estimated_and_said_to_be() {
        let mut totals = Totals::default();
        totals.add(None, &COUNTED);
        totals.add(Some(&COUNTED), &Usage::default());
        assert_eq!((totals.requests, totals.estimated), (2, 1));
        assert_eq!(totals.tokens(), 2_200_000);
    }
}
