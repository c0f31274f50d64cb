//! How a handler says that it did not succeed.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use semel_core::lifecycle::Settle;
use semel_core::time::Millis;

/// What a handler gives.
pub type JobResult<T = ()> = Result<T, JobError>;

/// How an attempt ended without an output (contract 4.2).
///
/// Any error turns into one by `?`: the job is tried again with backoff until its attempts are used
/// up. [`fail`] ends it at once, [`snooze`] puts it off at no cost.
///
/// ```
/// use semel::{JobResult, fail, snooze, secs};
///
/// fn parse(text: &str) -> JobResult<u32> {
///     if text == "later" {
///         return Err(snooze(secs(60)));
///     }
///     if text.is_empty() {
///         return Err(fail("there is nothing to parse"));
///     }
///     Ok(text.parse()?)
/// }
/// assert!(parse("").unwrap_err().is_fatal());
/// assert!(!parse("many").unwrap_err().is_fatal());
/// assert_eq!(parse("7").unwrap(), 7);
/// ```
pub struct JobError {
    kind: Kind,
    message: String,
    did_not_happen: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Retry { delay: Option<Duration> },
    Fail,
    Snooze { delay: Duration },
    Park,
    Cancel,
}

/// Ends the job as failed: no attempt would be spared this.
pub fn fail(message: impl fmt::Display) -> JobError {
    JobError::new(Kind::Fail, message.to_string())
}

/// Puts the job off; costs neither an attempt nor a delivery (contract 1.7).
pub fn snooze(delay: Duration) -> JobError {
    JobError::new(Kind::Snooze { delay }, "snoozed".to_owned())
}

/// Says inside a step that its effect certainly did not happen, so that it is not in doubt and its
/// downstream key moves on (contract 5.2). The job is tried again, unless the error is fatal.
///
/// It speaks of this run. A step that an earlier run left in doubt stays so, with its key: see
/// [`Step::retry_with_key`](crate::Step::retry_with_key).
pub fn did_not_happen(error: impl Into<JobError>) -> JobError {
    JobError {
        did_not_happen: true,
        ..error.into()
    }
}

impl JobError {
    fn new(kind: Kind, message: String) -> Self {
        JobError {
            kind,
            message,
            did_not_happen: false,
        }
    }

    /// An error after which the job is tried again.
    pub fn retry(message: impl fmt::Display) -> Self {
        JobError::new(Kind::Retry { delay: None }, message.to_string())
    }

    /// Leaves the job to an operator (contract 5.2).
    pub fn park(reason: impl fmt::Display) -> Self {
        JobError::new(Kind::Park, reason.to_string())
    }

    /// Ends the job as cancelled: the handler noticed that it was no longer wanted.
    pub fn cancelled() -> Self {
        JobError::new(Kind::Cancel, "cancelled".to_owned())
    }

    /// Tries again after this instead of the usual backoff.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        if let Kind::Retry { delay: usual } = &mut self.kind {
            *usual = Some(delay);
        }
        self
    }

    /// Whether the job ends as failed whatever attempts are left.
    pub fn is_fatal(&self) -> bool {
        self.kind == Kind::Fail
    }

    /// What went wrong, with its causes.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether a step's effect certainly did not happen.
    pub(crate) fn is_certain(&self) -> bool {
        self.did_not_happen
    }

    /// The error once its step has heard it: around that step, it says nothing of another's effect.
    pub(crate) fn uncertain(mut self) -> Self {
        self.did_not_happen = false;
        self
    }

    /// What to tell the store.
    pub(crate) fn into_settle(self) -> Settle {
        let error = self.message;
        match self.kind {
            Kind::Retry { delay } => Settle::Retry {
                error,
                delay: delay.map(Millis::from),
            },
            Kind::Fail => Settle::Fail { error },
            Kind::Snooze { delay } => Settle::Snooze { delay: delay.into() },
            Kind::Park => Settle::Park { reason: error },
            Kind::Cancel => Settle::Cancel,
        }
    }
}

impl<E> From<E> for JobError
where
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    fn from(error: E) -> Self {
        JobError::retry(told(&*error.into()))
    }
}

/// An error and its causes in one line; a cause that its error tells already is not told twice.
fn told(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

impl fmt::Display for JobError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl fmt::Debug for JobError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}: {}", self.kind, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secs;

    #[derive(Debug, thiserror::Error)]
    #[error("the mail was not sent")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn an_error_tells_its_causes_once() {
        let inner = std::io::Error::other("connection refused");
        assert_eq!(
            JobError::from(Outer(inner)).message(),
            "the mail was not sent: connection refused"
        );
        assert_eq!(JobError::from("plain").message(), "plain");
    }

    #[test]
    fn each_kind_settles_as_it_says() {
        let retry = JobError::retry("busy").after(secs(7)).into_settle();
        assert_eq!(
            retry,
            Settle::Retry {
                error: "busy".to_owned(),
                delay: Some(Millis::from_secs(7))
            }
        );
        assert_eq!(
            snooze(secs(3)).into_settle(),
            Settle::Snooze {
                delay: Millis::from_secs(3)
            }
        );
        assert_eq!(
            fail("no").into_settle(),
            Settle::Fail {
                error: "no".to_owned()
            }
        );
        assert_eq!(JobError::cancelled().into_settle(), Settle::Cancel);
        assert!(did_not_happen("declined").is_certain() && !JobError::from("declined").is_certain());
    }
}
