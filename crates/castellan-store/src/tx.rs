//! The small surface every query is written against, whatever database is underneath.
//!
//! SQL text is the same everywhere: parameters are `$1` to `$n`, times are integers (UTC
//! milliseconds), ids are text. A backend rewrites what its database spells otherwise.

use std::borrow::Cow;

use castellan_core::Timestamp;

use crate::error::{Error, Result};
use crate::sqlite;

/// A running transaction. What a job does through it is committed with the job or not at all.
#[derive(Debug)]
pub struct Tx<'a> {
    backend: Backend<'a>,
}

#[derive(Debug)]
enum Backend<'a> {
    Sqlite(&'a sqlite::Connection),
}

impl<'a> Tx<'a> {
    pub(crate) const fn sqlite(connection: &'a sqlite::Connection) -> Self {
        Self {
            backend: Backend::Sqlite(connection),
        }
    }

    /// Runs a statement that returns no rows; how many rows it changed.
    ///
    /// # Errors
    /// Whatever the database refused, by kind; [`Error::Invalid`] for text that contains NUL.
    pub fn execute(&self, sql: &str, params: &[Value<'_>]) -> Result<u64> {
        checked(params)?;
        match &self.backend {
            Backend::Sqlite(connection) => connection.execute(sql, params),
        }
    }

    /// Every row of a query, each made into a `T`.
    ///
    /// # Errors
    /// As [`Self::execute`], and the first error of `map`.
    pub fn query<T>(
        &self,
        sql: &str,
        params: &[Value<'_>],
        mut map: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut rows = Vec::new();
        self.each(sql, params, |row| {
            rows.push(map(row)?);
            Ok(true)
        })?;
        Ok(rows)
    }

    /// The first row of a query, if it has any.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub fn one<T>(
        &self,
        sql: &str,
        params: &[Value<'_>],
        mut map: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut found = None;
        self.each(sql, params, |row| {
            found = Some(map(row)?);
            Ok(false)
        })?;
        Ok(found)
    }

    /// Shows `see` each row until it answers false.
    fn each(
        &self,
        sql: &str,
        params: &[Value<'_>],
        mut see: impl FnMut(&Row<'_>) -> Result<bool>,
    ) -> Result<()> {
        checked(params)?;
        match &self.backend {
            Backend::Sqlite(connection) => connection.each(sql, params, &mut see),
        }
    }
}

/// Text with NUL is refused here rather than by the one database that can't store it.
fn checked(params: &[Value<'_>]) -> Result<()> {
    for (index, value) in params.iter().enumerate() {
        if matches!(value, Value::Text(text) if text.contains('\0')) {
            return Err(Error::invalid(format!(
                "the text for parameter ${} contains a NUL character, which is never stored",
                index + 1
            )));
        }
    }
    Ok(())
}

/// A parameter of a statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// No value.
    Null,
    /// True or false; SQLite stores 1 or 0.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A floating point number.
    Real(f64),
    /// Text without NUL.
    Text(Cow<'a, str>),
    /// Bytes.
    Blob(Cow<'a, [u8]>),
}

impl Value<'_> {
    /// A count or sequence number.
    ///
    /// # Errors
    /// [`Error::Invalid`] past `i64::MAX`, which no database stores.
    pub fn unsigned(number: u64) -> Result<Self> {
        i64::try_from(number)
            .map(Value::Integer)
            .map_err(|_too_large| {
                Error::invalid(format!("the number {number} is too large to store"))
            })
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<u32> for Value<'_> {
    fn from(value: u32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<f64> for Value<'_> {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl From<Timestamp> for Value<'_> {
    fn from(value: Timestamp) -> Self {
        Self::Integer(value.0)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(Cow::Borrowed(value))
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(value: &'a String) -> Self {
        Self::Text(Cow::Borrowed(value))
    }
}

impl From<String> for Value<'_> {
    fn from(value: String) -> Self {
        Self::Text(Cow::Owned(value))
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(value: &'a [u8]) -> Self {
        Self::Blob(Cow::Borrowed(value))
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Value<'a> {
    fn from(value: &'a [u8; N]) -> Self {
        Self::Blob(Cow::Borrowed(value))
    }
}

impl From<Vec<u8>> for Value<'_> {
    fn from(value: Vec<u8>) -> Self {
        Self::Blob(Cow::Owned(value))
    }
}

impl<'a, T: Into<Self>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

/// A row of a result, alive only while it is looked at.
#[derive(Debug)]
pub struct Row<'a> {
    backend: RowBackend<'a>,
}

#[derive(Debug)]
enum RowBackend<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
}

impl<'a> Row<'a> {
    pub(crate) const fn sqlite(row: &'a rusqlite::Row<'a>) -> Self {
        Self {
            backend: RowBackend::Sqlite(row),
        }
    }

    /// The value in column `index`, from 0.
    ///
    /// # Errors
    /// [`Error::DamagedRow`] where it is of another type than `T` or there is no such column.
    pub fn get<T: Column>(&self, index: usize) -> Result<T> {
        let cell = self.cell(index)?;
        T::from_cell(&cell).ok_or_else(|| wrong_type(index, &cell, T::EXPECTED))
    }

    /// The text in column `index`, without a copy.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn text(&self, index: usize) -> Result<&str> {
        match self.cell(index)? {
            Cell::Text(text) => Ok(text),
            cell @ (Cell::Null | Cell::Integer(_) | Cell::Real(_) | Cell::Blob(_)) => {
                Err(wrong_type(index, &cell, "text"))
            }
        }
    }

    fn cell(&self, index: usize) -> Result<Cell<'_>> {
        match &self.backend {
            RowBackend::Sqlite(row) => sqlite::cell(row, index),
        }
    }
}

fn wrong_type(index: usize, cell: &Cell<'_>, expected: &str) -> Error {
    Error::DamagedRow {
        what: format!("column {index} of a row"),
        why: format!("found {}, expected {expected}", cell.type_name()),
    }
}

/// A value as it stands in a row.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Cell<'a> {
    /// No value.
    Null,
    /// A whole number.
    Integer(i64),
    /// A floating point number.
    Real(f64),
    /// Text.
    Text(&'a str),
    /// Bytes.
    Blob(&'a [u8]),
}

impl Cell<'_> {
    const fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "no value",
            Self::Integer(_) => "a whole number",
            Self::Real(_) => "a floating point number",
            Self::Text(_) => "text",
            Self::Blob(_) => "bytes",
        }
    }
}

/// A type that a column can be read as.
pub trait Column: Sized {
    /// What the column should have held, for the error.
    const EXPECTED: &'static str;

    /// The value, or `None` where the cell holds something else.
    fn from_cell(cell: &Cell<'_>) -> Option<Self>;
}

macro_rules! column {
    ($type:ty, $expected:literal, $pattern:pat => $value:expr) => {
        impl Column for $type {
            const EXPECTED: &'static str = $expected;

            fn from_cell(cell: &Cell<'_>) -> Option<Self> {
                if let $pattern = *cell { $value } else { None }
            }
        }
    };
}

column!(i64, "a whole number", Cell::Integer(n) => Some(n));
column!(u64, "a whole number from 0", Cell::Integer(n) => Self::try_from(n).ok());
column!(u32, "a whole number from 0", Cell::Integer(n) => Self::try_from(n).ok());
column!(bool, "true or false", Cell::Integer(n @ (0 | 1)) => Some(n == 1));
column!(f64, "a floating point number", Cell::Real(x) => Some(x));
column!(String, "text", Cell::Text(text) => Some(text.to_owned()));
column!(Vec<u8>, "bytes", Cell::Blob(bytes) => Some(bytes.to_vec()));
column!([u8; 32], "32 bytes", Cell::Blob(bytes) => bytes.try_into().ok());
column!(Timestamp, "a time", Cell::Integer(n) => Some(Self(n)));

impl<T: Column> Column for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn from_cell(cell: &Cell<'_>) -> Option<Self> {
        if matches!(cell, Cell::Null) {
            Some(None)
        } else {
            T::from_cell(cell).map(Some)
        }
    }
}
