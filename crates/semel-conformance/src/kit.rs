//! What cases are written with: a world with one store in it, a clock to move, and short ways to say common things.

mod admitting;
mod effects;
mod operating;
mod seeing;

pub use admitting::{Picture, again, ends, into_queue, keyed, latest, named, numbered};
pub use operating::{done, held_by, queue, task};
pub use seeing::{nonzero, refused, said};

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use semel_core::dedup::Dedup;
use semel_core::ids::{JobId, Name, Token};
use semel_core::job::{Outcome, State};
use semel_core::json::Json;
use semel_core::lifecycle::Settle;
use semel_core::store::{
    Act, ActOutcome, Admitted, Beat, ClaimRequest, Claimed, ExtendRequest, Settlement, Store, Submitted,
    UpkeepRequest, WriteOutcome,
};
use semel_core::submission::{Policy, Submission};
use semel_core::time::{Clock as _, ManualClock, Millis, Timestamp};
use semel_core::view::{Job, Stats};

use crate::harness::{Harness, Instance};

/// One store, one clock, one case.
pub struct World {
    harness: Arc<dyn Harness>,
    namespace: Name,
    clock: Arc<ManualClock>,
    instance: Mutex<Option<Instance>>,
    runtime: tokio::runtime::Runtime,
}

impl World {
    /// A world whose store is made when it is first asked for.
    pub fn new(harness: Arc<dyn Harness>) -> Self {
        World {
            harness,
            namespace: name("default"),
            clock: Arc::new(ManualClock::new(Timestamp::from_millis(1_800_000_000_000))),
            instance: Mutex::new(None),
            runtime: tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime can be made"),
        }
    }

    /// The harness, for cases that make several places.
    pub fn harness(&self) -> &Arc<dyn Harness> {
        &self.harness
    }

    /// The store of this world.
    pub fn store(&self) -> Arc<dyn Store> {
        let mut slot = self.instance.lock().unwrap_or_else(PoisonError::into_inner);
        slot.get_or_insert_with(|| self.harness.create(&self.namespace, self.clock.clone()))
            .store
            .clone()
    }

    /// A store of another namespace in the same place.
    pub fn sibling(&self, namespace: &str) -> Arc<dyn Store> {
        self.store();
        let slot = self.instance.lock().unwrap_or_else(PoisonError::into_inner);
        let instance = slot.as_ref().expect("made one line above");
        self.harness
            .sibling(instance, &name(namespace), self.clock.clone())
    }

    /// A crash: the handle is gone, the place is opened again.
    pub fn crash(&self) {
        self.store();
        let mut slot = self.instance.lock().unwrap_or_else(PoisonError::into_inner);
        let old = slot.take().expect("made one line above");
        *slot = Some(self.harness.reopen(old, &self.namespace, self.clock.clone()));
    }

    /// Lets time pass.
    pub fn pass(&self, length: Millis) {
        self.clock.advance(length);
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Waits for a future.
    pub fn block<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Submits one.
    pub fn submit(&self, submission: Submission) -> Submitted {
        self.submit_all(vec![submission]).remove(0)
    }

    /// Submits a batch.
    pub fn submit_all(&self, batch: Vec<Submission>) -> Vec<Submitted> {
        self.block(self.store().submit(batch)).expect("the store answers")
    }

    /// Submits one that must be answered with a job.
    pub fn admitted(&self, submission: Submission) -> Admitted {
        match self.submit(submission) {
            Submitted::Job(admitted) => *admitted,
            other => panic!("expected a job, got {other:?}"),
        }
    }

    /// Submits one that must be accepted; its id.
    pub fn accepted(&self, submission: Submission) -> JobId {
        let admitted = self.admitted(submission);
        assert_eq!(admitted.outcome, Outcome::Accepted, "{admitted:?}");
        admitted.job.id
    }

    /// Claims up to `max` jobs of any kind for 30 seconds.
    pub fn claim(&self, max: usize) -> Vec<Claimed> {
        self.block(self.store().claim(claim_request(max)))
            .expect("the store answers")
    }

    /// Claims exactly one job.
    pub fn claim_one(&self) -> Claimed {
        let mut claims = self.claim(1);
        assert_eq!(claims.len(), 1, "a job to claim");
        claims.remove(0)
    }

    /// Settles one delivery.
    pub fn settle(&self, id: &JobId, fence: i64, result: Settle) -> WriteOutcome {
        let settlement = Settlement {
            id: id.clone(),
            fence,
            result,
        };
        self.block(self.store().settle(vec![settlement]))
            .expect("the store answers")
            .remove(0)
    }

    /// Completes a claim without an output.
    pub fn complete(&self, claimed: &Claimed) -> WriteOutcome {
        self.settle(&claimed.job.id, claimed.fence, Settle::Complete { output: None })
    }

    /// Fails a claim for good.
    pub fn fail(&self, claimed: &Claimed, error: &str) -> WriteOutcome {
        self.settle(
            &claimed.job.id,
            claimed.fence,
            Settle::Fail {
                error: error.to_owned(),
            },
        )
    }

    /// One heartbeat of 30 seconds.
    pub fn extend(&self, id: &JobId, fence: i64) -> WriteOutcome {
        let beat = Beat {
            id: id.clone(),
            fence,
            progress: None,
            log: Vec::new(),
        };
        let request = ExtendRequest {
            leases: vec![beat],
            lease: Millis::from_secs(30),
        };
        self.block(self.store().extend(request))
            .expect("the store answers")
            .remove(0)
    }

    /// One act.
    pub fn act(&self, act: Act) -> ActOutcome {
        self.block(self.store().act(vec![act]))
            .expect("the store answers")
            .remove(0)
    }

    /// One job, which must exist.
    pub fn job(&self, id: &JobId) -> Job {
        self.find(id).unwrap_or_else(|| panic!("job {id} exists"))
    }

    /// One job, if it exists.
    pub fn find(&self, id: &JobId) -> Option<Job> {
        self.block(self.store().jobs_by_id(std::slice::from_ref(id)))
            .expect("the store answers")
            .remove(0)
    }

    /// The state of a job.
    pub fn state(&self, id: &JobId) -> State {
        self.job(id).state
    }

    /// The counters and sizes.
    pub fn stats(&self) -> Stats {
        self.block(self.store().stats()).expect("the store answers")
    }

    /// Rounds of upkeep until there is nothing left to do.
    pub fn upkeep(&self) {
        for _ in 0..1_000 {
            if !self
                .block(self.store().upkeep(UpkeepRequest::default()))
                .expect("the store answers")
                .more
            {
                return;
            }
        }
        panic!("upkeep never comes to an end");
    }
}

/// A valid name.
pub fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

/// A valid document.
pub fn json(text: &str) -> Json {
    Json::new(text).expect("valid JSON")
}

/// A token nobody else has: unique in this process and, by its process id, across processes.
pub fn token() -> Token {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut random = [0u8; 10];
    random[..4].copy_from_slice(&std::process::id().to_be_bytes());
    random[2..].copy_from_slice(&(n ^ (u64::from(std::process::id()) << 40)).to_be_bytes());
    Token::from_parts(1_800_000_000_000 + n, &random)
}

/// A submission of task `work` with a small input and no policy.
pub fn plain() -> Submission {
    of("work", "{}")
}

/// A submission of a task with an input and no policy.
pub fn of(task: &str, input: &str) -> Submission {
    Submission::new(token(), name(task), json(input))
}

/// A submission of task `work` with a policy.
pub fn with(policy: Dedup) -> Submission {
    with_input(policy, "{}")
}

/// A submission of task `work` with a policy and an input.
pub fn with_input(policy: Dedup, input: &str) -> Submission {
    Submission {
        policy: Policy::from(policy),
        ..of("work", input)
    }
}

/// A claim of up to `max` jobs of any kind for 30 seconds.
pub fn claim_request(max: usize) -> ClaimRequest {
    ClaimRequest {
        token: token(),
        worker: name("worker"),
        queues: Vec::new(),
        tasks: Vec::new(),
        max,
        lease: Millis::from_secs(30),
    }
}

/// Whether an id is that of the job which a call with this token made: the token, and behind a dot whatever the store
/// adds to find the job again.
pub fn made_by(id: &JobId, token: Token) -> bool {
    let rest = id.as_str().strip_prefix(&token.to_string());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Seconds.
pub fn secs(n: i64) -> Millis {
    Millis::from_secs(n)
}
