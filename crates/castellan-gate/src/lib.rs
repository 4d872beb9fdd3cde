//! The gate: the one path of every tool call, whoever makes it.
//!
//! `identify → prepare → govern → approve → execute → seal`. A call from a session, a sub-agent,
//! a client of the MCP server or an unattended run is a [`Batch`] handed to [`Gate::handle`];
//! there is no other way to run a tool. What happens on the way is told to a [`Recorder`] before
//! anything takes effect.
//!
//! The gate must not know sessions, providers or surfaces: it is given a view, ports and a
//! recorder, and hands back whether the batch is finished or waits for a person.
//!
//! Start reading at [`gate`], which walks the steps; each step has a file of its own.

pub mod album;
pub mod catalog;
mod desk;
pub mod disclosure;
pub mod error;
mod execute;
pub mod gate;
pub mod govern;
mod guards;
pub mod hooks;
mod judge;
mod overflow;
pub mod policy;
mod prepare;
pub mod recorder;
mod seal;
pub mod trace;
mod vault;

pub use album::Album;
pub use catalog::Catalog;
pub use disclosure::{Disclosure, Profile};
pub use error::Error;
pub use gate::{Asked, Batch, Gate, Handled, Pending, Settings};
pub use govern::Permission;
pub use guards::Guards;
pub use policy::Policy;
pub use prepare::{Understood, understand};
pub use recorder::Recorder;
