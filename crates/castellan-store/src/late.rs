//! A store that is opened after what uses it was built: the catalog of tools is made without
//! touching the disk, and its tools find the store once there is one.

use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};
use crate::store::Store;
use crate::tx::Tx;

/// The place of a store. Clones are the same place.
#[derive(Debug, Clone, Default)]
pub struct LateStore(Arc<OnceLock<Store>>);

impl LateStore {
    /// A place that is filled.
    #[must_use]
    pub fn of(store: Store) -> Self {
        let place = Self::default();
        place.fill(store);
        place
    }

    /// Fills it; the first store counts.
    pub fn fill(&self, store: Store) {
        self.0.get_or_init(|| store);
    }

    /// The store.
    ///
    /// # Errors
    /// [`Error::Closed`] where there is none.
    pub fn get(&self) -> Result<&Store> {
        self.0.get().ok_or(Error::Closed)
    }

    /// As [`Store::write`].
    ///
    /// # Errors
    /// As [`Store::write`], and [`Error::Closed`] where there is no store.
    pub async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&Tx<'_>) -> Result<T> + Send + 'static,
    {
        self.get()?.write(work).await
    }

    /// As [`Store::glance`].
    ///
    /// # Errors
    /// As [`Store::read`], and [`Error::Closed`] where there is no store.
    pub async fn glance<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&Tx<'_>) -> Result<T> + Send + 'static,
    {
        self.get()?.glance(work).await
    }

    /// As [`Store::read`].
    ///
    /// # Errors
    /// As [`Store::read`], and [`Error::Closed`] where there is no store.
    pub async fn read<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&Tx<'_>) -> Result<T> + Send + 'static,
    {
        self.get()?.read(work).await
    }
}
