//! Telling those who wait that something may have changed: at once in this process, soon in others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use semel_core::store::{Interest, Mark};

use crate::tx::Signals;

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

    /// A commit of this process changed something.
    pub fn signal(&self, signals: Signals) {
        if !signals.work && !signals.ends {
            return;
        }
        self.mark.fetch_add(1, Ordering::AcqRel);
        if signals.work {
            self.work.notify_waiters();
        }
        if signals.ends {
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
            let _ = tokio::time::timeout(at_most, told).await;
        }
        self.mark()
    }
}
