//! The provider against a scripted server over real HTTP.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test that meets something else than it expects has to stop and show it"
)]

mod cancels;
mod failures;
mod probing;
mod refusals;
mod requests;
mod retries;
mod streams;
mod thoughts;
mod world;
mod written;
