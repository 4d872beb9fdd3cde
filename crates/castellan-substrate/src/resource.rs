//! The resources of this room: `genome://current`, `genome://VERSION` and `blackboard://SLOT`, each
//! as one JSON text.

use castellan_core::text::{one_line, shorten};
use castellan_core::{ErrorCode, Outcome};
use castellan_store::LateStore;
use castellan_store::genome::Origin;
use serde_json::json;

use crate::genome::history::{self, Version};
use crate::name::check_name;
use crate::operation::{Failure, failed};
use crate::read_blackboard;

/// The media type of every resource of this room.
pub const MEDIA_TYPE: &str = "application/json";

/// The text of the resource `uri`, `None` where its scheme belongs to another room.
///
/// # Errors
/// `NOT_FOUND` for a version or slot that isn't there, `VALIDATION` for what can't be one,
/// `STORE_UNAVAILABLE`.
pub async fn read(store: &LateStore, uri: &str) -> Option<Result<String, Outcome>> {
    let (scheme, rest) = uri.split_once("://")?;
    let found = match scheme {
        "genome" => genome(store, rest).await,
        "blackboard" => slot(store, rest).await,
        _ => return None,
    };
    Some(found.map_err(Failure::into_outcome))
}

async fn genome(store: &LateStore, which: &str) -> Result<String, Failure> {
    let version = if which == "current" {
        history::current(store).await?
    } else {
        let shown = one_line(&shorten(which, 40));
        let number = which.parse().map_err(|_error| {
            Outcome::invalid(
                format!("`{shown}` is no version of the genome"),
                "read genome://current, or genome://1 for the first",
            )
        })?;
        let found = history::version(store, number).await?;
        found.ok_or_else(|| {
            let what = format!("the genome has no version {shown}");
            failed(
                ErrorCode::NotFound,
                what,
                "genome://current says which one holds",
            )
        })?
    };
    Ok(told(&version))
}

fn told(version: &Version) -> String {
    let stored = &version.stored;
    let (origin, proposal, restored) = match &stored.origin {
        Origin::Default => ("default", None, None),
        Origin::Mutation(id) => ("mutation", Some(id.to_string()), None),
        Origin::Rollback(to) => ("rollback", None, Some(to)),
    };
    json!({
        "version": stored.version,
        "hash": stored.document.hash,
        "drift": stored.drift,
        "origin": origin,
        "proposal": proposal,
        "restored": restored,
        "at": stored.at.to_string(),
        "author": stored.author,
        "reason": stored.reason,
        "genome": version.genome,
    })
    .to_string()
}

async fn slot(store: &LateStore, name: &str) -> Result<String, Failure> {
    check_name("slot", name)?;
    let reply = read_blackboard::read(store, name.to_owned()).await?;
    serde_json::to_string(&reply)
        .map_err(|error| failed(ErrorCode::Internal, error.to_string(), "").into())
}
