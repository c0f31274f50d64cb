//! A small seeded generator: the same numbers for the same seed on every platform and release.

use semel_core::ids::Token;
use semel_core::time::Timestamp;

/// SplitMix64.
pub(crate) struct Rng(u64);

impl Rng {
    /// A generator whose numbers are a function of the seed alone.
    pub(crate) fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// Any number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which must not be zero.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("smaller than a bound that is a usize")
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = usize::try_from(high - low + 1).expect("low is not above high");
        low + i64::try_from(self.below(span)).expect("fits, as the span did")
    }

    /// True in `percent` of 100 cases.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    /// True once in `n` cases.
    pub(crate) fn once_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }

    /// One of several.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// One of several, if there are any.
    pub(crate) fn maybe<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        (!of.is_empty()).then(|| self.pick(of))
    }

    /// One of several, each as likely as its weight says.
    pub(crate) fn weighted<T: Copy>(&mut self, of: &[(usize, T)]) -> T {
        let all = of.iter().map(|(weight, _)| weight).sum();
        let mut left = self.below(all);
        for (weight, value) in of {
            if left < *weight {
                return *value;
            }
            left -= weight;
        }
        unreachable!("the weights add up to more than was drawn")
    }

    /// In another order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }

    /// A token that no other draw of this seed gives.
    pub(crate) fn token(&mut self, now: Timestamp) -> Token {
        let mut random = [0u8; 10];
        random[..8].copy_from_slice(&self.next().to_be_bytes());
        random[8..].copy_from_slice(&self.next().to_be_bytes()[..2]);
        Token::from_parts(now.as_millis().unsigned_abs(), &random)
    }
}

/// The seed of a run: from the environment, so that a failure can be had again.
pub(crate) fn seed_from_environment() -> Option<u64> {
    number_from_environment("SEMEL_SEED")
}

/// A number that the environment may set.
pub(crate) fn number_from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} has to be a number, not {text:?}")),
    )
}
