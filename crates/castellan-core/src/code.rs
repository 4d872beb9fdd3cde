//! The closed list of error codes that leave the process.
//!
//! A code is what programs branch on; the text beside it is for readers and may change.

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal),+ $(,)?) => {
        /// Why a call or a request failed, as one stable word.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema,
        )]
        pub enum ErrorCode {
            $($(#[$doc])* #[serde(rename = $text)] $variant),+
        }

        impl ErrorCode {
            /// Every code, in the order of the docs.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),+
                }
            }
        }
    };
}

codes! {
    /// No tool of that name is in the catalog.
    ToolNotFound = "TOOL_NOT_FOUND",
    /// The tool exists and is not offered to this caller.
    ToolNotAvailable = "TOOL_NOT_AVAILABLE",
    /// A search query is longer than what is taken.
    QueryTooLong = "QUERY_TOO_LONG",
    /// No tools are in a domain of that name.
    UnknownDomain = "UNKNOWN_DOMAIN",
    /// The arguments are not what the tool takes.
    Validation = "VALIDATION",
    /// Policy, a person, or the lack of one refused the call.
    Denied = "DENIED",
    /// The call ran past its deadline.
    TimedOut = "TIMED_OUT",
    /// The caller or a person stopped the call.
    Cancelled = "CANCELLED",
    /// The call had begun when the process ended; what it did is not known.
    EffectUnknown = "EFFECT_UNKNOWN",
    /// The tool ran and could not do what was asked.
    ToolFailed = "TOOL_FAILED",
    /// A defect of this program; the details are in the operator's log.
    Internal = "INTERNAL",
    /// No model is configured, or the named one does not exist.
    ModelNotConfigured = "MODEL_NOT_CONFIGURED",
    /// The model could not be reached or did not answer in time.
    ModelUnreachable = "MODEL_UNREACHABLE",
    /// The model's server refused the credentials.
    ModelUnauthorized = "MODEL_UNAUTHORIZED",
    /// The model's server asked to slow down and did not relent.
    ModelRateLimited = "MODEL_RATE_LIMITED",
    /// The conversation is longer than the model takes.
    ModelContextOverflow = "MODEL_CONTEXT_OVERFLOW",
    /// The model's server refused the request.
    ModelRejected = "MODEL_REJECTED",
    /// The model's server answered something that is not the protocol, or broke off.
    ModelProtocol = "MODEL_PROTOCOL",
    /// The turn used all model calls it was given.
    TurnLimit = "TURN_LIMIT",
    /// The turn or the session used all tokens it was given.
    TokenLimit = "TOKEN_LIMIT",
    /// The model went on making the same calls with the same results after it had been told.
    ModelLoop = "MODEL_LOOP",
    /// The model answered nothing, again and again, or its server withheld all of it.
    ModelEmpty = "MODEL_EMPTY",
    /// A call needs a person and none can be asked.
    ApprovalNeeded = "APPROVAL_NEEDED",
    /// Nothing of that name or id is kept here.
    NotFound = "NOT_FOUND",
    /// Somebody else changed it first; the text has its present version.
    ConcurrentUpdate = "CONCURRENT_UPDATE",
    /// As much is kept as ever is; nothing was added.
    LimitReached = "LIMIT_REACHED",
    /// A change of the harness that no one may accept: it weakens a denial, or goes too far at once.
    MutationRefused = "MUTATION_REFUSED",
    /// The proposal was accepted or rejected before.
    AlreadyDecided = "ALREADY_DECIDED",
    /// The call needs its client to do what the client did not declare.
    CapabilityMissing = "CAPABILITY_MISSING",
    /// The database could not be read or written.
    StoreUnavailable = "STORE_UNAVAILABLE",
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_the_same_word_in_json_and_in_text() {
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::to_string(code).unwrap(), format!("\"{code}\""));
        }
    }
}
