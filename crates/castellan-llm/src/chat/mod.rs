//! Models behind the OpenAI-compatible Chat Completions API, which nearly every server speaks.
//!
//! A request is written by `request`, sent and its answer read by `exchange`, put together by
//! `answer` and `calls`; `reasoning` and `thinking` tell thoughts from words, and `written` finds
//! calls that were written as words. What went wrong is judged by `failure`, what a server refuses is
//! learnt by `dialect`, and how long to wait before the next try is said by `retry`; here it is tried
//! until an answer is complete or there is no point in going on.

mod answer;
mod arrival;
mod calls;
pub(crate) mod dialect;
pub(crate) mod exchange;
pub(crate) mod failure;
mod fragment;
mod halves;
mod overflow;
mod reasoning;
mod request;
mod retry;
mod settings;
mod thinking;
mod usage;
mod written;

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use castellan_core::model::ModelInfo;
use castellan_core::{
    Cancel, Clock, ErrorCode, Ids, Model, ModelError, ModelEvent, ModelReply, ModelRequest,
};
use castellan_host::HttpClient;
use castellan_host::http::Timeouts;
use futures::channel::mpsc;
use futures::future::{Either, ready, select};
use futures::stream::{self, BoxStream};
use futures::{SinkExt as _, StreamExt as _};

use crate::endpoint::Endpoint;
use crate::models;
use dialect::Lessons;
use exchange::Events;
use failure::{Failure, Retry, Site};

pub use request::RAW_ARGUMENTS;
pub use settings::{
    ATTEMPTS, BlankContent, ChatSettings, FIRST_BYTE, IDLE, LONGEST_WAIT, ReasoningField,
};

/// How long a server has to list its models, which unlike an answer takes no thought.
const LISTING: Duration = Duration::from_secs(30);

/// Events that may wait for a reader before the stream from the server is held up.
const QUEUE: usize = 64;

/// A model at an OpenAI-compatible server.
#[derive(Clone)]
pub struct ChatModel(Arc<Inner>);

struct Inner {
    settings: ChatSettings,
    endpoint: Endpoint,
    http: HttpClient,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    info: ModelInfo,
    /// Settled by the first request, where no model was named.
    settled: OnceLock<ModelInfo>,
    /// What the server was found to refuse.
    lessons: Lessons,
}

impl ChatModel {
    /// A model reached through `http`. Nothing is sent before it is asked. Waits between tries go
    /// through `clock`, and `ids` is the source of their jitter.
    #[must_use]
    pub fn new(
        settings: ChatSettings,
        http: HttpClient,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Self {
        let info = ModelInfo {
            name: settings.name.clone(),
            model: settings.model.clone(),
            context_window: settings.context_window,
            supports_vision: settings.supports_vision,
        };
        Self(Arc::new(Inner {
            endpoint: Endpoint::new(&settings.base_url),
            settings,
            http,
            clock,
            ids,
            info,
            settled: OnceLock::new(),
            lessons: Lessons::default(),
        }))
    }
}

impl ChatModel {
    /// Finds out which model will be asked, where none was named: the first one the server lists
    /// that seems to chat. Without this the first request does it.
    ///
    /// # Errors
    /// [`ModelError`] where the server can't be asked or lists none.
    pub async fn settle(&self) -> Result<&ModelInfo, ModelError> {
        let settled = self.0.model().await;
        settled.map_err(|failure| failure.error)?;
        Ok(self.info())
    }
}

impl Model for ChatModel {
    fn info(&self) -> &ModelInfo {
        self.0.settled.get().unwrap_or(&self.0.info)
    }

    fn ask(
        &self,
        request: ModelRequest,
        cancel: Cancel,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let inner = Arc::clone(&self.0);
        let (mut sender, receiver) = mpsc::channel(QUEUE);
        let work = async move {
            let mut events = sender.clone();
            let answer = pin!(inner.converse(&request, &mut events));
            let end = match select(cancel, answer).await {
                Either::Left(((), _)) => Err(cancelled()),
                Either::Right((answer, _)) => answer.map(ModelEvent::Reply),
            };
            // A reader that is gone needs no end.
            drop(sender.send(end).await);
        };
        // The work is driven by whoever reads the events, so that dropping the stream stops it.
        let work = stream::once(work).filter_map(|()| ready(None));
        stream::select(receiver, work).boxed()
    }
}

fn cancelled() -> ModelError {
    ModelError::new(
        ErrorCode::Cancelled,
        "the request to the model was cancelled",
    )
}

impl Inner {
    /// Tries until there is an answer or no point in going on.
    async fn converse(
        &self,
        request: &ModelRequest,
        events: &mut Events,
    ) -> Result<ModelReply, ModelError> {
        let mut requests = 0;
        let mut tries = 1;
        loop {
            requests += 1;
            let refused = self.lessons.refused();
            let failure = match Box::pin(exchange::ask(self, request, refused, events)).await {
                Ok(reply) => {
                    return Ok(ModelReply {
                        attempts: requests,
                        ..reply
                    });
                }
                Err(failure) => failure,
            };
            let attempts = match failure.retry {
                // Where nothing but another address helps, one more try is enough.
                Retry::Once => self.settings.attempts.min(2),
                Retry::Never | Retry::Later(_) | Retry::Without(_) => self.settings.attempts,
            };
            match failure.retry {
                Retry::Without(habit) if !refused.has(habit) => self.lessons.learn(habit),
                Retry::Later(_) | Retry::Once if tries < attempts => {
                    tries += 1;
                    let asked = failure.retry.asked();
                    let jitter = retry::jitter(&*self.ids);
                    let wait = retry::wait(tries, asked, self.settings.longest_wait, jitter);
                    let restart = ModelEvent::Restart {
                        code: failure.error.code,
                        reason: failure.error.message,
                        wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                    };
                    // A reader that is gone will drop this work; until then it goes on.
                    drop(events.send(Ok(restart)).await);
                    self.clock.sleep(wait).await;
                }
                Retry::Later(_) | Retry::Once if tries > 1 => {
                    return Err(after_tries(failure.error, tries));
                }
                Retry::Never | Retry::Later(_) | Retry::Once | Retry::Without(_) => {
                    return Err(failure.error);
                }
            }
        }
    }

    /// The model to ask for: the configured one, else the first the server lists.
    async fn model(&self) -> Result<String, Failure> {
        if !self.info.model.is_empty() {
            return Ok(self.info.model.clone());
        }
        if let Some(info) = self.settled.get() {
            return Ok(info.model.clone());
        }
        let site = self.site("");
        let timeouts = Timeouts {
            first_byte: LISTING,
            idle: LISTING,
        };
        let listed = models::list(&self.http, &self.endpoint, &site, timeouts).await?;
        let Some(model) = listed.into_iter().find(models::ListedModel::seems_to_chat) else {
            return Err(site.fail(
                ErrorCode::ModelNotConfigured,
                Retry::Never,
                format!("the server at {} lists no model to chat with", site.address),
                "load a model there, or name one in the configuration",
            ));
        };
        let info = ModelInfo {
            context_window: self.info.context_window.or(model.context_window),
            model: model.id,
            ..self.info.clone()
        };
        Ok(self.settled.get_or_init(|| info).model.clone())
    }

    fn site<'a>(&'a self, model: &'a str) -> Site<'a> {
        let settings = &self.settings;
        Site::new(
            &self.endpoint,
            model,
            settings.api_key.as_ref(),
            &settings.key_source,
        )
    }
}

/// A final error that says how often it was tried.
fn after_tries(error: ModelError, tries: u32) -> ModelError {
    ModelError {
        message: format!("{} (tried {tries} times)", error.message),
        ..error
    }
}

impl fmt::Debug for ChatModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatModel")
            .field("settings", &self.0.settings)
            .finish_non_exhaustive()
    }
}
