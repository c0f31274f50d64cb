//! The way into a store for an application.

use std::fmt;
use std::sync::Arc;

use semel_core::ids::{JobId, Name};
use semel_core::limits;
use semel_core::store::{self, Store};
use semel_core::submission::Submission;
use semel_core::view::Job;

use crate::coalesce::{Coalescer, share};
use crate::error::Error;
use crate::retry::Retry;
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
}

/// How a client behaves, whatever the store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) retry: Retry,
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
        let inner = Inner {
            store,
            shown,
            options,
            submissions: Coalescer::new(limits::BATCH, weigh),
            look_ups: Coalescer::new(limits::PAGE, |_| 0),
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

    /// Admits one submission.
    pub(crate) async fn admit<O>(&self, submission: Submission) -> Result<Submitted<O>, Error> {
        let seed = *submission.token.as_bytes();
        let together = &self.inner.submissions;
        let call = || together.call(&submission, |batch| self.store().submit(batch));
        let answer = self.options().retry.run(&seed, call).await?;
        Submitted::new(self.clone(), answer)
    }

    /// Admits at most a thousand submissions: one answer each, in order.
    pub(crate) async fn admit_all<O>(&self, batch: Vec<Submission>) -> Vec<Result<Submitted<O>, Error>> {
        if batch.is_empty() {
            return Vec::new();
        }
        let seed = *batch[0].token.as_bytes();
        let call = || self.store().submit(batch.clone());
        match self.options().retry.run(&seed, call).await {
            Ok(answers) => answers
                .into_iter()
                .map(|answer| Submitted::new(self.clone(), answer))
                .collect(),
            Err(error) => batch.iter().map(|_| Err(share(&error).into())).collect(),
        }
    }

    /// One job as it stands.
    pub(crate) async fn look_up(&self, id: &JobId) -> Result<Option<Job>, Error> {
        let together = &self.inner.look_ups;
        let look = |ids: Vec<JobId>| async move { self.store().jobs_by_id(&ids).await };
        let call = || together.call(id, look);
        Ok(self.options().retry.run(id.as_str().as_bytes(), call).await?)
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

fn weigh(submission: &Submission) -> usize {
    let content = &submission.content;
    content.input.as_str().len() + content.meta.as_ref().map_or(0, |meta| meta.as_str().len())
}
