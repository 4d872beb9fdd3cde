//! The store from outside: one suite for every database, then what only SQLite's files can suffer.

mod audit_chain;
mod child;
mod claims;
mod conformance;
mod faults;
mod processes;
mod sample;
mod sqlite_files;
