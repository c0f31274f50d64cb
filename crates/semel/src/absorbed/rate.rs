//! How many of a queue's submissions are absorbed, as this process sees it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use semel_core::ids::Name;
use semel_core::job::Outcome;
use semel_core::time::{Millis, Timestamp};

/// Counted over so long.
const WINDOW: Millis = Millis::from_secs(60);
/// Fewer submissions say nothing.
const ENOUGH: u64 = 100;
/// More than this share is worth a warning.
const THRESHOLD: f64 = 0.5;

/// Counts per queue; warns once in a window of a rate that is high.
#[derive(Default)]
pub(crate) struct Rates(Mutex<HashMap<Name, Window>>);

#[derive(Default)]
struct Window {
    since: Timestamp,
    accepted: u64,
    absorbed: u64,
    warned: bool,
}

impl Rates {
    pub(super) fn count(&self, queue: &Name, outcome: Option<Outcome>, now: Timestamp) {
        if let Some(rate) = self.high(queue, outcome, now) {
            tracing::warn!(
                queue = %queue,
                hit_rate = rate,
                threshold = THRESHOLD,
                suggestion = "a producer may be repeating itself: the ledger of the busiest key names it",
                "high duplicate rate detected"
            );
        }
    }

    /// The rate, if it has just become worth a warning.
    fn high(&self, queue: &Name, outcome: Option<Outcome>, now: Timestamp) -> Option<f64> {
        let absorbed = match outcome? {
            Outcome::Accepted => 0,
            Outcome::Conflict | Outcome::Spooled => return None,
            _ => 1,
        };
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !queues.contains_key(queue) {
            queues.insert(queue.clone(), Window::default());
        }
        let window = queues.get_mut(queue)?;
        if now.since(window.since) >= WINDOW {
            *window = Window {
                since: now,
                ..Window::default()
            };
        }
        window.absorbed += absorbed;
        window.accepted += 1 - absorbed;
        let all = window.accepted + window.absorbed;
        let rate = window.absorbed as f64 / all as f64;
        let worth = all >= ENOUGH && rate > THRESHOLD && !window.warned;
        window.warned |= worth;
        worth.then_some(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_high_rate_is_said_once_in_a_minute_and_a_low_one_never() {
        let rates = Rates::default();
        let queue = Name::new("mail").expect("a name");
        let start = Timestamp::from_millis(1_800_000_000_000);
        let count = |outcome, times: usize, at: Timestamp| {
            let said = (0..times).filter_map(|_| rates.high(&queue, Some(outcome), at));
            said.count()
        };
        assert_eq!(count(Outcome::Accepted, 60, start), 0);
        assert_eq!(count(Outcome::Duplicate, 60, start), 0);
        let said = count(Outcome::Rejected, 60, start);
        assert_eq!(said, 1, "once, as more than half were absorbed");
        assert_eq!(count(Outcome::Duplicate, 99, start.plus(WINDOW)), 0);
        assert_eq!(count(Outcome::Duplicate, 99, start.plus(WINDOW)), 1);
    }
}
