//! Leases that run out. Their entries are hints, sorted by the moment they are about: a dead worker's jobs are found
//! without looking at all jobs.

use std::sync::atomic::Ordering;

use futures_util::FutureExt as _;
use semel_core::error::StoreError;
use semel_core::ids::JobId;
use semel_core::lifecycle;
use semel_core::time::{Millis, Timestamp};

use crate::cell::{Cell, Claim};
use crate::clock::random;
use crate::desk::{Desk, at_once};
use crate::layout;
use crate::record::Record;
use crate::setup::Setup;

/// Leases taken back at the beginning of a call.
const PER_CALL: usize = 1_000;
/// How far the clocks of two handles may be apart, and a little more.
const NEARLY: Millis = Millis::from_secs(2);
/// How often lease entries are looked through, in milliseconds.
const EVERY: i64 = 1_000;

/// What a look at a lease entry found.
struct Visit {
    /// Leases that were taken back.
    expired: usize,
    /// Nothing needs the entry any more.
    over: bool,
}

impl Desk {
    /// Takes back the leases known to have run out; what every call that writes does first.
    pub async fn tend(&self, setup: &Setup) -> Result<usize, StoreError> {
        self.tend_some(setup, PER_CALL).await
    }

    /// The same, at most so many cells. Says how many leases it took back.
    pub async fn tend_some(&self, setup: &Setup, most: usize) -> Result<usize, StoreError> {
        let late = self.late(self.moment().now, most);
        let tended = late.iter().map(|cell| {
            let tend = async move {
                match self.tend_one(cell, setup).await {
                    Err(error @ StoreError::Corrupt { .. }) => {
                        // One broken object does not stop other work (contract 9.5); the doctor tells of it.
                        tracing::warn!(%error, "a lease is left alone");
                        Ok(0)
                    }
                    tended => tended,
                }
            };
            tend.boxed()
        });
        let expired = at_once(tended.collect()).await?;
        Ok(expired.into_iter().sum())
    }

    /// Takes back the leases of a cell that have run out. Says how many: not how many it saw, for others look at the
    /// same cell, and each lease is taken back by one.
    async fn tend_one(&self, name: &str, setup: &Setup) -> Result<usize, StoreError> {
        let now = self.moment().now;
        let loaded = self.recall(name).await?;
        let is_late = |job: &Record| lifecycle::is_expired(&job.life, now) && !setup.is_void(job);
        if !loaded.base.is_some_and(|(_, cell)| cell.jobs.iter().any(is_late)) {
            return Ok(0);
        }
        self.change_counting(name, true, setup, |_, expired, _| expired)
            .await
    }

    /// Writes the entry of some leases, before the leases themselves are written.
    pub async fn advertise(
        &self,
        until: Timestamp,
        token: &str,
        jobs: Vec<(String, JobId)>,
    ) -> Result<(), StoreError> {
        let entry = Cell {
            claim: Some(Claim {
                jobs,
                forget_at: until,
            }),
            nonce: random(),
            ..Cell::default()
        };
        self.bucket
            .put(&layout::lease(until, token), entry.encode())
            .await
    }

    /// A lease that was written so late that its entry may be gone already is advertised again.
    pub async fn advertise_late(&self, until: Timestamp, cell: &str, id: &JobId) -> Result<(), StoreError> {
        if self.moment().now.plus(NEARLY) < until {
            return Ok(());
        }
        let token = format!("{:016x}", random());
        self.advertise(until, &token, vec![(cell.to_owned(), id.clone())])
            .await
    }

    /// Looks through the lease entries, if that was not done within the last second.
    pub async fn sweep_leases(&self, setup: &Setup) -> Result<(), StoreError> {
        let now = self.moment().now.as_millis();
        let last = self.swept.load(Ordering::Acquire);
        if now < last.saturating_add(EVERY) {
            return Ok(());
        }
        self.swept.store(now, Ordering::Release);
        self.sweep_due_leases(setup).await.map(|_| ())
    }

    /// Takes back the leases that have run out by their entries, whoever gave them. Says how many.
    pub async fn sweep_due_leases(&self, setup: &Setup) -> Result<usize, StoreError> {
        let now = self.moment().now;
        let listed = self.bucket.list(layout::LEASES, None, 1_000).await?;
        let due: Vec<String> = listed
            .into_iter()
            .filter(|one| layout::lease_until(&one.name).is_some_and(|until| until <= now))
            .map(|one| one.name)
            .collect();
        let visits = due.iter().map(|name| self.visit(name, setup).boxed());
        let visited = at_once(visits.collect()).await?;
        let over = due.into_iter().zip(&visited).filter(|(_, visit)| visit.over);
        self.sweep(over.map(|(name, _)| name).collect()).await;
        Ok(visited.iter().map(|visit| visit.expired).sum())
    }

    /// Makes sure that no job of an entry needs it any more (rule 3): its leases have run out and are taken back. A
    /// lease that lasts longer has an entry of its own, from before it was written. What this handle remembers of a
    /// cell may be from before the lease, so the cell is read.
    async fn visit(&self, name: &str, setup: &Setup) -> Result<Visit, StoreError> {
        let mut visit = Visit {
            expired: 0,
            over: true,
        };
        let claim = match self.entry(name).await {
            Err(error @ StoreError::Corrupt { .. }) => {
                tracing::warn!(%error, "an entry of leases is left alone");
                visit.over = false;
                return Ok(visit);
            }
            read => read?,
        };
        let Some(claim) = claim else {
            return Ok(visit);
        };
        let looks = claim.jobs.iter().map(|(cell, _)| {
            let look = async move {
                let read = self.read(cell).await;
                match read.and(self.tend_one(cell, setup).await) {
                    Err(error @ StoreError::Corrupt { .. }) => {
                        tracing::warn!(%error, "a lease is left alone");
                        Ok(None)
                    }
                    looked => looked.map(Some),
                }
            };
            look.boxed()
        });
        for looked in at_once(looks.collect()).await? {
            visit.expired += looked.unwrap_or(0);
            visit.over &= looked.is_some();
        }
        Ok(visit)
    }

    /// What a lease entry is about. One that cannot be read is noted, for the doctor.
    async fn entry(&self, name: &str) -> Result<Option<Claim>, StoreError> {
        let Some((bytes, _)) = self.bucket.get(name).await? else {
            return Ok(None);
        };
        Ok(self.decode(name, &bytes)?.claim)
    }

    /// All lease entries that can be read.
    pub async fn lease_entries(&self) -> Result<Vec<(String, Claim)>, StoreError> {
        let listed = self.bucket.list(layout::LEASES, None, usize::MAX).await?;
        let entries = listed.into_iter().map(|one| {
            let read = async move {
                match self.entry(&one.name).await {
                    Err(StoreError::Corrupt { .. }) => Ok(None),
                    read => Ok(read?.map(|claim| (one.name, claim))),
                }
            };
            read.boxed()
        });
        let entries: Vec<Option<(String, Claim)>> = at_once(entries.collect()).await?;
        Ok(entries.into_iter().flatten().collect())
    }

    /// What a fresh handle has to know: which leases there are.
    pub async fn learn_leases(&self) -> Result<(), StoreError> {
        for (name, claim) in self.lease_entries().await? {
            let until = layout::lease_until(&name).unwrap_or_default();
            claim.jobs.iter().for_each(|(cell, _)| self.expect(until, cell));
        }
        Ok(())
    }
}
