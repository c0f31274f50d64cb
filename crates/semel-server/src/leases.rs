//! Leases this process gave out, so that its metrics know how long a run took.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use semel_core::ids::{JobId, Name};
use semel_core::store::Claimed;

use crate::clock;

/// Leases remembered; beyond that a run is not measured.
const MOST: usize = 100_000;
/// How often a worker that claims is listed again.
const LISTED: Duration = Duration::from_secs(15);

/// The leases that were given out and not settled here.
#[derive(Debug, Default)]
pub struct Leases {
    leases: Mutex<HashMap<(JobId, i64), Lease>>,
    /// When workers that claim over HTTP were listed last.
    listed: Mutex<HashMap<Name, Instant>>,
}

/// A lease that was given out.
#[derive(Clone, Debug)]
pub struct Lease {
    /// The queue of its job.
    pub queue: Name,
    /// The task of its job.
    pub task: Name,
    since: Instant,
}

impl Lease {
    /// How long ago it was given out.
    pub fn age(&self) -> Duration {
        clock::instant().duration_since(self.since)
    }
}

impl Leases {
    /// Remembers what was given out.
    pub fn given(&self, claims: &[Claimed]) {
        let since = clock::instant();
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        for claim in claims.iter().take(MOST.saturating_sub(leases.len())) {
            let lease = Lease {
                queue: claim.job.queue.clone(),
                task: claim.job.task.clone(),
                since,
            };
            leases.insert((claim.job.id.clone(), claim.fence), lease);
        }
    }

    /// Forgets a lease that has ended; gives it if it was given out here.
    pub fn ended(&self, id: &JobId, fence: i64) -> Option<Lease> {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.remove(&(id.clone(), fence))
    }

    /// Whether it is time to list a worker again; then it counts as listed.
    pub fn is_due(&self, worker: &Name) -> bool {
        let now = clock::instant();
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let due = listed
            .get(worker)
            .is_none_or(|at| now.duration_since(*at) > LISTED);
        if due {
            listed.retain(|_, at| now.duration_since(*at) < LISTED * 4);
            if listed.len() < MOST {
                listed.insert(worker.clone(), now);
            }
        }
        due
    }

    /// Forgets leases that nobody settled.
    pub fn sweep(&self, older: Duration) {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.retain(|_, lease| lease.age() < older);
    }
}
