//! Waiting a little differently each time, so that workers do not move in step.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// The first wait after trouble with the store.
const FIRST: Duration = Duration::from_millis(50);
/// The longest.
const LONGEST: Duration = Duration::from_secs(5);

/// A length within a quarter of the given one.
pub(crate) fn about(length: Duration) -> Duration {
    length.mul_f64(0.75 + 0.5 * fraction())
}

/// Four random hexadecimal digits.
pub(crate) fn suffix() -> String {
    format!("{:04x}", random() & 0xffff)
}

/// Waits that double as long as there is trouble.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    times: u32,
}

impl Trouble {
    /// Once more; how long to wait.
    pub(crate) fn again(&mut self) -> Duration {
        let wait = FIRST.saturating_mul(1 << self.times.min(10)).min(LONGEST);
        self.times += 1;
        about(wait)
    }

    /// Whether this is the first time, worth telling loudly.
    pub(crate) fn is_first(&self) -> bool {
        self.times == 0
    }

    /// It is over.
    pub(crate) fn over(&mut self) {
        self.times = 0;
    }
}

fn fraction() -> f64 {
    (random() >> 11) as f64 / (1u64 << 53) as f64
}

/// The standard library seeds its hash maps randomly; that is random enough for waiting.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_differ() {
        let mut trouble = Trouble::default();
        let waits: Vec<Duration> = (0..12).map(|_| trouble.again()).collect();
        assert!(waits[0] < Duration::from_millis(63) && waits[11] > Duration::from_secs(3));
        assert!(waits.iter().all(|wait| *wait <= LONGEST.mul_f64(1.25)));
        trouble.over();
        assert!(trouble.is_first());
        assert_ne!(about(LONGEST), about(LONGEST));
    }
}
