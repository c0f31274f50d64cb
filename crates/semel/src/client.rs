//! The way into a store for an application.

use std::fmt;
use std::sync::Arc;

use semel_core::error::StoreError;
use semel_core::ids::{JobId, Name};
use semel_core::limits;
use semel_core::store::{self, Store};
use semel_core::submission::Submission;
use semel_core::view::Job;

use crate::absorbed::{self, Rates};
use crate::coalesce::{Coalescer, share};
use crate::error::Error;
use crate::retry::Retry;
use crate::spool::{Drainer, Keeper, Spool};
use crate::submitted::Submitted;

/// A connection to a store. Cheap to clone; clones share everything but the producer's name.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    producer: Option<Name>,
}

struct Inner {
    store: Arc<dyn Store>,
    shown: String,
    options: Options,
    submissions: Coalescer<Submission, store::Submitted>,
    look_ups: Coalescer<JobId, Option<Job>>,
    rates: Rates,
    keeper: Option<Arc<Keeper>>,
    /// Drains the spool for as long as this client lives.
    _drainer: Option<Drainer>,
}

/// How a client behaves, whatever the store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) retry: Retry,
    pub(crate) spool: Option<Spool>,
    pub(crate) hide_keys: bool,
    pub(crate) brief: bool,
}

impl Client {
    /// A client of a store that is open already.
    pub fn from_store(store: Arc<dyn Store>) -> Self {
        let shown = store.capabilities().name.to_owned();
        Client::assemble(store, shown, None, Options::default())
            .expect("without a spool there is nothing to open")
    }

    pub(crate) fn assemble(
        store: Arc<dyn Store>,
        shown: String,
        producer: Option<Name>,
        options: Options,
    ) -> Result<Self, Error> {
        let keeper = match &options.spool {
            Some(spool) => Some(Arc::new(Keeper::open(
                spool,
                store.clone(),
                &identity(&shown, &store),
            )?)),
            None => None,
        };
        let inner = Inner {
            _drainer: keeper.clone().map(Drainer::start),
            keeper,
            rates: Rates::default(),
            submissions: together(&store),
            look_ups: looked_up_together(&store),
            store,
            shown,
            options,
        };
        Ok(Client {
            inner: Arc::new(inner),
            producer,
        })
    }

    /// The same connection under another producer's name.
    pub fn named(&self, producer: impl AsRef<str>) -> Result<Self, Error> {
        Ok(Client {
            inner: self.inner.clone(),
            producer: Some(Name::new(producer)?),
        })
    }

    /// The name under which this program appears as a producer.
    pub fn producer(&self) -> Option<&Name> {
        self.producer.as_ref()
    }

    /// The store itself, for front ends and tests.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// Where the store is, for people: never with a password.
    pub fn url(&self) -> &str {
        &self.inner.shown
    }

    pub(crate) fn options(&self) -> &Options {
        &self.inner.options
    }

    pub(crate) fn keeper(&self) -> Option<&Arc<Keeper>> {
        self.inner.keeper.as_ref()
    }

    /// Admits one submission, or keeps it while the store is out of reach.
    pub(crate) async fn admit<O>(&self, submission: Submission) -> Result<Submitted<O>, Error> {
        let answer = match self.keeper() {
            // What waits comes first: a newer submission must not be overtaken by an older one.
            Some(keeper) if !keeper.is_clear().await => keeper.keep(&submission).await?,
            keeper => match (self.send(&submission).await, keeper) {
                (Err(error), Some(keeper)) if error.is_retryable() => keeper.keep(&submission).await?,
                (answer, _) => answer?,
            },
        };
        absorbed::tell(self, std::iter::once((&submission, &answer))).await;
        Submitted::new(self.clone(), submission, answer)
    }

    /// Sends one submission to the store, together with others that come at the same time.
    pub(crate) async fn send(&self, submission: &Submission) -> Result<store::Submitted, StoreError> {
        let call = || self.inner.submissions.call(submission);
        self.options().retry.run(submission.token.as_bytes(), call).await
    }

    /// Admits at most a thousand submissions: one answer each, in order.
    pub(crate) async fn admit_all<O>(&self, batch: Vec<Submission>) -> Vec<Result<Submitted<O>, Error>> {
        let answers = self.send_all(&batch).await;
        let told = batch.iter().zip(&answers);
        absorbed::tell(
            self,
            told.filter_map(|(submission, answer)| Some((submission, answer.as_ref().ok()?))),
        )
        .await;
        let answered = batch.into_iter().zip(answers);
        answered
            .map(|(submission, answer)| Submitted::new(self.clone(), submission, answer?))
            .collect()
    }

    async fn send_all(&self, batch: &[Submission]) -> Vec<Result<store::Submitted, Error>> {
        let Some(first) = batch.first() else {
            return Vec::new();
        };
        let keeper = self.keeper();
        if let Some(keeper) = keeper
            && !keeper.is_clear().await
        {
            return keeper.keep_all(batch).await;
        }
        let call = || self.store().submit(batch.to_vec());
        match self.options().retry.run(first.token.as_bytes(), call).await {
            Ok(answers) => answers.into_iter().map(Ok).collect(),
            Err(error) => match keeper.filter(|_| error.is_retryable()) {
                Some(keeper) => keeper.keep_all(batch).await,
                None => batch.iter().map(|_| Err(share(&error).into())).collect(),
            },
        }
    }

    /// One job as it stands; the call is repeated while the store is out of reach.
    pub(crate) async fn look_up(&self, id: &JobId) -> Result<Option<Job>, Error> {
        let call = || self.look(id);
        Ok(self.options().retry.run(id.as_str().as_bytes(), call).await?)
    }

    /// One job as it stands, if the store answers.
    pub(crate) async fn peek(&self, id: &JobId) -> Option<Option<Job>> {
        self.look(id).await.ok()
    }

    async fn look(&self, id: &JobId) -> Result<Option<Job>, StoreError> {
        self.inner.look_ups.call(id).await
    }

    pub(crate) fn rates(&self) -> &Rates {
        &self.inner.rates
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Client")
            .field("store", &self.inner.shown)
            .field("producer", &self.producer)
            .finish_non_exhaustive()
    }
}

/// Concurrent submissions become batches.
fn together(store: &Arc<dyn Store>) -> Coalescer<Submission, store::Submitted> {
    let store = store.clone();
    Coalescer::new(limits::BATCH, weigh, move |batch| {
        let store = store.clone();
        async move { store.submit(batch).await }
    })
}

/// Concurrent look-ups become batches: so many may wait for a job each.
fn looked_up_together(store: &Arc<dyn Store>) -> Coalescer<JobId, Option<Job>> {
    let store = store.clone();
    Coalescer::new(
        limits::PAGE,
        |_| 0,
        move |ids: Vec<JobId>| {
            let store = store.clone();
            async move { store.jobs_by_id(&ids).await }
        },
    )
}

fn weigh(submission: &Submission) -> usize {
    let content = &submission.content;
    content.input.as_str().len() + content.meta.as_ref().map_or(0, |meta| meta.as_str().len())
}

/// What a spool is kept for: one store, one namespace.
fn identity(shown: &str, store: &Arc<dyn Store>) -> String {
    format!("{shown} namespace {}", store.namespace())
}
