//! The relay: from committed events to jobs.

mod round;

pub use round::Round;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use semel::Client;
use semel_core::limits;

use crate::error::Error;
use crate::source::{Source, Status};

/// Is told by name what the relay is about to do and has just done, statement by statement. For tests that kill it there.
#[derive(Clone, Default)]
pub struct Boundary(Option<Arc<dyn Fn(&'static str) + Send + Sync>>);

impl Boundary {
    /// Calls this at each boundary.
    pub fn new(told: impl Fn(&'static str) + Send + Sync + 'static) -> Self {
        Boundary(Some(Arc::new(told)))
    }

    pub(crate) fn reached(&self, name: &'static str) {
        if let Some(told) = &self.0 {
            told(name);
        }
    }
}

impl fmt::Debug for Boundary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Boundary")
            .field(&self.0.is_some())
            .finish()
    }
}

/// Submits committed events as jobs. Any number of relays can work on one outbox.
///
/// An event is marked as sent only after the store has answered. Its id is the key of its job, so sending it again
/// after a crash gives the same job.
#[derive(Clone)]
pub struct Relay {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) jobs: Client,
    pub(crate) batch: usize,
    pub(crate) max_attempts: u32,
    pub(crate) boundary: Boundary,
    idle: Duration,
}

impl Relay {
    /// A relay from an outbox to a store.
    pub fn new(source: Arc<dyn Source>, jobs: &Client) -> Self {
        Relay {
            source,
            jobs: jobs.clone(),
            batch: 500,
            max_attempts: 10,
            boundary: Boundary::default(),
            idle: Duration::from_secs(1),
        }
    }

    /// Events in one round, at most a thousand.
    #[must_use]
    pub fn batch(mut self, most: usize) -> Self {
        self.batch = most.clamp(1, limits::BATCH);
        self
    }

    /// How often an event is tried that the store refuses, before it is parked. A closed task is waited for.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts.max(1);
        self
    }

    /// How long to wait at most before looking again, if nothing wakes it.
    #[must_use]
    pub fn idle(mut self, length: Duration) -> Self {
        self.idle = length;
        self
    }

    /// Tells what it does, statement by statement.
    #[must_use]
    pub fn boundary(mut self, boundary: Boundary) -> Self {
        self.boundary = boundary;
        self
    }

    /// Relays until `stop` is done; the round that is under way is finished. Trouble with either side is waited out.
    pub async fn run_until(&self, stop: impl Future<Output = ()>) -> Round {
        let mut all = Round::default();
        let mut trouble = 0_u32;
        tokio::pin!(stop);
        loop {
            let wait = match self.round().await {
                Ok(round) => {
                    trouble = 0;
                    all.add(&round);
                    match round.taken > 0 {
                        true => None,
                        false => Some(None),
                    }
                }
                Err(error) => {
                    trouble += 1;
                    let pause = Duration::from_millis(50) * 2_u32.pow(trouble.min(7));
                    tracing::warn!(%error, ?pause, "the outbox could not be relayed; trying again");
                    Some(Some(pause))
                }
            };
            let waiting = async {
                match wait {
                    None => {}
                    Some(None) => self.source.changed(self.idle).await,
                    Some(Some(pause)) => tokio::time::sleep(pause).await,
                }
            };
            tokio::select! {
                biased;
                () = &mut stop => return all,
                () = waiting => {}
            }
        }
    }

    /// How the outbox stands.
    pub async fn status(&self) -> Result<Status, Error> {
        self.source.status().await
    }

    /// Relays until nothing is due any more.
    pub async fn drain(&self) -> Result<Round, Error> {
        let mut all = Round::default();
        loop {
            let round = self.round().await?;
            all.add(&round);
            if round.taken == 0 {
                return Ok(all);
            }
        }
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Relay")
            .field("from", &self.source.shown())
            .field("to", &self.jobs.url())
            .finish_non_exhaustive()
    }
}
