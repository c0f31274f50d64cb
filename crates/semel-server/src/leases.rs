//! Leases this process gave out, so that its metrics know how long a run took, and who claims over HTTP.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use semel_core::ids::{JobId, Name};
use semel_core::store::{ClaimRequest, Claimed};

use crate::clock;
use crate::role::Caller;

/// Leases remembered; beyond that a run is not measured.
const MOST: usize = 100_000;
/// How often a worker that claims is listed again.
const LISTED: Duration = Duration::from_secs(15);
/// How long a worker that was heard of is believed to be there.
pub const BELIEVED: Duration = Duration::from_secs(90);
/// Workers of one credential that are listed: one who makes up names fills no list.
const LISTED_OF_ONE: usize = 200;
/// Workers that are listed in all.
const LISTED_IN_ALL: usize = 1_000;

/// The leases that were given out and not settled here.
#[derive(Debug, Default)]
pub struct Leases {
    leases: Mutex<HashMap<(JobId, i64), Lease>>,
    /// The workers that are listed: when that was done last, and whose they are.
    listed: Mutex<HashMap<Name, (Instant, String)>>,
}

/// What a worker says of itself when it claims.
#[derive(Debug)]
pub struct Introduction {
    /// Its name as it is stored.
    pub worker: Name,
    /// The queues it claims from; empty: all.
    pub queues: Vec<Name>,
    /// The tasks it claims; empty: all.
    pub tasks: Vec<Name>,
    /// How many it takes at once.
    pub slots: usize,
    /// The credential it works with.
    owner: String,
}

impl Introduction {
    /// What a claim says of the worker that makes it.
    pub fn of(caller: &Caller, request: &ClaimRequest) -> Self {
        Introduction {
            worker: request.worker.clone(),
            queues: request.queues.clone(),
            tasks: request.tasks.clone(),
            slots: request.max,
            owner: caller.identity().to_owned(),
        }
    }
}

/// A lease that was given out.
#[derive(Clone, Debug)]
pub struct Lease {
    /// The queue of its job.
    pub queue: Name,
    /// The task of its job.
    pub task: Name,
    /// Who has it.
    pub holder: Arc<Introduction>,
    since: Instant,
}

impl Lease {
    /// How long ago it was given out.
    pub fn age(&self) -> Duration {
        clock::instant().duration_since(self.since)
    }
}

impl Leases {
    /// Remembers what was given out; gives those that were not remembered before, as the answer to a repeated claim is.
    pub fn given<'a>(&self, claims: &'a [Claimed], holder: &Arc<Introduction>) -> Vec<&'a Claimed> {
        let since = clock::instant();
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fresh = Vec::new();
        for claim in claims {
            let which = (claim.job.id.clone(), claim.fence);
            if leases.contains_key(&which) {
                continue;
            }
            fresh.push(claim);
            if leases.len() < MOST {
                let lease = Lease {
                    queue: claim.job.queue.clone(),
                    task: claim.job.task.clone(),
                    holder: holder.clone(),
                    since,
                };
                leases.insert(which, lease);
            }
        }
        fresh
    }

    /// Who has a lease, if it was given out here.
    pub fn holder(&self, id: &JobId, fence: i64) -> Option<Arc<Introduction>> {
        let leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        let lease = leases.get(&(id.clone(), fence))?;
        Some(lease.holder.clone())
    }

    /// Forgets a lease that has ended; gives it if it was given out here.
    pub fn ended(&self, id: &JobId, fence: i64) -> Option<Lease> {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.remove(&(id.clone(), fence))
    }

    /// Whether it is time to list a worker again and there is room on the list; then it counts as listed.
    pub fn is_due(&self, said: &Introduction) -> bool {
        let now = clock::instant();
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, _)) = listed.get(&said.worker)
            && now.duration_since(*at) <= LISTED
        {
            return false;
        }
        listed.retain(|_, (at, _)| now.duration_since(*at) < BELIEVED);
        let of_one = listed.values().filter(|(_, owner)| *owner == said.owner).count();
        let is_full = of_one >= LISTED_OF_ONE || listed.len() >= LISTED_IN_ALL;
        if is_full && !listed.contains_key(&said.worker) {
            return false;
        }
        listed.insert(said.worker.clone(), (now, said.owner.clone()));
        true
    }

    /// Forgets leases that nobody settled.
    pub fn sweep(&self, older: Duration) {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.retain(|_, lease| lease.age() < older);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(name: String, owner: &str) -> Introduction {
        Introduction {
            worker: Name::new(name).expect("a name"),
            queues: Vec::new(),
            tasks: Vec::new(),
            slots: 1,
            owner: owner.to_owned(),
        }
    }

    #[test]
    fn made_up_names_of_workers_fill_no_list() {
        let leases = Leases::default();
        let listed = |owner: &str, n: usize| leases.is_due(&worker(format!("{owner}-{n}"), owner));
        let mine = (0..1_000).filter(|n| listed("mine", *n)).count();
        assert_eq!(mine, LISTED_OF_ONE);
        assert!(listed("another", 0), "one credential takes no room from another");
        assert!(!listed("another", 0), "it is listed, and not due again");
        let all = (0..20).map(|owner| {
            let owner = format!("owner-{owner}");
            (0..100).filter(|n| listed(&owner, *n)).count()
        });
        assert_eq!(mine + 1 + all.sum::<usize>(), LISTED_IN_ALL);
    }
}
