//! The body of a response, read chunk by chunk under a time limit for each.

use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream, StreamExt as _};
use reqwest::Response;

use super::error::{HttpError, Stage, chain};

/// A body that is still coming. Dropping it ends the exchange.
pub struct Body {
    response: Response,
    idle: Duration,
    host: String,
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

/// As much of a body as was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limited {
    /// The bytes, from the beginning.
    pub bytes: Bytes,
    /// Whether there was more.
    pub is_cut: bool,
}

impl Limited {
    /// The bytes as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

impl Body {
    pub(super) const fn new(response: Response, idle: Duration, host: String) -> Self {
        Self {
            response,
            idle,
            host,
        }
    }

    /// The next chunk, `None` at the end.
    ///
    /// # Errors
    /// When nothing comes in time or the connection breaks before the end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        match tokio::time::timeout(self.idle, self.response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => Err(HttpError::Broken {
                host: self.host.clone(),
                reason: chain(&error),
            }),
            Err(_) => Err(HttpError::TimedOut {
                host: self.host.clone(),
                stage: Stage::Idle,
            }),
        }
    }

    /// The chunks as a stream, which ends after the first error.
    #[must_use]
    pub fn into_stream(self) -> BoxStream<'static, Result<Bytes, HttpError>> {
        stream::unfold(Some(self), |body| async move {
            let mut body = body?;
            match body.chunk().await {
                Ok(Some(chunk)) => Some((Ok(chunk), Some(body))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
        .boxed()
    }

    /// At most `limit` bytes of the body; the rest is not read.
    ///
    /// # Errors
    /// As for [`chunk`](Self::chunk).
    pub async fn read_limited(mut self, limit: usize) -> Result<Limited, HttpError> {
        let mut bytes = BytesMut::new();
        while let Some(chunk) = self.chunk().await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > limit {
                bytes.truncate(limit);
                return Ok(Limited {
                    bytes: bytes.freeze(),
                    is_cut: true,
                });
            }
        }
        Ok(Limited {
            bytes: bytes.freeze(),
            is_cut: false,
        })
    }
}
