//! What the arguments of a session mean, for `exec` and the conversation alike.

use castellan_core::{Grant, SessionId};
use castellan_gate::Permission;
use castellan_tools::bash::OUTSIDE_SANDBOX;

use crate::cli::{ModelArgs, SessionArgs};
use crate::error::CommandError;
use crate::wiring::World;

/// Refuses what can't be meant. To be asked before anything is shown or begun.
///
/// # Errors
/// Wrong usage: a folder for a session that has one, a permission for a tool that doesn't exist.
pub(crate) fn require_sense(world: &World, arguments: &SessionArgs) -> Result<(), CommandError> {
    if arguments.resume.is_some() && arguments.cwd.is_some() {
        return Err(
            CommandError::usage("--cwd can't change where a stored session works")
                .hint("leave it out, or begin a new session"),
        );
    }
    arguments
        .yes_to
        .iter()
        .try_for_each(|grant| require_tool(world, grant))
}

/// Refuses a permission for a tool that doesn't exist.
///
/// # Errors
/// Wrong usage, with the names there are.
pub(crate) fn require_tool(world: &World, grant: &Grant) -> Result<(), CommandError> {
    let names = || world.catalog.specs().map(|spec| spec.name.as_str());
    if names()
        .chain([OUTSIDE_SANDBOX])
        .any(|name| grant.names(name))
    {
        return Ok(());
    }
    let known: Vec<&str> = names().collect();
    Err(
        CommandError::usage(format!("--yes-to {grant}: no tool has such a name"))
            .hint(format!("the tools are {}", known.join(", "))),
    )
}

/// What runs unasked.
pub(crate) fn permission(arguments: &SessionArgs) -> Permission {
    Permission {
        grants: arguments.yes_to.clone(),
        skip: arguments.skip_permissions,
    }
}

/// The options that go on with this session and reach the same model, for `exec` and the
/// conversation alike. A key is never repeated.
pub(crate) fn to_resume(session: SessionId, model: &ModelArgs) -> String {
    let mut options = format!("--resume {session}");
    for (flag, value) in [("--base-url", &model.base_url), ("--model", &model.model)] {
        if let Some(value) = value {
            options.push_str(&format!(" {flag} {}", quoted(value)));
        }
    }
    options
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:@".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
