//! Commands that would destroy the machine they run on: refused before anyone is asked, because no
//! task needs them and a tired person says yes.
//!
//! The list is short on purpose, and about the machine, not about the project: what removes `/`, a
//! home or a system folder; what writes to a disk past its file system, makes or removes file
//! systems, partitions and volumes; what stops the machine or everything that runs on it; what
//! overwrites the files people log in by. Everything else is a matter of asking.
//!
//! It is a net against accidents and clumsy tricks, not a wall: a program written to a file and
//! then run is not seen through. The sandbox is the wall.

mod expansion;
mod fill;
mod path;
mod rule;
mod scan;
mod scene;
#[cfg(test)]
mod table;

pub(super) use path::{ANY, ONE, SET, UNKNOWN, matches};
use scene::Scene;

use super::{Part, split};

/// What is known of the machine a command would run on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Homes {
    /// Absolute paths of home folders; the first is that of who runs the command (`~`, `$HOME`).
    pub homes: Vec<String>,
    /// The absolute path of the folder it starts in.
    pub cwd: String,
    /// The whole environment it starts with, where that is known: a variable that is neither there
    /// nor set by the command is empty.
    pub environment: Option<Vec<(String, String)>>,
}

/// Why a command is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{part}` {reason}")]
pub struct Refusal {
    /// The part of the command, as it was written, cut to a readable length.
    pub part: String,
    /// What it would do, as words that follow its text.
    pub reason: &'static str,
}

impl Refusal {
    fn new(part: &str, reason: &'static str) -> Self {
        Self {
            part: crate::text::shorten(part, 120),
            reason,
        }
    }
}

/// A command of which too much lies past the bounds of the search to say that it is harmless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is more than is searched for what would destroy the machine")]
pub struct Unseen;

/// Whether `text` holds a command that would destroy the machine, and which.
///
/// A text that can't be read is searched word by word instead: a slip of the pen is no way round.
/// That search can't tell what is only quoted, so it may refuse what would be harmless.
///
/// # Errors
/// [`Unseen`] where nothing was found, but not all was looked at that such a command could be
/// hidden in. Who decides treats that as "ask a person".
pub fn destructive(text: &str, homes: &Homes) -> Result<Option<Refusal>, Unseen> {
    let mut scene = Scene::new(text, homes);
    let found = match split(text) {
        Ok(parts) => parts_of(&parts, &mut scene),
        Err(_unread) => scan::scan(text, &mut scene),
    };
    match found {
        None if scene.has_unseen() => Err(Unseen),
        found => Ok(found),
    }
}

fn parts_of(parts: &[Part], scene: &mut Scene<'_>) -> Option<Refusal> {
    if let Some(bomb) = rule::fork_bomb(parts) {
        return Some(bomb);
    }
    let mut feeder: Option<Part> = None;
    for part in parts {
        scene.enter(part);
        let part = scene.resolved(part);
        let unwrapped = part.unwrapped();
        if rule::may_set_anything(&part) {
            scene.loosen();
        }
        if let Some(bomb) = rule::fork_bomb(&unwrapped.parts) {
            return Some(bomb);
        }
        for inner in &unwrapped.parts {
            scene.enter(inner);
            let inner = scene.resolved(inner);
            if let Some(reason) = rule::refused(&inner, scene) {
                return Some(Refusal::new(&part.text, reason));
            }
            scene.follow(&inner);
        }
        if let Some(feeder) = feeder.as_ref().filter(|_| part.flow.fed)
            && let Some(reason) = rule::fed(feeder, &unwrapped, scene)
        {
            return Some(Refusal::new(
                &format!("{} | {}", feeder.text, part.text),
                reason,
            ));
        }
        if let Some(reason) = rule::handed(&part, &unwrapped, scene) {
            return Some(Refusal::new(&part.text, reason));
        }
        if unwrapped.opaque.is_some() {
            scene.loosen();
        }
        if let Some(found) = unwrapped.opaque.and_then(|_| scan::hidden(&part, scene)) {
            return Some(found);
        }
        if part.flow.piped {
            feeder = Some(part);
        }
    }
    None
}
