//! The gate as a whole, with tools made for each test and a recorder that remembers.
#![expect(
    clippy::unwrap_used,
    reason = "a test that meets what it did not expect fails"
)]

mod bench_of_tools;
mod execute;
mod guards;
mod path;
mod standing;
mod trace;
