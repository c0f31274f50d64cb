//! Deduplication as data: what makes two submissions the same, where, for how long, and what then (contract 2).
//!
//! [`Dedup`] is the policy a producer writes; [`check`](Dedup::check) refuses those that make no sense;
//! [`key`] derives the key; [`hold`] says whether it is still held.

pub mod hold;
pub mod key;
mod period;
mod presets;

pub use hold::{Hold, HoldKind, Holding, ReleaseOn};
pub use key::{Key, KeyBy};
pub use period::{Period, Unit};

use serde::{Deserialize, Serialize};

use crate::canonical::Pointer;
use crate::error::Invalid;
use crate::ids::Name;
use crate::limits;
use crate::time::Millis;

/// What the key of a submission is made from (contract 2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A text the producer gives: 1 to 255 bytes after trimming.
    Explicit(String),
    /// The task and the whole input.
    Input,
    /// The input at these pointers.
    Fields(Vec<Pointer>),
    /// The whole input but for these pointers.
    Except(Vec<Pointer>),
    /// Same fields *and* same input is a duplicate; same fields with another input is a collision, admitted and shown.
    Hybrid(Vec<Pointer>),
    /// A fresh identity per submission: protects the producer's own retries, nothing else.
    Generated,
}

/// Where a key must be unique (contract 2.3).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum Scope {
    /// Among jobs of the same task.
    #[default]
    Task,
    /// Among jobs of the same queue.
    Queue,
    /// In the whole namespace.
    Global,
    /// Among submissions that name the same scope.
    Custom(Name),
}

impl Scope {
    /// The word for this kind of scope.
    pub fn word(&self) -> &'static str {
        match self {
            Scope::Task => "task",
            Scope::Queue => "queue",
            Scope::Global => "global",
            Scope::Custom(_) => "custom",
        }
    }
}

/// What a submission wants when its key is held (contract 2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDuplicate {
    /// Give me the job that holds it.
    #[default]
    UseExisting,
    /// Tell me so, as an error.
    Reject,
    /// Put my content into it, if it has not started.
    Replace,
    /// Put my content into it and start it later.
    Debounce {
        /// Quiet time after the newest submission.
        delay: Millis,
        /// The longest the first submission may be kept waiting.
        max_wait: Option<Millis>,
    },
    /// The newest submission wins and runs after the one that is running.
    Latest,
}

impl OnDuplicate {
    /// The word for this answer.
    pub fn word(self) -> &'static str {
        match self {
            OnDuplicate::UseExisting => "use_existing",
            OnDuplicate::Reject => "reject",
            OnDuplicate::Replace => "replace",
            OnDuplicate::Debounce { .. } => "debounce",
            OnDuplicate::Latest => "latest",
        }
    }
}

/// What happens when an explicit key comes back with another input or task (contract 2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnMismatch {
    /// A typed error that says where they differ.
    #[default]
    Conflict,
    /// As if they were equal.
    Ignore,
}

/// Whether the policy acts or only watches (contract 2.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It acts.
    #[default]
    Enforce,
    /// Every job is admitted; the answer says what would have happened.
    Observe,
}

/// A whole deduplication policy.
///
/// The default is: by input, unique within its task, held until the job has finished,
/// duplicates get the existing job.
///
/// ```
/// use semel_core::dedup::{Dedup, Hold, OnDuplicate, Scope};
/// use semel_core::time::Millis;
///
/// let policy = Dedup::fields(["/day"])?
///     .scope(Scope::Global)
///     .hold(Hold::window(Millis::from_days(1)))
///     .on_duplicate(OnDuplicate::Reject);
/// assert!(policy.check().is_ok());
/// # Ok::<(), semel_core::error::Invalid>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dedup {
    /// What the key is made from.
    pub key: KeySource,
    /// Headers that enter the key, by name.
    pub headers: Vec<String>,
    /// Members of the metadata that enter the key, by name.
    pub meta: Vec<String>,
    /// A period whose bucket enters the key.
    pub period: Option<Period>,
    /// Where the key must be unique.
    pub scope: Scope,
    /// How long the key stays taken.
    pub hold: Hold,
    /// What to do when it is taken.
    pub on_duplicate: OnDuplicate,
    /// What to do when an equal key means something else.
    pub on_mismatch: OnMismatch,
    /// Act or watch.
    pub mode: Mode,
}

impl Default for Dedup {
    fn default() -> Self {
        Dedup::by(KeySource::Input)
    }
}

impl Dedup {
    /// A policy with the given key and every other part at its default.
    pub fn by(key: KeySource) -> Self {
        Dedup {
            key,
            headers: Vec::new(),
            meta: Vec::new(),
            period: None,
            scope: Scope::Task,
            hold: Hold::until_finished(),
            on_duplicate: OnDuplicate::UseExisting,
            on_mismatch: OnMismatch::Conflict,
            mode: Mode::Enforce,
        }
    }

    /// By a text of the producer's.
    pub fn explicit(text: impl Into<String>) -> Self {
        Dedup::by(KeySource::Explicit(text.into()))
    }

    /// By the input at these JSON pointers.
    pub fn fields<P: AsRef<str>>(pointers: impl IntoIterator<Item = P>) -> Result<Self, Invalid> {
        Ok(Dedup::by(KeySource::Fields(parse_pointers(pointers)?)))
    }

    /// By the input without these JSON pointers.
    pub fn except<P: AsRef<str>>(pointers: impl IntoIterator<Item = P>) -> Result<Self, Invalid> {
        Ok(Dedup::by(KeySource::Except(parse_pointers(pointers)?)))
    }

    /// By fields, telling another input apart as a collision.
    pub fn hybrid<P: AsRef<str>>(pointers: impl IntoIterator<Item = P>) -> Result<Self, Invalid> {
        Ok(Dedup::by(KeySource::Hybrid(parse_pointers(pointers)?)))
    }

    /// Sets where the key must be unique.
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Sets how long the key stays taken.
    #[must_use]
    pub fn hold(mut self, hold: Hold) -> Self {
        self.hold = hold;
        self
    }

    /// Sets what happens when the key is taken.
    #[must_use]
    pub fn on_duplicate(mut self, on_duplicate: OnDuplicate) -> Self {
        self.on_duplicate = on_duplicate;
        self
    }

    /// Sets what happens when an explicit key comes back with another input or task.
    #[must_use]
    pub fn on_mismatch(mut self, on_mismatch: OnMismatch) -> Self {
        self.on_mismatch = on_mismatch;
        self
    }

    /// Adds a period to the key.
    #[must_use]
    pub fn period(mut self, period: Period) -> Self {
        self.period = Some(period);
        self
    }

    /// Lets named headers enter the key.
    #[must_use]
    pub fn with_headers<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.headers = names.into_iter().map(Into::into).collect();
        self
    }

    /// Lets named members of the metadata enter the key.
    #[must_use]
    pub fn with_meta<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.meta = names.into_iter().map(Into::into).collect();
        self
    }

    /// Watches instead of acting.
    #[must_use]
    pub fn observe(mut self) -> Self {
        self.mode = Mode::Observe;
        self
    }

    /// Refuses what makes no sense, with the reason (contract 2.17 and the tables of 2.4 and 2.5).
    pub fn check(&self) -> Result<(), Invalid> {
        self.check_source()?;
        self.hold.check()?;
        self.check_answer()
    }

    fn check_source(&self) -> Result<(), Invalid> {
        match &self.key {
            KeySource::Explicit(text) => key::check_text(text).map(|_| ()),
            KeySource::Fields(pointers) | KeySource::Except(pointers) | KeySource::Hybrid(pointers)
                if pointers.is_empty() =>
            {
                Err(Invalid::new("pointers of the key", "at least one JSON pointer"))
            }
            _ => Ok(()),
        }
    }

    fn check_answer(&self) -> Result<(), Invalid> {
        match self.on_duplicate {
            OnDuplicate::Latest if !self.hold.is_plain_until_finished() => Err(Invalid::new(
                "on_duplicate latest",
                "hold until_finished without ttl and cool_down",
            )
            .hint("a key that can lapse before the job ends has no moment at which the newest could follow")),
            OnDuplicate::Debounce { delay, .. } if delay.is_zero() => {
                Err(Invalid::new("debounce delay", "more than zero milliseconds"))
            }
            OnDuplicate::Debounce {
                delay,
                max_wait: Some(max),
            } if max < delay => Err(Invalid::new("debounce max_wait", "at least the delay")),
            OnDuplicate::Debounce { delay, max_wait } if max_wait.unwrap_or(delay) > limits::LONGEST => {
                Err(Invalid::new("debounce delay and max_wait", "at most ten years"))
            }
            _ => Ok(()),
        }
    }
}

fn parse_pointers<P: AsRef<str>>(pointers: impl IntoIterator<Item = P>) -> Result<Vec<Pointer>, Invalid> {
    let mut parsed = pointers
        .into_iter()
        .map(|text| Pointer::try_from(text.as_ref()))
        .collect::<Result<Vec<_>, _>>()?;
    parsed.sort();
    parsed.dedup();
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_of_the_hold_table_is_judged() {
        let hour = Some(Millis::from_secs(3_600));
        let on_failed = ReleaseOn {
            failed: true,
            cancelled: false,
        };
        let none = ReleaseOn::default();
        let cases = [
            (HoldKind::UntilStarted, hour, None, none, true),
            (HoldKind::UntilStarted, None, hour, none, false),
            (HoldKind::UntilStarted, None, None, on_failed, false),
            (HoldKind::UntilFinished, hour, hour, none, true),
            (HoldKind::UntilFinished, None, None, on_failed, false),
            (HoldKind::Window, None, None, none, false),
            (HoldKind::Window, hour, hour, none, false),
            (HoldKind::Window, hour, None, on_failed, true),
            (HoldKind::Forever, hour, None, none, false),
            (HoldKind::Forever, None, hour, none, false),
            (HoldKind::Forever, None, None, on_failed, true),
        ];
        for (kind, ttl, cool_down, release_on, allowed) in cases {
            let hold = Hold {
                kind,
                ttl,
                cool_down,
                release_on,
            };
            assert_eq!(hold.check().is_ok(), allowed, "{hold:?}");
        }
    }

    #[test]
    fn latest_needs_a_plain_until_finished() {
        let policy = Dedup::explicit("k").on_duplicate(OnDuplicate::Latest);
        assert!(policy.check().is_ok());
        assert!(
            policy
                .clone()
                .hold(Hold::window(Millis::from_days(1)))
                .check()
                .is_err()
        );
        assert!(
            policy
                .hold(Hold::until_finished().cool_down(Millis::from_secs(1)))
                .check()
                .is_err()
        );
    }

    #[test]
    fn a_pointer_that_is_none_is_refused() {
        assert!(Dedup::fields(["day"]).is_err());
        assert!(
            Dedup::fields(Vec::<String>::new())
                .and_then(|policy| policy.check())
                .is_err()
        );
    }
}
