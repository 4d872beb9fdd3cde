//! Counts of tokens, in the shapes in which servers give them.

use castellan_core::model::Usage;
use serde_json::Value;

/// The counts in a chunk or answer whose first choice is `choice`; `None` where there are none.
pub(super) fn read(chunk: &Value, choice: Option<&Value>) -> Option<Usage> {
    let places = [
        &chunk["usage"],
        &chunk["x_groq"]["usage"],
        // Moonshot's streams.
        choice.map_or(&Value::Null, |choice| &choice["usage"]),
        &chunk["usageMetadata"],
        &chunk["usage_metadata"],
    ];
    places
        .into_iter()
        .find_map(counts)
        .or_else(|| timings(&chunk["timings"]))
        // Ollama's own API behind a thin proxy.
        .or_else(|| counts(chunk))
}

fn counts(usage: &Value) -> Option<Usage> {
    let first = |names: &[&str]| names.iter().find_map(|name| number(&usage[*name]));
    let within = |places: &[&str], names: &[&str]| {
        places
            .iter()
            .flat_map(|place| names.iter().map(move |name| &usage[*place][*name]))
            .find_map(number)
    };
    let prompt = first(&["prompt_tokens", "promptTokenCount", "prompt_eval_count"]);
    let cache_read = first(&["cache_read_input_tokens"]);
    // Anthropic counts what was in or went into its cache apart.
    let prompt = prompt.or_else(|| {
        let written = first(&["cache_creation_input_tokens"]).unwrap_or(0);
        Some(first(&["input_tokens"])? + cache_read.unwrap_or(0) + written)
    });
    let completion = first(&[
        "completion_tokens",
        "output_tokens",
        "candidatesTokenCount",
        "eval_count",
    ]);
    let cached = within(
        &["prompt_tokens_details", "input_tokens_details"],
        &["cached_tokens"],
    )
    .or_else(|| {
        first(&[
            "cached_tokens",
            "prompt_cache_hit_tokens",
            "cachedContentTokenCount",
        ])
    })
    .or(cache_read)
    .unwrap_or(0);
    let reasoning = within(
        &["completion_tokens_details", "output_tokens_details"],
        &["reasoning_tokens"],
    )
    .or_else(|| first(&["reasoning_tokens", "thoughtsTokenCount"]))
    .unwrap_or(0);
    let total = first(&["total_tokens", "totalTokenCount"]).unwrap_or(0);
    let prompt_tokens = prompt.unwrap_or(0);
    let completion_tokens = match completion {
        // Some servers count reasoning apart; the total tells.
        Some(written) if reasoning > 0 && total == prompt_tokens + written + reasoning => {
            written + reasoning
        }
        Some(written) => written,
        None => total.saturating_sub(prompt_tokens),
    };
    // Zeros stand where nothing was counted yet.
    (prompt_tokens + completion_tokens > 0).then_some(Usage {
        prompt_tokens,
        completion_tokens,
        cached_tokens: cached.min(prompt_tokens),
        reasoning_tokens: reasoning.min(completion_tokens),
    })
}

/// llama.cpp's measurements, which it sends unasked.
fn timings(timings: &Value) -> Option<Usage> {
    let cached_tokens = number(&timings["cache_n"]).unwrap_or(0);
    let usage = Usage {
        prompt_tokens: number(&timings["prompt_n"])? + cached_tokens,
        completion_tokens: number(&timings["predicted_n"])?,
        cached_tokens,
        reasoning_tokens: 0,
    };
    Some(usage)
}

/// A count; some servers write 7.0. None comes near the bound.
fn number(value: &Value) -> Option<u64> {
    let whole = |number: &f64| number.fract() == 0.0 && (0.0..1e12).contains(number);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be a whole number within the bounds"
    )]
    let as_float = || value.as_f64().filter(whole).map(|number| number as u64);
    value
        .as_u64()
        .or_else(as_float)
        .filter(|count| *count < 1_000_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counts_are_read_in_every_known_shape() {
        for (chunk, [prompt, completion, cached, reasoning]) in [
            (
                json!({"usage": {"prompt_tokens": 7, "completion_tokens": 2}}),
                [7, 2, 0, 0],
            ),
            (
                json!({"usage": {"prompt_tokens": 70, "completion_tokens": 20, "total_tokens": 90,
                    "prompt_tokens_details": {"cached_tokens": 64},
                    "completion_tokens_details": {"reasoning_tokens": 12}}}),
                [70, 20, 64, 12],
            ),
            (
                json!({"usage": {"input_tokens": 70, "output_tokens": 20,
                    "input_tokens_details": {"cached_tokens": 64},
                    "output_tokens_details": {"reasoning_tokens": 12}}}),
                [70, 20, 64, 12],
            ),
            (
                json!({"usage": {"prompt_tokens": 70, "completion_tokens": 20,
                    "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 6}}),
                [70, 20, 64, 0],
            ),
            (
                json!({"usage": {"input_tokens": 6, "cache_read_input_tokens": 64,
                    "cache_creation_input_tokens": 10, "output_tokens": 20}}),
                [80, 20, 64, 0],
            ),
            (
                json!({"choices": [{"usage": {"prompt_tokens": 7, "completion_tokens": 2, "cached_tokens": 3}}]}),
                [7, 2, 3, 0],
            ),
            (
                json!({"usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 2,
                    "thoughtsTokenCount": 5, "totalTokenCount": 14}}),
                [7, 7, 0, 5],
            ),
            (
                json!({"usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 14,
                    "completion_tokens_details": {"reasoning_tokens": 5}}}),
                [7, 7, 0, 5],
            ),
            (
                json!({"x_groq": {"usage": {"prompt_tokens": 7.0, "completion_tokens": 2}}}),
                [7, 2, 0, 0],
            ),
            (
                json!({"usage": {"prompt_tokens": 7, "total_tokens": 9}}),
                [7, 2, 0, 0],
            ),
            (
                json!({"timings": {"prompt_n": 3, "cache_n": 4, "predicted_n": 2}}),
                [7, 2, 4, 0],
            ),
            (
                json!({"prompt_eval_count": 7, "eval_count": 2}),
                [7, 2, 0, 0],
            ),
        ] {
            let expected = Usage {
                prompt_tokens: prompt,
                completion_tokens: completion,
                cached_tokens: cached,
                reasoning_tokens: reasoning,
            };
            assert_eq!(
                read(&chunk, chunk["choices"].get(0)),
                Some(expected),
                "{chunk}"
            );
        }
    }

    #[test]
    fn what_was_not_counted_is_not_known() {
        for usage in [
            json!(null),
            json!({}),
            json!({"prompt_tokens": 0, "completion_tokens": 0}),
            json!({"prompt_tokens": -1, "completion_tokens": "2"}),
            json!({"prompt_tokens": 1.5}),
            json!({"prompt_tokens": 1e300, "completion_tokens": u64::MAX}),
        ] {
            assert_eq!(read(&json!({"usage": usage}), None), None, "{usage}");
        }
    }
}
