//! How long to wait before the next attempt.

use crate::ids::JobId;
use crate::time::Millis;

const FIRST: i64 = 1_000;
const LONGEST: i64 = 3_600_000;

/// min(1 s · 2^(n−1), 1 h) ± 20 %, where n is the attempt that failed.
///
/// The jitter comes from the job and the attempt, so that every store gives the same answer.
pub fn backoff(id: &JobId, attempt: u32) -> Millis {
    let doublings = attempt.saturating_sub(1).min(20);
    let base = (FIRST << doublings).min(LONGEST);
    let spread = base / 5;
    let jitter = i64::try_from(scatter(id, attempt) % (2 * spread as u64 + 1)).unwrap_or(0) - spread;
    Millis::new(base + jitter)
}

/// FNV-1a with a final mix: only has to be even and equal everywhere.
fn scatter(id: &JobId, attempt: u32) -> u64 {
    let bytes = id.as_str().bytes().chain(attempt.to_be_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash ^ (hash >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_an_hour_within_twenty_percent() {
        for attempt in 1..60 {
            let id = JobId::new(format!("job-{attempt}")).expect("an id");
            let base = (1_000i64 << (attempt - 1).min(20)).min(3_600_000);
            let wait = backoff(&id, attempt).as_millis();
            assert!(
                wait >= base * 8 / 10 && wait <= base * 12 / 10,
                "attempt {attempt}: {wait}"
            );
        }
    }

    #[test]
    fn jobs_that_fail_together_do_not_come_back_together() {
        let waits: std::collections::BTreeSet<i64> = (0..1_000)
            .map(|n| backoff(&JobId::new(format!("job-{n}")).expect("an id"), 3).as_millis())
            .collect();
        assert!(waits.len() > 400, "{} distinct waits", waits.len());
        assert!(
            waits
                .last()
                .zip(waits.first())
                .is_some_and(|(last, first)| last - first > 1_400)
        );
    }
}
