//! Two pipes as a transport: what comes in is checked before it is served, and every request gets
//! one answer.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, JsonRpcMessage, ProtocolVersion, RequestId, ServerJsonRpcMessage,
    ServerResult,
};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::batch::{Answered, Batches};
use super::lines::{LONGEST, Line, Lines};
use super::outbox::{Deaf, Letter, Outbox, Written};
use crate::frame::Frame;
use crate::jsonrpc::{self, BUSY, INVALID_REQUEST, Shape, Wrong};

/// How many requests of one client may be under way.
const MOST_UNDER_WAY: usize = 1_024;

/// What is under way.
#[derive(Debug, Default)]
struct Book {
    under_way: HashSet<RequestId>,
    batches: Batches,
    /// An `initialize` that is not answered yet. Nothing is served before it is, because everything
    /// after depends on it.
    introduction: Option<RequestId>,
    /// What was agreed on.
    version: Option<ProtocolVersion>,
}

#[derive(Debug, Default)]
struct Shared {
    book: Mutex<Book>,
    introduced: Notify,
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be written for `message`.
    fn outgoing(&self, message: &ServerJsonRpcMessage) -> Option<Vec<u8>> {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let Some(id) = id else {
            return serde_json::to_vec(message).ok();
        };
        let mut book = self.book();
        book.under_way.remove(&id);
        if book.introduction.as_ref() == Some(&id) {
            book.introduction = None;
            book.version = agreed(message).or_else(|| book.version.take());
            self.introduced.notify_one();
        }
        if book.batches.is_empty() {
            drop(book);
            return serde_json::to_vec(message).ok();
        }
        let answer = serde_json::to_value(message).ok()?;
        match book.batches.answer(&id, answer) {
            Answered::Alone(answer) | Answered::Complete(answer) => {
                serde_json::to_vec(&answer).ok()
            }
            Answered::Kept => None,
        }
    }
}

fn agreed(message: &ServerJsonRpcMessage) -> Option<ProtocolVersion> {
    match message {
        JsonRpcMessage::Response(response) => match &response.result {
            ServerResult::InitializeResult(result) => Some(result.protocol_version.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// The transport.
#[derive(Debug)]
pub(super) struct Pipe<R> {
    lines: Lines<R>,
    outbox: Option<Outbox>,
    shared: Arc<Shared>,
    /// Messages to serve before more is read.
    ready: VecDeque<ClientJsonRpcMessage>,
    /// Answers to give before more is read.
    owed: VecDeque<Vec<u8>>,
    /// The client takes nothing any more.
    deaf: CancellationToken,
    /// The client's end is over.
    over: CancellationToken,
}

impl<R: AsyncRead + Send + Unpin> Pipe<R> {
    /// The transport, and its writing side for whoever waits until all is written.
    pub(super) fn new<W>(frame: &Frame, reader: R, writer: W) -> (Self, Written)
    where
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let deaf = CancellationToken::new();
        let (outbox, written) = Outbox::new(frame, writer, deaf.clone());
        let pipe = Self {
            lines: Lines::new(reader),
            outbox: Some(outbox),
            shared: Arc::default(),
            ready: VecDeque::new(),
            owed: VecDeque::new(),
            deaf,
            over: CancellationToken::new(),
        };
        (pipe, written)
    }

    /// Cancelled once the client's end is over.
    pub(super) fn over(&self) -> CancellationToken {
        self.over.clone()
    }

    /// Gives the answers that are owed. Losing this future loses none.
    async fn settle(&mut self) -> Result<(), Deaf> {
        let Some(outbox) = &self.outbox else {
            return Err(Deaf);
        };
        while !self.owed.is_empty() {
            let room = outbox.room().await?;
            if let Some(line) = self.owed.pop_front() {
                room.send(Letter::plain(line));
            }
        }
        Ok(())
    }

    /// The next message that can be served; `None` at the end. Losing this future loses nothing.
    async fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            self.settle().await.ok()?;
            while self.shared.book().introduction.is_some() {
                self.shared.introduced.notified().await;
            }
            if let Some(message) = self.ready.pop_front() {
                return Some(message);
            }
            match self.lines.next().await {
                Line::End => return None,
                Line::TooLong => self.refuse(&Wrong::new(
                    None,
                    INVALID_REQUEST,
                    format!("a message has at most {LONGEST} bytes"),
                )),
                Line::Text(line) if line.trim_ascii().is_empty() => {}
                Line::Text(line) => match jsonrpc::parse(&line) {
                    Ok(Value::Array(messages)) => self.take_batch(messages),
                    Ok(message) => match self.take(message) {
                        Ok(Some((message, _))) => return Some(message),
                        Ok(None) => {}
                        Err(wrong) => self.refuse(&wrong),
                    },
                    Err(wrong) => self.refuse(&wrong),
                },
            }
        }
    }

    fn refuse(&mut self, wrong: &Wrong) {
        self.owed
            .push_back(wrong.to_json().to_string().into_bytes());
    }

    /// What `message` is to be served as, with its id where it is a request; nothing for what is
    /// ignored.
    fn take(
        &mut self,
        mut message: Value,
    ) -> Result<Option<(ClientJsonRpcMessage, Option<RequestId>)>, Wrong> {
        let shape = jsonrpc::shape(&mut message)?;
        let method = message.get("method").and_then(Value::as_str);
        let introduction = method == Some("initialize");
        if introduction {
            jsonrpc::complete_introduction(&mut message);
        }
        let id = match shape {
            Shape::Request(id) => Some(id),
            Shape::Notification => {
                self.withdraw(&message);
                None
            }
            Shape::Response => None,
        };
        let message = match (serde_json::from_value(message), &id) {
            (Ok(message), _) => message,
            (Err(_), None) => return Ok(None),
            (Err(error), Some(id)) => {
                let what = format!("this request can't be read: {error}");
                return Err(Wrong::new(Some(id.clone()), INVALID_REQUEST, what));
            }
        };
        if let Some(id) = &id {
            self.enter(id, introduction)?;
        }
        Ok(Some((message, id)))
    }

    /// Notes a request as under way.
    fn enter(&self, id: &RequestId, introduction: bool) -> Result<(), Wrong> {
        let mut book = self.shared.book();
        let wrong = |code, what: String| Err(Wrong::new(Some(id.clone()), code, what));
        if book.under_way.contains(id) {
            let what = format!("a request with the id {id} is under way");
            return wrong(INVALID_REQUEST, what);
        }
        if book.under_way.len() >= MOST_UNDER_WAY {
            let what = format!("{MOST_UNDER_WAY} requests are under way; wait for some to end");
            return wrong(BUSY, what);
        }
        book.under_way.insert(id.clone());
        if introduction {
            book.introduction = Some(id.clone());
        }
        Ok(())
    }

    /// A request the client gives up gets no answer.
    fn withdraw(&mut self, notification: &Value) {
        if notification.get("method").and_then(Value::as_str) != Some("notifications/cancelled") {
            return;
        }
        let id = notification.pointer("/params/requestId").cloned();
        let Some(id) = id.and_then(|id| serde_json::from_value::<RequestId>(id).ok()) else {
            return;
        };
        let mut book = self.shared.book();
        book.under_way.remove(&id);
        if let Some(complete) = book.batches.withdraw(&id) {
            drop(book);
            // The rest of its batch has waited for this one only.
            self.owed.push_back(complete.to_string().into_bytes());
        }
    }

    fn take_batch(&mut self, messages: Vec<Value>) {
        let wrong = |what: &str| Wrong::new(None, INVALID_REQUEST, what);
        let has_batches = self.shared.book().version == Some(ProtocolVersion::V_2025_03_26);
        if !has_batches {
            let what = "batches are no part of this revision; send one message in each line";
            return self.refuse(&wrong(what));
        }
        if messages.is_empty() || messages.len() > MOST_UNDER_WAY {
            let what = format!("a batch has between 1 and {MOST_UNDER_WAY} messages");
            return self.refuse(&wrong(&what));
        }
        let (mut requests, mut answers) = (Vec::new(), Vec::new());
        for message in messages {
            if message.get("method").and_then(Value::as_str) == Some("initialize") {
                answers.push(wrong("`initialize` comes alone").to_json());
                continue;
            }
            match self.take(message) {
                Ok(Some((message, id))) => {
                    requests.extend(id);
                    self.ready.push_back(message);
                }
                Ok(None) => {}
                Err(wrong) => answers.push(wrong.to_json()),
            }
        }
        if let Some(answers) = self.shared.book().batches.open(requests, answers) {
            self.owed.push_back(answers.to_string().into_bytes());
        }
    }
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleServer> for Pipe<R> {
    type Error = Deaf;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Deaf>> + Send + 'static {
        let line = self.shared.outgoing(&message);
        let outbox = self.outbox.clone();
        async move {
            match (line, outbox) {
                (Some(line), Some(outbox)) => outbox.send(line).await,
                (None, Some(_)) => Ok(()),
                (_, None) => Err(Deaf),
            }
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let deaf = self.deaf.clone();
        let next = tokio::select! {
            next = self.next() => next,
            () = deaf.cancelled() => None,
        };
        if next.is_none() {
            self.over.cancel();
        }
        next
    }

    async fn close(&mut self) -> Result<(), Deaf> {
        self.outbox = None;
        Ok(())
    }
}
