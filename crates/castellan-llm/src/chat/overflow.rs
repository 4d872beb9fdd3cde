//! Recognising "the conversation is too long" in the words of many servers.
//!
//! Only a server's own message and code are looked at, never the rest of its answer, which may quote
//! the conversation. A message that merely mentions the context is no overflow.

use castellan_core::model::Overflow;

use crate::complaint::Complaint;

/// Codes and types that mean it.
const CODES: &[&str] = &[
    "context_length_exceeded",   // OpenAI and many after it
    "exceed_context_size_error", // llama.cpp
    "context_window_exceeded",
    "model_context_window_exceeded",
    "context_window_exceeded_error",
    "request_too_large", // Anthropic behind a translating proxy
    "prompt_too_long",
];

/// Phrases that mean it by themselves, in lower case.
const PHRASES: &[&str] = &[
    "maximum context length", // OpenAI, vLLM, SGLang, DeepSeek, OpenRouter, Mistral
    "exceeds the available context size", // llama.cpp
    "exceed context window",  // llama-cpp-python
    "exceeds the context window",
    "greater than the context length",        // LM Studio
    "reached context length of",              // LM Studio
    "longer than the model's context length", // SGLang
    "exceeds the model's context",
    "exceeds the context length",
    "exceed context limit",                 // Anthropic
    "exceeds maximum input length",         // TensorRT-LLM
    "exceeded model token limit",           // Moonshot
    "range of input length should be",      // DashScope
    "must have less than",                  // Text Generation Inference
    "model only supports up to",            // Gemini
    "context size has been exceeded",       // LM Studio
    "context window exceeds limit",         // MiniMax
    "longer than the maximum model length", // vLLM
    "maximum model length of",              // vLLM
    "maximum prompt length",                // xAI
    "exceeds the maximum number of tokens", // Gemini
    "prompt token count of",                // Copilot
    "prompt is too long",                   // Anthropic
    "prompt too long",
    "input is too long", // Bedrock
    "input too long",
    "input prompt is too long",
    "context length exceeded",
    "context window exceeded",
    "too many tokens",
    "too many input tokens",
    "input length exceeds",
    "reduce the length of",              // OpenAI, Groq
    "tokens + `max_new_tokens` must be", // Text Generation Inference
    "tokens + max_new_tokens must be",
];

/// What a message of no known wording has to speak of: the conversation …
const SUBJECTS: &[&str] = &[
    "prompt",
    "input",
    "context",
    "messages",
    "conversation",
    "request",
];

/// … being measured …
const MEASURES: &[&str] = &["tokens", "token count"];

/// … against something smaller.
const COMPARISONS: &[&str] = &[
    "exceed",
    "but",
    "only",
    "maximum",
    "limit",
    "holds",
    "greater",
    "larger",
    "longer",
    "more than",
];

/// The smallest number taken for a size of a conversation or a window. Smaller ones are positions,
/// status codes or counts of other things.
const SMALLEST_SIZE: u64 = 512;

/// Whether a message, with the code or type beside it, says that the conversation is too long.
pub(super) fn is_overflow(message: &str, codes: &[&str]) -> bool {
    if codes.iter().any(|code| CODES.contains(code)) {
        return true;
    }
    let message = message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    says(PHRASES)
        || says(CODES)
        || (says(SUBJECTS) && says(MEASURES) && says(COMPARISONS) && names_two_sizes(&message))
}

/// Whether two different numbers large enough to be sizes stand in `message`: how long it is, and
/// how long it may be.
fn names_two_sizes(message: &str) -> bool {
    let mut sizes: Vec<u64> = numbers(message)
        .into_iter()
        .map(|found| found.size)
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes.len() >= 2
}

/// Words right before the size that a model takes.
const BEFORE_LIMIT: &[&str] = &[
    "maximum",
    "limit",
    "at most",
    "holds",
    "available",
    "context length",
    "context size",
    "context window",
    "model length",
    "input length",
    "number of tokens allowed",
    "up to",
    "less than",
    "only",
    "than the",
    "cannot exceed",
];

/// Signs right before it, which say more than any word.
const SIGNS: &[&str] = &[">", "<="];

/// How many characters before a number are looked at for words about it.
const NEAR: usize = 44;

/// The sizes that a complaint about an overflow names.
pub(super) fn sizes(complaint: &Complaint) -> Overflow {
    let message = complaint.message.to_lowercase();
    let found = numbers(&message);
    let mut from = 0;
    let mut limits = Vec::new();
    let mut others = Vec::new();
    for number in &found {
        let before = message.get(from..number.start).unwrap_or_default();
        let near = before
            .char_indices()
            .rev()
            .nth(NEAR - 1)
            .map_or(0, |(at, _)| at);
        let before = before.get(near..).unwrap_or(before);
        let after = message.get(number.end..).unwrap_or_default();
        let is_limit = BEFORE_LIMIT.iter().any(|word| before.contains(word))
            || after.trim_start().starts_with("maximum");
        if SIGNS.iter().any(|sign| before.trim_end().ends_with(sign)) {
            limits.insert(0, number.size);
        } else if is_limit {
            limits.push(number.size);
        } else {
            others.push(number.size);
        }
        from = number.end;
    }
    // "188240 + 21333 > 200000"
    let sum = found.windows(2).find_map(|pair| match pair {
        [a, b]
            if message
                .get(a.end..b.start)
                .is_some_and(|text| text.trim() == "+") =>
        {
            a.size.checked_add(b.size)
        }
        _ => None,
    });
    let told = complaint.overflow;
    let limit = told
        .limit
        .or_else(|| match (limits.as_slice(), found.as_slice()) {
            ([limit, ..], _) => Some(*limit),
            // Of two sizes the smaller one is what is available, or it would be no overflow.
            ([], [a, b]) => Some(a.size.min(b.size)),
            ([], _) => None,
        });
    let is_beyond = |size: &u64| limit.is_none_or(|limit| *size > limit);
    let asked = told
        .asked
        .or(sum)
        .or_else(|| others.into_iter().chain(limits).max())
        .filter(is_beyond);
    Overflow { limit, asked }
}

/// A number in a message, large enough to be a size.
struct Found {
    start: usize,
    end: usize,
    size: u64,
}

/// The numbers in `message`, with or without commas between their thousands.
fn numbers(message: &str) -> Vec<Found> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = message.get(at..) {
        let Some(begin) = rest.find(|letter: char| letter.is_ascii_digit()) else {
            break;
        };
        let start = at + begin;
        let rest = message.get(start..).unwrap_or_default();
        let end = rest
            .find(|letter: char| !letter.is_ascii_digit() && letter != ',')
            .unwrap_or(rest.len());
        let digits = rest.get(..end).unwrap_or_default().trim_end_matches(',');
        at = start + end;
        if let Ok(size) = digits.replace(',', "").parse::<u64>()
            && size >= SMALLEST_SIZE
        {
            found.push(Found {
                start,
                end: start + digits.len(),
                size,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_say_too_long_in_their_own_words() {
        for message in [
            "This model's maximum context length is 8192 tokens. However, you requested 10000 tokens \
             (9000 in the messages, 1000 in the completion). Please reduce the length of the messages.",
            "the request exceeds the available context size. try increasing the context size",
            "request (9001 tokens) exceeds the available context size (8192 tokens), try increasing it",
            "prompt has 9001 tokens but the slot holds 8192",
            "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
            "Requested tokens (9001) exceed context window of 8192",
            "The number of tokens to keep from the initial prompt is greater than the context length.",
            "prompt is too long: 210000 tokens > 200000 maximum",
            "Input is too long for requested model.",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            "prompt token count of 130000 exceeds the limit of 128000",
            "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000",
            "Too many tokens in the request",
            "input of 12,345 tokens is more than the 8,192 this server takes",
            "Trying to keep the first 9001 tokens when context the overflows. However, the model is \
             loaded with context length of only 8192 tokens, which is not enough.",
            "The input (9001 tokens) is longer than the model's context length (8192 tokens).",
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
            "Prompt length (9001) exceeds maximum input length (8192)",
            "Invalid request: Your request exceeded model token limit: 8192",
            "Range of input length should be [1, 30720]",
            "`inputs` must have less than 4096 tokens. Given: 5000",
            "the input length exceeds the context length",
            "Unable to submit request because the input token count is 1200000 but model only \
             supports up to 1048576",
            "too many tokens: total number of tokens (prompt and prediction) cannot exceed 4081",
        ] {
            assert!(is_overflow(message, &[]), "{message}");
        }
        assert!(is_overflow(
            "something",
            &["invalid_request_error", "context_length_exceeded"]
        ));
        assert!(is_overflow("oops", &["exceed_context_size_error"]));
    }

    #[test]
    fn a_message_that_merely_mentions_the_context_is_no_overflow() {
        for message in [
            "Invalid tool name `get_context`: must match ^[a-zA-Z0-9_-]{1,64}$",
            "tools[3].function.name: context.window is not a valid name, expected at most 64 characters",
            "Unknown field `context_length` in request",
            "messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
            "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
            "Invalid 'max_tokens': integer above maximum value. Expected a value <= 4096",
            "the model `context-32768` does not exist",
            "string too long: tool_call_id has 53 characters but only 40 are allowed",
            "",
        ] {
            assert!(
                !is_overflow(message, &["invalid_request_error"]),
                "{message}"
            );
        }
    }

    #[test]
    fn the_sizes_are_taken_out_of_the_words() {
        for (message, limit, asked) in [
            (
                "prompt has 9001 tokens but the slot holds 8192",
                Some(8192),
                Some(9001),
            ),
            (
                "This model's maximum context length is 8192 tokens. However, you requested 10000 \
              tokens (9000 in the messages, 1000 in the completion).",
                Some(8192),
                Some(10000),
            ),
            (
                "This model's maximum context length is 8192 tokens and your request has 5000 input \
              tokens (4096 > 8192 - 5000)",
                Some(8192),
                None,
            ),
            (
                "prompt is too long: 210000 tokens > 200000 maximum",
                Some(200_000),
                Some(210_000),
            ),
            (
                "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
                Some(200_000),
                Some(209_573),
            ),
            (
                "The input token count (1,200,000) exceeds the maximum number of tokens allowed \
              (1,048,576).",
                Some(1_048_576),
                Some(1_200_000),
            ),
            (
                "request (9001 tokens) exceeds the available context size (8192 tokens)",
                Some(8192),
                Some(9001),
            ),
            (
                "Trying to keep the first 9001 tokens when context the overflows. However, the model \
              is loaded with context length of only 8192 tokens",
                Some(8192),
                Some(9001),
            ),
            (
                "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 \
              maximum context length",
                Some(32768),
                Some(40000),
            ),
            (
                "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and \
              1000 `max_new_tokens`",
                Some(4096),
                Some(5000),
            ),
            (
                "prompt token count of 130000 exceeds the limit of 128000",
                Some(128_000),
                Some(130_000),
            ),
            (
                "Your request exceeded model token limit: 8192",
                Some(8192),
                None,
            ),
            ("Input is too long for requested model.", None, None),
            (
                "input of 12,345 tokens is more than the 8,192 this server takes",
                Some(8192),
                Some(12_345),
            ),
        ] {
            let body = serde_json::json!({"error": {"message": message}});
            let complaint = Complaint::from_json(&body);
            assert_eq!(sizes(&complaint), Overflow { limit, asked }, "{message}");
        }
    }

    #[test]
    fn sizes_in_fields_of_their_own_count_first() {
        let complaint = Complaint::from_json(&serde_json::json!({"error": {
            "code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 9001,
            "n_ctx": 8192, "message": "the request exceeds the available context size",
        }}));
        let (limit, asked) = (Some(8192), Some(9001));
        assert_eq!(sizes(&complaint), Overflow { limit, asked });
    }
}
