//! Policies under the names people ask for.

use crate::dedup::{Dedup, Hold, KeySource, OnDuplicate, Period, Scope};
use crate::time::Millis;

impl Dedup {
    /// The key of an HTTP-like idempotent call: kept 30 days, another input is a conflict.
    pub fn idempotency_key(text: impl Into<String>) -> Self {
        Dedup::explicit(text).hold(Hold::window(Hold::DEFAULT_WINDOW))
    }

    /// One job per task and input at a time.
    pub fn unique() -> Self {
        Dedup::by(KeySource::Input)
    }

    /// [`Dedup::unique`], letting another in after `ttl` if the first is still waiting.
    pub fn unique_for(ttl: Millis) -> Self {
        Dedup::unique().hold(Hold::until_finished().ttl(ttl))
    }

    /// One job per task, input and calendar period.
    pub fn once_per(period: Period) -> Self {
        let window = Hold::window(period.longest());
        Dedup::by(KeySource::Input).period(period).hold(window)
    }

    /// While a job with this key is active, another is rejected.
    pub fn exclusive(text: impl Into<String>) -> Self {
        Dedup::explicit(text).on_duplicate(OnDuplicate::Reject)
    }

    /// The newest submission wins, and runs after the one that is running.
    #[must_use]
    pub fn latest(mut self) -> Self {
        self.hold = Hold::until_finished();
        self.on_duplicate = OnDuplicate::Latest;
        self
    }

    /// Starts when things have been quiet for `delay`, at the latest `max_wait` after the first submission.
    #[must_use]
    pub fn debounce(mut self, delay: Millis, max_wait: Option<Millis>) -> Self {
        self.hold = Hold::until_started();
        self.on_duplicate = OnDuplicate::Debounce { delay, max_wait };
        self
    }
}

impl Dedup {
    /// What a queue that was declared unique gives to submissions that say nothing (contract 2.15).
    pub fn of_unique_queue() -> Self {
        Dedup::by(KeySource::Input)
            .scope(Scope::Queue)
            .hold(Hold::until_started())
    }
}
