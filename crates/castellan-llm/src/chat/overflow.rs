//! Recognising "the conversation is too long" in the words of many servers.
//!
//! Only a server's own message and code are looked at, never the rest of its answer, which may quote
//! the conversation. A message that merely mentions the context is no overflow.

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
    "greater than the context length",      // LM Studio
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
    "reduce the length of the messages", // OpenAI, Groq
    "reduce the length of your prompt",
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
    let mut sizes: Vec<u64> = message
        .replace(',', "")
        .split(|letter: char| !letter.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .filter(|size| *size >= SMALLEST_SIZE)
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes.len() >= 2
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
}
