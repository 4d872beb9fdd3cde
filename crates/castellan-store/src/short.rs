//! Ids by their beginnings: nobody types 32 digits.

use crate::error::{Error, Result};
use crate::tx::{Tx, Value};

/// What ids of one kind are like.
pub(crate) struct Kind {
    /// The table that has them.
    pub(crate) table: &'static str,
    /// How each begins.
    pub(crate) prefix: &'static str,
    /// How many digits name one at least.
    pub(crate) shortest: usize,
    /// An id of this kind, in words.
    pub(crate) id: &'static str,
    /// What has such an id.
    pub(crate) name: &'static str,
}

/// The beginning of an id.
#[derive(Debug)]
pub(crate) struct Short {
    /// As it was written, but for blanks and capitals.
    pub(crate) text: String,
    /// The whole beginning.
    pub(crate) prefix: String,
}

impl Kind {
    /// Reads an id or the beginning of one, its prefix left out or not.
    ///
    /// # Errors
    /// [`Error::Invalid`] for text that can't be that, or is too short.
    pub(crate) fn read(&self, text: &str) -> Result<Short> {
        let Self {
            prefix,
            shortest,
            id,
            name,
            ..
        } = self;
        let text = text.trim().to_lowercase();
        let digits = text.strip_prefix(prefix).unwrap_or(&text);
        if digits.len() > 32 || !digits.chars().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(Error::invalid(format!(
                "`{text}` is not {id} nor the beginning of one (`{prefix}` and hexadecimal digits)"
            )));
        }
        if digits.len() < *shortest {
            return Err(Error::invalid(format!(
                "`{text}` is too short to name {name}; give at least {shortest} characters after \
                 `{prefix}`"
            )));
        }
        let prefix = format!("{prefix}{digits}");
        Ok(Short { text, prefix })
    }

    /// How many ids begin so.
    pub(crate) fn count(&self, tx: &Tx<'_>, short: &Short) -> Result<u64> {
        let sql = format!(
            "SELECT count(*) FROM {} WHERE id >= $1 AND id < $2",
            self.table
        );
        let total = tx.one(&sql, &short.range(), |row| row.get(0))?;
        Ok(total.unwrap_or(0))
    }
}

impl Short {
    /// The ids that begin so are from the first of these to before the second.
    pub(crate) fn range(&self) -> [Value<'_>; 2] {
        // Behind every hexadecimal digit comes `g`.
        [(&self.prefix).into(), format!("{}g", self.prefix).into()]
    }
}
