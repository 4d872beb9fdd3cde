//! Episodes: unattended runs towards a goal.
//!
//! A [`Plugin`] is shown an observation and acts: it names tools to call. The calls pass the gate like
//! everybody's, and what they came to is part of the next observation. So it goes on until the
//! plugin says that it is done, or its steps are used up.
//!
//! An episode stands on a [`Stage`]: tools, a gate and an engine of its own, normally with a clock
//! that moves only with the steps and ids made from a seed, so that the same seed gives the same
//! trace to the byte.
//!
//! Start reading at [`run`](mod@run), then [`plugin`].

pub mod chance;
pub mod gridworld;
pub mod kept;
pub mod plugin;
pub mod program;
pub mod run;
pub mod stage;
pub mod time;
pub mod turn;

pub use gridworld::Gridworld;
pub use kept::{Episodes, Kept};
pub use plugin::{Access, Act, Plugin, ToolUse, Trouble};
pub use program::Program;
pub use run::{Ended, How, Onlooker, Plan, Standing, Watch, run};
pub use stage::{Stage, StageParts};
pub use time::{SeededIds, SimulatedClock, Time};
pub use turn::Turn;
