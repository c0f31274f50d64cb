//! A timer for a store that has no runtime: one thread, started by the first who needs it.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

/// Longer waits are cut to this; a waiter may always be woken early.
const LONGEST: Duration = Duration::from_secs(24 * 3_600);

/// Wakes those who wait when their time has come. Its thread ends when it is dropped.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    clockwork: Arc<Clockwork>,
}

/// One waiter's alarm: when, and which of those at that moment.
pub(super) type Bell = (Instant, u64);

#[derive(Debug, Default)]
struct Clockwork {
    bells: Mutex<Bells>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Bells {
    waiting: BTreeMap<Bell, Waker>,
    last: u64,
    running: bool,
    stopped: bool,
}

impl Alarm {
    /// Wakes `waker` after `length`. `None`: no thread could be started, so the caller must not wait.
    pub(super) fn set(&self, length: Duration, waker: &Waker) -> Option<Bell> {
        let mut bells = self.clockwork.lock();
        if !bells.running {
            let clockwork = Arc::clone(&self.clockwork);
            thread::Builder::new()
                .name("semel-alarm".into())
                .spawn(move || clockwork.run())
                .ok()?;
            bells.running = true;
        }
        bells.last += 1;
        let bell = (instant() + length.min(LONGEST), bells.last);
        bells.waiting.insert(bell, waker.clone());
        drop(bells);
        self.clockwork.changed.notify_one();
        Some(bell)
    }

    /// Whether the bell has yet to ring; if so it will wake `waker`.
    pub(super) fn is_pending(&self, bell: &Bell, waker: &Waker) -> bool {
        match self.clockwork.lock().waiting.get_mut(bell) {
            Some(stored) => {
                stored.clone_from(waker);
                true
            }
            None => false,
        }
    }

    pub(super) fn cancel(&self, bell: &Bell) {
        self.clockwork.lock().waiting.remove(bell);
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // Not joined: the thread itself may be the one that drops the last handle, from within a waker.
        self.clockwork.lock().stopped = true;
        self.clockwork.changed.notify_one();
    }
}

impl Clockwork {
    fn lock(&self) -> MutexGuard<'_, Bells> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut bells = self.lock();
        while !bells.stopped {
            let now = instant();
            let Some((&(at, _), _)) = bells.waiting.first_key_value() else {
                bells = self.changed.wait(bells).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if at > now {
                let waited = self.changed.wait_timeout(bells, at - now);
                bells = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let due = bells.waiting.pop_first();
            drop(bells);
            due.into_iter().for_each(|(_, waker)| waker.wake());
            bells = self.lock();
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a caller waits is no store time: nothing stored depends on it"
)]
fn instant() -> Instant {
    Instant::now()
}
