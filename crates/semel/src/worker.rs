//! The worker: takes jobs on, runs their handlers, tells the store how they ended.
//!
//! ```text
//! claims ──► floor (buffer, slots) ──► attempt (the handler) ──► scribe (settles, heartbeats)
//!               └── leases: what is in hand ──────────────────────┘
//! ```
//! Claiming, running and settling go on at the same time, each in batches; [`shift`] starts and stops them.

pub(crate) mod attempt;
mod claims;
pub(crate) mod desk;
mod floor;
mod handler;
mod jitter;
mod job;
mod layer;
pub(crate) mod lease;
mod leases;
mod pace;
mod registration;
mod scribe;
mod settings;
mod shift;
mod step;
mod stop;
mod trace;
mod watch;
pub mod workers;

pub use desk::WorkReport;
pub use handler::Handler;
pub use job::{Attempt, Job};
pub use layer::Next;
pub use step::Step;
pub use trace::TRACEPARENT;

pub(crate) use jitter::about;
pub(crate) use trace::carry as carry_trace;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use semel_core::error::Invalid;
use semel_core::ids::Name;
use semel_core::json::Json;
use semel_core::limits;
use semel_core::store::Retention;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::Client;
use crate::error::Error;
use crate::job_error::JobResult;
use crate::task::Task;
use crate::worker::desk::{Desk, Tally};
use crate::worker::floor::Floor;
use crate::worker::handler::Handlers;
use crate::worker::leases::Leases;
use crate::worker::stop::Stop;

/// Jobs that run at once, unless said otherwise.
const CONCURRENCY: usize = 16;

/// How long running jobs may go on when the worker stops, unless said otherwise.
const GRACE: Duration = Duration::from_secs(25);

type Subscribing = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;
type Subscription = Box<dyn FnOnce() -> Subscribing + Send>;

/// Runs jobs with bounded concurrency until it is told to stop (contract 4).
///
/// ```no_run
/// use semel::{Client, Job, JobResult, Task, Worker};
///
/// const GREET: Task<String, String> = Task::new("greet");
///
/// async fn greet(job: Job<String>, greeting: &'static str) -> JobResult<String> {
///     Ok(format!("{greeting}, {}!", job.input))
/// }
///
/// # async fn run() -> Result<(), semel::Error> {
/// let jobs = semel::connect("sqlite:jobs.db").await?;
/// Worker::new(&jobs, "Hello").task(GREET, greet).concurrency(32).run().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a worker does nothing until it is run"]
pub struct Worker<S> {
    client: Client,
    state: S,
    handlers: Handlers,
    queues: Vec<String>,
    limits: BTreeMap<String, usize>,
    slots: usize,
    prefetch: Option<usize>,
    lease: Duration,
    grace: Duration,
    name: Option<String>,
    version: Option<String>,
    upkeep: Option<Retention>,
    subscriptions: Vec<Subscription>,
    /// The first thing that makes no sense; said when the worker is run.
    wrong: Option<Invalid>,
}

impl<S: Clone + Send + Sync + 'static> Worker<S> {
    /// A worker without tasks. Each handler is given a clone of `state`.
    pub fn new(client: &Client, state: S) -> Self {
        Worker {
            client: client.clone(),
            state,
            handlers: Handlers::default(),
            queues: Vec::new(),
            limits: BTreeMap::new(),
            slots: CONCURRENCY,
            prefetch: None,
            lease: limits::LEASE.into(),
            grace: GRACE,
            name: None,
            version: None,
            upkeep: Some(Retention::default()),
            subscriptions: Vec::new(),
            wrong: None,
        }
    }

    /// Serves a task with `async fn(Job<I>, S) -> JobResult<O>`.
    pub fn task<I, O, H>(mut self, task: Task<I, O>, handler: H) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        H: Handler<I, O, S>,
    {
        self.serve(task.name(), handler);
        self
    }

    /// Serves a task whose name is only known now, JSON in and JSON out.
    pub fn task_json<H>(mut self, task: impl AsRef<str>, handler: H) -> Self
    where
        H: Handler<serde_json::Value, serde_json::Value, S>,
    {
        self.serve(task.as_ref(), handler);
        self
    }

    /// Subscribes a task to an event and serves it (contract 3.2). The subscription is kept in the store: it
    /// outlives the worker, until it is taken back.
    pub fn on_event<I, O, H>(mut self, event: impl Into<String>, task: Task<I, O>, handler: H) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        H: Handler<I, O, S>,
    {
        let event = self.client.event(event);
        let subscribe = move || -> Subscribing { Box::pin(async move { event.subscribe(task).await }) };
        self.subscriptions.push(Box::new(subscribe));
        self.task(task, handler)
    }

    /// How many jobs run at once: 1 to 10,000, by default 16.
    pub fn concurrency(mut self, jobs: usize) -> Self {
        self.slots = jobs;
        self
    }

    /// How many jobs of one task run at once in this worker. They are claimed by themselves and not fetched ahead:
    /// priorities hold among them, not between them and other tasks.
    pub fn task_concurrency(mut self, task: impl AsRef<str>, jobs: usize) -> Self {
        self.limits.insert(task.as_ref().to_owned(), jobs);
        self
    }

    /// Only takes jobs from these queues; by default from all.
    pub fn queues<Q: Into<String>>(mut self, queues: impl IntoIterator<Item = Q>) -> Self {
        self.queues = queues.into_iter().map(Into::into).collect();
        self
    }

    /// How many jobs to fetch ahead of free slots, at most 2,000. By default about what the worker does in a
    /// tenth of a second.
    pub fn prefetch(mut self, jobs: usize) -> Self {
        self.prefetch = Some(jobs);
        self
    }

    /// After how long without a heartbeat a job is given to another worker: 1 s to 1 h, by default 30 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long running jobs may go on when the worker stops, by default 25 s. Also how long a handler may
    /// tidy up after its job was cancelled.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// What operators know this worker by; several may share a name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The version of the application, shown to operators.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Leaves housekeeping and schedules to others.
    pub fn without_upkeep(mut self) -> Self {
        self.upkeep = None;
        self
    }

    /// How long this worker's housekeeping lets things be kept once they have ended. All workers of a store
    /// should say the same: the shortest wins.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.upkeep = Some(retention);
        self
    }

    /// Puts something around all handlers; what is added later is further outside.
    ///
    /// ```
    /// # fn add<S: Clone + Send + Sync + 'static>(worker: semel::Worker<S>) -> semel::Worker<S> {
    /// worker.layer(|attempt, next| async move {
    ///     let result = next.run().await;
    ///     println!("{} ended well: {}", attempt.id(), result.is_ok());
    ///     result
    /// })
    /// # }
    /// ```
    pub fn layer<F, Around>(mut self, layer: F) -> Self
    where
        F: Fn(Attempt, Next) -> Around + Send + Sync + 'static,
        Around: Future<Output = JobResult<Json>> + Send + 'static,
    {
        self.handlers.wrap(layer::forget(layer));
        self
    }

    /// Works until SIGTERM or SIGINT, then stops in order: no new jobs, running ones finish within the grace,
    /// the rest is handed back at once (contract 4.3). A second signal cuts the grace short.
    pub async fn run(mut self) -> Result<WorkReport, Error> {
        let desk = self.prepare().await?;
        shift::work(desk, stop::requested(), stop::requested()).await
    }

    /// Works until the future completes, then stops in order.
    pub async fn run_until(mut self, until: impl Future<Output = ()>) -> Result<WorkReport, Error> {
        let desk = self.prepare().await?;
        shift::work(desk, until, std::future::pending()).await
    }

    fn serve<I, O, H>(&mut self, task: &str, handler: H)
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        H: Handler<I, O, S>,
    {
        match Name::new(task) {
            Ok(name) if self.handlers.add(name.clone(), handler, &self.state) => {}
            Ok(name) => self.wrong(Invalid::new("handlers of a worker", "one per task").found(name.as_str())),
            Err(invalid) => self.wrong(invalid),
        }
    }

    fn wrong(&mut self, invalid: Invalid) {
        self.wrong.get_or_insert(invalid);
    }

    /// What the test kit runs handlers with.
    #[cfg(feature = "testing")]
    pub(crate) async fn into_desk(mut self) -> Result<Arc<Desk>, Error> {
        self.prepare().await
    }

    /// Checks everything and subscribes to events; nothing runs yet.
    async fn prepare(&mut self) -> Result<Arc<Desk>, Error> {
        let settings = self.settings()?;
        for subscribe in std::mem::take(&mut self.subscriptions) {
            subscribe().await?;
        }
        let store = self.client.store().clone();
        let limits = settings.groups.iter().map(|group| group.limit).collect();
        Ok(Arc::new(Desk {
            leases: Leases::new(store.clone()),
            floor: Floor::new(settings.slots, limits),
            store,
            settings,
            handlers: self.handlers.clone(),
            stop: Stop::new(),
            tally: Tally::default(),
        }))
    }
}
