//! Telling those who wait that something may have changed: at once in this process, by a message in others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use semel_core::store::{Interest, Mark};

use crate::clock;
use crate::tx::Signals;

/// Who waits for changes.
pub struct Wake {
    mark: AtomicU64,
    work: Notify,
    ends: Notify,
    /// By which this handle knows its own messages.
    handle: String,
}

impl Default for Wake {
    fn default() -> Self {
        Wake {
            mark: AtomicU64::new(0),
            work: Notify::new(),
            ends: Notify::new(),
            handle: format!("{:016x}", clock::random()),
        }
    }
}

impl Wake {
    /// Where the stream of changes stands.
    pub fn mark(&self) -> Mark {
        Mark(self.mark.load(Ordering::Acquire))
    }

    /// What others are told: who says it, and whether there is work or an end.
    pub fn message(&self, signals: Signals) -> String {
        let work = if signals.work { "w" } else { "" };
        let ends = if signals.ends { "e" } else { "" };
        format!("{}{work}{ends}", self.handle)
    }

    /// Somebody said something; what this handle said itself it knows.
    pub fn hear(&self, message: &str) {
        if !message.starts_with(&self.handle) {
            let said = message.get(self.handle.len()..).unwrap_or("we");
            self.signal(Signals {
                work: said.contains('w'),
                ends: said.contains('e'),
            });
        }
    }

    /// Something has changed.
    pub fn signal(&self, signals: Signals) {
        if signals == Signals::default() {
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
