//! Where a model is looked for.

use std::time::Duration;

/// How long a server on this machine has to list its models. One that runs answers within a few
/// milliseconds; the start of the program waits for this.
pub const LOCAL_LIMIT: Duration = Duration::from_millis(300);

/// How long a provider has to list its models.
pub const HOSTED_LIMIT: Duration = Duration::from_secs(10);

/// Model servers people run on their own machine and the ports they listen on by default.
pub const LOCAL_SERVERS: &[LocalServer] = &[
    LocalServer {
        name: "Ollama",
        port: 11434,
    },
    LocalServer {
        name: "LM Studio",
        port: 1234,
    },
    LocalServer {
        name: "llama.cpp",
        port: 8080,
    },
    LocalServer {
        name: "vLLM",
        port: 8000,
    },
    LocalServer {
        name: "llama.cpp",
        port: 8099,
    },
    LocalServer {
        name: "SGLang",
        port: 30000,
    },
    LocalServer {
        name: "Jan",
        port: 1337,
    },
    LocalServer {
        name: "LiteLLM",
        port: 4000,
    },
    LocalServer {
        name: "text-generation-webui or TabbyAPI",
        port: 5000,
    },
    LocalServer {
        name: "Docker Model Runner",
        port: 12434,
    },
];

/// Providers with an OpenAI-compatible API, in the order in which their keys are tried.
pub const PROVIDERS: &[Provider] = &[
    Provider {
        variable: "OPENAI_API_KEY",
        name: "openai",
        base_url: "https://api.openai.com/v1",
        preferred: &["gpt-5.1", "gpt-5", "gpt-4.1", "gpt-4o"],
    },
    Provider {
        variable: "OPENROUTER_API_KEY",
        name: "openrouter",
        base_url: "https://openrouter.ai/api/v1",
        preferred: &["openrouter/auto"],
    },
    Provider {
        variable: "GROQ_API_KEY",
        name: "groq",
        base_url: "https://api.groq.com/openai/v1",
        preferred: &["openai/gpt-oss-120b", "llama-3.3-70b-versatile"],
    },
    Provider {
        variable: "MISTRAL_API_KEY",
        name: "mistral",
        base_url: "https://api.mistral.ai/v1",
        preferred: &["mistral-large-latest", "mistral-medium-latest"],
    },
    Provider {
        variable: "DEEPSEEK_API_KEY",
        name: "deepseek",
        base_url: "https://api.deepseek.com/v1",
        preferred: &["deepseek-chat"],
    },
    Provider {
        variable: "TOGETHER_API_KEY",
        name: "together",
        base_url: "https://api.together.xyz/v1",
        preferred: &["openai/gpt-oss-120b"],
    },
    Provider {
        variable: "XAI_API_KEY",
        name: "xai",
        base_url: "https://api.x.ai/v1",
        preferred: &["grok-4"],
    },
];

/// Keys for APIs that are not OpenAI-compatible. Having one is worth a word, because whoever has it
/// expects it to be used.
pub const OTHER_KEYS: &[&str] = &["ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"];

/// A kind of server and its port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalServer {
    /// The program, for people.
    pub name: &'static str,
    /// The port on the loopback interface.
    pub port: u16,
}

/// A provider and the variable its key is usually kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    /// The variable.
    pub variable: &'static str,
    /// A short name, fit for a configuration.
    pub name: &'static str,
    /// Where its API is.
    pub base_url: &'static str,
    /// Models to take where they are listed, the best first: a provider's list begins with anything.
    pub preferred: &'static [&'static str],
}
