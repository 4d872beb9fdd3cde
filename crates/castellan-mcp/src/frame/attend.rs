//! Waiting for a request's work on behalf of its client: passing on what it says, putting its
//! questions, and bringing back what it results in.
#![expect(
    deprecated,
    reason = "log messages are what clients of every revision can still ask for"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use castellan_core::peer::Unasked;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use rmcp::RoleServer;
use rmcp::model::{
    ErrorData, InputRequests, InputRequiredResult, InputResponses, LoggingMessageNotification,
    LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Frame;
use super::notes::{Note, Wanted};
use super::parking::{Binding, Parked};
use super::request::{Errand, Request};
use super::run::{Done, Run, Turn};
use super::wire;
use crate::ask::Posed;
use crate::provider::Fault;

/// What there is to answer a request with.
pub(super) enum Reply {
    /// The result.
    Done(Done),
    /// Questions, after which the client calls again.
    Ask(InputRequiredResult),
}

/// How the client of a request is told and asked.
pub(super) struct Client<'a> {
    pub(super) context: &'a RequestContext<RoleServer>,
    pub(super) request: &'a Request,
    pub(super) errand: &'a Errand<'a>,
    pub(super) token: Option<ProgressToken>,
    pub(super) wanted: Wanted,
}

/// Waits for `run` until it is over or asks a modern client something.
///
/// # Errors
/// The fault the work ended with, or that the client is gone.
pub(super) async fn attend(
    frame: &Arc<Frame>,
    mut run: Run,
    client: Client<'_>,
    stop: &CancellationToken,
) -> Result<Reply, ErrorData> {
    let mut asked = FuturesUnordered::new();
    let notes = Arc::clone(&run.notes);
    notes.want(client.wanted);
    loop {
        let turn = tokio::select! {
            biased;
            () = client.context.ct.cancelled() => return Err(cancelled()),
            () = stop.cancelled() => return Err(cancelled()),
            note = notes.next() => {
                client.tell(note).await;
                continue;
            }
            Some(()) = asked.next(), if !asked.is_empty() => continue,
            turn = run.turn() => turn,
        };
        match turn {
            Turn::Done(done) => {
                while let Some(note) = notes.take() {
                    client.tell(note).await;
                }
                return Ok(Reply::Done(done?));
            }
            Turn::Asks(round) if client.request.modern => {
                return park(frame, run, named(round), &client.binding());
            }
            Turn::Asks(round) => {
                let peer = &client.context.peer;
                asked.extend(round.into_iter().map(|posed| put(peer.clone(), posed)));
            }
        }
    }
}

/// Takes up a call a modern client comes back to.
///
/// # Errors
/// A fault for a state that counts for nothing, and for answers that are none.
pub(super) async fn resume(
    frame: &Arc<Frame>,
    state: &str,
    client: Client<'_>,
    stop: &CancellationToken,
) -> Result<Reply, ErrorData> {
    let (call, mut parked) = frame.parking.take(state, &client.binding())?;
    let none = InputResponses::new();
    let responses = client.errand.responses.as_ref().unwrap_or(&none);
    if let Err(wrong) = fitting(&parked, responses) {
        // It still waits for a better answer.
        frame.parking.put_back(call, parked);
        frame.sweep_parking();
        return Err(wrong.into());
    }
    for (key, response) in responses {
        // What was not asked for is no matter.
        if let Some(posed) = parked.open.remove(key) {
            // A call that no longer wants the answer has dropped its end.
            drop(posed.answer.send(Ok(response.clone())));
        }
    }
    if parked.open.is_empty() {
        attend(frame, parked.run, client, stop).await
    } else {
        park(frame, parked.run, parked.open, &client.binding())
    }
}

/// Whether the answers to open questions are answers.
fn fitting(parked: &Parked, responses: &InputResponses) -> Result<(), Fault> {
    for (key, response) in responses {
        if let Some(posed) = parked.open.get(key) {
            wire::answers(&posed.question, response)
                .map_err(|wrong| Fault::invalid(format!("the answer to `{key}`: {wrong}")))?;
        }
    }
    Ok(())
}

/// Questions under names of their own.
fn named(round: Vec<Posed>) -> BTreeMap<String, Posed> {
    let mut open = BTreeMap::new();
    for posed in round {
        let mut name = posed.key.clone();
        let mut count = 1;
        while open.contains_key(&name) {
            count += 1;
            name = format!("{}-{count}", posed.key);
        }
        open.insert(name, posed);
    }
    open
}

fn park(
    frame: &Arc<Frame>,
    run: Run,
    open: BTreeMap<String, Posed>,
    binding: &Binding,
) -> Result<Reply, ErrorData> {
    let mut requests = InputRequests::new();
    let mut suitable = BTreeMap::new();
    for (name, posed) in open {
        match wire::input_request(&posed.question) {
            Ok(request) => {
                requests.insert(name.clone(), request);
                suitable.insert(name, posed);
            }
            Err(unasked) => drop(posed.answer.send(Err(unasked))),
        }
    }
    let state = frame
        .parking
        .park(run, suitable, binding, frame.clock.monotonic())?;
    frame.sweep_parking();
    let requests = (!requests.is_empty()).then_some(requests);
    Ok(Reply::Ask(InputRequiredResult::new(requests, Some(state))))
}

/// Puts a question to an older client and brings back its answer.
async fn put(peer: Peer<RoleServer>, mut posed: Posed) {
    let answer = match wire::server_request(&posed.question) {
        Ok(request) => exchange(&peer, request, &mut posed).await,
        Err(unasked) => Err(unasked),
    };
    // A call that no longer wants the answer has dropped its end.
    drop(posed.answer.send(answer));
}

async fn exchange(
    peer: &Peer<RoleServer>,
    request: ServerRequest,
    posed: &mut Posed,
) -> Result<Value, Unasked> {
    let options = PeerRequestOptions::no_options();
    let sent = peer.send_cancellable_request(request, options).await;
    let mut handle = sent.map_err(|error| refused(&error))?;
    let response = tokio::select! {
        response = &mut handle.rx => response,
        () = posed.answer.closed() => {
            let reason = Some("the call no longer waits for this".to_owned());
            if let Err(error) = handle.cancel(reason).await {
                tracing::debug!(%error, "a question could not be withdrawn");
            }
            return Err(Unasked::Gone);
        }
    };
    let response = response.map_err(|_closed| Unasked::Gone)?;
    let response = response.map_err(|error| refused(&error))?;
    let answer =
        serde_json::to_value(response).map_err(|error| Unasked::Refused(error.to_string()))?;
    wire::answers(&posed.question, &answer).map_err(Unasked::Refused)?;
    Ok(answer)
}

fn refused(error: &rmcp::ServiceError) -> Unasked {
    if matches!(error, rmcp::ServiceError::TransportClosed) {
        Unasked::Gone
    } else {
        Unasked::Refused(error.to_string())
    }
}

impl Client<'_> {
    /// What a state for this request counts for.
    fn binding(&self) -> Binding {
        let Errand {
            method,
            name,
            arguments,
            ..
        } = self.errand;
        Binding::new(&self.request.client, method, name, arguments)
    }

    async fn tell(&self, note: Note) {
        let peer = &self.context.peer;
        let sent = match note {
            Note::Progress {
                done,
                total,
                message,
            } => {
                let Some(token) = self.token.clone() else {
                    return;
                };
                let mut progress = ProgressNotificationParam::new(token, float(done));
                progress.total = total.map(float);
                progress.message = (!message.is_empty()).then_some(message);
                peer.notify_progress(progress).await
            }
            Note::Log { level, message } => {
                let data = LoggingMessageNotificationParam::new(
                    wire::level(level),
                    Value::String(message),
                )
                .with_logger(self.errand.name);
                peer.send_notification(LoggingMessageNotification::new(data).into())
                    .await
            }
        };
        if let Err(error) = sent {
            tracing::debug!(%error, "a client did not take a notification");
        }
    }
}

/// Units of work, as the protocol counts them.
#[expect(
    clippy::cast_precision_loss,
    reason = "a count past 2^53 is shown, not computed with"
)]
const fn float(count: u64) -> f64 {
    count as f64
}

fn cancelled() -> ErrorData {
    Fault::new(Fault::INTERNAL, "the request was cancelled").into()
}
