//! Who waits for the writer, and whether a caller looks out for its answer or sleeps until it is woken.
//!
//! To be woken costs a caller a third of what a commit takes. Where one caller has been alone for a while, it looks out
//! for its answer instead, for as long as commits take on this disk. Among many it would take the processor from those
//! who have work: there, everybody sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::clock;

/// Calls that have to be made alone, one after another, before one looks out. Calls of many come alone now and then.
const ALONE: u32 = 16;
/// Moments between two looks.
const PAUSE: usize = 24;
/// Looks after which others may have the processor, and the time is read.
const ROUND: usize = 8;
/// If a commit takes longer, a caller sleeps: being woken is little in comparison.
const LONG_COMMIT: Duration = Duration::from_micros(400);

/// Who waits for an answer, and how long that takes.
pub struct Callers {
    waiting: AtomicUsize,
    /// Calls that were made alone, one after another, as far as it matters.
    alone: AtomicU32,
    /// Microseconds of a commit, the newest counting most; zero before the first.
    commit: AtomicU64,
    /// With one processor the writer could not work meanwhile.
    can_look: bool,
}

impl Default for Callers {
    fn default() -> Self {
        let processors = std::thread::available_parallelism();
        Callers {
            waiting: AtomicUsize::new(0),
            alone: AtomicU32::new(0),
            commit: AtomicU64::new(0),
            can_look: processors.is_ok_and(|processors| processors.get() > 1),
        }
    }
}

impl Callers {
    /// Counts a caller in, as long as what it gets is kept.
    pub fn enter(self: &Arc<Self>) -> Waits {
        let others = self.waiting.fetch_add(1, Ordering::Relaxed);
        let alone = self.alone.load(Ordering::Relaxed);
        let alone = if others > 0 { 0 } else { (alone + 1).min(ALONE) };
        self.alone.store(alone, Ordering::Relaxed);
        Waits(self.clone())
    }

    /// Tells how long a commit took. The writer alone does, so nothing is lost between reading and writing.
    pub fn learn(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        let before = match self.commit.load(Ordering::Relaxed) {
            0 => took,
            before => before,
        };
        self.commit
            .store(before - before / 4 + took / 4, Ordering::Relaxed);
    }

    /// Waits without sleeping for something that is about to be there, where that is worth it.
    pub fn look_out(&self, mut is_there: impl FnMut() -> bool) {
        let Some(at_most) = self.worth_looking() else {
            return;
        };
        let begun = clock::instant();
        while self.is_one() && !looks(&mut is_there) && lasted(begun) < at_most {
            std::thread::yield_now();
        }
    }

    /// How long to look out: some commits take twice as long as others.
    fn worth_looking(&self) -> Option<Duration> {
        let commit = Duration::from_micros(self.commit.load(Ordering::Relaxed));
        let is_alone = self.alone.load(Ordering::Relaxed) >= ALONE;
        (self.can_look && is_alone && commit <= LONG_COMMIT).then_some(commit * 2)
    }

    fn is_one(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 1
    }
}

fn looks(is_there: &mut impl FnMut() -> bool) -> bool {
    for _ in 0..ROUND {
        if is_there() {
            return true;
        }
        (0..PAUSE).for_each(|_| std::hint::spin_loop());
    }
    false
}

fn lasted(begun: Instant) -> Duration {
    clock::instant().duration_since(begun)
}

/// One who waits.
pub struct Waits(Arc<Callers>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn callers() -> Arc<Callers> {
        Arc::new(Callers {
            can_look: true,
            ..Callers::default()
        })
    }

    fn call_alone(callers: &Arc<Callers>, times: u32) {
        (0..times).for_each(|_| drop(callers.enter()));
    }

    #[test]
    fn one_who_has_been_alone_for_a_while_looks_out_for_twice_a_commit() {
        let callers = callers();
        callers.learn(Duration::from_micros(100));
        call_alone(&callers, ALONE - 1);
        assert_eq!(callers.worth_looking(), None);
        let _waits = callers.enter();
        assert_eq!(callers.worth_looking(), Some(Duration::from_micros(200)));
    }

    #[test]
    fn a_second_caller_makes_all_of_them_sleep() {
        let callers = callers();
        callers.learn(Duration::from_micros(100));
        call_alone(&callers, ALONE);
        let (_one, _other) = (callers.enter(), callers.enter());
        assert_eq!(callers.worth_looking(), None);
    }

    #[test]
    fn nobody_looks_out_for_a_slow_disk() {
        let callers = callers();
        call_alone(&callers, ALONE);
        (0..20).for_each(|_| callers.learn(Duration::from_millis(5)));
        assert_eq!(callers.worth_looking(), None);
        (0..50).for_each(|_| callers.learn(Duration::from_micros(80)));
        assert!(callers.worth_looking().is_some());
    }

    #[test]
    fn looking_out_ends_with_the_answer_or_with_the_time() {
        let callers = callers();
        callers.learn(Duration::from_micros(200));
        call_alone(&callers, ALONE);
        let _waits = callers.enter();
        let mut left = 20;
        callers.look_out(|| {
            left -= 1;
            left == 0
        });
        assert_eq!(left, 0);
        let begun = clock::instant();
        callers.look_out(|| false);
        assert!(lasted(begun) >= Duration::from_micros(400));
    }
}
