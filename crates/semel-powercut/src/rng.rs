//! A tiny seeded generator, so that an image is a function of its seed alone.

/// SplitMix64: the same numbers for the same seed on every platform and release.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// True in `numerator` of 32 cases.
    pub(crate) fn chance(&mut self, numerator: u64) -> bool {
        self.next() % 32 < numerator
    }
}
