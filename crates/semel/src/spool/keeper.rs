//! Who keeps submissions for a client, and sends them when the store is back.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use semel_core::error::Invalid;
use semel_core::ids::Digest;
use semel_core::limits;
use semel_core::store::{Store, Submitted};
use semel_core::submission::{Prepared, Submission};
use semel_core::time::Timestamp;

use crate::clock;
use crate::coalesce::Coalescer;
use crate::error::Error;
use crate::spool::answers::{Broken, again, answer};
use crate::spool::directory::{Directory, Kept, apart};
use crate::spool::drain::{Drained, drain};
use crate::spool::record::Record;
use crate::spool::{Bounds, Spool};

/// The first and the longest pause between two tries to send, in milliseconds.
const PAUSE: (i64, i64) = (100, 2_000);
/// The pause while another process drains.
const PAUSE_FOR_OTHERS: i64 = 20;
/// How often the directory is looked at for what other processes left.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long a submission waits for those before it to be sent, before it joins them.
const CATCH_UP: Duration = Duration::from_secs(2);

/// Keeps submissions on disk and sends them later.
pub(crate) struct Keeper {
    core: Arc<Core>,
    appends: Coalescer<Record, Result<Kept, Broken>>,
    drains: Coalescer<(), Result<Drained, Error>>,
}

/// The spool and what is known about it.
struct Core {
    directory: Arc<Directory>,
    bounds: Bounds,
    store: Arc<dyn Store>,
    /// The segment with the newest submission of this process; 0 once all were sent.
    newest: AtomicU64,
    /// The store was out of reach: not to be tried before this moment of the host's clock.
    not_before: AtomicI64,
    failures: AtomicU32,
    news: Notify,
}

impl Keeper {
    /// Opens the spool of a store. What was left in it by an earlier process waits like one's own.
    pub(crate) fn open(spool: &Spool, store: Arc<dyn Store>, identity: &str) -> Result<Self, Error> {
        let directory = Directory::of_store(spool.path(), identity)?;
        let newest = directory.newest().map_err(|source| Error::Spool {
            doing: "looking at the spool".to_owned(),
            source,
        })?;
        let core = Arc::new(Core {
            directory: Arc::new(directory),
            bounds: spool.bounds(),
            store,
            newest: AtomicU64::new(newest),
            not_before: AtomicI64::new(0),
            failures: AtomicU32::new(0),
            news: Notify::new(),
        });
        let (appending, draining) = (core.clone(), core.clone());
        let append = move |records| {
            let core = appending.clone();
            async move { Ok(core.append(records).await) }
        };
        let drain = move |all: Vec<()>| {
            let core = draining.clone();
            async move {
                let drained = core.drain().await;
                Ok(all.iter().map(|()| again(&drained)).collect())
            }
        };
        Ok(Keeper {
            core,
            appends: Coalescer::new(limits::BATCH, weigh, append),
            drains: Coalescer::new(limits::BATCH, |()| 0, drain).one_at_a_time(),
        })
    }

    pub(super) fn directory(&self) -> &Arc<Directory> {
        &self.core.directory
    }

    /// Whether nothing of this process waits that a submission could overtake. Tries to send what does.
    pub(crate) async fn is_clear(&self) -> bool {
        let newest = self.core.newest.load(Ordering::Acquire);
        if newest == 0 || self.core.is_past(newest).await {
            return true;
        }
        if self.core.pause() > 0 {
            return false;
        }
        let caught_up = tokio::time::timeout(CATCH_UP, self.drain()).await;
        matches!(caught_up, Ok(Ok(drained)) if !drained.elsewhere)
    }

    /// Keeps one submission: durable when this answers `spooled`.
    pub(crate) async fn keep(&self, submission: &Submission) -> Result<Submitted, Error> {
        let now = clock::now();
        let key = self.check(submission, now)?;
        let kept = self.appends.call(&Record::new(submission, now)).await?;
        answer(submission, key, kept, now)
    }

    /// Keeps several in order, each with an answer of its own.
    pub(crate) async fn keep_all(&self, batch: &[Submission]) -> Vec<Result<Submitted, Error>> {
        let now = clock::now();
        let checked: Vec<Result<Option<Digest>, Invalid>> = batch
            .iter()
            .map(|submission| self.check(submission, now))
            .collect();
        let valid = batch.iter().zip(&checked).filter(|(_, key)| key.is_ok());
        let records = valid
            .map(|(submission, _)| Record::new(submission, now))
            .collect();
        let mut kept = self.core.append(records).await.into_iter();
        let mut next = || kept.next().expect("one answer per record");
        let answers = batch
            .iter()
            .zip(checked)
            .map(|(submission, key)| answer(submission, key?, next(), now));
        answers.collect()
    }

    /// Refuses now what the store would refuse later, when nobody is there to hear it.
    fn check(&self, submission: &Submission, now: Timestamp) -> Result<Option<Digest>, Invalid> {
        let prepared = Prepared::new(self.core.store.namespace(), submission.clone(), now)?;
        Ok(prepared.key.map(|key| key.digest))
    }

    /// Sends what waits. Those who ask at the same time share one drain.
    pub(crate) async fn drain(&self) -> Result<Drained, Error> {
        self.drains.call(&()).await?
    }

    /// Sends what waits as soon as that is possible, for as long as it is let.
    async fn watch(&self) {
        loop {
            // Nothing is worth a try but news, what others left behind, and a store that was out of reach.
            let _ = self.drain().await;
            match u64::try_from(self.core.pause()) {
                Ok(pause) => tokio::time::sleep(Duration::from_millis(pause + 1)).await,
                Err(_) => drop(tokio::time::timeout(LOOK_EVERY, self.core.news.notified()).await),
            }
        }
    }
}

impl Core {
    async fn append(&self, records: Vec<Record>) -> Vec<Result<Kept, Broken>> {
        let (directory, bounds, count) = (self.directory.clone(), self.bounds, records.len());
        let appended = apart("keeping submissions", move || directory.append(&records, bounds)).await;
        match appended {
            Ok((kept, number)) => {
                if kept.contains(&Kept::Yes) {
                    self.newest.fetch_max(number, Ordering::AcqRel);
                    self.news.notify_one();
                }
                kept.into_iter().map(Ok).collect()
            }
            Err(Error::Spool { source, .. }) => vec![Err((source.kind(), source.to_string())); count],
            Err(other) => vec![Err((io::ErrorKind::Other, other.to_string())); count],
        }
    }

    async fn drain(&self) -> Result<Drained, Error> {
        let newest = self.newest.load(Ordering::Acquire);
        let drained = drain(&self.directory, &self.store).await;
        match &drained {
            Ok(drained) if drained.elsewhere => self.put_off(PAUSE_FOR_OTHERS),
            Ok(_) => {
                self.forget(newest);
                self.failures.store(0, Ordering::Release);
                self.not_before.store(0, Ordering::Release);
            }
            Err(error) => {
                tracing::debug!(%error, "the spool cannot be drained yet");
                let doublings = self.failures.fetch_add(1, Ordering::AcqRel).min(10);
                self.put_off((PAUSE.0 << doublings).min(PAUSE.1));
            }
        }
        drained
    }

    /// Whether another process has sent what this one kept.
    async fn is_past(&self, newest: u64) -> bool {
        let directory = self.directory.clone();
        let past = apart("looking at the spool", move || directory.is_past(newest)).await;
        if !past.unwrap_or(false) {
            return false;
        }
        self.forget(newest);
        true
    }

    /// All up to a segment was sent. If more was kept meanwhile, that still waits.
    fn forget(&self, newest: u64) {
        let (done, seen) = (Ordering::AcqRel, Ordering::Acquire);
        let _ = self.newest.compare_exchange(newest, 0, done, seen);
    }

    /// The next try comes later.
    fn put_off(&self, pause: i64) {
        self.not_before
            .store(clock::now().as_millis() + pause, Ordering::Release);
    }

    /// How many milliseconds the next try is away; negative if it may come now.
    fn pause(&self) -> i64 {
        self.not_before.load(Ordering::Acquire) - clock::now().as_millis()
    }
}

/// The task that drains in the background; stops when this is dropped.
pub(crate) struct Drainer(JoinHandle<()>);

impl Drainer {
    pub(crate) fn start(keeper: Arc<Keeper>) -> Self {
        Drainer(tokio::spawn(async move { keeper.watch().await }))
    }
}

impl Drop for Drainer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn weigh(record: &Record) -> usize {
    record.submission.input.as_str().len()
}
