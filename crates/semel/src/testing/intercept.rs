//! A store with somebody standing in front of it: to fail, to delay, to die at a chosen moment.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use semel_core::error::StoreError;
use semel_core::ids::{Digest, JobId, Name};
use semel_core::json::Json;
use semel_core::step::StepPhase;
use semel_core::store::*;
use semel_core::submission::Submission;
use semel_core::time::{Millis, Timestamp};
use semel_core::view::{
    AttemptView, ErrorGroup, Job, KeyRow, LedgerEntry, Listing, Snapshot, Stats, StepView,
};

/// A call that writes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call {
    /// Submissions.
    Submit,
    /// A claim.
    Claim,
    /// Heartbeats.
    Extend,
    /// Settlements.
    Settle,
    /// A step is begun.
    Begin(Name),
    /// A step is confirmed.
    Confirm(Name),
    /// A step is said not to have happened.
    Refuse(Name),
    /// A guard.
    Guard,
    /// What a person does.
    Act,
    /// A document is written or removed.
    Document,
    /// A feed, a setting, housekeeping.
    Other,
}

impl Call {
    /// The first of a batch of steps stands for all: handlers send them one by one.
    fn of_steps(batch: &[StepRequest]) -> Self {
        let Some(request) = batch.first() else {
            return Call::Other;
        };
        let name = request.step.clone();
        match request.phase {
            StepPhase::Begin { .. } => Call::Begin(name),
            StepPhase::Confirm { .. } => Call::Confirm(name),
            StepPhase::Refused => Call::Refuse(name),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::Submit => formatter.write_str("a submission"),
            Call::Claim => formatter.write_str("a claim"),
            Call::Extend => formatter.write_str("a heartbeat"),
            Call::Settle => formatter.write_str("a settlement"),
            Call::Begin(name) => write!(formatter, "the beginning of step {name}"),
            Call::Confirm(name) => write!(formatter, "the confirmation of step {name}"),
            Call::Refuse(name) => write!(formatter, "the refusal of step {name}"),
            Call::Guard => formatter.write_str("a guard"),
            Call::Act => formatter.write_str("an act"),
            Call::Document => formatter.write_str("a document"),
            Call::Other => formatter.write_str("something else"),
        }
    }
}

/// Stands in front of a store and sees every call that writes.
#[async_trait]
pub trait Intercept: Send + Sync {
    /// Before the call: an error keeps it from being made.
    async fn before(&self, call: &Call) -> Result<(), StoreError>;

    /// After the call was applied: an error is a lost reply.
    async fn after(&self, call: &Call) -> Result<(), StoreError>;
}

/// A store whose writes are intercepted.
pub struct InterceptedStore {
    store: Arc<dyn Store>,
    intercept: Arc<dyn Intercept>,
}

impl InterceptedStore {
    /// Puts somebody in front of a store.
    pub fn new(store: Arc<dyn Store>, intercept: Arc<dyn Intercept>) -> Self {
        InterceptedStore { store, intercept }
    }

    async fn around<T>(
        &self,
        call: Call,
        made: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        self.intercept.before(&call).await?;
        let answer = made.await?;
        self.intercept.after(&call).await?;
        Ok(answer)
    }
}

impl fmt::Debug for InterceptedStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("InterceptedStore").finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for InterceptedStore {
    fn namespace(&self) -> &Name {
        self.store.namespace()
    }

    async fn submit(&self, batch: Vec<Submission>) -> Result<Vec<Submitted>, StoreError> {
        self.around(Call::Submit, self.store.submit(batch)).await
    }

    async fn explain(&self, submission: Submission) -> Result<Explanation, StoreError> {
        self.store.explain(submission).await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Vec<Claimed>, StoreError> {
        self.around(Call::Claim, self.store.claim(request)).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Vec<WriteOutcome>, StoreError> {
        self.around(Call::Extend, self.store.extend(request)).await
    }

    async fn settle(&self, batch: Vec<Settlement>) -> Result<Vec<WriteOutcome>, StoreError> {
        self.around(Call::Settle, self.store.settle(batch)).await
    }

    async fn steps(&self, batch: Vec<StepRequest>) -> Result<Vec<StepOutcome>, StoreError> {
        let call = Call::of_steps(&batch);
        self.around(call, self.store.steps(batch)).await
    }

    async fn guard(&self, batch: Vec<GuardRequest>) -> Result<Vec<GuardOutcome>, StoreError> {
        self.around(Call::Guard, self.store.guard(batch)).await
    }

    async fn act(&self, batch: Vec<Act>) -> Result<Vec<ActOutcome>, StoreError> {
        self.around(Call::Act, self.store.act(batch)).await
    }

    fn mark(&self) -> Mark {
        self.store.mark()
    }

    async fn changed(&self, since: Mark, interest: Interest, at_most: Duration) -> Mark {
        self.store.changed(since, interest, at_most).await
    }
}

#[async_trait]
impl Inspect for InterceptedStore {
    async fn jobs_by_id(&self, ids: &[JobId]) -> Result<Vec<Option<Job>>, StoreError> {
        self.store.jobs_by_id(ids).await
    }

    async fn jobs(&self, filter: JobFilter, page: Page) -> Result<Listing<Job>, StoreError> {
        self.store.jobs(filter, page).await
    }

    async fn attempts(&self, id: &JobId) -> Result<Vec<AttemptView>, StoreError> {
        self.store.attempts(id).await
    }

    async fn keys(&self, filter: KeyFilter, page: Page) -> Result<Listing<KeyRow>, StoreError> {
        self.store.keys(filter, page).await
    }

    async fn key(&self, digest: Digest) -> Result<Option<KeyRow>, StoreError> {
        self.store.key(digest).await
    }

    async fn ledger(&self, filter: LedgerFilter, page: Page) -> Result<Listing<LedgerEntry>, StoreError> {
        self.store.ledger(filter, page).await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        self.store.stats().await
    }

    async fn history(&self, window: Millis) -> Result<Vec<Snapshot>, StoreError> {
        self.store.history(window).await
    }

    async fn dead_letter_groups(&self, task: Option<Name>) -> Result<Vec<ErrorGroup>, StoreError> {
        self.store.dead_letter_groups(task).await
    }

    async fn list_steps(&self, filter: StepFilter) -> Result<Vec<StepView>, StoreError> {
        self.store.list_steps(filter).await
    }

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    async fn guarantees(&self) -> Result<Vec<Guarantee>, StoreError> {
        self.store.guarantees().await
    }
}

#[async_trait]
impl Control for InterceptedStore {
    async fn set(&self, target: Target, change: SettingChange) -> Result<Setting, StoreError> {
        self.around(Call::Other, self.store.set(target, change)).await
    }

    async fn settings(&self) -> Result<Vec<(Target, Setting)>, StoreError> {
        self.store.settings().await
    }

    async fn remove_queue(&self, queue: &Name) -> Result<i64, StoreError> {
        self.around(Call::Other, self.store.remove_queue(queue)).await
    }

    async fn put_document(&self, put: PutDocument) -> Result<PutOutcome, StoreError> {
        self.around(Call::Document, self.store.put_document(put)).await
    }

    async fn document(&self, kind: &Name, name: &str) -> Result<Option<Document>, StoreError> {
        self.store.document(kind, name).await
    }

    async fn documents(
        &self,
        kind: &Name,
        prefix: &str,
        page: Page,
    ) -> Result<Listing<Document>, StoreError> {
        self.store.documents(kind, prefix, page).await
    }

    async fn delete_document(
        &self,
        kind: &Name,
        name: &str,
        version: Option<i64>,
    ) -> Result<PutOutcome, StoreError> {
        let delete = self.store.delete_document(kind, name, version);
        self.around(Call::Document, delete).await
    }

    async fn append(&self, feed: &str, bodies: Vec<Json>) -> Result<(), StoreError> {
        self.around(Call::Other, self.store.append(feed, bodies)).await
    }

    async fn feed(&self, feed: &str, page: Page) -> Result<Listing<FeedEntry>, StoreError> {
        self.store.feed(feed, page).await
    }

    async fn reset_stats(&self) -> Result<Timestamp, StoreError> {
        self.around(Call::Other, self.store.reset_stats()).await
    }

    async fn upkeep(&self, request: UpkeepRequest) -> Result<UpkeepReport, StoreError> {
        self.around(Call::Other, self.store.upkeep(request)).await
    }

    async fn doctor(&self, repair: bool) -> Result<Vec<Finding>, StoreError> {
        self.around(Call::Other, self.store.doctor(repair)).await
    }
}
