//! Who keeps submissions for a client, and sends them when the store is back.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use semel_core::error::Invalid;
use semel_core::ids::{Digest, JobId};
use semel_core::job::{Outcome, State};
use semel_core::limits;
use semel_core::store::{Admitted, Store, Submitted};
use semel_core::submission::{Prepared, RunAt, Submission};
use semel_core::time::Timestamp;
use semel_core::view::HolderView;

use crate::clock;
use crate::coalesce::{Coalescer, share};
use crate::error::Error;
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
    directory: Arc<Directory>,
    bounds: Bounds,
    store: Arc<dyn Store>,
    appends: Coalescer<Record, Result<Kept, Broken>>,
    drains: Coalescer<(), Result<Drained, Error>>,
    /// The segment with the newest submission of this process; 0 once all were sent.
    newest: AtomicU64,
    /// The store was out of reach: not to be tried before this moment of the host's clock.
    not_before: AtomicI64,
    failures: AtomicU32,
    news: Notify,
}

/// Why nothing could be kept, for each of those who tried together.
type Broken = (io::ErrorKind, String);

impl Keeper {
    /// Opens the spool of a store. What was left in it by an earlier process waits like one's own.
    pub(crate) fn open(spool: &Spool, store: Arc<dyn Store>, identity: &str) -> Result<Self, Error> {
        let directory = Directory::of_store(spool.path(), identity)?;
        let newest = directory.newest().map_err(|source| Error::Spool {
            doing: "looking at the spool".to_owned(),
            source,
        })?;
        Ok(Keeper {
            directory: Arc::new(directory),
            bounds: spool.bounds(),
            store,
            appends: Coalescer::new(limits::BATCH, weigh).one_at_a_time(),
            drains: Coalescer::new(limits::BATCH, |()| 0).one_at_a_time(),
            newest: AtomicU64::new(newest),
            not_before: AtomicI64::new(0),
            failures: AtomicU32::new(0),
            news: Notify::new(),
        })
    }

    pub(super) fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// Whether nothing of this process waits that a submission could overtake. Tries to send what does.
    pub(crate) async fn is_clear(&self) -> bool {
        let newest = self.newest.load(Ordering::Acquire);
        if newest == 0 || self.is_past(newest).await {
            return true;
        }
        if clock::now().as_millis() < self.not_before.load(Ordering::Acquire) {
            return false;
        }
        let caught_up = tokio::time::timeout(CATCH_UP, self.drain()).await;
        matches!(caught_up, Ok(Ok(drained)) if !drained.elsewhere)
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

    /// Keeps one submission: durable when this answers `spooled`.
    pub(crate) async fn keep(&self, submission: &Submission) -> Result<Submitted, Error> {
        let now = clock::now();
        let key = self.check(submission, now)?;
        let append = |records| self.append(records);
        let kept = self.appends.call(&Record::new(submission, now), append).await?;
        self.answer(submission, key, kept, now)
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
        let mut kept = self.append(records).await.into_iter().flatten();
        let mut next = || kept.next().expect("one answer per record");
        let answers = batch
            .iter()
            .zip(checked)
            .map(|(submission, key)| self.answer(submission, key?, next(), now));
        answers.collect()
    }

    /// Refuses now what the store would refuse later, when nobody is there to hear it.
    fn check(&self, submission: &Submission, now: Timestamp) -> Result<Option<Digest>, Invalid> {
        let prepared = Prepared::new(self.store.namespace(), submission.clone(), now)?;
        Ok(prepared.key.map(|key| key.digest))
    }

    async fn append(
        &self,
        records: Vec<Record>,
    ) -> Result<Vec<Result<Kept, Broken>>, semel_core::error::StoreError> {
        let (directory, bounds, count) = (self.directory.clone(), self.bounds, records.len());
        let appended = apart("keeping submissions", move || directory.append(&records, bounds)).await;
        Ok(match appended {
            Ok((kept, number)) => {
                if kept.contains(&Kept::Yes) {
                    self.newest.fetch_max(number, Ordering::AcqRel);
                    self.news.notify_one();
                }
                kept.into_iter().map(Ok).collect()
            }
            Err(Error::Spool { source, .. }) => vec![Err((source.kind(), source.to_string())); count],
            Err(other) => vec![Err((io::ErrorKind::Other, other.to_string())); count],
        })
    }

    fn answer(
        &self,
        submission: &Submission,
        key: Option<Digest>,
        kept: Result<Kept, Broken>,
        now: Timestamp,
    ) -> Result<Submitted, Error> {
        match kept {
            Ok(Kept::Full(entries)) => Err(Error::SpoolFull { entries }),
            Err((kind, message)) => Err(Error::Spool {
                doing: "keeping a submission".to_owned(),
                source: io::Error::new(kind, message),
            }),
            Ok(Kept::Yes) => {
                tracing::warn!(task = %submission.task, token = %submission.token, "the store is out of reach, a submission waits in the spool");
                Ok(Submitted::Job(Box::new(spooled(submission, key, now))))
            }
        }
    }

    /// Sends what waits. Those who ask at the same time share one drain.
    pub(crate) async fn drain(&self) -> Result<Drained, Error> {
        let together = |all: Vec<()>| async move {
            let drained = self.drain_once().await;
            Ok(all.iter().map(|()| again(&drained)).collect())
        };
        self.drains.call(&(), together).await?
    }

    async fn drain_once(&self) -> Result<Drained, Error> {
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

    /// The next try comes later.
    fn put_off(&self, pause: i64) {
        self.not_before
            .store(clock::now().as_millis() + pause, Ordering::Release);
    }

    /// Sends what waits as soon as that is possible, for as long as it is let.
    async fn watch(&self) {
        loop {
            // Nothing is worth a try but news, what others left behind, and a store that was out of reach.
            let _ = self.drain().await;
            let pause = self.not_before.load(Ordering::Acquire) - clock::now().as_millis();
            match u64::try_from(pause) {
                Ok(pause) => tokio::time::sleep(Duration::from_millis(pause + 1)).await,
                Err(_) => drop(tokio::time::timeout(LOOK_EVERY, self.news.notified()).await),
            }
        }
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

/// What a submission that waits is answered: the id it will have, unless its key is held by then.
fn spooled(submission: &Submission, key: Option<Digest>, now: Timestamp) -> Admitted {
    let state = match submission.run_at {
        RunAt::Now => State::Queued,
        RunAt::At(_) | RunAt::After(_) => State::Scheduled,
    };
    Admitted {
        outcome: Outcome::Spooled,
        job: HolderView {
            id: JobId::from(submission.token),
            task: submission.task.clone(),
            state,
            enqueued_at: now,
        },
        key,
        would: None,
        collides_with: None,
    }
}

/// The same result for each of those who shared a drain.
fn again(drained: &Result<Drained, Error>) -> Result<Drained, Error> {
    match drained {
        Ok(drained) => Ok(*drained),
        Err(Error::StoreUnavailable { source }) => Err(Error::StoreUnavailable {
            source: share(source),
        }),
        Err(Error::Store(source)) => Err(Error::Store(share(source))),
        Err(Error::Spool { doing, source }) => Err(Error::Spool {
            doing: doing.clone(),
            source: io::Error::new(source.kind(), source.to_string()),
        }),
        Err(other) => Err(Error::Spool {
            doing: "draining it".to_owned(),
            source: io::Error::other(other.to_string()),
        }),
    }
}
