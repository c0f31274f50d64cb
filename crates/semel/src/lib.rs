//! A durable job queue in which doing work *once* is the centre.
//!
//! [`connect`] gives a [`Client`]; a [`Task`] names a kind of work for producers and workers alike.
//!
//! A producer says a submission as a sentence and is answered with the job that has it, new or not:
//!
//! ```
//! use semel::{Task, secs};
//!
//! const CHARGE: Task<u64, String> = Task::new("charge_customer").max_attempts(5).timeout(secs(30));
//!
//! # #[tokio::main] async fn main() -> Result<(), semel::Error> {
//! let jobs = semel::connect("memory:").await?;
//! let sent = jobs.submit(CHARGE, &4200).idempotency_key("ORD-123").await?;
//! let again = jobs.submit(CHARGE, &4200).idempotency_key("ORD-123").await?;
//! assert_eq!(again.id(), sent.id());
//! # Ok(()) }
//! ```

mod absorbed;
mod acted;
mod client;
pub mod clock;
mod coalesce;
mod connect;
mod error;
mod event;
mod guard;
#[cfg(doctest)]
mod guides;
mod handle;
pub mod ids;
mod job_error;
mod job_handle;
mod keys;
mod operate;
mod policy;
mod request;
mod retry;
pub mod schedule;
mod spool;
mod submit;
mod submitted;
mod task;
#[cfg(feature = "testing")]
pub mod testing;
mod times;
pub mod upkeep;
mod wait;
mod worker;

pub use acted::Acted;
pub use client::Client;
pub use connect::{Connect, Connecting, StoreUrl, connect, connect_to};
pub use error::Error;
pub use event::{Delivered, Event, Sending, Subscriber};
pub use guard::{Guard, Once, Outage, Reconciled, Reservation, Reserved};
pub use handle::TaskHandle;
pub use job_error::{JobError, JobResult, did_not_happen, fail, snooze};
pub use job_handle::JobHandle;
pub use keys::{ComputedKey, KeyStrategy};
pub use operate::{
    Action, AuditEntry, CarryOut, KeyRelease, Operation, Operator, Planning, Progress, Sample, Selection,
    SettingReasons, Status,
};
pub use policy::{Dedup, Hold};
pub use request::{DedupRequest, DuplicateWord, PeriodRequest, ReleaseWord, ScopeWord, SubmitRequest};
pub use retry::Retry;
pub use spool::{Drained, Spool, SpoolHandle, SpoolStatus};
pub use submit::{Moment, Submit};
pub use submitted::Submitted;
pub use task::Task;
pub use times::{days, hours, millis, mins, secs};
pub use wait::{Output, Wait};
pub use worker::{Attempt, Handler, Job, Next, Step, TRACEPARENT, WorkReport, Worker, workers};

pub use semel_core;
pub use semel_core::dedup::{Mode, OnDuplicate, OnMismatch, Period, ReleaseOn, Scope, Unit};
pub use semel_core::ids::{Digest, JobId, Name, Token};
pub use semel_core::job::{Outcome, State};
pub use semel_core::store::{Explanation, Retention, Target};
pub use semel_core::view;

/// The README's code is run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
