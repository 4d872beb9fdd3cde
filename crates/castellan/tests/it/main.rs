//! The whole program in a sealed home, against a scripted model over real HTTP.
#![expect(
    clippy::unwrap_used,
    reason = "a test that meets what it did not expect fails"
)]

mod bad_input;
mod catalog;
mod crash;
mod decisions;
mod exec;
mod pictures;
mod program;
mod sandbox;
mod shell;
