//! Dying at every moment that matters, one after the other.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use semel_core::error::StoreError;
use tokio::sync::Notify;

use crate::testing::intercept::{Call, Intercept};

/// All the moments at which a worker can die while it works, one per turn: the loop ends after a turn in which
/// nobody died.
///
/// A moment is before and after each write of a handler (a step, a submission), and before its settlement.
pub fn deaths() -> Deaths {
    Deaths { next: 0, last: None }
}

/// See [`deaths`].
#[derive(Debug)]
pub struct Deaths {
    next: usize,
    last: Option<Death>,
}

impl Iterator for Deaths {
    type Item = Death;

    fn next(&mut self) -> Option<Death> {
        if self.last.as_ref().is_some_and(|death| !death.has_come()) {
            return None;
        }
        let death = Death::at(self.next);
        self.next += 1;
        self.last = Some(death.clone());
        Some(death)
    }
}

/// One moment to die at: the `n`-th of a run, counted from 0. It comes once.
#[derive(Clone)]
pub struct Death {
    n: usize,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    bell: Notify,
}

#[derive(Default)]
struct State {
    moments: usize,
    /// Only what a handler does is dangerous.
    working: bool,
    came: Option<String>,
    /// It came, and nobody has been buried yet.
    fresh: bool,
}

impl Death {
    /// At the `n`-th moment, counted from 0.
    pub fn at(n: usize) -> Self {
        Death {
            n,
            shared: Arc::default(),
        }
    }

    /// Never.
    pub(crate) fn never() -> Self {
        Death::at(usize::MAX)
    }

    /// Whether it came.
    pub fn has_come(&self) -> bool {
        self.state().came.is_some()
    }

    pub(crate) fn working(&self, working: bool) {
        self.state().working = working;
    }

    /// A moment passes; `true`: it was the last one.
    pub(crate) fn moment(&self, what: impl FnOnce() -> String) -> bool {
        let mut state = self.state();
        if !state.working {
            return false;
        }
        let is_it = state.moments == self.n;
        state.moments += 1;
        if is_it {
            state.came = Some(what());
            state.fresh = true;
            drop(state);
            self.shared.bell.notify_one();
        }
        is_it
    }

    /// Completes when death comes.
    pub(crate) async fn comes(&self) {
        loop {
            self.shared.bell.notified().await;
            if std::mem::take(&mut self.state().fresh) {
                return;
            }
        }
    }

    async fn pass(&self, when: &str, call: &Call) {
        if self.moment(|| format!("{when} {call}")) {
            // Whoever waits for this is about to be dropped.
            std::future::pending::<()>().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Intercept for Death {
    async fn before(&self, call: &Call) -> Result<(), StoreError> {
        self.pass("before", call).await;
        Ok(())
    }

    async fn after(&self, call: &Call) -> Result<(), StoreError> {
        self.pass("after", call).await;
        Ok(())
    }
}

impl fmt::Display for Death {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state().came {
            Some(came) => write!(formatter, "killed {came} (moment {})", self.n),
            None => write!(formatter, "not killed (moment {} never came)", self.n),
        }
    }
}

impl fmt::Debug for Death {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}
