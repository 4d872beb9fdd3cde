//! The vault: marked secrets by their handles, for the lifetime of the process.
//!
//! Whatever is recorded or shown to a model holds a handle in place of a marked value. A call that
//! brings a handle back gets the value. After a restart the handles of an old session are unknown,
//! and a call that uses one is told so.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use castellan_core::CallId;
use castellan_core::secret::{handle, is_handle};
use serde_json::{Map, Value};

/// How many secrets are remembered; the oldest are forgotten first, which is said to whoever uses
/// their handles.
const REMEMBERED: usize = 10_000;

/// Secrets by handle.
#[derive(Default)]
pub(crate) struct Vault(Mutex<Inside>);

#[derive(Default)]
struct Inside {
    values: HashMap<String, Value>,
    order: VecDeque<String>,
}

impl Vault {
    /// Puts handles in the places of marked values that are none yet; whether there were any.
    pub(crate) fn conceal(
        &self,
        call_id: CallId,
        object: &mut Map<String, Value>,
        marked: &[String],
    ) -> bool {
        let mut any = false;
        for name in marked {
            let Some(value) = object.get_mut(name) else {
                continue;
            };
            if value.is_null() || value.as_str().is_some_and(is_handle) {
                continue;
            }
            let handle = handle(call_id, name);
            self.put(
                handle.clone(),
                std::mem::replace(value, Value::String(handle)),
            );
            any = true;
        }
        any
    }

    /// Puts values in the places of their handles.
    ///
    /// # Errors
    /// The name of a parameter whose handle is not known here.
    pub(crate) fn reveal<'a>(
        &self,
        object: &mut Map<String, Value>,
        marked: &'a [String],
    ) -> Result<(), &'a str> {
        let inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for name in marked {
            let Some(value) = object.get_mut(name) else {
                continue;
            };
            let Some(handle) = value.as_str().filter(|text| is_handle(text)) else {
                continue;
            };
            *value = inside.values.get(handle).ok_or(name.as_str())?.clone();
        }
        drop(inside);
        Ok(())
    }

    fn put(&self, handle: String, value: Value) {
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inside.values.insert(handle.clone(), value).is_none() {
            inside.order.push_back(handle);
        }
        if inside.order.len() > REMEMBERED
            && let Some(oldest) = inside.order.pop_front()
        {
            inside.values.remove(&oldest);
        }
    }
}
