//! Looks now and then whether a running job was cancelled, so that its handler hears of it sooner than by a heartbeat.

use std::sync::Arc;
use std::time::Duration;

use semel_core::job::State;
use semel_core::limits::PAGE;
use semel_core::store::{Interest, Mark};

use crate::worker::desk::Desk;
use crate::worker::lease::{Fate, Lease};
use crate::worker::stop::Stage;

/// Handlers that are done sooner are never looked at.
const EVERY: Duration = Duration::from_secs(1);

/// How long to wait for a sign that some job has ended.
const AT_MOST: Duration = Duration::from_secs(10);

/// Looks until the worker leaves.
pub(crate) async fn watch(desk: Arc<Desk>) {
    tokio::select! {
        () = desk.stop.comes_to(Stage::Leaving) => {}
        () = look_again_and_again(&desk) => {}
    }
}

async fn look_again_and_again(desk: &Desk) {
    let mut seen = desk.store.mark();
    loop {
        tokio::time::sleep(EVERY).await;
        if desk.floor.running() == 0 {
            continue;
        }
        seen = look(desk, seen).await;
    }
}

async fn look(desk: &Desk, seen: Mark) -> Mark {
    let now = desk.store.changed(seen, Interest::Ends, AT_MOST).await;
    if now == seen {
        return seen;
    }
    for some in in_danger(desk).chunks(PAGE) {
        let ids: Vec<_> = some.iter().map(|lease| lease.job.id.clone()).collect();
        // A heartbeat will find out what could not be looked up now.
        let Ok(jobs) = desk.store.jobs_by_id(&ids).await else {
            return now;
        };
        for (lease, job) in some.iter().zip(jobs) {
            if job.is_some_and(|job| job.state == State::Cancelled && job.fence > lease.fence) {
                tell_cancelled(desk, lease);
            }
        }
    }
    now
}

/// What is in hand; of very much that waits in the buffer nothing waits long enough to be looked at.
fn in_danger(desk: &Desk) -> Vec<Arc<Lease>> {
    let in_hand = desk.leases.ours(|lease| !lease.is_over());
    if in_hand.len() <= PAGE {
        return in_hand;
    }
    in_hand.into_iter().filter(|lease| lease.is_running()).collect()
}

/// Tells a handler that its job was cancelled.
pub(crate) fn tell_cancelled(desk: &Desk, lease: &Lease) {
    if lease.tell(Fate::Cancelled) {
        tracing::info!(job_id = %lease.job.id, task = %lease.job.task, "the job was cancelled");
        desk.tally.cancelled();
    }
}
