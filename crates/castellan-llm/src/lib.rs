//! Model providers behind one stream of model events.
//!
//! A provider's wire is turned into `castellan-core`'s `ModelEvent`s here and nowhere else: the odd
//! shapes of streams, the words in which servers complain, what is worth another try and how long to
//! wait for it. Connections are made by `castellan-host`'s client.
//!
//! The room must not know what a session, a turn or a tool's meaning is. It keeps no conversation:
//! every request carries all of it.
//!
//! Start reading at [`chat`] (the provider), then [`sse`] (how a stream is cut into events) and
//! [`probe`] (how a model is found where none is configured).

pub mod chat;
mod complaint;
mod endpoint;
pub mod key;
pub mod models;
pub mod probe;
pub mod sse;

pub use chat::{BlankContent, ChatModel, ChatSettings, ReasoningField};
pub use key::ApiKey;
pub use models::ListedModel;
pub use probe::{Found, Probe, ProbeReport};
