//! What can go wrong with an outbox or an inbox, by meaning.

use std::error::Error as StdError;

use semel_core::error::{Invalid, StoreError};
use thiserror::Error as ThisError;

/// Why an outbox or an inbox could not do what was asked.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The request makes no sense; nothing was written.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The user's database did not do its part.
    #[error("the database failed while {doing}: {}", told(&**.source))]
    Database {
        /// What was being attempted.
        doing: &'static str,
        /// What the database said.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The job store did not answer; nothing was marked.
    #[error("the job store did not answer: {0}")]
    Store(#[from] StoreError),
    /// A newer delivery of the job has been here: this one changes nothing (contract 5.4).
    #[error("job {job} was delivered again since: fence {fence} is older than the newest one here")]
    Stale {
        /// The job.
        job: String,
        /// The fence that came too late.
        fence: i64,
    },
    /// What is stored is not of the type that was asked for.
    #[error(
        "the output kept of step {step:?} cannot be read as the type asked for: {source}; hint: give the step another name when its type changes"
    )]
    Unreadable {
        /// The step.
        step: String,
        /// Why not.
        source: serde_json::Error,
    },
}

impl Error {
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn database(doing: &'static str) -> impl FnOnce(Box<dyn StdError + Send + Sync>) -> Error {
        move |source| Error::Database { doing, source }
    }
}

/// An error with its causes: the client of Postgres tells what happened only in the last of them.
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

/// Says what was being attempted when the database failed.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) trait While<T> {
    fn while_(self, doing: &'static str) -> Result<T, Error>;
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
impl<T, E: Into<Box<dyn StdError + Send + Sync>>> While<T> for Result<T, E> {
    fn while_(self, doing: &'static str) -> Result<T, Error> {
        self.map_err(Into::into).map_err(Error::database(doing))
    }
}
