//! Why one request failed, and whether another one may succeed.

use std::time::Duration;

use castellan_core::secret::Redaction;
use castellan_core::{ErrorCode, ModelError};
use castellan_host::HttpError;
use serde_json::Value;

use super::dialect::{Habit, lesson};
use super::overflow;
use crate::complaint::Complaint;
use crate::endpoint::Endpoint;
use crate::key::ApiKey;

/// What may be done about a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Retry {
    /// The same request would fail again.
    Never,
    /// It is made again, not before the time the server asked for.
    Later(Option<Duration>),
    /// It is made again once: most likely it goes to a wrong address, perhaps something in between
    /// had a bad moment.
    Once,
    /// It is made again without something that this server refuses.
    Without(Habit),
}

impl Retry {
    /// The time the server asked for.
    pub(super) const fn asked(&self) -> Option<Duration> {
        match self {
            Self::Later(asked) => *asked,
            Self::Never | Self::Once | Self::Without(_) => None,
        }
    }
}

/// One request that came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// What is reported if this was the last try.
    pub(crate) error: ModelError,
    /// Whether it is.
    pub(crate) retry: Retry,
    /// Whether nothing was there to take the request.
    pub(crate) is_unreached: bool,
}

/// Whom a request went to, for messages.
#[derive(Debug, Clone)]
pub(crate) struct Site<'a> {
    /// The address, fit to be shown.
    pub(crate) address: String,
    /// The model asked for; empty where that is not settled yet.
    pub(crate) model: &'a str,
    /// The key that was sent.
    pub(crate) key: Option<&'a ApiKey>,
    /// Where it came from.
    pub(crate) key_source: &'a str,
    /// The body that was sent, where it was a conversation.
    pub(crate) sent: Option<&'a Value>,
}

impl<'a> Site<'a> {
    /// The site behind an endpoint.
    pub(crate) fn new(
        endpoint: &Endpoint,
        model: &'a str,
        key: Option<&'a ApiKey>,
        key_source: &'a str,
    ) -> Self {
        Self {
            address: endpoint.shown(),
            model,
            key,
            key_source,
            sent: None,
        }
    }

    /// A failure with these words, the key cut out of them: servers quote it.
    pub(crate) fn fail(
        &self,
        code: ErrorCode,
        retry: Retry,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Failure {
        let redaction = Redaction::new(self.key.map(|key| key.expose().to_owned()));
        let message = redaction.apply(message.into());
        Failure {
            error: ModelError {
                code,
                message,
                hint: redaction.apply(hint.into()),
                overflow: None,
            },
            retry,
            is_unreached: false,
        }
    }

    /// A stream that broke off or made no sense, which is worth another try.
    pub(crate) fn broken(&self, what: &str) -> Failure {
        self.fail(
            ErrorCode::ModelProtocol,
            Retry::Later(None),
            format!("the model server at {} {what}", self.address),
            "",
        )
    }

    /// An answer that is none of a chat API.
    pub(crate) fn not_the_api(&self, kind: &str, start: &str) -> Failure {
        // A page may be that of a proxy whose server is away for a moment.
        let retry = if start.starts_with('<') {
            Retry::Once
        } else {
            Retry::Never
        };
        let kind = if kind.is_empty() {
            "no content type"
        } else {
            kind
        };
        self.fail(
            ErrorCode::ModelProtocol,
            retry,
            format!(
                "{} answered something that is not a chat completion ({kind}): {start}",
                self.address
            ),
            "does the base URL end in /v1?",
        )
    }

    /// No answer at all.
    pub(crate) fn unanswered(&self, error: &HttpError) -> Failure {
        let (code, retry, hint) = match error {
            HttpError::InvalidUrl { .. } => (
                ErrorCode::ModelNotConfigured,
                Retry::Never,
                "check base_url; it looks like http://127.0.0.1:11434/v1".to_owned(),
            ),
            HttpError::Unreachable { host, .. } => {
                // Another host than the configured one is where that one redirected to.
                let is_ours = self.address.split('/').any(|part| part == host);
                let tried = if is_ours { &self.address } else { host };
                (
                    ErrorCode::ModelUnreachable,
                    Retry::Later(None),
                    format!("is the server at {tried} running?"),
                )
            }
            HttpError::TimedOut { .. } => (
                ErrorCode::ModelUnreachable,
                Retry::Later(None),
                String::new(),
            ),
            HttpError::Broken { .. } => {
                (ErrorCode::ModelProtocol, Retry::Later(None), String::new())
            }
            // Of the client itself, or of a kind added later: nothing says that trying helps.
            HttpError::Client { .. } | _ => {
                (ErrorCode::ModelUnreachable, Retry::Never, String::new())
            }
        };
        Failure {
            is_unreached: matches!(error, HttpError::Unreachable { .. }),
            ..self.fail(code, retry, format!("failed to {error}"), hint)
        }
    }

    /// An answer of which nothing came for `limit` but signs that the connection is alive.
    pub(crate) fn only_alive(&self, limit: Duration) -> Failure {
        self.fail(
            ErrorCode::ModelUnreachable,
            Retry::Later(None),
            format!(
                "failed to get an answer from {} in time: only signs of life for {} s",
                self.address,
                limit.as_secs_f64()
            ),
            "",
        )
    }

    /// An answer with an error status.
    pub(crate) fn refused(&self, status: u16, body: &str, asked: Option<Duration>) -> Failure {
        self.judge(status, &Complaint::from_body(body), asked)
    }

    /// An error inside an answer that began well.
    pub(crate) fn failed_amid(&self, complaint: &Complaint) -> Failure {
        let status = complaint.status.unwrap_or_else(|| {
            // In the order of how much a word says.
            let by_word: [(u16, &[&str]); 5] = [
                (
                    429,
                    &[
                        "rate_limit_exceeded",
                        "rate_limit_error",
                        "insufficient_quota",
                    ],
                ),
                (529, &["overloaded_error", "overloaded"]),
                (
                    401,
                    &[
                        "authentication_error",
                        "invalid_api_key",
                        "permission_error",
                    ],
                ),
                (404, &["model_not_found", "not_found_error"]),
                (
                    400,
                    &["invalid_request_error", "badrequesterror", "bad_request"],
                ),
            ];
            let known = by_word.iter().find(|(_, words)| complaint.has_code(words));
            known.map_or(500, |(status, _)| *status)
        });
        self.judge(status, complaint, None)
    }

    fn judge(&self, status: u16, complaint: &Complaint, asked: Option<Duration>) -> Failure {
        let words = if complaint.message.is_empty() {
            "no reason given"
        } else {
            &complaint.message
        };
        let said = format!(
            "the model server at {} answered {status}: {words}",
            self.address
        );
        let later = Retry::Later(asked);
        let too_long = matches!(status, 400 | 422 | 500)
            && overflow::is_overflow(&complaint.message, &complaint.codes());
        // A chat template that breaks over a message is a 500 at some servers.
        let lesson = self
            .sent
            .filter(|_| matches!(status, 400 | 422 | 500 | 501))
            .and_then(|sent| lesson(&complaint.message, sent));
        match status {
            // A body that is too large for a server in front of the model is cured the same way.
            _ if too_long || status == 413 => {
                let mut failure =
                    self.fail(ErrorCode::ModelContextOverflow, Retry::Never, said, "");
                failure.error.overflow = Some(overflow::sizes(complaint));
                failure
            }
            _ if let Some(habit) = lesson => {
                self.fail(ErrorCode::ModelRejected, Retry::Without(habit), said, "")
            }
            _ if let Some(hint) = self.tools_hint(status, complaint) => {
                self.fail(ErrorCode::ModelRejected, Retry::Never, said, hint)
            }
            401 | 403 => self.fail(
                ErrorCode::ModelUnauthorized,
                Retry::Never,
                said,
                self.key_hint(),
            ),
            402 => self.fail(
                ErrorCode::ModelRejected,
                Retry::Never,
                said,
                "the account has no credit left",
            ),
            404 => self.fail(
                ErrorCode::ModelRejected,
                Retry::Never,
                said,
                self.address_hint(),
            ),
            429 if complaint.has_code(&["insufficient_quota"]) => self.fail(
                ErrorCode::ModelRateLimited,
                Retry::Never,
                said,
                "the account has no credit left",
            ),
            429 | 529 => self.fail(ErrorCode::ModelRateLimited, later, said, asked_hint(asked)),
            // 520 to 524 are Cloudflare's words for a server behind it that is away or slow.
            408 | 409 | 425 | 500 | 502 | 503 | 504 | 520..=524 => {
                self.fail(ErrorCode::ModelUnreachable, later, said, asked_hint(asked))
            }
            _ => self.fail(ErrorCode::ModelRejected, Retry::Never, said, ""),
        }
    }

    /// Where to look for the key.
    pub(crate) fn key_hint(&self) -> String {
        match (self.key, self.key_source) {
            (Some(_), "") => "check the API key".to_owned(),
            (Some(_), source) => format!("check the API key; it came from {source}"),
            (None, "") => "no API key was sent, because none is configured".to_owned(),
            (None, source) => format!("no API key was sent; it is looked for in {source}"),
        }
    }

    fn address_hint(&self) -> String {
        let address = &self.address;
        if self.model.is_empty() {
            format!("check base_url ({address}); does it end in /v1?")
        } else {
            format!(
                "either the server has no model `{}` or base_url ({address}) is not where its API is",
                self.model
            )
        }
    }

    /// What to do where a server says that it can't let the model call tools.
    fn tools_hint(&self, status: u16, complaint: &Complaint) -> Option<String> {
        let message = complaint.message.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
        if !matches!(status, 400 | 404 | 422 | 500 | 501) {
            return None;
        }
        if says(&["--jinja", "--enable-auto-tool-choice", "--tool-call-parser"]) {
            return Some(
                "the server can do this once it is started with the options it names".to_owned(),
            );
        }
        let is_refused = says(NO_TOOLS)
            || (says(&[
                "tools",
                "tool use",
                "function calling",
                "tool calling",
                "functions",
            ]) && says(&[
                "does not support",
                "doesn't support",
                "not supported",
                "unsupported",
            ]));
        is_refused.then(|| {
            format!(
                "the model `{}` can't call tools; choose one that can",
                self.model
            )
        })
    }
}

/// Refusals of tools that don't say "support".
const NO_TOOLS: &[&str] = &[
    "no endpoints found that support tool use",
    "unrecognized request argument supplied: tools",
    "unknown field `tools`",
    "unknown parameter: 'tools'",
];

fn asked_hint(asked: Option<Duration>) -> String {
    asked.map_or_else(String::new, |asked| {
        format!("the server asked to wait {} s", asked.as_secs().max(1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with_site<T>(act: impl FnOnce(&Site<'_>) -> T) -> T {
        let key = ApiKey::new("sk-secret-123").unwrap();
        let endpoint = Endpoint::new("http://h/v1");
        act(&Site::new(
            &endpoint,
            "m1",
            Some(&key),
            "OPENAI_API_KEY in the environment",
        ))
    }

    fn refused(status: u16, body: &str) -> Failure {
        with_site(|site| site.refused(status, body, None))
    }

    #[test]
    fn what_may_pass_is_tried_again_and_what_may_not_is_not() {
        for status in [
            408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529,
        ] {
            assert_eq!(refused(status, "x").retry, Retry::Later(None), "{status}");
        }
        for status in [400, 401, 402, 403, 404, 405, 413, 418, 422, 451, 501, 525] {
            assert_eq!(refused(status, "x").retry, Retry::Never, "{status}");
        }
        let quota = json!({"error": {"message": "no credit", "code": "insufficient_quota"}});
        assert_eq!(refused(429, &quota.to_string()).retry, Retry::Never);
    }

    #[test]
    fn a_refused_key_names_its_source_and_never_itself() {
        let failure = refused(
            401,
            r#"{"error": {"message": "Incorrect API key: sk-secret-123"}}"#,
        );
        assert_eq!(failure.error.code, ErrorCode::ModelUnauthorized);
        assert!(failure.error.hint.contains("OPENAI_API_KEY"));
        assert!(!format!("{failure:?}").contains("sk-secret-123"));
        let endpoint = Endpoint::new("http://h/v1");
        let bare = Site::new(&endpoint, "m1", None, "models.main.api_key");
        let hint = bare.refused(403, "", None).error.hint;
        assert_eq!(
            hint,
            "no API key was sent; it is looked for in models.main.api_key"
        );
    }

    #[test]
    fn a_missing_model_or_path_says_which_of_both_to_check() {
        let failure = refused(404, "404 page not found");
        assert_eq!(failure.error.code, ErrorCode::ModelRejected);
        assert!(failure.error.hint.contains("`m1`") && failure.error.hint.contains("http://h/v1"));
    }

    #[test]
    fn what_was_refused_of_a_request_is_left_out_next_time() {
        let body = r#"{"error": {"message": "Unknown parameter: stream_options"}}"#;
        assert_eq!(refused(400, body).retry, Retry::Never);
        let sent = json!({"stream_options": {"include_usage": true}});
        let failure = with_site(|site| {
            let site = Site {
                sent: Some(&sent),
                ..site.clone()
            };
            site.refused(400, body, None)
        });
        assert_eq!(failure.retry, Retry::Without(Habit::Counting));
    }

    #[test]
    fn an_overflow_is_known_with_and_without_a_status() {
        let complaint = Complaint::from_json(
            &json!({"error": {"message": "prompt has 9001 tokens but the slot holds 8192"}}),
        );
        let failure = with_site(|site| site.failed_amid(&complaint));
        assert_eq!(failure.error.code, ErrorCode::ModelContextOverflow);
        let failure = refused(400, r#"{"error": {"message": "bad tool name: context"}}"#);
        assert_eq!(failure.error.code, ErrorCode::ModelRejected);
    }

    #[test]
    fn an_error_amid_an_answer_is_judged_by_its_code() {
        for (error, code, retry) in [
            (
                json!({"code": 401, "message": "m"}),
                ErrorCode::ModelUnauthorized,
                Retry::Never,
            ),
            (
                json!({"type": "overloaded_error"}),
                ErrorCode::ModelRateLimited,
                Retry::Later(None),
            ),
            (
                json!({"type": "invalid_request_error"}),
                ErrorCode::ModelRejected,
                Retry::Never,
            ),
            (
                json!("something broke"),
                ErrorCode::ModelUnreachable,
                Retry::Later(None),
            ),
        ] {
            let complaint = Complaint::from_json(&json!({"error": error}));
            let failure = with_site(|site| site.failed_amid(&complaint));
            assert_eq!(
                (failure.error.code, failure.retry),
                (code, retry),
                "{error}"
            );
        }
    }
}
