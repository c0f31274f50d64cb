//! Who carries out an effect: a job under a fence.

use semel::Attempt;

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
