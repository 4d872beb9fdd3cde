//! One request and the reading of its answer.

use castellan_core::{ErrorCode, ModelEvent, ModelReply, ModelRequest};
use castellan_host::http::{HeaderMap, HttpRequest, HttpResponse, header};
use futures::SinkExt as _;
use futures::channel::mpsc::Sender;
use serde_json::Value;

use super::Inner;
use super::answer::{Answer, Void};
use super::arrival::Arrival;
use super::dialect::Refused;
use super::failure::{Failure, Retry, Site};
use super::halves::{self, Joiner};
use super::request;
use super::retry;
use crate::complaint::{Complaint, tidy};
use crate::models::authorize;
use crate::sse::{EVENT_LIMIT, SseDecoder, SseEvent};

/// How much of an error's body is read.
pub(crate) const ERROR_LIMIT: usize = 64 * 1024;

/// How much of an answer that is none is kept to be shown.
const START: usize = 300;

/// The end of a stream, in place of a chunk.
const DONE: &str = "[DONE]";

/// Where the words of an answer go while it arrives.
pub(super) type Events = Sender<Result<ModelEvent, castellan_core::ModelError>>;

/// Asks once.
pub(super) async fn ask(
    inner: &Inner,
    request: &ModelRequest,
    refused: Refused,
    events: &mut Events,
) -> Result<ModelReply, Failure> {
    let model = inner.model().await?;
    let body = request::body(request, &inner.settings, &model, refused);
    let site = Site {
        sent: Some(&body),
        ..inner.site(&model)
    };
    let mut post = HttpRequest::post_json(inner.endpoint.chat(), body.to_string());
    post.timeouts = inner.settings.timeouts;
    let accepted = header::HeaderValue::from_static("text/event-stream, application/json");
    post.headers.insert(header::ACCEPT, accepted);
    authorize(&mut post, &site)?;
    let response = inner
        .http
        .send(post)
        .await
        .map_err(|error| site.unanswered(&error))?;
    if !response.status.is_success() {
        let asked = retry::asked(&response.headers, inner.clock.now());
        return Err(refusal(response, &site, asked).await);
    }
    refuse_encoding(&response.headers, &site)?;
    let names = request.tools.iter().map(|tool| tool.name.as_str());
    let timeouts = inner.settings.timeouts;
    let reading = Reading {
        site: &site,
        arrival: Arrival::new(response.body, &site, &*inner.clock, timeouts),
        content_type: content_type(&response.headers),
        answer: Answer::of_tools(names),
        start: Vec::new(),
        noise: String::new(),
        said_anything: false,
    };
    reading.read(events).await
}

/// The failure that an answer with an error status is.
pub(crate) async fn refusal(
    response: HttpResponse,
    site: &Site<'_>,
    asked: Option<std::time::Duration>,
) -> Failure {
    let status = response.status.as_u16();
    // The status says enough where the body can't be read.
    let body = response.body.read_limited(ERROR_LIMIT).await;
    site.refused(
        status,
        &body.map(|body| body.text()).unwrap_or_default(),
        asked,
    )
}

/// Fails where the body is compressed, which was not asked for and is not undone here.
pub(crate) fn refuse_encoding(headers: &HeaderMap, site: &Site<'_>) -> Result<(), Failure> {
    let Some(encoding) = headers.get(header::CONTENT_ENCODING) else {
        return Ok(());
    };
    let encoding = tidy(&String::from_utf8_lossy(encoding.as_bytes()));
    if encoding.is_empty() || encoding.eq_ignore_ascii_case("identity") {
        return Ok(());
    }
    Err(site.fail(
        ErrorCode::ModelProtocol,
        Retry::Never,
        format!(
            "{} sent its answer in the encoding `{encoding}`, which was not asked for",
            site.address
        ),
        "a proxy in between may compress answers; have it leave this server's alone",
    ))
}

/// The content type without its parameters, in lower case.
pub(crate) fn content_type(headers: &HeaderMap) -> String {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let kind = value
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default();
    kind.trim().to_ascii_lowercase()
}

/// What an answer turns out to be. The first character tells: servers mislabel both kinds.
enum Form {
    Events,
    Json,
    Neither,
}

/// Whether a byte says which form an answer has. Byte order marks and blanks say nothing.
const fn tells_the_form(byte: &u8) -> bool {
    !byte.is_ascii_whitespace() && byte.is_ascii()
}

/// An answer that is being read.
struct Reading<'a> {
    site: &'a Site<'a>,
    arrival: Arrival<'a>,
    content_type: String,
    answer: Answer,
    /// The first bytes, to be shown where they are no answer.
    start: Vec<u8>,
    /// The first data that was no chunk.
    noise: String,
    /// Whether any event was a chunk of a chat.
    said_anything: bool,
}

/// Whether more is to be read.
#[derive(PartialEq, Eq)]
enum More {
    Yes,
    No,
}

impl Reading<'_> {
    async fn read(mut self, events: &mut Events) -> Result<ModelReply, Failure> {
        let mut first = Vec::new();
        while let Some(chunk) = self.arrival.chunk().await? {
            first.extend_from_slice(&chunk);
            if chunk.iter().any(tells_the_form) {
                break;
            }
        }
        match self.form(&first) {
            Form::Neither => {
                self.keep_start(&first);
                Err(self.not_the_api())
            }
            Form::Json => {
                self.read_json(first, events).await?;
                self.finish(events).await
            }
            Form::Events => {
                self.read_events(first, events).await?;
                self.finish(events).await
            }
        }
    }

    fn form(&self, first: &[u8]) -> Form {
        let is_page = matches!(
            self.content_type.as_str(),
            "text/html" | "application/xhtml+xml"
        );
        match first.iter().find(|byte| tells_the_form(byte)) {
            Some(b'{' | b'[') if !is_page => Form::Json,
            Some(b'<') => Form::Neither,
            _ if is_page => Form::Neither,
            _ => Form::Events,
        }
    }

    /// A whole answer in one piece.
    async fn read_json(&mut self, mut text: Vec<u8>, events: &mut Events) -> Result<(), Failure> {
        self.arrival.heard();
        while let Some(chunk) = self.arrival.chunk().await? {
            if !chunk.trim_ascii().is_empty() {
                self.arrival.heard();
            }
            text.extend_from_slice(&chunk);
            if text.len() > EVENT_LIMIT {
                return Err(self.oversized());
            }
        }
        self.keep_start(&text);
        let value = std::str::from_utf8(&text)
            .ok()
            .and_then(|text| halves::read(text).ok())
            .ok_or_else(|| self.site.broken("sent an answer that is broken JSON"))?;
        self.take(&value, events).await?;
        if self.said_anything {
            Ok(())
        } else {
            Err(self.not_the_api())
        }
    }

    async fn read_events(&mut self, first: Vec<u8>, events: &mut Events) -> Result<(), Failure> {
        let mut decoder = SseDecoder::new();
        let mut joiner = Joiner::default();
        let mut bytes = first;
        loop {
            self.keep_start(&bytes);
            let arrived = decoder
                .push(&bytes)
                .map_err(|_too_large| self.oversized())?;
            for event in arrived.into_iter().flat_map(|event| joiner.push(event)) {
                if self.take_event(&event, events).await? == More::No {
                    // What may follow is not waited for: some servers keep the stream open.
                    return Ok(());
                }
            }
            bytes = match self.arrival.chunk().await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                // All of weight has been said.
                Err(_) if self.answer.has_finished() => return Ok(()),
                Err(failure) => return Err(failure),
            };
        }
        let last = decoder.finish();
        let rest = last.into_iter().flat_map(|event| joiner.push(event));
        for event in rest.collect::<Vec<_>>().into_iter().chain(joiner.finish()) {
            if self.take_event(&event, events).await? == More::No {
                return Ok(());
            }
        }
        if self.answer.has_finished() {
            return Ok(());
        }
        if !self.said_anything && self.content_type != "text/event-stream" && !self.start.is_empty()
        {
            return Err(self.not_the_api());
        }
        Err(self
            .site
            .broken("ended its answer before the model had finished"))
    }

    async fn take_event(&mut self, event: &SseEvent, events: &mut Events) -> Result<More, Failure> {
        let data = event.data.trim();
        if data == DONE {
            return Ok(More::No);
        }
        if event.name == "error" {
            return Err(self.failed(&Complaint::from_body(data)));
        }
        if !data.starts_with('{') {
            // A sign of life that is no comment, such as `ping`.
            if self.noise.is_empty() {
                self.noise = tidy(data);
            }
            return Ok(More::Yes);
        }
        // Some servers forget the blank line between two events, or all that stands between them.
        let (data, more) = match data.strip_suffix(DONE) {
            Some(before) => (before.trim_end(), More::No),
            None => (data, More::Yes),
        };
        match halves::read_all(data) {
            Ok(chunks) => {
                for chunk in &chunks {
                    self.take(chunk, events).await?;
                }
            }
            Err(_) => return Err(self.site.broken("sent an event that is broken JSON")),
        }
        Ok(more)
    }

    async fn take(&mut self, chunk: &Value, events: &mut Events) -> Result<(), Failure> {
        let arrived = self
            .answer
            .take(chunk)
            .map_err(|complaint| self.failed(&complaint))?;
        self.said_anything |= chunk.get("choices").is_some();
        for event in arrived {
            // Nobody listens any more; the answer is still read to its end or until it is dropped.
            drop(events.send(Ok(event)).await);
        }
        // Only now, because a slow reader is no silence of the server's.
        self.arrival.heard();
        Ok(())
    }

    async fn finish(self, events: &mut Events) -> Result<ModelReply, Failure> {
        let site = self.site;
        let finished = self.answer.finish();
        let (rest, reply) = finished.map_err(|void| match void {
            Void::CutInReasoning => site.fail(
                ErrorCode::ModelProtocol,
                Retry::Never,
                format!(
                    "the model `{}` ran out of output tokens before it answered",
                    site.model
                ),
                "allow more output tokens (max_tokens in extra_body) or less reasoning",
            ),
            Void::Withheld => site.fail(
                ErrorCode::ModelRejected,
                Retry::Never,
                format!(
                    "the server at {} withheld the answer (content filter)",
                    site.address
                ),
                "",
            ),
            Void::Failed => site.broken("broke off its answer with an error"),
            Void::OnlyReasoning => site.broken("sent reasoning and no answer"),
            Void::Empty if self.noise.is_empty() => site.broken("sent an empty answer"),
            Void::Empty => site.broken(&format!("sent no answer, only `{}`", self.noise)),
        })?;
        for event in rest {
            // As with those before: nobody may be listening.
            drop(events.send(Ok(event)).await);
        }
        Ok(reply)
    }

    /// The failure that an error amid the answer is. What was shown is void, which is said only
    /// where the request is made again after a pause.
    fn failed(&self, complaint: &Complaint) -> Failure {
        let failure = self.site.failed_amid(complaint);
        match failure.retry {
            Retry::Without(_) if self.answer.has_begun() => Failure {
                retry: Retry::Later(None),
                ..failure
            },
            Retry::Never | Retry::Later(_) | Retry::Once | Retry::Without(_) => failure,
        }
    }

    fn keep_start(&mut self, bytes: &[u8]) {
        if self.start.len() < START {
            let room = START - self.start.len();
            self.start.extend(bytes.iter().take(room));
        }
    }

    fn not_the_api(&self) -> Failure {
        let start = tidy(&String::from_utf8_lossy(&self.start));
        self.site.not_the_api(&self.content_type, &start)
    }

    fn oversized(&self) -> Failure {
        self.site.fail(
            ErrorCode::ModelProtocol,
            Retry::Never,
            format!(
                "{} sent an event of more than {EVENT_LIMIT} bytes",
                self.site.address
            ),
            "",
        )
    }
}
