//! How much work to fetch ahead: about what the worker does in a tenth of a second.
//!
//! Fast handlers get large batches; slow ones leave waiting jobs to other workers.

use std::time::Duration;

use semel_core::limits::BATCH;
use tokio::time::Instant;

/// Work for this long is fetched ahead.
const AHEAD: f64 = 0.1;

/// The most that is fetched ahead: one batch to work on while the next is being claimed.
const MOST: usize = 2 * BATCH;

/// A shorter look says too little.
const LOOK: Duration = Duration::from_millis(2);

/// Jobs per second, smoothed.
pub(crate) struct Pace {
    fixed: Option<usize>,
    since: Instant,
    done: u64,
    rate: f64,
}

impl Pace {
    /// A pace that is found out, or `fixed` jobs ahead.
    pub(crate) fn new(fixed: Option<usize>, now: Instant) -> Self {
        Pace {
            fixed,
            since: now,
            done: 0,
            rate: 0.0,
        }
    }

    /// Jobs to fetch ahead, given how many were ever done.
    pub(crate) fn ahead(&mut self, done: u64, now: Instant) -> usize {
        if let Some(fixed) = self.fixed {
            return fixed;
        }
        let passed = now.saturating_duration_since(self.since);
        if passed >= LOOK {
            let rate = (done - self.done) as f64 / passed.as_secs_f64();
            self.rate = (self.rate + rate) / 2.0;
            self.done = done;
            self.since = now;
        }
        ((self.rate * AHEAD) as usize).min(MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn fast_work_is_fetched_ahead_and_slow_work_is_left_to_others() {
        let start = crate::clock::instant();
        let mut fast = Pace::new(None, start);
        let mut slow = Pace::new(None, start);
        let mut ahead = (0, 0);
        for second in 1..=10 {
            let now = start + Duration::from_secs(second);
            ahead = (fast.ahead(second * 100_000, now), slow.ahead(second * 2, now));
        }
        assert_eq!(ahead, (MOST, 0));
        assert_eq!(Pace::new(Some(5), start).ahead(1_000_000, start + LOOK), 5);
    }
}
