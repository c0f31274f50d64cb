//! Waiting for a change, without a runtime.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::memory::MemoryStore;
use crate::memory::alarm::Bell;
use crate::store::{Interest, Mark};

/// Completes once something of interest has changed since a mark, or when its time is up.
pub(super) struct Changed<'a> {
    store: &'a MemoryStore,
    since: Mark,
    interest: Interest,
    at_most: Duration,
    ticket: u64,
    bell: Option<Bell>,
}

impl<'a> Changed<'a> {
    pub(super) fn new(store: &'a MemoryStore, since: Mark, interest: Interest, at_most: Duration) -> Self {
        let ticket = store.lock().pulse.ticket();
        Changed {
            store,
            since,
            interest,
            at_most,
            ticket,
            bell: None,
        }
    }

    /// Whether the time is up; before that, makes sure to be woken when it is.
    fn is_over(&mut self, context: &Context<'_>) -> bool {
        if self.at_most.is_zero() {
            return true;
        }
        match &self.bell {
            Some(bell) => !self.store.alarm.is_pending(bell, context.waker()),
            None => {
                self.bell = self.store.alarm.set(self.at_most, context.waker());
                self.bell.is_none()
            }
        }
    }
}

impl Future for Changed<'_> {
    type Output = Mark;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Mark> {
        let over = self.is_over(context);
        let mut inner = self.store.lock();
        if over || inner.pulse.has_moved(self.since, &self.interest) {
            return Poll::Ready(inner.pulse.mark());
        }
        inner.pulse.wait(self.ticket, &self.interest, context.waker());
        Poll::Pending
    }
}

impl Drop for Changed<'_> {
    fn drop(&mut self) {
        self.store.lock().pulse.leave(self.ticket);
        if let Some(bell) = &self.bell {
            self.store.alarm.cancel(bell);
        }
    }
}
