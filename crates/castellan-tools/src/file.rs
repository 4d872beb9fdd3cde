//! The ground all file tools share: opening only what is a regular file, knowing a file's bytes
//! again, and writing without losing anything.

mod closed;
pub(crate) mod compare;
pub(crate) mod concealed;
pub mod diff;
mod mark;
mod open;
mod place;
mod recent;
mod save;
pub(crate) mod spec;
pub mod text;

pub use closed::Closed;
pub(crate) use mark::{Beginning, beginning, difference, digest};
pub use mark::{HASHED_UP_TO, Identity, load, mark, mark_of};
pub use open::{Opened, Problem, open, open_resolved, require_kept, require_unmoved, resolve};
pub(crate) use open::{explain, open_listed, require_regular, shown};
pub use place::{Place, Spelling};
pub use recent::Recent;
pub use save::{Unsaved, append, replace, require_writable};

/// Larger files are neither edited nor compared with what would replace them: they are held in
/// memory.
pub(crate) const EDITED_UP_TO: u64 = 256 * 1024 * 1024;
