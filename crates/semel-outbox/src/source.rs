//! What a relay asks of a database with an outbox in it.

use std::convert::Infallible;
use std::time::Duration;

use async_trait::async_trait;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
use semel_core::error::Invalid;
use serde::Serialize;

use crate::error::Error;
use crate::event::Event;
use crate::relay::Boundary;

/// A database with an outbox in it.
#[async_trait]
pub trait Source: Send + Sync {
    /// Where it is, for people: never with a password.
    fn shown(&self) -> &str;

    /// Makes the tables where they are missing.
    async fn migrate(&self) -> Result<(), Error>;

    /// Takes events that are due, oldest first, so that no other relay takes them. Within a partition nothing is taken
    /// while something before it is not sent or parked, or taken by another.
    async fn claim(&self, most: usize, at: &Boundary) -> Result<Box<dyn Claim>, Error>;

    /// Returns soon after an event may have been committed, or after `at_most`.
    async fn changed(&self, at_most: Duration);

    /// How the outbox stands.
    async fn status(&self) -> Result<Status, Error>;

    /// Events that were given up, oldest first, at most so many.
    async fn parked(&self, most: usize) -> Result<Vec<ParkedEvent>, Error>;

    /// Lets a parked event, or all of them, be tried again; says how many.
    async fn unpark(&self, id: Option<&str>) -> Result<u64, Error>;

    /// Compares rows of the business with events. The query gives a column `id`: the event each row should have.
    async fn audit(&self, query: &str) -> Result<Audit, Error>;

    /// Writes the events that are missing. The query gives columns `id`, `task`, `input`, and if wanted `queue` and
    /// `partition`.
    ///
    /// Where sent events were pruned, rows of the business lack an event although they had one, and whose key may have
    /// lapsed since: to write it again would do the work again. Such an outbox is refused unless the query is said to
    /// leave those rows out.
    async fn rebuild(&self, query: &str, pruned: Pruned) -> Result<Audit, Error>;

    /// Removes events that were sent longer ago than this; never any other. Says how many.
    async fn prune(&self, older_than: Duration) -> Result<u64, Error>;
}

/// Whether the query of a rebuild minds that events were pruned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pruned {
    /// Nobody has thought of it: if there are such, nothing is written.
    Refuse,
    /// The query gives no row whose event was pruned.
    LeftOut,
}

impl Pruned {
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn check(self, audit: &Audit) -> Result<(), Error> {
        if self == Pruned::LeftOut || audit.pruned_before_ms.is_none() || audit.missing_total == 0 {
            return Ok(());
        }
        Err(Invalid::new(
            "events of this outbox were pruned: a row without one may have had one, and its work be done",
            "a query that leaves such rows out, and says so",
        )
        .hint("ask for newer rows only, then add --pruned-left-out (Pruned::LeftOut)")
        .into())
    }
}

/// Events that are taken by one relay.
#[async_trait]
pub trait Claim: Send + Sync {
    /// Which, in the order in which they were written.
    fn events(&self) -> &[Pending];

    /// Keeps hold of them for as long as it is polled, where somebody has to. Never done.
    async fn hold(&self) -> Infallible {
        std::future::pending().await
    }

    /// Writes down what became of each, in order, and lets go of them.
    async fn settle(self: Box<Self>, fates: Vec<Fate>, at: &Boundary) -> Result<(), Error>;

    /// Lets go of them as they are.
    async fn give_back(self: Box<Self>, at: &Boundary) -> Result<(), Error>;
}

/// An event that is not sent yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Its place in the order.
    pub seq: i64,
    /// What it says.
    pub event: Event,
    /// How often it was tried.
    pub attempts: u32,
}

/// What became of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// This job has it.
    Sent {
        /// The job.
        job: String,
    },
    /// It is tried again after a while.
    Later {
        /// Why it was not taken.
        error: String,
        /// After this.
        delay: Duration,
    },
    /// It is given up until a person has looked at it.
    Parked {
        /// Why.
        error: String,
    },
    /// It was not tried: something before it in its partition was not sent.
    Untouched,
}

/// How an outbox stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Events that are not sent yet.
    pub pending: i64,
    /// Of those, events that were tried and are to be tried again.
    pub failing: i64,
    /// Events that were given up.
    pub parked: i64,
    /// How long the oldest pending event has been waiting, in milliseconds.
    pub lag_ms: i64,
    /// When an event was sent last, in milliseconds since 1970.
    pub last_sent_ms: Option<i64>,
    /// Sent events before this moment have been pruned, in milliseconds since 1970.
    pub pruned_before_ms: Option<i64>,
}

/// An event that was given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ParkedEvent {
    /// Its id.
    pub id: String,
    /// Its task.
    pub task: String,
    /// Its partition.
    pub partition: Option<String>,
    /// How often it was tried.
    pub attempts: i64,
    /// Why it was given up.
    pub error: Option<String>,
}

/// Rows of the business compared with events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// Rows the query gave.
    pub rows: u64,
    /// Ids of rows that have no event, at most a thousand of them.
    pub missing: Vec<String>,
    /// How many have none.
    pub missing_total: u64,
    /// How many events were written.
    pub added: u64,
    /// Events before this moment were pruned: rows older than it are expected to have none. Milliseconds since 1970.
    pub pruned_before_ms: Option<i64>,
}
