//! Chance that follows from a seed: the same seed, the same choices, on every machine.

/// A source of choices.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// The choices of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scattered(self.0)
    }

    /// A number below `bound`; 0 where that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        // Without the bias of a remainder: the high half of a product.
        let product = u128::from(self.bits()) * (bound as u128);
        usize::try_from(product >> 64).unwrap_or(0)
    }

    /// Whether something happens that does so `percent` times in a hundred.
    pub fn happens(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of these; `None` where there are none.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        from.get(self.below(from.len())).copied()
    }
}

/// Bits in which every bit of `number` counts: the finalizer of SplitMix64 (Steele, Lea and Flood
/// 2014).
pub(super) const fn scattered(number: u64) -> u64 {
    let mut bits = number;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_every_choice() {
        let drawn = |seed| {
            let mut chance = Chance::new(seed);
            std::iter::repeat_with(|| chance.below(1000))
                .take(20)
                .collect::<Vec<_>>()
        };
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }

    #[test]
    fn every_choice_is_made_about_as_often() {
        let mut chance = Chance::new(1);
        let mut counts = [0; 5];
        for _ in 0..10_000 {
            counts[chance.below(5)] += 1;
        }
        assert!(
            counts.iter().all(|count| (1800..2200).contains(count)),
            "{counts:?}"
        );
        assert_eq!(chance.below(0), 0);
        assert_eq!(chance.pick::<u8>(&[]), None);
        assert!(!chance.happens(0) && chance.happens(100));
    }
}
