//! The Model Context Protocol, seen from the server's side: what a server offers as one trait, the
//! frame that speaks every revision of the protocol for it, and the two transports.
//!
//! This crate must not know which tools there are, who may call them, or what a session of ours is:
//! a [`Provider`] answers, and the frame puts its answers on the wire. It starts no process and
//! opens no connection; readers, writers and listeners are handed in.
//!
//! Start reading at [`provider`] (what a server offers), then [`frame`] (how a request is
//! answered), then [`stdio`] and [`http`] (how requests arrive).

pub mod ask;
pub mod change;
pub mod frame;
pub mod http;
pub mod provider;
pub mod stdio;

mod jsonrpc;

pub use ask::Ask;
pub use change::{Change, Changes};
pub use frame::{Limits, Server};
pub use provider::{Answer, Client, Context, Fault, Provider};
