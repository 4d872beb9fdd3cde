//! The ground all file tools share: opening only what is a regular file, knowing a file's bytes
//! again, and writing without losing anything.

mod closed;
pub mod diff;
mod folder;
mod mark;
mod open;
mod save;
pub mod text;

pub use closed::Closed;
pub(crate) use folder::require_folder;
pub use mark::{HASHED_UP_TO, load, mark, mark_of};
pub use open::{Opened, Problem, open, resolve};
pub(crate) use open::{explain, open_listed, require_regular};
pub use save::{Addition, Unsaved, require_writable, save};
