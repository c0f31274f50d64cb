//! The policy a producer writes, as one sentence: mistakes in it are said when it is used.

use std::time::Duration;

use semel_core::dedup::{self as core, KeySource, Mode, OnDuplicate, OnMismatch, Period, ReleaseOn, Scope};
use semel_core::error::Invalid;
use semel_core::time::Millis;

/// What makes two submissions the same, where, for how long, and what then (contract 2).
///
/// ```
/// use semel::{Dedup, Hold, OnDuplicate, Scope, days};
///
/// let policy = Dedup::fields(["/day"])
///     .scope(Scope::Global)
///     .hold(Hold::window(days(1)))
///     .on_duplicate(OnDuplicate::Reject);
/// assert!(policy.build().is_ok());
///
/// let refused = Dedup::fields(["day"]).build().unwrap_err();
/// assert!(refused.to_string().contains("pointer"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dedup(Result<core::Dedup, Invalid>);

impl Dedup {
    /// By a text: 1 to 255 bytes.
    pub fn explicit(text: impl Into<String>) -> Self {
        Dedup(Ok(core::Dedup::explicit(text)))
    }

    /// By the whole input.
    pub fn input() -> Self {
        Dedup(Ok(core::Dedup::by(KeySource::Input)))
    }

    /// By the input at these JSON pointers.
    pub fn fields<P: AsRef<str>>(pointers: impl IntoIterator<Item = P>) -> Self {
        Dedup(core::Dedup::fields(pointers))
    }

    /// By the input without these JSON pointers.
    pub fn except<P: AsRef<str>>(pointers: impl IntoIterator<Item = P>) -> Self {
        Dedup(core::Dedup::except(pointers))
    }

    /// By fields, telling another input apart as a collision.
    pub fn hybrid<P: AsRef<str>>(pointers: impl IntoIterator<Item = P>) -> Self {
        Dedup(core::Dedup::hybrid(pointers))
    }

    /// A fresh identity per submission: protects the producer's own retries, nothing else.
    pub fn generated() -> Self {
        Dedup(Ok(core::Dedup::by(KeySource::Generated)))
    }

    /// Sets where the key must be unique.
    #[must_use]
    pub fn scope(self, scope: Scope) -> Self {
        self.map(|policy| policy.scope(scope))
    }

    /// Sets how long the key stays taken.
    #[must_use]
    pub fn hold(self, hold: impl Into<Hold>) -> Self {
        let hold = hold.into();
        self.map(|policy| policy.hold(hold.0))
    }

    /// Sets what happens when the key is taken.
    #[must_use]
    pub fn on_duplicate(self, on_duplicate: OnDuplicate) -> Self {
        self.map(|policy| policy.on_duplicate(on_duplicate))
    }

    /// Sets what happens when an explicit key comes back with another input or task.
    #[must_use]
    pub fn on_mismatch(self, on_mismatch: OnMismatch) -> Self {
        self.map(|policy| policy.on_mismatch(on_mismatch))
    }

    /// Adds a calendar period to the key, and keeps the key for as long as that lasts.
    #[must_use]
    pub fn once_per(self, period: impl Into<Period>) -> Self {
        let period = period.into();
        self.map(|policy| {
            let window = core::Hold::window(period.longest());
            policy.period(period).hold(window)
        })
    }

    /// Adds a calendar period to the key, and nothing else.
    #[must_use]
    pub fn period(self, period: impl Into<Period>) -> Self {
        let period = period.into();
        self.map(|policy| policy.period(period))
    }

    /// The newest submission wins, and runs after the one that is running.
    #[must_use]
    pub fn latest(self) -> Self {
        self.map(core::Dedup::latest)
    }

    /// Starts when things have been quiet for `delay`, at the latest `max_wait` after the first submission.
    #[must_use]
    pub fn debounce(self, delay: Duration, max_wait: impl Into<Option<Duration>>) -> Self {
        let max_wait = max_wait.into().map(Millis::from);
        self.map(|policy| policy.debounce(delay.into(), max_wait))
    }

    /// Lets named headers enter the key.
    #[must_use]
    pub fn with_headers<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        self.map(|policy| policy.with_headers(names))
    }

    /// Lets named members of the metadata enter the key.
    #[must_use]
    pub fn with_meta<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        self.map(|policy| policy.with_meta(names))
    }

    /// Watches instead of acting (contract 2.13).
    #[must_use]
    pub fn observe(self) -> Self {
        self.map(core::Dedup::observe)
    }

    /// The policy, if it makes sense (contract 2.17).
    pub fn build(self) -> Result<core::Dedup, Invalid> {
        let policy = self.0?;
        policy.check()?;
        Ok(policy)
    }

    /// Whether it only watches.
    pub fn is_observing(&self) -> bool {
        self.0.as_ref().is_ok_and(|policy| policy.mode == Mode::Observe)
    }

    fn map(self, change: impl FnOnce(core::Dedup) -> core::Dedup) -> Self {
        Dedup(self.0.map(change))
    }
}

impl Default for Dedup {
    fn default() -> Self {
        Dedup::input()
    }
}

impl From<core::Dedup> for Dedup {
    fn from(policy: core::Dedup) -> Self {
        Dedup(Ok(policy))
    }
}

/// How long a key stays taken (contract 2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold(core::Hold);

impl Hold {
    /// Freed at the first lease.
    pub const fn until_started() -> Self {
        Hold(core::Hold::until_started())
    }

    /// Freed when the job ends.
    pub const fn until_finished() -> Self {
        Hold(core::Hold::until_finished())
    }

    /// Kept for `ttl` from the submission, and at least until the job has ended.
    pub const fn window(ttl: Duration) -> Self {
        Hold(core::Hold::window(whole(ttl)))
    }

    /// Kept until released by hand.
    pub const fn forever() -> Self {
        Hold(core::Hold::forever())
    }

    /// Bounds the hold in time.
    #[must_use]
    pub const fn ttl(self, ttl: Duration) -> Self {
        Hold(self.0.ttl(whole(ttl)))
    }

    /// Keeps the key for a while after the job has ended.
    #[must_use]
    pub const fn cool_down(self, cool_down: Duration) -> Self {
        Hold(self.0.cool_down(whole(cool_down)))
    }

    /// Frees a kept key when the job fails or is cancelled.
    #[must_use]
    pub const fn release_on(self, release_on: ReleaseOn) -> Self {
        Hold(self.0.release_on(release_on))
    }
}

impl From<core::Hold> for Hold {
    fn from(hold: core::Hold) -> Self {
        Hold(hold)
    }
}

impl From<Hold> for core::Hold {
    fn from(hold: Hold) -> Self {
        hold.0
    }
}

/// A length in whole milliseconds, in a constant too.
const fn whole(length: Duration) -> Millis {
    let millis = length.as_millis();
    if millis > i64::MAX as u128 {
        return Millis::new(i64::MAX);
    }
    Millis::new(millis as i64)
}
