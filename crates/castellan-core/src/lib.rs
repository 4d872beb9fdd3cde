//! The language every room of the house speaks.
//!
//! Here stand the types that cross room borders (ids, callers, messages, events, tool specs,
//! outcomes, error codes), the traits that upper rooms implement (tool, model, clock, principals),
//! and algorithms that need nothing but their input (argument repair, truncation, search ranking, fading
//! signals).
//!
//! This crate knows no file, socket, process, clock or source of randomness, and no async runtime:
//! where waiting is part of a contract it names `futures` types only.
//!
//! Start reading at [`tool`] (what a tool is), then [`event`] (what is recorded) and [`caller`]
//! (who asks).

pub mod arguments;
pub mod block;
pub mod bm25;
pub mod caller;
pub mod cancel;
pub mod code;
pub mod command;
pub mod event;
pub mod field;
pub mod fingerprint;
pub mod grant;
pub mod id;
pub mod lenient;
pub mod message;
pub mod model;
pub mod nearest;
pub mod outcome;
pub mod peer;
pub mod picture;
pub mod port;
pub mod secret;
pub mod text;
pub mod time;
pub mod token;
pub mod tool;

pub use block::Block;
pub use caller::{Caller, Capability, Principal, Principals, Surface};
pub use cancel::{Cancel, CancelSource};
pub use code::ErrorCode;
pub use event::{Event, EventKind, Recorded};
pub use grant::Grant;
pub use id::{CallId, CycleId, EpisodeId, Ids, ProposalId, SessionId};
pub use message::{Message, RawCall, Reasoning};
pub use model::{Model, ModelError, ModelEvent, ModelReply, ModelRequest};
pub use outcome::{EffectStatus, Outcome};
pub use peer::Peer;
pub use picture::{Picture, PictureRef, PictureType};
pub use time::{Clock, Timestamp};
pub use tool::{Call, Tool, ToolSpec};
