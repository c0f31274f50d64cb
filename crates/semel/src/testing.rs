//! For tests of your own handlers: a worker here and now, a clock in your hand, and ways to die.
//!
//! ```
//! use semel::testing::{Kit, deaths};
//! use semel::{Job, JobError, JobResult, Task, Worker};
//! use std::sync::{Arc, Mutex};
//!
//! const CHARGE: Task<String> = Task::new("charge");
//!
//! /// A payment provider that honours idempotency keys, as the real one does.
//! type Bank = Arc<Mutex<std::collections::BTreeSet<String>>>;
//!
//! async fn charge(job: Job<String>, bank: Bank) -> JobResult {
//!     job.step("charge")
//!         .retry_with_key(async |key| {
//!             bank.lock().unwrap().insert(key);
//!             Ok::<_, JobError>(())
//!         })
//!         .await
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), semel::Error> {
//! for death in deaths() {
//!     let bank = Bank::default();
//!     let kit = Kit::new().kill(&death);
//!     kit.client().submit(CHARGE, &"ORD-1".to_owned()).idempotency_key("ORD-1").await?;
//!     let worker = kit.worker(Worker::new(kit.client(), bank.clone()).task(CHARGE, charge)).await;
//!     worker.run_all().await;
//!     assert_eq!(bank.lock().unwrap().len(), 1, "{death}");
//! }
//! # Ok(()) }
//! ```

mod death;
mod inline;
mod intercept;

pub use death::{Death, Deaths, deaths};
pub use inline::{InlineWorker, Ran};
pub use intercept::{Call, Intercept, InterceptedStore};

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use semel_core::ids::Name;
use semel_core::job::State;
use semel_core::memory::MemoryStore;
use semel_core::store::{JobFilter, Page, Retention, Store};
use semel_core::time::{Clock, ManualClock, Timestamp};
use semel_core::view::Job;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::Client;
use crate::task::Task;
use crate::upkeep;
use crate::worker::Worker;

/// 2027-01-15T08:00:00Z, a Friday: where the clock of a kit starts.
const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// A store in memory on a clock that stands still until it is moved, and a client of it. Cheap to clone.
#[derive(Clone)]
pub struct Kit {
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    client: Client,
    death: Death,
}

impl Default for Kit {
    fn default() -> Self {
        Kit::new()
    }
}

impl Kit {
    /// A kit with an empty store in memory.
    pub fn new() -> Self {
        let clock = Arc::new(ManualClock::new(START));
        let name = Name::new("default").expect("a valid name");
        let store = MemoryStore::new(name, clock.clone());
        Kit::on(Arc::new(store), clock)
    }

    /// A kit on another store that was opened with this clock.
    pub fn on(store: Arc<dyn Store>, clock: Arc<ManualClock>) -> Self {
        Kit {
            client: Client::from_store(store.clone()),
            store,
            clock,
            death: Death::never(),
        }
    }

    /// Lets the worker die once, at this moment. Clients that were made before are not affected.
    #[must_use]
    pub fn kill(self, death: &Death) -> Self {
        let store = InterceptedStore::new(self.store.clone(), Arc::new(death.clone()));
        Kit {
            client: Client::from_store(Arc::new(store)),
            death: death.clone(),
            ..self
        }
    }

    /// A client of the store: for producers, and for handlers that submit.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Runs a worker's handlers here and now. It has to be a worker of [`Kit::client`].
    pub async fn worker<S>(&self, worker: Worker<S>) -> InlineWorker
    where
        S: Clone + Send + Sync + 'static,
    {
        InlineWorker::new(self, worker).await
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Moves time on.
    pub fn advance(&self, length: Duration) {
        self.clock.advance(length.into());
    }

    /// Housekeeping and schedules, as a worker does them.
    pub async fn upkeep(&self) {
        let done = upkeep::run_once(&self.client, Retention::default()).await;
        done.expect("the kit's store answers");
    }

    /// The jobs of a task, in the order they were submitted.
    pub async fn jobs<I, O>(&self, task: Task<I, O>) -> Vec<Job> {
        let filter = JobFilter {
            task: Some(Name::new(task.name()).expect("a name that was submitted")),
            ..JobFilter::default()
        };
        self.all(filter).await
    }

    /// The inputs of the jobs of a task, in the order they were submitted. Duplicates have no job of their own.
    pub async fn submitted<I: DeserializeOwned, O>(&self, task: Task<I, O>) -> Vec<I> {
        let jobs = self.jobs(task).await;
        let read = |job: &Job| job.input.read().expect("an input of this task");
        jobs.iter().map(read).collect()
    }

    /// Panics unless exactly one job of the task has this input.
    pub async fn assert_submitted_once<I: Serialize, O>(&self, task: Task<I, O>, input: &I) {
        let wanted = serde_json::to_value(input).expect("an input is JSON");
        let inputs: Vec<serde_json::Value> = self
            .jobs(task)
            .await
            .iter()
            .map(|job| job.input.read().expect("an input is JSON"))
            .collect();
        let count = inputs.iter().filter(|found| **found == wanted).count();
        assert!(
            count == 1,
            "expected one job of task {} with input {wanted}, found {count} among {inputs:?}",
            task.name()
        );
    }

    /// Panics if there is a job of the task.
    pub async fn assert_not_submitted<I, O>(&self, task: Task<I, O>) {
        let inputs: Vec<String> = self
            .jobs(task)
            .await
            .iter()
            .map(|job| job.input.to_string())
            .collect();
        assert!(
            inputs.is_empty(),
            "expected no job of task {}, found {inputs:?}",
            task.name()
        );
    }

    pub(crate) fn death(&self) -> &Death {
        &self.death
    }

    /// How long until the next job that waits for its time.
    pub(crate) async fn next_due(&self) -> Option<Duration> {
        let filter = JobFilter {
            state: Some(State::Scheduled),
            ..JobFilter::default()
        };
        let now = self.now();
        let waiting = self.all(filter).await;
        inline::shortest(waiting.iter().map(|job| job.run_at.since(now)))
    }

    async fn all(&self, filter: JobFilter) -> Vec<Job> {
        let mut jobs = Vec::new();
        let mut page = Page::first(inline::PAGE);
        loop {
            let listing = self.store.jobs(filter.clone(), page).await;
            let listing = listing.expect("the kit's store answers");
            jobs.extend(listing.items);
            match listing.next_cursor {
                Some(cursor) => page = Page::after(cursor, inline::PAGE),
                None => break,
            }
        }
        jobs.reverse();
        jobs
    }
}

impl fmt::Debug for Kit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Kit")
            .field("now", &self.now())
            .field("death", &self.death)
            .finish_non_exhaustive()
    }
}
