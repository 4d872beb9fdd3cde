//! The notations of settings files: reading one into values, and setting one entry in its text
//! without touching the rest.

use std::ops::Range;

use serde_json::{Map, Value};

use super::{in_json, in_toml};

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    Json(Dialect),
    Toml,
}

/// What a client takes beyond JSON proper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Nothing.
    Strict,
    /// Comments.
    Comments,
    /// Comments, and commas behind the last of a list.
    Lenient,
}

/// Why a text can't be read, or not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flaw {
    /// Line and column, from 1 on, where it has a place. Columns are characters.
    pub(super) place: Option<(usize, usize)>,
    pub(super) what: String,
}

impl Flaw {
    /// A flaw at this byte of `text`.
    pub(super) fn at(text: &str, offset: usize, what: impl Into<String>) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before
            .rsplit('\n')
            .next()
            .map_or(0, |last| last.chars().count())
            + 1;
        Self {
            place: Some((line, column)),
            what: what.into(),
        }
    }

    /// A flaw of the whole.
    pub(super) fn of_all(what: impl Into<String>) -> Self {
        Self {
            place: None,
            what: what.into(),
        }
    }
}

/// An entry's place: the key of all servers, and the server's name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) servers: &'static str,
    pub(super) name: &'static str,
}

impl Place {
    /// The entry in these settings.
    pub(super) fn of(self, settings: &Value) -> Option<&Value> {
        settings.get(self.servers)?.get(self.name)
    }

    /// The settings with this entry, or without one.
    fn with(self, mut settings: Value, entry: Option<&Value>) -> Value {
        let servers = settings.as_object_mut().map(|all| {
            all.entry(self.servers)
                .or_insert_with(|| Value::Object(Map::new()))
        });
        if let Some(servers) = servers.and_then(Value::as_object_mut) {
            match entry {
                Some(entry) => servers.insert(self.name.to_owned(), entry.clone()),
                None => servers.shift_remove(self.name),
            };
        }
        settings
    }
}

impl Syntax {
    /// The settings in `text`; an empty one has none. The servers, where there are any, are a group
    /// of settings, and `place` is taken once at most.
    ///
    /// # Errors
    /// Text that its client could not read either, and an odd thing at the place of the servers.
    pub(super) fn read(self, text: &str, place: Place) -> Result<Value, Flaw> {
        match self {
            Self::Json(dialect) => in_json::read(text, dialect, place),
            Self::Toml => in_toml::read(text, place),
        }
    }

    /// `text` with `entry` at its place, in the stead of what is there, or with nothing there.
    /// `settings` are those in `text`. The rest of the text stays as it is; that it does is proved
    /// by reading it again.
    ///
    /// # Errors
    /// A text in which that can't be done.
    pub(super) fn changed(
        self,
        text: &str,
        settings: &Value,
        place: Place,
        entry: Option<&Value>,
    ) -> Result<String, Flaw> {
        let changed = match (self, entry) {
            (Self::Json(dialect), Some(entry)) => in_json::set(text, dialect, place, entry)?,
            (Self::Json(dialect), None) => in_json::remove(text, dialect, place)?,
            (Self::Toml, Some(entry)) => in_toml::set(text, place, entry)?,
            (Self::Toml, None) => in_toml::remove(text, place)?,
        };
        let wanted = place.with(settings.clone(), entry);
        match self.read(&changed, place) {
            Ok(read) if same(&read, &wanted, place) => Ok(changed),
            _ => Err(Flaw::of_all(
                "it is written in a way in which one entry can't be changed alone",
            )),
        }
    }
}

/// Whether the settings are the same, where no servers and an empty group of them are.
fn same(a: &Value, b: &Value, place: Place) -> bool {
    let bare = |settings: &Value| {
        let mut settings = settings.clone();
        let servers = settings.get(place.servers).and_then(Value::as_object);
        if servers.is_some_and(Map::is_empty)
            && let Some(all) = settings.as_object_mut()
        {
            all.shift_remove(place.servers);
        }
        settings
    };
    bare(a) == bare(b)
}

/// The range of `old` behind what both begin with and before what both end with.
pub(super) fn changed_part(old: &[u8], new: &[u8]) -> Range<usize> {
    let same = |(a, b): &(&u8, &u8)| a == b;
    let start = old.iter().zip(new).take_while(same).count();
    let most = old.len().min(new.len()) - start;
    let backwards = old.iter().rev().zip(new.iter().rev());
    let end = backwards.take(most).take_while(same).count();
    start..old.len() - end
}
