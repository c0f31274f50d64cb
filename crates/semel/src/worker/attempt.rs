//! One attempt, from the handler's first line to how it ended.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use semel_core::json::Json;
use semel_core::lifecycle::Settle;
use tracing::Instrument;

use crate::job_error::{JobError, JobResult};
use crate::worker::handler::{Handlers, Working};
use crate::worker::job::Attempt;
use crate::worker::lease::{Fate, Lease};
use crate::worker::trace;

/// A lease on which no work is done any more.
pub(crate) struct Ended {
    pub(crate) lease: Arc<Lease>,
    /// What to tell the store; nothing, where it would refuse to listen.
    pub(crate) settle: Option<Settle>,
}

impl Ended {
    pub(crate) fn new(lease: Arc<Lease>, settle: Option<Settle>) -> Self {
        lease.end();
        Ended { lease, settle }
    }
}

/// Runs the handler of a leased job.
///
/// A panic and a timeout are errors. The handler's future is dropped at once, and not polled again, when the lease is
/// lost; when the worker's grace is over, and `tidy` after a cancellation, unless it is ready.
pub(crate) async fn run(handlers: &Handlers, lease: Arc<Lease>, tidy: Duration) -> Ended {
    let settle = match lease.fate() {
        Fate::Held => {
            lease.begin();
            let span = trace::span(&lease);
            let work = trace::within(&lease, work(handlers, &lease, tidy));
            work.instrument(span).await
        }
        fate => left(fate),
    };
    Ended::new(lease, settle)
}

async fn work(handlers: &Handlers, lease: &Arc<Lease>, tidy: Duration) -> Option<Settle> {
    let attempt = Attempt::new(lease.clone());
    let working = Caught::new(handlers.start(attempt));
    let ended = tokio::select! {
        biased;
        // Before the handler is polled once more: what it does next may be somebody else's to do by now.
        () = lost(lease) => return None,
        ended = in_time(working, lease.job.timeout.map(Duration::from)) => ended,
        fate = taken_away(lease, tidy) => return left(fate),
    };
    match lease.fate() {
        // Whoever was cancelled or has lost the lease has nothing to tell.
        Fate::Cancelled | Fate::Lost => None,
        Fate::Held | Fate::Stopped => Some(settled(ended)),
    }
}

/// What to tell the store of a job that was not carried through.
fn left(fate: Fate) -> Option<Settle> {
    (fate == Fate::Stopped).then_some(Settle::HandBack)
}

fn settled(ended: JobResult<Json>) -> Settle {
    match ended {
        Ok(output) => Settle::Complete {
            output: Some(output).filter(|output| !output.is_null()),
        },
        Err(error) => {
            trace::ended_in_error(&error);
            error.into_settle()
        }
    }
}

async fn in_time(working: Caught, limit: Option<Duration>) -> JobResult<Json> {
    let Some(limit) = limit else {
        return working.await;
    };
    match tokio::time::timeout(limit, working).await {
        Ok(ended) => ended,
        Err(_) => Err(JobError::retry(format!(
            "the attempt took longer than its timeout of {limit:?}"
        ))),
    }
}

/// Completes when the lease is lost. Only where it is polled beside [`taken_away`], which is what is woken then: so a
/// handler that ends at once waits for nobody.
fn lost(lease: &Lease) -> impl Future<Output = ()> {
    poll_fn(move |_| match lease.fate() {
        Fate::Lost => Poll::Ready(()),
        Fate::Held | Fate::Cancelled | Fate::Stopped => Poll::Pending,
    })
}

/// Completes when the handler has to go, whether it is ready or not.
async fn taken_away(lease: &Lease, tidy: Duration) -> Fate {
    lease.comes_to(Fate::Cancelled).await;
    if lease.fate() == Fate::Cancelled {
        let _ = tokio::time::timeout(tidy, lease.comes_to(Fate::Stopped)).await;
    }
    lease.fate()
}

/// A handler's future whose panics are errors, also those of what it drops.
struct Caught(Option<Working>);

impl Caught {
    fn new(working: Working) -> Self {
        Caught(Some(working))
    }
}

impl Future for Caught {
    type Output = JobResult<Json>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<JobResult<Json>> {
        let Some(working) = &mut self.0 else {
            return Poll::Pending;
        };
        match catch_unwind(AssertUnwindSafe(|| working.as_mut().poll(context))) {
            Ok(poll) => poll,
            Err(panic) => Poll::Ready(Err(JobError::retry(format!(
                "the handler panicked: {}",
                said(&*panic)
            )))),
        }
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        let working = self.0.take();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(working))) {
            tracing::error!("a handler panicked while it was dropped: {}", said(&*panic));
        }
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it did not say why")
}
