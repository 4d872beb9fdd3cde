//! What a person is shown of a write before it is made: what it changes, where both are text.

use std::path::Path;

use castellan_core::Outcome;
use castellan_core::text::shorten;
use castellan_core::tool::Preview;

use super::{Mode, Params, There, content};
use crate::file::compare;
use crate::file::diff::CONTEXT;
use crate::file::text::{Binary, Text};

/// How much of the content is shown where there is nothing to compare it with, in characters.
const BEGINNING: usize = 2000;
/// Bytes of a diff that is shown.
const SHOWN: usize = 64 * 1024;

/// A write as a person decides about it. `known` says whether the session has read what is there.
///
/// # Errors
/// What the call would be refused for all the same.
pub(super) fn preview(
    target: &Path,
    params: &Params,
    there: Option<There>,
    known: bool,
) -> Result<Preview, Outcome> {
    let before = there.as_ref().map(|there| there.content.mark.clone());
    let mut notes = Vec::new();
    if before.is_some() && params.mode == Mode::Overwrite && !known {
        notes.push("this session has not read the file it would replace".to_owned());
    }
    if let Some(there) = there
        && params.mode == Mode::Overwrite
    {
        match compared(params, there)? {
            Ok(Compared { diff, beside }) => {
                notes.extend(beside);
                return Ok(Preview::Diff {
                    path: target.to_owned(),
                    unified: format!("{}{}", diff.text, diff.cut_note()),
                    added: diff.added as u64,
                    removed: diff.removed as u64,
                    note: notes.join("; "),
                    before,
                });
            }
            Err(why) => notes.push(why),
        }
    }
    let action = match (&before, params.mode) {
        (None, _) => "create",
        (Some(_), Mode::Overwrite) => "overwrite",
        (Some(_), Mode::Append) => "append",
    };
    Ok(Preview::File {
        path: target.to_owned(),
        action: action.to_owned(),
        bytes: params.content.len() as u64,
        beginning: shorten(&params.content, BEGINNING),
        before,
        note: notes.join("; "),
    })
}

struct Compared {
    diff: crate::file::diff::Unified,
    /// What differs that is not text.
    beside: Vec<String>,
}

/// What is there beside what would be; the inner error says why they are not compared.
fn compared(params: &Params, there: There) -> Result<Result<Compared, String>, Outcome> {
    let size = there.content.mark.size;
    let why = |what: &str| {
        let bytes = params.content.len();
        format!("no diff: {what} ({size} bytes there, {bytes} bytes instead)")
    };
    if there.content.bytes.len() as u64 != size {
        return Ok(Err(why("what is there is too large to compare")));
    }
    let old = match Text::decode(there.content.bytes) {
        Ok(old) => old,
        Err(Binary(kind)) => return Ok(Err(why(&format!("what is there is {kind}")))),
    };
    let new = content(params, Some(&old))?.bytes;
    let new = match Text::decode(new) {
        Ok(new) => new,
        Err(Binary(kind)) => return Ok(Err(why(&format!("the new content is {kind}")))),
    };
    let diff = compare::unified(&old, &new, CONTEXT, SHOWN);
    let mut beside = compare::beside_text(&old, &new);
    if diff.text.is_empty() && beside.is_empty() {
        beside.push("the file has just this content already".to_owned());
    }
    Ok(Ok(Compared { diff, beside }))
}
