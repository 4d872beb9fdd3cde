//! What became of a call, in the words of the model that made it.
//!
//! A denial, a timeout and a failure are outcomes, not errors of the program: each says what
//! happened, whether repeating helps, and what the call may have changed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::code::ErrorCode;

/// What a call may have changed in the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EffectStatus {
    /// Nothing was changed.
    None,
    /// It is not known whether anything was changed.
    Unknown,
    /// Some of what was asked was done.
    Partial,
    /// All of what was asked was done.
    Committed,
}

/// Whether the same call could succeed if it were made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// Another try, perhaps with other arguments, may help.
    Useful,
    /// The same call will fail in the same way.
    Useless,
}

/// The end of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It did what was asked.
    Done {
        /// What the model reads.
        output: String,
        /// What was changed.
        effect: EffectStatus,
    },
    /// It could not do what was asked.
    Failed {
        /// What it had said until then; often empty.
        output: String,
        /// Which kind of failure.
        code: ErrorCode,
        /// What was wrong and what was found.
        what: String,
        /// What was changed before it failed.
        effect: EffectStatus,
        /// Whether trying again helps.
        retry: Retry,
        /// What to do next, empty where `what` already says it.
        next: String,
    },
    /// It was not allowed to run.
    Denied {
        /// Who refused: a rule, a hook, a person.
        by: String,
        /// Why.
        reason: String,
    },
    /// Its time ran out.
    TimedOut {
        /// What it had said until then, and how long it had run.
        output: String,
        /// What was changed until then.
        effect: EffectStatus,
    },
    /// It was stopped.
    Cancelled {
        /// What it had said until then.
        output: String,
        /// What was changed until then.
        effect: EffectStatus,
    },
}

impl Outcome {
    /// A success that changed nothing.
    #[must_use]
    pub fn read(output: impl Into<String>) -> Self {
        Self::Done {
            output: output.into(),
            effect: EffectStatus::None,
        }
    }

    /// A failure before anything was changed, which other arguments may avoid.
    #[must_use]
    pub fn failed(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self::Failed {
            output: String::new(),
            code: ErrorCode::ToolFailed,
            what: what.into(),
            effect: EffectStatus::None,
            retry: Retry::Useful,
            next: next.into(),
        }
    }

    /// Arguments that the tool does not take.
    #[must_use]
    pub fn invalid(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self::Failed {
            output: String::new(),
            code: ErrorCode::Validation,
            what: what.into(),
            effect: EffectStatus::None,
            retry: Retry::Useful,
            next: next.into(),
        }
    }

    /// The call had begun when the process that ran it ended.
    #[must_use]
    pub fn interrupted(effect: EffectStatus) -> Self {
        let (what, next) = match effect {
            EffectStatus::None => (
                "the call was interrupted; it only reads, so nothing was changed",
                "call it again",
            ),
            EffectStatus::Unknown | EffectStatus::Partial | EffectStatus::Committed => (
                "the call was interrupted after it had begun; whether it took effect is unknown",
                "look at the present state before you decide whether to make the call again",
            ),
        };
        Self::Failed {
            output: String::new(),
            code: ErrorCode::EffectUnknown,
            what: what.to_owned(),
            effect,
            retry: Retry::Useful,
            next: next.to_owned(),
        }
    }

    /// Whether the model should read this as a failure.
    #[must_use]
    pub const fn is_error(&self) -> bool {
        !matches!(self, Self::Done { .. })
    }

    /// What the call changed.
    #[must_use]
    pub const fn effect(&self) -> EffectStatus {
        match self {
            Self::Done { effect, .. }
            | Self::Failed { effect, .. }
            | Self::TimedOut { effect, .. }
            | Self::Cancelled { effect, .. } => *effect,
            Self::Denied { .. } => EffectStatus::None,
        }
    }

    /// The code programs branch on; `None` for a success.
    #[must_use]
    pub const fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Done { .. } => None,
            Self::Failed { code, .. } => Some(*code),
            Self::Denied { .. } => Some(ErrorCode::Denied),
            Self::TimedOut { .. } => Some(ErrorCode::TimedOut),
            Self::Cancelled { .. } => Some(ErrorCode::Cancelled),
        }
    }

    /// One word for records: `done`, `failed`, `denied`, `timed_out`, `cancelled`.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Done { .. } => "done",
            Self::Failed { .. } => "failed",
            Self::Denied { .. } => "denied",
            Self::TimedOut { .. } => "timed_out",
            Self::Cancelled { .. } => "cancelled",
        }
    }

    /// What the model reads.
    #[must_use]
    pub fn into_text(self) -> String {
        match self {
            Self::Done { output, .. }
            | Self::TimedOut { output, .. }
            | Self::Cancelled { output, .. } => output,
            Self::Failed {
                output: mut text,
                what,
                retry,
                next,
                ..
            } => {
                if !text.is_empty() && !text.ends_with('\n') {
                    text.push('\n');
                }
                text.push_str("Error: ");
                text.push_str(&what);
                text.push('.');
                if !next.is_empty() {
                    text.push_str(&format_sentence(&next));
                }
                if retry == Retry::Useless {
                    text.push_str(" Repeating the same call will not help.");
                }
                text
            }
            Self::Denied { by, reason } => format!(
                "Denied by {by}: {reason}. Do not repeat this call; repeating it is useless. \
                 Find another way, or say what you need and why."
            ),
        }
    }
}

/// ` next` as a sentence of its own.
fn format_sentence(next: &str) -> String {
    let mut letters = next.chars();
    letters.next().map_or_else(String::new, |first| {
        let end = if next.ends_with(['.', '}', '\n']) {
            ""
        } else {
            "."
        };
        let word = next.split_whitespace().next().unwrap_or_default();
        // A name or an address is written as it is.
        if word.contains(['_', ':', '/', '.', '`']) && !word.ends_with([':', '.']) {
            return format!(" {next}{end}");
        }
        format!(" {}{}{end}", first.to_uppercase(), letters.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denied_call_is_told_not_to_retry() {
        let text = Outcome::Denied {
            by: "policy".into(),
            reason: "no network".into(),
        }
        .into_text();
        assert!(text.contains("policy") && text.contains("no network") && text.contains("useless"));
    }

    #[test]
    fn what_a_failed_call_had_said_is_read_before_the_error() {
        let mut failed = Outcome::failed("exit code 2", "");
        if let Outcome::Failed { output, .. } = &mut failed {
            *output = "warning: unused".to_owned();
        }
        assert_eq!(failed.into_text(), "warning: unused\nError: exit code 2.");
    }

    #[test]
    fn an_interrupted_write_is_said_to_have_unknown_effect() {
        let outcome = Outcome::interrupted(EffectStatus::Unknown);
        assert_eq!(outcome.code(), Some(ErrorCode::EffectUnknown));
        assert!(outcome.is_error());
        assert!(outcome.into_text().contains("unknown"));
    }
}
