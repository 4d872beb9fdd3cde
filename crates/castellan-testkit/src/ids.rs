//! Ids in a known sequence.

use std::sync::atomic::{AtomicU64, Ordering};

use castellan_core::Ids;
use uuid::Uuid;

/// Version 7 and the RFC variant, with a fixed time; the counter stands in the last 12 digits.
const FIRST: u128 = 0x019b_0000_0000_7000_8000_0000_0000_0000;

/// Valid UUIDs of version 7 that differ only in a counter: `019b0000-0000-7000-8000-000000000001`,
/// then `…002` and so on.
#[derive(Debug)]
pub struct SequentialIds(AtomicU64);

impl SequentialIds {
    /// Ids that count from 1.
    #[must_use]
    pub const fn new() -> Self {
        Self::starting_at(1)
    }

    /// Ids that count from `first`, for a second source in one test.
    #[must_use]
    pub const fn starting_at(first: u64) -> Self {
        Self(AtomicU64::new(first))
    }
}

impl Default for SequentialIds {
    fn default() -> Self {
        Self::new()
    }
}

impl Ids for SequentialIds {
    fn next(&self) -> Uuid {
        Uuid::from_u128(FIRST + u128::from(self.0.fetch_add(1, Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_count_up_and_are_version_7() {
        let ids = SequentialIds::new();
        let (first, second) = (ids.next(), ids.next());
        assert_eq!(first.to_string(), "019b0000-0000-7000-8000-000000000001");
        assert_eq!(second.to_string(), "019b0000-0000-7000-8000-000000000002");
        assert_eq!(second.as_bytes().map(|byte| byte >> 4)[6], 7);
    }
}
