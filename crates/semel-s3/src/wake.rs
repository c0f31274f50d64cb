//! Telling those who wait in this process that something has changed. Who waits for another process looks again
//! after a second: a bucket tells nobody anything.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_core::store::{Interest, Mark};
use tokio::sync::Notify;

/// How long one who waits does not look again.
pub const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Who waits for changes.
#[derive(Default)]
pub struct Wake {
    mark: AtomicU64,
    work: Notify,
    ends: Notify,
}

impl Wake {
    /// Where the stream of changes stands.
    pub fn mark(&self) -> Mark {
        Mark(self.mark.load(Ordering::Acquire))
    }

    /// There may be work, or a job has ended.
    pub fn signal(&self, work: bool, ends: bool) {
        if !work && !ends {
            return;
        }
        self.mark.fetch_add(1, Ordering::AcqRel);
        if work {
            self.work.notify_waiters();
        }
        if ends {
            self.ends.notify_waiters();
        }
    }

    /// Waits for a signal, at most so long. Returns at once if there was one since `since`.
    pub async fn wait(&self, since: Mark, interest: &Interest, at_most: Duration) -> Mark {
        let notify = match interest {
            Interest::Work { .. } => &self.work,
            Interest::Ends => &self.ends,
        };
        let told = notify.notified();
        tokio::pin!(told);
        // Registered before the mark is read, or a signal in between would be lost.
        told.as_mut().enable();
        if self.mark() == since {
            let _ = tokio::time::timeout(at_most.min(LOOK_AGAIN), told).await;
        }
        self.mark()
    }
}
