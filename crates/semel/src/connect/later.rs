//! A store that is out of reach when a producer starts: opened by the first call that finds it.
//!
//! Only a client with a spool gets one, as it has something to do until then (contract 3.4).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::OnceCell;

use semel_core::error::StoreError;
use semel_core::ids::{Digest, JobId, Name};
use semel_core::json::Json;
use semel_core::store::{
    Act, ActOutcome, Capabilities, ClaimRequest, Claimed, Control, Document, Explanation, ExtendRequest,
    FeedEntry, Finding, Guarantee, GuardOutcome, GuardRequest, Inspect, Interest, JobFilter, KeyFilter,
    LedgerFilter, Mark, Page, PutDocument, PutOutcome, Setting, SettingChange, Settlement, StepFilter,
    StepOutcome, StepRequest, Store, Submitted, Target, UpkeepReport, UpkeepRequest, WriteOutcome,
};
use semel_core::submission::Submission;
use semel_core::time::{Millis, Timestamp};
use semel_core::view::{
    AttemptView, ErrorGroup, Job, KeyRow, LedgerEntry, Listing, Snapshot, Stats, StepView,
};

type Opened = Pin<Box<dyn Future<Output = Result<Arc<dyn Store>, StoreError>> + Send>>;

/// Opens a store, again and again until it is there.
pub(super) struct Later {
    namespace: Name,
    open: Box<dyn Fn() -> Opened + Send + Sync>,
    opened: OnceCell<Arc<dyn Store>>,
}

impl Later {
    pub(super) fn new(namespace: Name, open: impl Fn() -> Opened + Send + Sync + 'static) -> Self {
        Later {
            namespace,
            open: Box::new(open),
            opened: OnceCell::new(),
        }
    }

    async fn store(&self) -> Result<&Arc<dyn Store>, StoreError> {
        self.opened.get_or_try_init(|| (self.open)()).await
    }
}

#[async_trait]
impl Store for Later {
    fn namespace(&self) -> &Name {
        &self.namespace
    }

    async fn submit(&self, batch: Vec<Submission>) -> Result<Vec<Submitted>, StoreError> {
        self.store().await?.submit(batch).await
    }

    async fn explain(&self, submission: Submission) -> Result<Explanation, StoreError> {
        self.store().await?.explain(submission).await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Vec<Claimed>, StoreError> {
        self.store().await?.claim(request).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Vec<WriteOutcome>, StoreError> {
        self.store().await?.extend(request).await
    }

    async fn settle(&self, batch: Vec<Settlement>) -> Result<Vec<WriteOutcome>, StoreError> {
        self.store().await?.settle(batch).await
    }

    async fn steps(&self, batch: Vec<StepRequest>) -> Result<Vec<StepOutcome>, StoreError> {
        self.store().await?.steps(batch).await
    }

    async fn guard(&self, batch: Vec<GuardRequest>) -> Result<Vec<GuardOutcome>, StoreError> {
        self.store().await?.guard(batch).await
    }

    async fn act(&self, batch: Vec<Act>) -> Result<Vec<ActOutcome>, StoreError> {
        self.store().await?.act(batch).await
    }

    fn mark(&self) -> Mark {
        self.opened.get().map(|store| store.mark()).unwrap_or_default()
    }

    async fn changed(&self, since: Mark, interest: Interest, at_most: Duration) -> Mark {
        match self.opened.get() {
            Some(store) => store.changed(since, interest, at_most).await,
            None => {
                tokio::time::sleep(at_most).await;
                self.mark()
            }
        }
    }
}

#[async_trait]
impl Inspect for Later {
    async fn jobs_by_id(&self, ids: &[JobId]) -> Result<Vec<Option<Job>>, StoreError> {
        self.store().await?.jobs_by_id(ids).await
    }

    async fn jobs(&self, filter: JobFilter, page: Page) -> Result<Listing<Job>, StoreError> {
        self.store().await?.jobs(filter, page).await
    }

    async fn attempts(&self, id: &JobId) -> Result<Vec<AttemptView>, StoreError> {
        self.store().await?.attempts(id).await
    }

    async fn keys(&self, filter: KeyFilter, page: Page) -> Result<Listing<KeyRow>, StoreError> {
        self.store().await?.keys(filter, page).await
    }

    async fn key(&self, digest: Digest) -> Result<Option<KeyRow>, StoreError> {
        self.store().await?.key(digest).await
    }

    async fn ledger(&self, filter: LedgerFilter, page: Page) -> Result<Listing<LedgerEntry>, StoreError> {
        self.store().await?.ledger(filter, page).await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        self.store().await?.stats().await
    }

    async fn history(&self, window: Millis) -> Result<Vec<Snapshot>, StoreError> {
        self.store().await?.history(window).await
    }

    async fn dead_letter_groups(&self, task: Option<Name>) -> Result<Vec<ErrorGroup>, StoreError> {
        self.store().await?.dead_letter_groups(task).await
    }

    async fn list_steps(&self, filter: StepFilter) -> Result<Vec<StepView>, StoreError> {
        self.store().await?.list_steps(filter).await
    }

    /// Of a store that was never reached nothing is promised.
    fn capabilities(&self) -> Capabilities {
        match self.opened.get() {
            Some(store) => store.capabilities(),
            None => Capabilities {
                name: "out of reach",
                strict_order: false,
                wake_up: Millis::from_secs(1),
                durable: false,
                counters_at_once: false,
                clock_resolution: Millis::from_secs(1),
                key_search: false,
                joins_transaction: false,
                tokens_stand_alone: false,
                shared_by_processes: false,
            },
        }
    }

    async fn guarantees(&self) -> Result<Vec<Guarantee>, StoreError> {
        self.store().await?.guarantees().await
    }
}

#[async_trait]
impl Control for Later {
    async fn set(&self, target: Target, change: SettingChange) -> Result<Setting, StoreError> {
        self.store().await?.set(target, change).await
    }

    async fn settings(&self) -> Result<Vec<(Target, Setting)>, StoreError> {
        self.store().await?.settings().await
    }

    async fn remove_queue(&self, queue: &Name) -> Result<i64, StoreError> {
        self.store().await?.remove_queue(queue).await
    }

    async fn put_document(&self, put: PutDocument) -> Result<PutOutcome, StoreError> {
        self.store().await?.put_document(put).await
    }

    async fn document(&self, kind: &Name, name: &str) -> Result<Option<Document>, StoreError> {
        self.store().await?.document(kind, name).await
    }

    async fn documents(
        &self,
        kind: &Name,
        prefix: &str,
        page: Page,
    ) -> Result<Listing<Document>, StoreError> {
        self.store().await?.documents(kind, prefix, page).await
    }

    async fn delete_document(
        &self,
        kind: &Name,
        name: &str,
        version: Option<i64>,
    ) -> Result<PutOutcome, StoreError> {
        self.store().await?.delete_document(kind, name, version).await
    }

    async fn append(&self, feed: &str, bodies: Vec<Json>) -> Result<(), StoreError> {
        self.store().await?.append(feed, bodies).await
    }

    async fn feed(&self, feed: &str, page: Page) -> Result<Listing<FeedEntry>, StoreError> {
        self.store().await?.feed(feed, page).await
    }

    async fn reset_stats(&self) -> Result<Timestamp, StoreError> {
        self.store().await?.reset_stats().await
    }

    async fn upkeep(&self, request: UpkeepRequest) -> Result<UpkeepReport, StoreError> {
        self.store().await?.upkeep(request).await
    }

    async fn doctor(&self, repair: bool) -> Result<Vec<Finding>, StoreError> {
        self.store().await?.doctor(repair).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use semel_core::job::Outcome;
    use semel_core::memory::MemoryStore;

    use super::*;
    use crate::{Retry, Spool, Task, clock, connect_to};

    /// The producer was restarted in the middle of an outage.
    #[tokio::test]
    async fn a_producer_that_starts_without_its_store_spools_until_it_is_there() {
        const SYNC: Task<u64> = Task::new("sync_user");
        let place = tempfile::tempdir().expect("a directory");
        let namespace = Name::new("default").expect("a name");
        let real: Arc<dyn Store> = Arc::new(MemoryStore::new(namespace.clone(), clock::host()));
        let up = Arc::new(AtomicBool::new(false));
        let (theirs, their_up) = (real.clone(), up.clone());
        let later = Later::new(namespace, move || {
            let (store, up) = (theirs.clone(), their_up.clone());
            Box::pin(async move {
                match up.load(Ordering::Acquire) {
                    true => Ok(store),
                    false => Err(StoreError::unavailable("connecting")),
                }
            })
        });
        let jobs = connect_to(Arc::new(later))
            .retry(Retry::never())
            .spool(Spool::at(place.path()));
        let jobs = jobs.await.expect("it starts");
        let sent = jobs.submit(SYNC, &1).await.expect("spooled");
        assert_eq!(sent.outcome(), Outcome::Spooled);
        up.store(true, Ordering::Release);
        let ids = [sent.id().clone()];
        while real.jobs_by_id(&ids).await.expect("an answer")[0].is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(jobs.store().capabilities().name, "memory");
    }
}
