//! Who carries out an effect: a job under a fence.

use semel::Attempt;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
use serde::de::DeserializeOwned;

#[cfg(any(feature = "sqlite", feature = "postgres"))]
use crate::error::Error;

/// One delivery of a job, as an inbox sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The first job of the chain: effects belong to it, so that retries and replays find them.
    pub origin: String,
    /// The job.
    pub job: String,
    /// Its fence: of two deliveries the newer has the larger one.
    pub fence: i64,
}

impl From<&Attempt> for Delivery {
    fn from(attempt: &Attempt) -> Self {
        Delivery {
            origin: attempt.origin().to_string(),
            job: attempt.id().to_string(),
            fence: attempt.fence(),
        }
    }
}

/// What an effect gave when it was carried out.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) fn stored<T: DeserializeOwned>(step: &str, output: &str) -> Result<T, Error> {
    serde_json::from_str(output).map_err(|source| Error::Unreadable {
        step: step.to_owned(),
        source,
    })
}
