//! How an HTTP exchange fails, told apart by what a caller may do about it.

use std::error::Error as _;
use std::fmt;

use reqwest::Url;

/// An exchange without a usable response. The text reads after "failed to". Of addresses only the
/// host is named: the rest may hold credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The address is none, or not of the web. Nothing was sent.
    #[error("read the address: {reason}")]
    InvalidUrl {
        /// What is wrong with it.
        reason: String,
    },
    /// No connection came about (name, route, refusal, TLS, redirects): the request has had no
    /// effect on its target.
    #[error("reach {host}: {reason}")]
    Unreachable {
        /// The host, with its port where that is not the usual one.
        host: String,
        /// The whole chain of reasons.
        reason: String,
    },
    /// A time limit was reached. Past [`Stage::Connect`] the request may have taken effect.
    #[error("get an answer from {host} in time: {stage}")]
    TimedOut {
        /// The host, as above.
        host: String,
        /// Which limit.
        stage: Stage,
    },
    /// The connection broke after the request was sent, before or amid the response; the request
    /// may have taken effect.
    #[error("read the answer of {host}: {reason}")]
    Broken {
        /// The host, as above.
        host: String,
        /// The whole chain of reasons.
        reason: String,
    },
    /// The client itself could not be built.
    #[error("build the HTTP client: {reason}")]
    Client {
        /// The whole chain of reasons.
        reason: String,
    },
}

/// The part of an exchange that took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Making the connection.
    Connect,
    /// Waiting for the response to begin.
    FirstByte,
    /// Waiting for more of the response.
    Idle,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "no connection",
            Self::FirstByte => "no response",
            Self::Idle => "the response stopped coming",
        })
    }
}

impl HttpError {
    /// From an error that came in place of a response.
    pub(super) fn before_response(url: &Url, error: &reqwest::Error) -> Self {
        let host = host(url);
        if error.is_builder() {
            return Self::InvalidUrl {
                reason: chain(error),
            };
        }
        if error.is_connect() {
            return if error.is_timeout() {
                Self::TimedOut {
                    host,
                    stage: Stage::Connect,
                }
            } else {
                Self::Unreachable {
                    host,
                    reason: chain(error),
                }
            };
        }
        Self::Broken {
            host,
            reason: chain(error),
        }
    }
}

/// The host of an address, with its port where that is not the usual one.
pub(super) fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The reasons below an error, the last being the cause. The error's own text is left out where
/// there are any: it names the whole address and says little else.
pub(super) fn chain(error: &reqwest::Error) -> String {
    let mut reasons: Vec<String> = Vec::new();
    let mut source = error.source();
    while let Some(reason) = source {
        let text = reason.to_string();
        // Many layers repeat the text of the one below.
        if !reasons.iter().any(|known| known.contains(&text)) {
            reasons.push(text);
        }
        source = reason.source();
    }
    if reasons.is_empty() {
        return if error.is_timeout() {
            "timed out"
        } else {
            "no reason given"
        }
        .to_owned();
    }
    reasons.join(": ")
}
