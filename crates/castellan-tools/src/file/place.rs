//! Where the path of a call leads: the one way in for all file tools.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use castellan_core::Outcome;
use icu_normalizer::ComposingNormalizerBorrowed;

use super::closed::Closed;
use super::open::{Problem, resolve, shown};

/// Names of a folder that are looked through for one that is spelled alike.
const LOOKED_THROUGH: usize = 10_000;

/// How far a name may be from the one that was asked for, where that one is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// The same characters, composed or decomposed: for a file that may be a new one.
    Same,
    /// Also other blanks and quotation marks, which models make plain ones of.
    Alike,
}

/// A place in the file system that a call may touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Where it really is, links followed; nothing need be there.
    pub path: PathBuf,
    /// That it is spelled otherwise than it was asked for, in words.
    pub note: Option<String>,
}

impl Place {
    /// The place of `path`, which may be relative to `cwd`, unless it is `closed`. It is the one
    /// asked for if that is there; otherwise the only one spelled alike.
    ///
    /// # Errors
    /// The outcome: a folder that is gone, a path that leads nowhere or into our own state.
    pub fn find(
        cwd: &Path,
        path: &Path,
        spelling: Spelling,
        closed: &Closed,
    ) -> Result<Self, Outcome> {
        if path.is_relative() && !cwd.is_dir() {
            let what = format!("the working folder {} no longer exists", shown(cwd));
            let next = "use an absolute path; the next `bash` call takes the session to a folder that \
                        exists";
            return Err(Outcome::failed(what, next));
        }
        // A folder named so by mistake is one that somebody will remove by its name.
        if path.starts_with("~") && cwd.join("~").symlink_metadata().is_err() {
            let next = "use an absolute path; `bash` with `echo ~` shows the home folder";
            return Err(Outcome::failed(
                "`~` in a path is not the home folder",
                next,
            ));
        }
        let asked = cwd.join(path);
        let mut place = Self {
            path: resolve(&asked)?,
            note: None,
        };
        if place.path.symlink_metadata().is_err() {
            if path.as_os_str().as_bytes().ends_with(b"/") {
                let text = format!(
                    "{} does not exist, and a path that ends with a slash names a folder",
                    shown(&asked)
                );
                return Err(Problem::Unusable(text).into());
            }
            if let Some(near) = near(&place.path, spelling) {
                place.path = resolve(&near)?;
                place.note = Some(format!(
                    "there is no {}; this is {}, which is spelled otherwise",
                    shown(&asked),
                    shown(&near)
                ));
            }
        }
        closed.refuse(&place.path)?;
        Ok(place)
    }
}

impl Place {
    /// The outcome of reading here, with the note before it.
    #[must_use]
    pub fn noted(&self, mut outcome: Outcome) -> Outcome {
        if let (Some(note), Outcome::Done { output, .. }) = (&self.note, &mut outcome) {
            output.insert_str(0, &format!("[{note}]\n"));
        }
        outcome
    }
}

/// `path`, which is not there, with the names on the way that are spelled otherwise; `None` where
/// there are none such.
fn near(path: &Path, spelling: Spelling) -> Option<PathBuf> {
    let (mut at, mut found) = (PathBuf::new(), false);
    let mut parts = path.components();
    for part in parts.by_ref() {
        let next = at.join(part);
        if next.symlink_metadata().is_ok() {
            at = next;
            continue;
        }
        match part {
            Component::Normal(name) => match near_name(&at, name, spelling) {
                Some(name) => {
                    at.push(name);
                    found = true;
                }
                None => {
                    at = next;
                    break;
                }
            },
            _ => return None,
        }
    }
    at.extend(parts);
    found.then_some(at)
}

fn near_name(folder: &Path, name: &OsStr, spelling: Spelling) -> Option<OsString> {
    let name = name.to_str()?;
    let wanted = folded(name, spelling);
    let entries = fs::read_dir(folder).ok()?.take(LOOKED_THROUGH).flatten();
    let mut alike = entries.map(|entry| entry.file_name()).filter(|there| {
        there
            .to_str()
            // Two plain names that are not the same are not alike.
            .filter(|there| !(there.is_ascii() && name.is_ascii()))
            .is_some_and(|there| folded(there, spelling) == wanted)
    });
    let only = alike.next()?;
    alike.next().is_none().then_some(only)
}

fn folded(name: &str, spelling: Spelling) -> String {
    let composed = ComposingNormalizerBorrowed::new_nfc().normalize(name);
    match spelling {
        Spelling::Same => composed.into_owned(),
        Spelling::Alike => composed.chars().map(plain).collect(),
    }
}

/// What a model writes for a character of a file's name.
const fn plain(letter: char) -> char {
    match letter {
        '\u{a0}' | '\u{2007}' | '\u{2009}' | '\u{202f}' => ' ',
        '\u{2018}' | '\u{2019}' => '\'',
        '\u{201c}' | '\u{201d}' => '"',
        other => other,
    }
}
