//! Calls of modern clients that wait for an answer.
//!
//! The client is given a signed state with the question and sends it back with the answer. The state
//! says which call it is; it counts once, only for the same client, method, name and arguments, and
//! not for ever. The call itself stays here and goes on running; what is dropped from
//! here is cancelled.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{RequestStateCodec, RequestStateError, SealOptions};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::run::Run;
use super::{Frame, Limits};
use crate::ask::Posed;
use crate::provider::{Client, Fault, Object};

/// What a state counts for, as bytes that are signed with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binding {
    principal: String,
    connection: Arc<str>,
    signed: Vec<u8>,
}

impl Binding {
    /// A request of `client` with this method, name and arguments.
    pub(crate) fn new(client: &Client, method: &str, name: &str, arguments: &Object) -> Self {
        // Who a client is, as far as the frame can tell one from another.
        let principal = match &client.bearer {
            Some(bearer) => format!("bearer:{}", super::digest(bearer.expose())),
            None => format!("name:{}", client.name),
        };
        let hex = super::digest(&sorted(arguments).to_string());
        // JSON keeps the fields apart, whatever is in them.
        let signed = serde_json::json!([principal, method, name, hex]).to_string();
        Self {
            principal,
            connection: Arc::clone(&client.connection),
            signed: signed.into_bytes(),
        }
    }
}

/// `object` with its keys in order, so that a client may send them back in another.
fn sorted(object: &Object) -> Value {
    fn value(of: &Value) -> Value {
        match of {
            Value::Object(object) => sorted(object),
            Value::Array(values) => values.iter().map(value).collect(),
            other => other.clone(),
        }
    }
    let keys: BTreeMap<&String, Value> = object.iter().map(|(key, v)| (key, value(v))).collect();
    keys.into_iter()
        .map(|(key, value)| (key.clone(), value))
        .collect()
}

#[derive(Serialize, Deserialize)]
struct State {
    call: u64,
}

/// A call that waits.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) run: Run,
    /// Its questions, by the name the client sees.
    pub(crate) open: BTreeMap<String, Posed>,
    principal: String,
    connection: Arc<str>,
    /// When it is given up, by the monotonic clock.
    until: Duration,
}

#[derive(Debug, Default)]
struct Slots {
    calls: HashMap<u64, Parked>,
    next: u64,
    sweeping: bool,
}

/// All calls that wait.
#[derive(Debug)]
pub(crate) struct Parking {
    slots: Mutex<Slots>,
    codec: RequestStateCodec,
    most: usize,
    most_per_client: usize,
    patience: Duration,
}

impl Parking {
    #[expect(deprecated, reason = "what is deprecated is a key that is too short")]
    pub(crate) fn new(key: [u8; 32], limits: &Limits) -> Self {
        Self {
            slots: Mutex::default(),
            codec: RequestStateCodec::new(key),
            most: limits.parked.max(1),
            most_per_client: limits.parked_per_client.max(1),
            patience: limits.parked_for,
        }
    }

    /// Keeps a call until its client comes back. Where too many wait already, the one of the same
    /// client, or of all, that waits longest is given up.
    ///
    /// # Errors
    /// [`Fault`] where the state can't be made.
    pub(crate) fn park(
        &self,
        run: Run,
        open: BTreeMap<String, Posed>,
        binding: &Binding,
        now: Duration,
    ) -> Result<String, Fault> {
        let mut slots = self.slots();
        let call = slots.next;
        let options = SealOptions::new()
            .associated_data(&binding.signed)
            .ttl(self.patience);
        let sealed = self
            .codec
            .seal_json_with(&State { call }, &options)
            .map_err(|error| Fault::new(Fault::INTERNAL, format!("no state: {error}")))?;
        slots.next += 1;
        let own = |parked: &Parked| parked.principal == binding.principal;
        if slots.calls.values().filter(|parked| own(parked)).count() >= self.most_per_client {
            give_up_oldest(&mut slots.calls, own);
        }
        if slots.calls.len() >= self.most {
            give_up_oldest(&mut slots.calls, |_| true);
        }
        let parked = Parked {
            run,
            open,
            principal: binding.principal.clone(),
            connection: Arc::clone(&binding.connection),
            until: now + self.patience,
        };
        slots.calls.insert(call, parked);
        Ok(sealed)
    }

    /// The call that `state` speaks of, and its number here. It is no longer here then.
    ///
    /// # Errors
    /// [`Fault`] for a state that was not made for this request, or whose call is no longer here.
    pub(crate) fn take(&self, state: &str, binding: &Binding) -> Result<(u64, Parked), Fault> {
        let found: Result<State, _> = self.codec.open_json_with(state, &binding.signed);
        let state = found.map_err(|error| match error {
            RequestStateError::Expired => gone(),
            _ => Fault::invalid(
                "this requestState was not made for this request; send it back unchanged, with \
                 the same method, name and arguments",
            ),
        })?;
        let parked = self.slots().calls.remove(&state.call);
        parked.map(|parked| (state.call, parked)).ok_or_else(gone)
    }

    /// Puts a call back as it was, for the state it was taken with.
    pub(crate) fn put_back(&self, call: u64, parked: Parked) {
        self.slots().calls.insert(call, parked);
    }

    /// Gives up every call.
    pub(crate) fn clear(&self) {
        self.slots().calls.clear();
    }

    /// Gives up the calls of a connection that has ended.
    pub(crate) fn forget(&self, connection: &str) {
        self.slots()
            .calls
            .retain(|_, parked| &*parked.connection != connection);
    }

    /// How many calls wait.
    pub(crate) fn len(&self) -> usize {
        self.slots().calls.len()
    }

    /// Gives up what has waited too long, and tells when to look again.
    fn sweep(&self, now: Duration) -> Option<Duration> {
        let mut slots = self.slots();
        slots.calls.retain(|_, parked| parked.until > now);
        let next = slots.calls.values().map(|parked| parked.until).min();
        slots.sweeping = next.is_some();
        next.map(|next| next.saturating_sub(now))
    }

    /// Whether somebody has to begin sweeping.
    fn begins_sweeping(&self) -> bool {
        !std::mem::replace(&mut self.slots().sweeping, true)
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Frame {
    /// Sees to it that calls nobody comes back for are given up.
    pub(crate) fn sweep_parking(self: &Arc<Self>) {
        if !self.parking.begins_sweeping() {
            return;
        }
        let frame = Arc::clone(self);
        self.tasks.spawn(async move {
            while let Some(pause) = frame.parking.sweep(frame.clock.monotonic()) {
                let sleep = frame.clock.sleep(pause);
                tokio::select! {
                    () = sleep => {}
                    () = frame.stop.cancelled() => break,
                }
            }
        });
    }
}

fn give_up_oldest(calls: &mut HashMap<u64, Parked>, of: impl Fn(&Parked) -> bool) {
    let oldest = calls
        .iter()
        .filter(|(_, parked)| of(parked))
        .min_by_key(|(call, parked)| (parked.until, **call))
        .map(|(call, _)| *call);
    if let Some(oldest) = oldest {
        tracing::warn!("too many calls wait for an answer; the oldest one was given up");
        drop(calls.remove(&oldest));
    }
}

fn gone() -> Fault {
    Fault::invalid(
        "the call this requestState belongs to is over or was given up; call again without it",
    )
}
