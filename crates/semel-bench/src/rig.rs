//! A store, and the load it is given.

use std::sync::Arc;

use anyhow::{Result, ensure};
use tokio::runtime::Handle;

use semel_core::ids::Name;
use semel_core::job::{Outcome, State};
use semel_core::lifecycle::Settle;
use semel_core::limits;
use semel_core::store::{ClaimRequest, Claimed, Settlement, Store, WriteOutcome};
use semel_core::submission::Submission;

use crate::load::{Kind, Load};

/// Where a bulk measurement says 1,024: the most the store takes in one call.
pub(crate) const LARGEST: usize = limits::BATCH;

/// A store, and the load it is given. Clones share both.
#[derive(Clone)]
pub(crate) struct Rig {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) load: Load,
    /// Jobs in a call of those who claim and settle.
    pub(crate) batch: usize,
    handle: Handle,
    worker: Name,
}

impl Rig {
    /// Calls that each have up to so many jobs.
    pub(crate) fn new(store: Arc<dyn Store>, handle: Handle, load: Load, batch: usize) -> Result<Self> {
        Ok(Rig {
            store,
            load,
            batch,
            handle,
            worker: Name::new("bench")?,
        })
    }

    /// Runs calls to the store on this thread.
    pub(crate) fn block_on<T>(&self, calls: impl Future<Output = T>) -> T {
        self.handle.block_on(calls)
    }

    /// The runtime, for calls that are to run beside each other.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Submits a batch of which each item has to have the same outcome.
    pub(crate) async fn submit(&self, batch: Vec<Submission>, expected: Outcome) -> Result<()> {
        for submitted in self.store.submit(batch).await? {
            ensure!(
                submitted.outcome() == Some(expected),
                "{expected:?} was expected, not {submitted:?}"
            );
        }
        Ok(())
    }

    /// Claims exactly so many jobs, which have to be there.
    pub(crate) async fn claim(&self, count: usize) -> Result<Vec<Claimed>> {
        let request = ClaimRequest {
            token: self.load.token(),
            worker: self.worker.clone(),
            queues: vec![limits::default_queue()],
            tasks: Vec::new(),
            max: count,
            lease: limits::LEASE,
        };
        let claimed = self.store.claim(request).await?;
        ensure!(
            claimed.len() == count,
            "{count} jobs were waiting, {} were given",
            claimed.len()
        );
        Ok(claimed)
    }

    /// Completes claimed jobs.
    pub(crate) async fn complete(&self, claimed: Vec<Claimed>) -> Result<()> {
        if claimed.is_empty() {
            return Ok(());
        }
        let complete = |claimed: Claimed| Settlement {
            id: claimed.job.id,
            fence: claimed.fence,
            result: Settle::Complete { output: None },
        };
        for outcome in self
            .store
            .settle(claimed.into_iter().map(complete).collect())
            .await?
        {
            ensure!(
                outcome == WriteOutcome::Ok(State::Complete),
                "a settlement ended in {outcome:?}"
            );
        }
        Ok(())
    }

    /// Submits so many fresh jobs, as fast as it goes.
    pub(crate) fn fill(&self, kind: Kind, jobs: usize, priority: i8) -> Result<()> {
        for size in batches(jobs, self.batch) {
            let mut batch = self.load.batch(kind, size)?;
            batch
                .iter_mut()
                .for_each(|submission| submission.priority = priority);
            self.block_on(self.submit(batch, Outcome::Accepted))?;
        }
        Ok(())
    }
}

/// The sizes of the batches that make up `jobs`.
pub(crate) fn batches(jobs: usize, size: usize) -> impl Iterator<Item = usize> {
    (0..jobs).step_by(size).map(move |begun| size.min(jobs - begun))
}
