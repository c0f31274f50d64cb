//! The default store: one SQLite file, shared by several processes, no server.
//!
//! One thread writes and groups concurrent calls into one commit ([`writer`]); readers look beside it
//! ([`readers`]); a thread of its own checkpoints ([`checkpoint`]). Each verb is a file; every decision
//! is core's. The layout of the file is told in `schema/002.sql`.

mod act;
mod batch;
mod born;
mod callers;
mod checkpoint;
mod claim;
mod clock;
mod doctor;
mod documents;
mod effects;
mod fail;
mod gathered;
mod inspect;
mod keys;
mod ledger;
mod open;
mod readers;
mod recent;
mod rows;
mod settings;
mod settle;
mod statements;
mod stats;
mod submit;
mod tx;
mod upkeep;
mod wake;
mod watch;
mod writer;

pub use clock::host as host_clock;
pub use open::{Options, Patience, SCHEMA, Synchronous};

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use semel_core::error::StoreError;
use semel_core::ids::{Digest, JobId, Name};
use semel_core::json::Json;
use semel_core::limits;
use semel_core::store::*;
use semel_core::submission::{Prepared, Submission};
use semel_core::time::{Clock, Millis, Timestamp};
use semel_core::view::{
    AttemptView, ErrorGroup, Job, KeyRow, LedgerEntry, Listing, Snapshot, Stats, StepView,
};

use crate::batch::{Batch, FEW};
use crate::checkpoint::Checkpointer;
use crate::fail::Fail;
use crate::inspect::Look;
use crate::readers::Readers;
use crate::wake::Wake;
use crate::watch::Watcher;
use crate::writer::{Desk, Writer};

/// A store in one SQLite file.
pub struct SqliteStore {
    // Fields are dropped in this order: nobody writes once the checkpointer is gone.
    writer: Writer,
    readers: Readers,
    watcher: Watcher,
    wake: Arc<Wake>,
    clock: Arc<dyn Clock>,
    namespace: Name,
    path: PathBuf,
}

impl SqliteStore {
    /// Opens a file with the host's clock.
    pub fn open(options: Options) -> Result<Self, StoreError> {
        Self::open_with_clock(options, clock::host())
    }

    /// Opens a file with another clock; for tests.
    pub fn open_with_clock(options: Options, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let connections = open::open(&options)?;
        let started = |error: std::io::Error| StoreError::Unavailable {
            doing: "starting the threads of the store".to_owned(),
            source: Some(Box::new(error)),
        };
        let wake = Arc::new(Wake::default());
        let checkpointer = Checkpointer::start(connections.checkpointer)?;
        let namespace = options.namespace.clone();
        let desk = Desk {
            connection: connections.writer,
            namespace: namespace.clone(),
            ns: connections.ns,
            clock: clock.clone(),
            wake: wake.clone(),
            checkpointer: Arc::new(checkpointer),
        };
        let writer = Writer::start(desk)?;
        let readers =
            Readers::start(connections.readers, namespace.clone(), clock.clone()).map_err(started)?;
        let watcher =
            Watcher::start(connections.watcher, log_path(&options.path), wake.clone()).map_err(started)?;
        Ok(SqliteStore {
            writer,
            readers,
            watcher,
            wake,
            clock,
            namespace,
            path: options.path,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks at a snapshot in which every job that was answered for is entered.
    async fn look<R, F>(&self, doing: &'static str, look: F) -> Result<R, StoreError>
    where
        R: Send + 'static,
        F: FnOnce(&mut Look<'_>) -> Result<R, Fail> + Send + 'static,
    {
        let looked = self
            .readers
            .read(doing, |at| match born::any(&mut at.statements)? {
                true => Ok(Err(look)),
                false => look(at).map(Ok),
            });
        let look = match looked.await? {
            Ok(seen) => return Ok(seen),
            Err(look) => look,
        };
        if self.writer.write(doing, |_| Ok(())).await.is_ok() {
            return self.readers.read(doing, look).await;
        }
        // Nothing can be written, so it is looked at as if it were, and taken back.
        let mut look = Some(look);
        let rehearsed = self.writer.rehearse(doing, move |tx| {
            tx.flush()?;
            let look = look
                .take()
                .ok_or_else(|| Fail::Store(StoreError::unavailable(doing)))?;
            let (connection, namespace) = (tx.statements.connection(), tx.namespace);
            look(&mut Look::new(connection, namespace, tx.ns, tx.now)?)
        });
        rehearsed.await
    }

    /// The length of the file and its log.
    fn bytes(&self) -> i64 {
        let length = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
        i64::try_from(length(&self.path) + length(&log_path(&self.path))).unwrap_or(i64::MAX)
    }

    /// What the file takes and what is free beside it.
    fn limit(&self) -> Option<i64> {
        let disk = rustix::fs::statvfs(&self.path).ok()?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        Some(
            self.bytes()
                .saturating_add(i64::try_from(free).unwrap_or(i64::MAX)),
        )
    }
}

fn log_path(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    PathBuf::from(log)
}

#[async_trait]
impl Store for SqliteStore {
    fn namespace(&self) -> &Name {
        &self.namespace
    }

    async fn submit(&self, batch: Vec<Submission>) -> Result<Vec<Submitted>, StoreError> {
        limits::check_batch("submissions", batch.len())?;
        let now = self.clock.now();
        if batch.len() <= FEW {
            let mut items = Batch::at_once(&self.namespace, now, batch);
            let work = move |tx: &mut tx::Tx<'_>| submit::submit(tx, &mut items);
            return self.writer.write_knowing("submitting", work).await;
        }
        let (preparing, mut items) = Batch::of(self.namespace.clone(), now, batch);
        let work = move |tx: &mut tx::Tx<'_>| submit::submit(tx, &mut items);
        // The writer begins at once, and both prepare.
        let answers = self.writer.begin("submitting", work)?;
        preparing.run();
        answers.await
    }

    async fn explain(&self, submission: Submission) -> Result<Explanation, StoreError> {
        let item = Prepared::new(&self.namespace, submission, self.clock.now());
        self.writer
            .rehearse("explaining", move |tx| submit::explain(tx, &item))
            .await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Vec<Claimed>, StoreError> {
        limits::check_lease(request.lease)?;
        check_max(request.max)?;
        self.writer
            .write_knowing("claiming", move |tx| claim::claim(tx, &request))
            .await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Vec<WriteOutcome>, StoreError> {
        limits::check_lease(request.lease)?;
        limits::check_batch("heartbeats", request.leases.len())?;
        self.writer
            .write_knowing("extending leases", move |tx| settle::extend(tx, &request))
            .await
    }

    async fn settle(&self, batch: Vec<Settlement>) -> Result<Vec<WriteOutcome>, StoreError> {
        limits::check_batch("settlements", batch.len())?;
        self.writer
            .write_knowing("settling", move |tx| settle::settle(tx, &batch))
            .await
    }

    async fn steps(&self, batch: Vec<StepRequest>) -> Result<Vec<StepOutcome>, StoreError> {
        limits::check_batch("steps", batch.len())?;
        self.writer
            .write("recording steps", move |tx| effects::steps(tx, &batch))
            .await
    }

    async fn guard(&self, batch: Vec<GuardRequest>) -> Result<Vec<GuardOutcome>, StoreError> {
        limits::check_batch("guarded keys", batch.len())?;
        self.writer
            .write("guarding", move |tx| effects::guard(tx, &batch))
            .await
    }

    async fn act(&self, batch: Vec<Act>) -> Result<Vec<ActOutcome>, StoreError> {
        limits::check_batch("acts", batch.len())?;
        self.writer
            .write("acting on jobs", move |tx| act::act(tx, &batch))
            .await
    }

    fn mark(&self) -> Mark {
        self.wake.mark()
    }

    async fn changed(&self, since: Mark, interest: Interest, at_most: Duration) -> Mark {
        let _watching = self.watcher.watch();
        let mut at_most = at_most;
        if let Interest::Work { queues, tasks } = &interest {
            let (queues, tasks) = (queues.clone(), tasks.clone());
            let due = self
                .look("looking for the next due job", move |look| {
                    look.next_work(&queues, &tasks)
                })
                .await;
            if let Ok(Some(due)) = due {
                at_most = at_most.min(due.since(self.clock.now()).into());
            }
        }
        self.wake.wait(since, &interest, at_most).await
    }
}

fn check_max(max: usize) -> Result<(), StoreError> {
    if max == 0 || max > limits::BATCH {
        let allowed = format!("1 to {}", limits::BATCH);
        return Err(semel_core::error::Invalid::new("max", allowed)
            .found(max.to_string())
            .into());
    }
    Ok(())
}

#[async_trait]
impl Inspect for SqliteStore {
    async fn jobs_by_id(&self, ids: &[JobId]) -> Result<Vec<Option<Job>>, StoreError> {
        let ids = ids.to_vec();
        self.look("looking up jobs", move |look| look.jobs_by_id(&ids))
            .await
    }

    async fn jobs(&self, filter: JobFilter, page: Page) -> Result<Listing<Job>, StoreError> {
        self.look("listing jobs", move |look| look.jobs(&filter, &page))
            .await
    }

    async fn attempts(&self, id: &JobId) -> Result<Vec<AttemptView>, StoreError> {
        let id = id.clone();
        self.look("listing attempts", move |look| look.attempts(&id))
            .await
    }

    async fn keys(&self, filter: KeyFilter, page: Page) -> Result<Listing<KeyRow>, StoreError> {
        self.look("listing keys", move |look| look.keys(&filter, &page))
            .await
    }

    async fn key(&self, digest: Digest) -> Result<Option<KeyRow>, StoreError> {
        self.look("looking up a key", move |look| look.key(&digest)).await
    }

    async fn ledger(&self, filter: LedgerFilter, page: Page) -> Result<Listing<LedgerEntry>, StoreError> {
        self.look("reading the ledger", move |look| look.ledger(&filter, &page))
            .await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        let (bytes, limit) = (self.bytes(), self.limit());
        self.look("reading the counters", move |look| look.stats(bytes, limit))
            .await
    }

    async fn history(&self, window: Millis) -> Result<Vec<Snapshot>, StoreError> {
        self.look("reading the history", move |look| look.history(window))
            .await
    }

    async fn dead_letter_groups(&self, task: Option<Name>) -> Result<Vec<ErrorGroup>, StoreError> {
        self.look("grouping dead letters", move |look| {
            look.dead_letter_groups(task.as_ref())
        })
        .await
    }

    async fn list_steps(&self, filter: StepFilter) -> Result<Vec<StepView>, StoreError> {
        self.look("listing steps", move |look| look.steps(&filter)).await
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "sqlite",
            strict_order: true,
            wake_up: Millis::new(50),
            durable: true,
            counters_at_once: true,
            clock_resolution: Millis::new(1),
            key_search: false,
            joins_transaction: false,
            tokens_stand_alone: true,
            shared_by_processes: true,
        }
    }

    async fn guarantees(&self) -> Result<Vec<Guarantee>, StoreError> {
        let probe = self.writer.rehearse("asking for the durability settings", |tx| {
            let connection = tx.statements.connection();
            Ok(open::durability(connection)?)
        });
        let (journal, synchronous) = probe.await?;
        Ok(guarantee_sheet(&journal, &synchronous))
    }
}

/// The guarantee sheet of contract 9.4, from what the connection answered.
fn guarantee_sheet(journal: &str, synchronous: &str) -> Vec<Guarantee> {
    let full = journal == "wal" && synchronous == "2";
    let survives = if full {
        "an answered call survives kill -9 of every process and a power cut"
    } else {
        "an answered call survives kill -9 of every process; a power cut may lose the newest"
    };
    let settings = format!("journal_mode={journal} synchronous={synchronous}");
    vec![
        Guarantee {
            subject: "durability",
            statement: survives.to_owned(),
            probed: settings,
        },
        Guarantee {
            subject: "atomicity",
            statement: "key, job, queue position, ledger and counters of a call are one transaction"
                .to_owned(),
            probed: format!("SQLite {}", rusqlite::version()),
        },
        Guarantee {
            subject: "sharing",
            statement: "several processes on one machine may open the file; one writes at a time".to_owned(),
            probed: "file locks of the local file system".to_owned(),
        },
        Guarantee {
            subject: "time",
            statement: "the host's clock, never backwards within a process".to_owned(),
            probed: "resolution 1 ms".to_owned(),
        },
    ]
}

#[async_trait]
impl Control for SqliteStore {
    async fn set(&self, target: Target, change: SettingChange) -> Result<Setting, StoreError> {
        self.writer
            .write("changing a setting", move |tx| {
                settings::set(tx, &target, &change)
            })
            .await
    }

    async fn settings(&self) -> Result<Vec<(Target, Setting)>, StoreError> {
        let read = self.look("reading settings", |look| {
            settings::read(&mut look.statements, look.ns)
        });
        Ok(read.await?.into_iter().collect())
    }

    async fn remove_queue(&self, queue: &Name) -> Result<i64, StoreError> {
        let queue = queue.clone();
        self.writer
            .write("removing a queue", move |tx| settings::remove_queue(tx, &queue))
            .await
    }

    async fn put_document(&self, put: PutDocument) -> Result<PutOutcome, StoreError> {
        self.writer
            .write("writing a document", move |tx| documents::put(tx, &put))
            .await
    }

    async fn document(&self, kind: &Name, name: &str) -> Result<Option<Document>, StoreError> {
        let (kind, name) = (kind.clone(), name.to_owned());
        self.look("reading a document", move |look| look.document(&kind, &name))
            .await
    }

    async fn documents(
        &self,
        kind: &Name,
        prefix: &str,
        page: Page,
    ) -> Result<Listing<Document>, StoreError> {
        let (kind, prefix) = (kind.clone(), prefix.to_owned());
        self.look("listing documents", move |look| {
            look.documents(&kind, &prefix, &page)
        })
        .await
    }

    async fn delete_document(
        &self,
        kind: &Name,
        name: &str,
        version: Option<i64>,
    ) -> Result<PutOutcome, StoreError> {
        let (kind, name) = (kind.clone(), name.to_owned());
        self.writer
            .write("removing a document", move |tx| {
                documents::delete(tx, &kind, &name, version)
            })
            .await
    }

    async fn append(&self, feed: &str, bodies: Vec<Json>) -> Result<(), StoreError> {
        limits::check_batch("entries", bodies.len())?;
        let feed = feed.to_owned();
        self.writer
            .write("appending to a feed", move |tx| {
                documents::append(tx, &feed, &bodies)
            })
            .await
    }

    async fn feed(&self, feed: &str, page: Page) -> Result<Listing<FeedEntry>, StoreError> {
        let feed = feed.to_owned();
        self.look("reading a feed", move |look| look.feed(&feed, &page))
            .await
    }

    async fn reset_stats(&self) -> Result<Timestamp, StoreError> {
        self.writer.write("resetting the counters", stats::reset).await
    }

    async fn upkeep(&self, request: UpkeepRequest) -> Result<UpkeepReport, StoreError> {
        self.writer
            .write("housekeeping", move |tx| upkeep::upkeep(tx, &request))
            .await
    }

    async fn doctor(&self, repair: bool) -> Result<Vec<Finding>, StoreError> {
        if repair {
            let mend = |tx: &mut tx::Tx<'_>| {
                // What this commit has counted so far has to be in the file before it is examined.
                tx.flush()?;
                let findings = doctor::examine(tx.statements.connection(), true)?;
                tx.reload()?;
                Ok(findings)
            };
            return self.writer.write("examining and repairing", mend).await;
        }
        self.readers
            .run("examining", |connection| doctor::examine(connection, false))
            .await
    }
}
