//! The store from outside: one suite for every database, then what only SQLite's files can suffer.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in a test both are how a failure is told, also in its functions that are no #[test]"
)]

mod audit_chain;
mod child;
mod claims;
mod conformance;
mod faults;
mod kept;
mod processes;
mod sample;
mod sqlite_files;
