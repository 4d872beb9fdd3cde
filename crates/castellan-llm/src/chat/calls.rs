//! Putting tool calls together from the pieces of a stream.
//!
//! A piece should carry the index of its call, and the first one its id and name. Servers leave out
//! the index, number all calls 0 or from 1, give one id to all calls or none, repeat the name in
//! each piece or cut it, send the object itself for its text, or change their way amid the stream.
//! So the call a piece belongs to is found by what it carries, in this order: index and id, index,
//! id, else the call that was last spoken of; and it starts a new call where that one can't be what
//! it continues.

use std::collections::BTreeSet;

use castellan_core::RawCall;
use serde_json::Value;

use super::fragment::{Extent, Fragment};

/// The calls of one answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Building>,
    /// The call that was spoken of last.
    current: usize,
    /// Names of tools the model was offered, which tell a name from a part of one.
    known: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct Building {
    index: Option<u64>,
    id: Option<String>,
    name: String,
    arguments: String,
    extra: Option<Value>,
    extent: Extent,
}

impl Calls {
    /// No calls yet, by a model that was offered these tools.
    pub(super) fn of_tools<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            known: names.into_iter().map(str::to_owned).collect(),
            ..Self::default()
        }
    }

    /// Whether there are none.
    pub(super) const fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes the pieces of one delta.
    pub(super) fn take(&mut self, fragments: impl IntoIterator<Item = Fragment>) {
        for (place, fragment) in fragments.into_iter().enumerate() {
            if fragment.is_void() {
                continue;
            }
            // Two named entries of one delta, told apart by nothing else, are two calls.
            let is_apart = place > 0
                && fragment.name.is_some()
                && fragment.index.is_none()
                && fragment.id.is_none();
            let target = self.addressed(&fragment).filter(|target| {
                !is_apart
                    && self
                        .calls
                        .get(*target)
                        .is_some_and(|call| !self.starts_anew(call, &fragment))
            });
            match target.and_then(|target| Some((target, self.calls.get_mut(target)?))) {
                Some((target, call)) => {
                    call.merge(&fragment, &self.known);
                    self.current = target;
                }
                None => self.begin(&fragment),
            }
        }
    }

    /// Takes calls each of which is complete in itself.
    pub(super) fn take_whole(&mut self, fragments: impl IntoIterator<Item = Fragment>) {
        for fragment in fragments {
            if !fragment.is_void() {
                self.begin(&fragment);
            }
        }
    }

    fn begin(&mut self, fragment: &Fragment) {
        let mut call = Building::default();
        call.merge(fragment, &self.known);
        self.current = self.calls.len();
        self.calls.push(call);
    }

    /// The call that a fragment names, by whatever it names it.
    fn addressed(&self, fragment: &Fragment) -> Option<usize> {
        let last = |fits: &dyn Fn(&Building) -> bool| self.calls.iter().rposition(fits);
        let at = |place: usize| self.calls.get(place);
        match (fragment.index, fragment.id.as_deref()) {
            (Some(index), Some(id)) => {
                let is_id = |call: &Building| call.id.as_deref() == Some(id);
                last(&|call| call.index == Some(index) && is_id(call))
                    // Its id came late.
                    .or_else(|| {
                        last(&|call| call.index == Some(index))
                            .filter(|place| at(*place).is_some_and(|call| call.id.is_none()))
                    })
                    // Its index came late.
                    .or_else(|| last(&|call| call.index.is_none() && is_id(call)))
            }
            (Some(index), None) => last(&|call| call.index == Some(index)).or_else(|| {
                if fragment.name.is_some() {
                    return None;
                }
                // More of a call that was begun without an index: the one in that place, or the
                // last one.
                usize::try_from(index)
                    .ok()
                    .filter(|place| at(*place).is_some_and(|call| call.index.is_none()))
                    .or_else(|| self.calls.len().checked_sub(1))
            }),
            (None, Some(id)) => last(&|call| call.id.as_deref() == Some(id)).or_else(|| {
                let place = self.calls.len().checked_sub(1)?;
                let call = at(place)?;
                let came_late =
                    call.id.is_none() && call.arguments.is_empty() && fragment.name.is_none();
                came_late.then_some(place)
            }),
            (None, None) => (!self.calls.is_empty()).then_some(self.current),
        }
    }

    /// Whether a fragment addressed to `call` can't continue it.
    fn starts_anew(&self, call: &Building, fragment: &Fragment) -> bool {
        if fragment.name.is_none() && fragment.id.is_none() {
            return false;
        }
        let is_same_id = fragment.id.is_some() && fragment.id == call.id;
        if call.extent.has_ended() {
            let brings = fragment.arguments.trim_start();
            let is_same_name = fragment.name.as_ref().is_none_or(|name| *name == call.name);
            if !brings.is_empty() {
                let is_repeated = brings.trim_end() == call.arguments.trim();
                let continues = is_same_name
                    && is_same_id
                    && (is_repeated || call.is_placeholder() || !brings.starts_with('{'));
                return !continues;
            }
            if fragment.id.is_some() && !is_same_id {
                return true;
            }
        }
        let Some(name) = &fragment.name else {
            return false;
        };
        if call.name.is_empty() || *name == call.name {
            return false;
        }
        if self.known.contains(&format!("{}{name}", call.name)) {
            return false;
        }
        if self.known.contains(name)
            && (self.known.contains(&call.name) || !call.arguments.is_empty())
        {
            return true;
        }
        !call.arguments.trim().is_empty() && !name.starts_with(&call.name)
    }

    /// The calls in the order they were begun. Where the answer was `cut`, a call whose arguments
    /// are no complete JSON is marked as incomplete; where a part was withheld, every call is.
    pub(super) fn finish(self, cut: Cut) -> Vec<RawCall> {
        self.calls
            .into_iter()
            .map(|call| {
                let is_json =
                    serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments).is_ok();
                let complete = match cut {
                    Cut::No => true,
                    // A call without arguments looks like one cut before them.
                    Cut::Unknown => is_json || call.arguments.trim().is_empty(),
                    Cut::Yes => is_json,
                    Cut::Withheld => false,
                };
                RawCall {
                    provider_id: call.id,
                    name: call.name,
                    arguments: call.arguments,
                    complete,
                    from_text: false,
                    extra: call.extra,
                }
            })
            .collect()
    }
}

/// Whether an answer was cut short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// The server says that the model had finished.
    No,
    /// The server did not say.
    Unknown,
    /// The server says that it had not.
    Yes,
    /// The server withheld a part, and nobody knows of what: no call is to be trusted.
    Withheld,
}

impl Building {
    /// Whether the arguments are the empty object that some servers send ahead of the real ones.
    fn is_placeholder(&self) -> bool {
        self.arguments.trim() == "{}"
    }

    fn merge(&mut self, fragment: &Fragment, known: &BTreeSet<String>) {
        self.index = self.index.or(fragment.index);
        if self.id.is_none() {
            self.id.clone_from(&fragment.id);
        }
        if let Some(name) = &fragment.name {
            self.merge_name(name, known);
        }
        if self.extra.is_none() {
            self.extra.clone_from(&fragment.extra);
        }
        let is_repeated = (fragment.name.is_some() || fragment.id.is_some())
            && self.extent.has_ended()
            && fragment.arguments.trim() == self.arguments.trim();
        if is_repeated {
            return;
        }
        if self.is_placeholder() && fragment.arguments.trim_start().starts_with('{') {
            self.arguments.clear();
            self.extent = Extent::default();
        }
        self.arguments.push_str(&fragment.arguments);
        self.extent.feed(&fragment.arguments);
    }

    fn merge_name(&mut self, name: &str, known: &BTreeSet<String>) {
        let joined = format!("{}{name}", self.name);
        let is_whole = self.name.is_empty() || known.contains(&joined);
        if is_whole {
            self.name = joined;
        } else if name == self.name {
            // Repeated.
        } else if name.starts_with(&self.name) {
            // Repeated with more of it.
            name.clone_into(&mut self.name);
        } else {
            self.name = joined;
        }
    }
}

#[cfg(test)]
mod tests;
