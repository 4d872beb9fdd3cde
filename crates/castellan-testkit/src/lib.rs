//! What tests of several rooms share: a scripted model server, a settable clock, known ids and a
//! sealed home.
//!
//! Everything here fails loudly: a helper that can't do its work panics with the reason, because in
//! a test that is the report. Nothing here waits for time to pass; where a test has to wait for
//! another thread it waits for the event itself, and gives up with a message after
//! [`PATIENCE`].
//!
//! Start reading at [`model`] (the scripted server), then [`clock`].

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test helper that fails has to stop the test, and the panic is its report"
)]

pub mod clock;
pub mod gate;
pub mod home;
pub mod ids;
pub mod model;
pub mod tool;

mod tally;

pub use clock::ManualClock;
pub use gate::Gate;
pub use home::Home;
pub use ids::SequentialIds;
pub use model::{ModelServer, RecordedRequest, Reply};
pub use tally::PATIENCE;
pub use tool::FakeTool;
