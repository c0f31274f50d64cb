//! The in-memory store: the reference by which every other store is judged, and the one for tests
//! and for work that may be lost with its process.
//!
//! One lock guards everything, so each call is one step for every reader. The verbs are in the files
//! named after them; each is a walk through the contract: find what the decision needs, ask the pure
//! functions of core, write the answer. Nothing here decides.

mod act;
mod admit;
mod alarm;
mod changed;
mod claim;
mod control;
mod doctor;
mod documents;
mod effects;
mod index;
mod inner;
mod inspect;
mod ledger;
mod pulse;
mod ready;
mod record;
mod settle;
mod stats;
mod submit;
#[cfg(test)]
mod tests;
mod upkeep;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Invalid, StoreError};
use crate::ids::{Digest, JobId, Name};
use crate::json::Json;
use crate::limits;
use crate::memory::alarm::Alarm;
use crate::memory::changed::Changed;
pub use crate::memory::inner::Naming;
use crate::memory::inner::{Inner, Moment};
use crate::store::{
    Act, ActOutcome, Capabilities, ClaimRequest, Claimed, Control, Document, Explanation, ExtendRequest,
    FeedEntry, Finding, Guarantee, GuardOutcome, GuardRequest, Inspect, Interest, JobFilter, KeyFilter,
    LedgerFilter, Mark, Page, PutDocument, PutOutcome, Setting, SettingChange, Settlement, StepFilter,
    StepOutcome, StepRequest, Store, Submitted, Target, UpkeepReport, UpkeepRequest, WriteOutcome,
};
use crate::submission::Submission;
use crate::time::{Clock, Millis, Timestamp};
use crate::view::{AttemptView, ErrorGroup, Job, KeyRow, LedgerEntry, Listing, Snapshot, Stats, StepView};

/// Leases taken back at the beginning of a call: enough to keep up, few enough to stay quick.
const EXPIRED_PER_CALL: usize = 1_000;

/// A store in the memory of this process. Nothing survives its end.
///
/// ```
/// use std::sync::Arc;
///
/// use semel_core::ids::Name;
/// use semel_core::memory::MemoryStore;
/// use semel_core::store::Store;
/// use semel_core::time::{ManualClock, Timestamp};
///
/// let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_800_000_000_000)));
/// let store = MemoryStore::new(Name::new("default")?, clock);
/// assert_eq!(store.namespace().as_str(), "default");
/// # Ok::<(), semel_core::error::Invalid>(())
/// ```
pub struct MemoryStore {
    namespace: Name,
    clock: Arc<dyn Clock>,
    inner: Mutex<Inner>,
    alarm: Alarm,
}

impl MemoryStore {
    /// An empty store for a namespace. `clock` is all it knows of time.
    pub fn new(namespace: Name, clock: Arc<dyn Clock>) -> Self {
        let inner = Mutex::new(Inner::new(namespace.clone()));
        MemoryStore {
            namespace,
            clock,
            inner,
            alarm: Alarm::default(),
        }
    }

    /// The same with other ids, as a store gives them that adds to the token where the job is.
    #[must_use]
    pub fn naming(self, naming: Naming) -> Self {
        self.lock().naming = naming;
        self
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the clock once; under the lock, so that time goes forward from call to call.
    fn moment(&self, _locked: &Inner) -> Moment {
        let micros = self.clock.micros();
        Moment {
            micros,
            now: Timestamp::from_millis(micros / 1_000),
        }
    }

    fn read<T>(&self, look: impl FnOnce(&Inner, Moment) -> T) -> T {
        let inner = self.lock();
        let moment = self.moment(&inner);
        look(&inner, moment)
    }

    /// A change of what is beside the jobs, or housekeeping.
    fn edit<T>(&self, change: impl FnOnce(&mut Inner, Moment) -> T) -> T {
        let mut inner = self.lock();
        let moment = self.moment(&inner);
        let answer = change(&mut inner, moment);
        let concerned = inner.pulse.commit();
        drop(inner);
        concerned.into_iter().for_each(Waker::wake);
        answer
    }

    /// A step on the way of jobs: leases that have run out are taken back first.
    fn write<T>(&self, change: impl FnOnce(&mut Inner, Moment) -> T) -> T {
        self.edit(|inner, moment| {
            inner.expire(EXPIRED_PER_CALL, moment);
            change(inner, moment)
        })
    }

    /// One outcome per item, in order, each seeing what those before it did (contract 2.11).
    fn each<I, O>(
        &self,
        what: &str,
        batch: Vec<I>,
        mut change: impl FnMut(&mut Inner, I, Moment) -> O,
    ) -> Result<Vec<O>, StoreError> {
        limits::check_batch(what, batch.len())?;
        Ok(self.write(|inner, moment| {
            batch
                .into_iter()
                .map(|item| change(inner, item, moment))
                .collect()
        }))
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Payloads do not belong in logs.
        f.debug_struct("MemoryStore")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn namespace(&self) -> &Name {
        &self.namespace
    }

    async fn submit(&self, batch: Vec<Submission>) -> Result<Vec<Submitted>, StoreError> {
        self.each("submissions", batch, Inner::submit)
    }

    async fn explain(&self, submission: Submission) -> Result<Explanation, StoreError> {
        Ok(self.read(|inner, moment| inner.rehearse(moment, |inner| inner.explain(submission, moment))))
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Vec<Claimed>, StoreError> {
        limits::check_lease(request.lease)?;
        if !(1..=limits::BATCH).contains(&request.max) {
            let allowed = format!("1 to {}", limits::BATCH);
            return Err(Invalid::new("max", allowed).found(request.max.to_string()).into());
        }
        Ok(self.write(|inner, moment| inner.claim(request, moment)))
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Vec<WriteOutcome>, StoreError> {
        let ExtendRequest { leases, lease } = request;
        limits::check_lease(lease)?;
        self.each("leases", leases, |inner, beat, moment| {
            inner.extend(beat, lease, moment)
        })
    }

    async fn settle(&self, batch: Vec<Settlement>) -> Result<Vec<WriteOutcome>, StoreError> {
        self.each("settlements", batch, Inner::settle)
    }

    async fn steps(&self, batch: Vec<StepRequest>) -> Result<Vec<StepOutcome>, StoreError> {
        self.each("steps", batch, Inner::step)
    }

    async fn guard(&self, batch: Vec<GuardRequest>) -> Result<Vec<GuardOutcome>, StoreError> {
        self.each("guard calls", batch, Inner::guard)
    }

    async fn act(&self, batch: Vec<Act>) -> Result<Vec<ActOutcome>, StoreError> {
        self.each("acts", batch, Inner::act)
    }

    fn mark(&self) -> Mark {
        self.lock().pulse.mark()
    }

    async fn changed(&self, since: Mark, interest: Interest, at_most: Duration) -> Mark {
        Changed::new(self, since, interest, at_most).await
    }
}

#[async_trait]
impl Inspect for MemoryStore {
    async fn jobs_by_id(&self, ids: &[JobId]) -> Result<Vec<Option<Job>>, StoreError> {
        Ok(self.read(|inner, moment| {
            ids.iter()
                .map(|id| inner.find(id).map(|(_, record)| record.view(moment.now)))
                .collect()
        }))
    }

    async fn jobs(&self, filter: JobFilter, page: Page) -> Result<Listing<Job>, StoreError> {
        Ok(self.read(|inner, moment| inner.list_jobs(&filter, &page, moment.now))?)
    }

    async fn attempts(&self, id: &JobId) -> Result<Vec<AttemptView>, StoreError> {
        let attempts = |inner: &Inner| inner.find(id).map(|(_, record)| record.attempts.clone());
        Ok(self.read(|inner, _| attempts(inner)).unwrap_or_default())
    }

    async fn keys(&self, filter: KeyFilter, page: Page) -> Result<Listing<KeyRow>, StoreError> {
        Ok(self.read(|inner, moment| inner.list_keys(&filter, &page, moment.now))?)
    }

    async fn key(&self, digest: Digest) -> Result<Option<KeyRow>, StoreError> {
        Ok(self.read(|inner, moment| inner.key(digest, moment.now)))
    }

    async fn ledger(&self, filter: LedgerFilter, page: Page) -> Result<Listing<LedgerEntry>, StoreError> {
        Ok(self.read(|inner, _| inner.list_ledger(&filter, &page))?)
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        Ok(self.read(|inner, moment| inner.stats(moment.now)))
    }

    async fn history(&self, window: Millis) -> Result<Vec<Snapshot>, StoreError> {
        Ok(self.read(|inner, moment| inner.history(window, moment.now)))
    }

    async fn dead_letter_groups(&self, task: Option<Name>) -> Result<Vec<ErrorGroup>, StoreError> {
        Ok(self.read(|inner, _| inner.dead_letter_groups(task.as_ref())))
    }

    async fn list_steps(&self, filter: StepFilter) -> Result<Vec<StepView>, StoreError> {
        Ok(self.read(|inner, _| inner.list_steps(&filter)))
    }

    fn capabilities(&self) -> Capabilities {
        inspect::capabilities()
    }

    async fn guarantees(&self) -> Result<Vec<Guarantee>, StoreError> {
        Ok(inspect::guarantees())
    }
}

#[async_trait]
impl Control for MemoryStore {
    async fn set(&self, target: Target, change: SettingChange) -> Result<Setting, StoreError> {
        control::check_change(&target, &change)?;
        Ok(self.write(|inner, moment| inner.set(target, &change, moment)))
    }

    async fn settings(&self) -> Result<Vec<(Target, Setting)>, StoreError> {
        Ok(self.read(|inner, _| inner.settings.clone().into_iter().collect()))
    }

    async fn remove_queue(&self, queue: &Name) -> Result<i64, StoreError> {
        Ok(self.write(|inner, moment| inner.remove_queue(queue, moment)))
    }

    async fn put_document(&self, put: PutDocument) -> Result<PutOutcome, StoreError> {
        documents::check_document(&put)?;
        Ok(self.edit(|inner, moment| inner.put_document(put, moment)))
    }

    async fn document(&self, kind: &Name, name: &str) -> Result<Option<Document>, StoreError> {
        Ok(self.read(|inner, moment| inner.document(kind, name, moment.now)))
    }

    async fn documents(
        &self,
        kind: &Name,
        prefix: &str,
        page: Page,
    ) -> Result<Listing<Document>, StoreError> {
        Ok(self.read(|inner, moment| inner.list_documents(kind, prefix, &page, moment.now))?)
    }

    async fn delete_document(
        &self,
        kind: &Name,
        name: &str,
        version: Option<i64>,
    ) -> Result<PutOutcome, StoreError> {
        Ok(self.edit(|inner, moment| inner.delete_document(kind, name, version, moment)))
    }

    async fn append(&self, feed: &str, bodies: Vec<Json>) -> Result<(), StoreError> {
        documents::check_name("feed", feed)?;
        limits::check_batch("entries", bodies.len())?;
        self.edit(|inner, moment| inner.append(feed, bodies.into_iter(), moment.now));
        Ok(())
    }

    async fn feed(&self, feed: &str, page: Page) -> Result<Listing<FeedEntry>, StoreError> {
        Ok(self.read(|inner, _| inner.feed(feed, &page))?)
    }

    async fn reset_stats(&self) -> Result<Timestamp, StoreError> {
        Ok(self.edit(|inner, moment| inner.reset_stats(moment.now)))
    }

    async fn upkeep(&self, request: UpkeepRequest) -> Result<UpkeepReport, StoreError> {
        Ok(self.edit(|inner, moment| inner.upkeep(request, moment)))
    }

    async fn doctor(&self, _repair: bool) -> Result<Vec<Finding>, StoreError> {
        Ok(self.read(|inner, moment| inner.doctor(moment.now)))
    }
}
