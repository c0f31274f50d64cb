//! A worker that runs jobs here and now, one after the other, on the kit's clock.

use std::sync::Arc;
use std::time::Duration;

use semel_core::ids::JobId;
use semel_core::job::State;
use semel_core::lifecycle::AttemptResult;
use semel_core::limits;
use semel_core::store::{Beat, ClaimRequest, Claimed, ExtendRequest, Settlement, WriteOutcome};
use semel_core::time::Millis;

use crate::clock;
use crate::ids;
use crate::testing::Kit;
use crate::worker::Worker;
use crate::worker::attempt::{self, Ended};
use crate::worker::desk::Desk;
use crate::worker::lease::Lease;

/// More runs than this, and the jobs are taken not to come to rest.
const RUNS: usize = 10_000;

/// Longer than any test.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3_600);

/// A worker whose jobs are run here and now; made by [`Kit::worker`].
pub struct InlineWorker {
    kit: Kit,
    desk: Arc<Desk>,
    twice: bool,
}

/// One run of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// The job.
    pub job: JobId,
    /// Its task.
    pub task: String,
    /// Which attempt it was.
    pub attempt: u32,
    /// Where the job stood afterwards; `None`: the worker died, or lost the lease.
    pub state: Option<State>,
}

impl InlineWorker {
    pub(crate) async fn new<S>(kit: &Kit, worker: Worker<S>) -> Self
    where
        S: Clone + Send + Sync + 'static,
    {
        let desk = worker.into_desk().await.expect("a worker that makes sense");
        InlineWorker {
            kit: kit.clone(),
            desk,
            twice: false,
        }
    }

    /// From now on the worker dies at the end of each first delivery, so that every attempt is run twice.
    #[must_use]
    pub fn deliver_twice(mut self) -> Self {
        self.twice = true;
        self
    }

    /// Runs what is due, and what becomes due by that, until nothing is. Time stands still.
    pub async fn run_due(&self) -> Vec<Ran> {
        let mut ran = Vec::new();
        while let Some(claimed) = self.claim().await {
            ran.push(self.run(claimed).await);
            assert!(
                ran.len() < RUNS,
                "after {RUNS} runs there is still work that is due"
            );
        }
        ran
    }

    /// Runs everything to its end: when nothing is due, time is moved on to the next job that waits for its time.
    pub async fn run_all(&self) -> Vec<Ran> {
        let mut ran = self.run_due().await;
        while let Some(wait) = self.kit.next_due().await {
            self.kit.advance(wait);
            ran.extend(self.run_due().await);
            assert!(ran.len() < RUNS, "after {RUNS} runs there is still work to come");
        }
        ran
    }

    async fn claim(&self) -> Option<Claimed> {
        let settings = &self.desk.settings;
        let request = ClaimRequest {
            token: ids::fresh_token(),
            worker: settings.id.clone(),
            queues: settings.queues.clone(),
            tasks: self.desk.handlers.tasks(),
            max: 1,
            lease: settings.lease.into(),
        };
        let claimed = self.desk.store.claim(request).await;
        claimed.expect("the kit's store answers").pop()
    }

    async fn run(&self, claimed: Claimed) -> Ran {
        let mut ran = Ran {
            job: claimed.job.id.clone(),
            task: claimed.job.task.to_string(),
            attempt: claimed.job.attempt,
            state: None,
        };
        // The kit's clock is the store's: by it no lease runs out while a handler is at work, however long that takes.
        let until = clock::instant() + FOREVER;
        let lost = self.twice && self.is_first_delivery(&claimed).await;
        let lease = self.desk.leases.enter(vec![claimed], 0, until).remove(0);
        let ended = self.work(lease.clone()).await.filter(|_| !lost);
        match ended {
            Some(ended) => ran.state = self.settle(ended).await,
            // The worker is dead: the job waits for its lease to run out.
            None => self.kit.advance(self.desk.settings.lease),
        }
        self.desk.leases.strike([&lease]);
        ran
    }

    /// Runs the handler; `None`: it died.
    async fn work(&self, lease: Arc<Lease>) -> Option<Ended> {
        let death = self.kit.death();
        death.working(true);
        let ended = tokio::select! {
            biased;
            ended = attempt::run(&self.desk.handlers, lease, Duration::ZERO) => Some(ended),
            () = death.comes() => None,
        };
        let alive = ended.filter(|_| !death.moment(|| "before the settlement".to_owned()));
        death.working(false);
        alive
    }

    /// Whether no delivery of this attempt was lost, and one may be.
    async fn is_first_delivery(&self, claimed: &Claimed) -> bool {
        let job = &claimed.job;
        let ended = self
            .desk
            .store
            .attempts(&job.id)
            .await
            .expect("the kit's store answers");
        let last = ended.last().map(|delivery| delivery.end.result);
        let lost_before = last == Some(AttemptResult::Expired);
        !lost_before && job.deliveries + 1 < job.max_deliveries
    }

    async fn settle(&self, ended: Ended) -> Option<State> {
        let store = &self.desk.store;
        let notes = ended.lease.take_notes();
        let (id, fence) = (ended.lease.job.id.clone(), ended.lease.fence);
        if !notes.is_empty() {
            let beat = Beat {
                id: id.clone(),
                fence,
                progress: notes.progress,
                log: notes.lines,
            };
            let request = ExtendRequest {
                leases: vec![beat],
                lease: Millis::from(self.desk.settings.lease),
            };
            store.extend(request).await.expect("the kit's store answers");
        }
        let result = ended.settle?;
        let settlement = Settlement { id, fence, result };
        let outcomes = store.settle(vec![settlement]).await;
        match outcomes.expect("the kit's store answers").pop() {
            Some(WriteOutcome::Ok(state)) => Some(state),
            Some(WriteOutcome::Invalid(invalid)) => panic!("how the attempt ended cannot be kept: {invalid}"),
            _ => None,
        }
    }
}

/// How long to wait for the next job, given the moments they wait for.
pub(crate) fn shortest(waits: impl Iterator<Item = Millis>) -> Option<Duration> {
    waits.min().map(|wait| wait.max(Millis::new(1)).into())
}

/// Rows in one look at the kit's store.
pub(crate) const PAGE: usize = limits::PAGE;
