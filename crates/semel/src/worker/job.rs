//! What a handler is given.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use semel_core::error::Invalid;
use semel_core::ids::JobId;
use semel_core::json::Json;
use semel_core::limits;
use semel_core::time::Timestamp;
use semel_core::view::{self, KeyView};

use crate::job_error::JobError;
use crate::worker::lease::{Fate, Lease};

/// A job in the hands of its handler: the input, and by [`Attempt`] everything else.
pub struct Job<I> {
    /// What the producer submitted.
    pub input: I,
    attempt: Attempt,
}

impl<I> Job<I> {
    pub(crate) fn new(input: I, attempt: Attempt) -> Self {
        Job { input, attempt }
    }

    /// The input, for a handler that wants to own it, and the attempt.
    pub fn into_parts(self) -> (I, Attempt) {
        (self.input, self.attempt)
    }
}

impl<I> Deref for Job<I> {
    type Target = Attempt;

    fn deref(&self) -> &Attempt {
        &self.attempt
    }
}

impl<I: fmt::Debug> fmt::Debug for Job<I> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Job")
            .field("id", self.id())
            .field("input", &self.input)
            .finish_non_exhaustive()
    }
}

/// One run of a job. Cheap to clone; clones speak about the same run.
#[derive(Clone)]
pub struct Attempt {
    pub(crate) lease: Arc<Lease>,
}

impl Attempt {
    pub(crate) fn new(lease: Arc<Lease>) -> Self {
        Attempt { lease }
    }

    /// The identity of the job: the same in every attempt.
    pub fn id(&self) -> &JobId {
        &self.lease.job.id
    }

    /// The first job of its retry and replay chain: steps belong to it (contract 5.1).
    pub fn origin(&self) -> &JobId {
        &self.lease.job.origin
    }

    /// The name of the task.
    pub fn task(&self) -> &str {
        self.lease.job.task.as_str()
    }

    /// The queue it waited in.
    pub fn queue(&self) -> &str {
        self.lease.job.queue.as_str()
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.lease.job.attempt
    }

    /// Attempts that may end in an error.
    pub fn max_attempts(&self) -> u32 {
        self.lease.job.max_attempts
    }

    /// Whether an error now is the job's end.
    pub fn is_last_attempt(&self) -> bool {
        self.attempt() >= self.max_attempts()
    }

    /// The key it was submitted with, if it has one.
    pub fn key(&self) -> Option<&KeyView> {
        self.lease.job.key.as_ref()
    }

    /// When it was admitted, in the store's time (contract 2.15).
    pub fn enqueued_at(&self) -> Timestamp {
        self.lease.job.enqueued_at
    }

    /// When it was to run, in the store's time.
    pub fn run_at(&self) -> Timestamp {
        self.lease.job.run_at
    }

    /// Small texts that travel with it, such as trace context.
    pub fn headers(&self) -> &BTreeMap<String, String> {
        &self.lease.job.headers
    }

    /// Metadata for people and tools.
    pub fn meta(&self) -> Option<&Json> {
        self.lease.job.meta.as_ref()
    }

    /// The number that every write of this attempt carries, and that only grows from attempt to attempt:
    /// hand it to a database that can refuse older ones (contract 1.5).
    pub fn fence(&self) -> i64 {
        self.lease.fence
    }

    /// Everything that was known of the job when it was claimed.
    pub fn view(&self) -> &view::Job {
        &self.lease.job
    }

    /// Shows how far it is, from 0 to 1.
    pub fn progress(&self, done: f64) -> Result<(), JobError> {
        if !(0.0..=1.0).contains(&done) {
            return Err(Invalid::new("progress", "a number from 0 to 1")
                .found(done.to_string())
                .into());
        }
        self.lease.note_progress(done);
        Ok(())
    }

    /// Adds a line to the job's log; a line of more than 8 KiB is cut.
    pub fn log(&self, line: impl fmt::Display) {
        let line = line.to_string();
        self.lease
            .note_line(limits::cut(&line, limits::LOG_LINE_BYTES).to_owned());
    }

    /// Completes when the job is no longer wanted: cancelled by someone, or lost to another worker.
    ///
    /// Nothing this attempt writes counts from then on. A handler that was told of a cancellation may tidy up
    /// within the worker's grace; on a lost lease its future is dropped at once (contract 4.5).
    pub async fn cancelled(&self) {
        self.lease.comes_to(Fate::Cancelled).await;
    }

    /// Whether [`Attempt::cancelled`] would complete at once.
    pub fn is_cancelled(&self) -> bool {
        self.lease.fate() >= Fate::Cancelled
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Attempt")
            .field("id", self.id())
            .field("task", &self.task())
            .field("attempt", &self.attempt())
            .finish_non_exhaustive()
    }
}
