//! Trying again when the store is out of reach: bounded, and safe because of tokens (contract 3.4, 3.5).

use std::future::Future;
use std::time::Duration;

use semel_core::error::StoreError;

/// How often and how patiently a call is repeated while the store is out of reach.
///
/// Each wait is twice the one before, up to the longest, give or take a fifth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Calls in all, at least one.
    pub attempts: u32,
    /// The first wait.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            attempts: 5,
            first: Duration::from_millis(50),
            longest: Duration::from_secs(1),
        }
    }
}

impl Retry {
    /// One call and no more.
    pub const fn never() -> Self {
        Retry {
            attempts: 1,
            first: Duration::ZERO,
            longest: Duration::ZERO,
        }
    }

    /// Repeats a call while what goes wrong may mend itself. `seed` scatters callers that fail together.
    pub(crate) async fn run<T, F, C>(self, seed: &[u8], mut call: C) -> Result<T, StoreError>
    where
        C: FnMut() -> F,
        F: Future<Output = Result<T, StoreError>>,
    {
        let mut attempt = 1;
        loop {
            match call().await {
                Err(error) if error.is_retryable() && attempt < self.attempts => {
                    tracing::debug!(attempt, %error, "the store is out of reach, trying again");
                    tokio::time::sleep(self.wait(seed, attempt)).await;
                    attempt += 1;
                }
                answer => return answer,
            }
        }
    }

    /// How long to wait after an attempt.
    fn wait(self, seed: &[u8], attempt: u32) -> Duration {
        let doubled = self.first.saturating_mul(1 << (attempt - 1).min(20));
        let base = doubled.min(self.longest);
        base.mul_f64(0.8 + 0.4 * scatter(seed, attempt))
    }
}

/// From 0 to 1, even, and different for those who fail together.
fn scatter(seed: &[u8], attempt: u32) -> f64 {
    let bytes = seed.iter().copied().chain(attempt.to_be_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_are_scattered() {
        let retry = Retry::default();
        for (attempt, base) in [(1, 50), (2, 100), (3, 200), (6, 1_000), (60, 1_000)] {
            let waits: Vec<u128> = (0..100_u8)
                .map(|n| retry.wait(&[n, 7], attempt).as_millis())
                .collect();
            assert!(
                waits
                    .iter()
                    .all(|wait| (base * 8 / 10..=base * 12 / 10).contains(wait))
            );
            assert!(waits.iter().max() > waits.iter().min(), "no jitter at {attempt}");
        }
    }
}
