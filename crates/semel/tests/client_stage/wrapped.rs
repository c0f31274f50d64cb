//! A real store, wrapped: counts calls, is out of reach, or loses its replies when asked to.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;

use semel::semel_core::error::StoreError;
use semel::semel_core::ids::{Digest, JobId, Name};
use semel::semel_core::json::Json;
use semel::semel_core::store::*;
use semel::semel_core::submission::Submission;
use semel::semel_core::time::{Millis, Timestamp};
use semel::semel_core::view::*;

/// A store that does what it is told.
pub struct Wrapped {
    inner: Arc<dyn Store>,
    /// How many submissions each call had.
    pub batches: Mutex<Vec<usize>>,
    /// Nothing is answered, nothing is done.
    pub down: AtomicBool,
    /// As `down`, while this file exists: for other processes.
    pub down_while: Option<PathBuf>,
    /// So many submissions are applied, but not answered.
    pub lose_replies: AtomicU32,
    /// The next act is applied and answered; then the store is out of reach.
    pub down_after_act: AtomicBool,
    /// Each submission takes so long.
    pub slow: Option<Duration>,
}

impl Wrapped {
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Wrapped {
            inner,
            batches: Mutex::default(),
            down: AtomicBool::new(false),
            down_while: None,
            lose_replies: AtomicU32::new(0),
            down_after_act: AtomicBool::new(false),
            slow: None,
        }
    }

    pub fn is_down(&self, down: bool) {
        self.down.store(down, Ordering::Release);
    }

    pub fn sizes(&self) -> Vec<usize> {
        self.batches.lock().expect("unpoisoned").clone()
    }

    fn reach(&self) -> Result<(), StoreError> {
        let absent = self.down_while.as_ref().is_some_and(|file| file.exists());
        if absent || self.down.load(Ordering::Acquire) {
            return Err(StoreError::unavailable("talking to a store that is down"));
        }
        Ok(())
    }

    fn reply<T>(&self, answer: T) -> Result<T, StoreError> {
        let lost = self
            .lose_replies
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1));
        match lost {
            Ok(_) => Err(StoreError::unavailable("waiting for a reply that was lost")),
            Err(_) => Ok(answer),
        }
    }
}

#[async_trait]
impl Store for Wrapped {
    fn namespace(&self) -> &Name {
        self.inner.namespace()
    }

    async fn submit(&self, batch: Vec<Submission>) -> Result<Vec<Submitted>, StoreError> {
        self.batches.lock().expect("unpoisoned").push(batch.len());
        if let Some(slow) = self.slow {
            tokio::time::sleep(slow).await;
        }
        self.reach()?;
        let answers = self.inner.submit(batch).await?;
        self.reply(answers)
    }

    async fn explain(&self, submission: Submission) -> Result<Explanation, StoreError> {
        self.reach()?;
        self.inner.explain(submission).await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Vec<Claimed>, StoreError> {
        self.reach()?;
        self.inner.claim(request).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Vec<WriteOutcome>, StoreError> {
        self.reach()?;
        self.inner.extend(request).await
    }

    async fn settle(&self, batch: Vec<Settlement>) -> Result<Vec<WriteOutcome>, StoreError> {
        self.reach()?;
        self.inner.settle(batch).await
    }

    async fn steps(&self, batch: Vec<StepRequest>) -> Result<Vec<StepOutcome>, StoreError> {
        self.reach()?;
        self.inner.steps(batch).await
    }

    async fn guard(&self, batch: Vec<GuardRequest>) -> Result<Vec<GuardOutcome>, StoreError> {
        self.reach()?;
        self.inner.guard(batch).await
    }

    async fn act(&self, batch: Vec<Act>) -> Result<Vec<ActOutcome>, StoreError> {
        self.reach()?;
        let answers = self.inner.act(batch).await?;
        if self.down_after_act.swap(false, Ordering::AcqRel) {
            self.is_down(true);
        }
        self.reply(answers)
    }

    fn mark(&self) -> Mark {
        self.inner.mark()
    }

    async fn changed(&self, since: Mark, interest: Interest, at_most: Duration) -> Mark {
        self.inner.changed(since, interest, at_most).await
    }
}

#[async_trait]
impl Inspect for Wrapped {
    async fn jobs_by_id(&self, ids: &[JobId]) -> Result<Vec<Option<Job>>, StoreError> {
        self.reach()?;
        self.inner.jobs_by_id(ids).await
    }

    async fn jobs(&self, filter: JobFilter, page: Page) -> Result<Listing<Job>, StoreError> {
        self.reach()?;
        self.inner.jobs(filter, page).await
    }

    async fn attempts(&self, id: &JobId) -> Result<Vec<AttemptView>, StoreError> {
        self.reach()?;
        self.inner.attempts(id).await
    }

    async fn keys(&self, filter: KeyFilter, page: Page) -> Result<Listing<KeyRow>, StoreError> {
        self.reach()?;
        self.inner.keys(filter, page).await
    }

    async fn key(&self, digest: Digest) -> Result<Option<KeyRow>, StoreError> {
        self.reach()?;
        self.inner.key(digest).await
    }

    async fn ledger(&self, filter: LedgerFilter, page: Page) -> Result<Listing<LedgerEntry>, StoreError> {
        self.reach()?;
        self.inner.ledger(filter, page).await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        self.reach()?;
        self.inner.stats().await
    }

    async fn history(&self, window: Millis) -> Result<Vec<Snapshot>, StoreError> {
        self.reach()?;
        self.inner.history(window).await
    }

    async fn dead_letter_groups(&self, task: Option<Name>) -> Result<Vec<ErrorGroup>, StoreError> {
        self.reach()?;
        self.inner.dead_letter_groups(task).await
    }

    async fn list_steps(&self, filter: StepFilter) -> Result<Vec<StepView>, StoreError> {
        self.reach()?;
        self.inner.list_steps(filter).await
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn guarantees(&self) -> Result<Vec<Guarantee>, StoreError> {
        self.reach()?;
        self.inner.guarantees().await
    }
}

#[async_trait]
impl Control for Wrapped {
    async fn set(&self, target: Target, change: SettingChange) -> Result<Setting, StoreError> {
        self.reach()?;
        self.inner.set(target, change).await
    }

    async fn settings(&self) -> Result<Vec<(Target, Setting)>, StoreError> {
        self.reach()?;
        self.inner.settings().await
    }

    async fn remove_queue(&self, queue: &Name) -> Result<i64, StoreError> {
        self.reach()?;
        self.inner.remove_queue(queue).await
    }

    async fn put_document(&self, put: PutDocument) -> Result<PutOutcome, StoreError> {
        self.reach()?;
        self.inner.put_document(put).await
    }

    async fn document(&self, kind: &Name, name: &str) -> Result<Option<Document>, StoreError> {
        self.reach()?;
        self.inner.document(kind, name).await
    }

    async fn documents(
        &self,
        kind: &Name,
        prefix: &str,
        page: Page,
    ) -> Result<Listing<Document>, StoreError> {
        self.reach()?;
        self.inner.documents(kind, prefix, page).await
    }

    async fn delete_document(
        &self,
        kind: &Name,
        name: &str,
        version: Option<i64>,
    ) -> Result<PutOutcome, StoreError> {
        self.reach()?;
        self.inner.delete_document(kind, name, version).await
    }

    async fn append(&self, feed: &str, bodies: Vec<Json>) -> Result<(), StoreError> {
        self.reach()?;
        self.inner.append(feed, bodies).await
    }

    async fn feed(&self, feed: &str, page: Page) -> Result<Listing<FeedEntry>, StoreError> {
        self.reach()?;
        self.inner.feed(feed, page).await
    }

    async fn reset_stats(&self) -> Result<Timestamp, StoreError> {
        self.reach()?;
        self.inner.reset_stats().await
    }

    async fn upkeep(&self, request: UpkeepRequest) -> Result<UpkeepReport, StoreError> {
        self.reach()?;
        self.inner.upkeep(request).await
    }

    async fn doctor(&self, repair: bool) -> Result<Vec<Finding>, StoreError> {
        self.reach()?;
        self.inner.doctor(repair).await
    }
}
