//! Sessions as a whole, on a real store, with a model that answers from what it is shown.
#![expect(
    clippy::unwrap_used,
    reason = "a test that meets what it did not expect fails"
)]

mod budget;
mod circles;
mod compaction;
mod crash;
mod decisions;
mod empty;
mod engine;
mod episode;
mod live;
mod notices;
mod provider;
mod replay;
mod turn;
mod world;
