//! Going on without a guard while the store is out of reach: asked for by name, written down, and set right afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use semel_core::error::Invalid;
use semel_core::json::Json;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::guard::{Guard, Reserved};
use crate::ids::fresh_token;

/// Which work goes on while the store is out of reach, and where it is written down.
///
/// Without this, work is refused then. With it, the work of the queues that are named is done although nobody can say
/// whether it was done before: each time there is a warning, a count, and two lines in a journal on this machine's
/// disk, one before and one after. [`Guard::reconcile`] goes through them later.
#[derive(Clone, Debug)]
pub struct Outage {
    journal: Arc<Journal>,
    queues: BTreeSet<String>,
}

impl Outage {
    /// Keeps the journal in this file; it is made where it is not there.
    pub fn journal(path: impl Into<PathBuf>) -> Result<Self, Error> {
        Ok(Outage {
            journal: Arc::new(Journal::open(path.into())?),
            queues: BTreeSet::new(),
        })
    }

    /// Lets the work of this queue go on.
    #[must_use]
    pub fn warn_and_continue(mut self, queue: impl Into<String>) -> Self {
        self.queues.insert(queue.into());
        self
    }

    pub(super) fn allows(&self, queue: &str) -> bool {
        self.queues.contains(queue)
    }

    /// How often work went on without a guard, since this was opened.
    pub fn ran_unguarded(&self) -> u64 {
        self.journal.count.load(Ordering::Relaxed)
    }

    /// Writes down that something is about to be done without a guard.
    pub(super) async fn begin(&self, queue: &str, key: &str, ttl: Duration) -> Result<String, Error> {
        let run = fresh_token().to_string();
        let line = Line::Begun {
            run: run.clone(),
            queue: queue.to_owned(),
            key: key.to_owned(),
            ttl_ms: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX),
        };
        self.journal.write(line).await?;
        self.journal.count.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(queue, key, "the store is out of reach: going on without a guard");
        Ok(run)
    }

    /// Writes down what it gave.
    pub(super) async fn end(&self, run: String, output: Json) -> Result<(), Error> {
        self.journal.write(Line::Ended { run, output }).await
    }
}

/// What became of work that was done without a guard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reconciled {
    /// Keys of work that nobody else had done: its answer is kept under its key now.
    pub once: Vec<String>,
    /// Keys of work that was done before, or by somebody else as well.
    pub duplicates: Vec<String>,
    /// Keys of work that did not end well, or not at all: they stay reserved until their ttl has passed.
    pub in_doubt: Vec<String>,
}

impl Guard {
    /// Goes through what was done without a guard, now that the store answers again: keeps its answers, and says what
    /// was done twice. Safe to repeat after a crash; what was set right before is not counted again.
    pub async fn reconcile(&self, outage: &Outage) -> Result<Reconciled, Error> {
        let mut reconciled = Reconciled::default();
        for (run, entry) in outage.journal.open_runs().await? {
            let ttl = Duration::from_millis(entry.ttl_ms);
            let key = entry.key.clone();
            match (self.reserve(&key, ttl).await?, entry.output) {
                (Reserved::Fresh(reservation), Some(output)) => {
                    reservation.confirm(&output).await?;
                    reconciled.once.push(key);
                }
                (Reserved::Fresh(_), None) => reconciled.in_doubt.push(key),
                (Reserved::Done(_) | Reserved::InProgress, _) => {
                    tracing::warn!(queue = entry.queue, key, "done without a guard, and done before");
                    reconciled.duplicates.push(key);
                }
            }
            outage.journal.write(Line::Reconciled { run }).await?;
        }
        Ok(reconciled)
    }
}

/// A file of lines, each on the disk before it counts.
#[derive(Debug)]
struct Journal {
    path: PathBuf,
    file: Mutex<File>,
    count: AtomicU64,
}

#[derive(Serialize, Deserialize)]
// Not tagged inside: an output is kept as it is written, and that cannot be looked into twice.
#[serde(rename_all = "snake_case")]
enum Line {
    Begun {
        run: String,
        queue: String,
        key: String,
        ttl_ms: u64,
    },
    Ended {
        run: String,
        output: Json,
    },
    Reconciled {
        run: String,
    },
}

/// Something that was done without a guard.
struct Entry {
    queue: String,
    key: String,
    ttl_ms: u64,
    output: Option<Json>,
}

impl Journal {
    fn open(path: PathBuf) -> Result<Self, Error> {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(|source| unusable(&path, source))?;
        Ok(Journal {
            path,
            file: Mutex::new(file),
            count: AtomicU64::new(0),
        })
    }

    async fn write(self: &Arc<Self>, line: Line) -> Result<(), Error> {
        let journal = self.clone();
        let mut text = Json::of(&line)?.as_str().to_owned();
        text.push('\n');
        let written = tokio::task::spawn_blocking(move || {
            let mut file = journal.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_all(text.as_bytes()).and_then(|()| file.sync_data())
        });
        let written = written
            .await
            .unwrap_or_else(|_| Err(std::io::Error::other("the write was cut off")));
        written.map_err(|source| unusable(&self.path, source))
    }

    /// What was not set right yet, oldest first.
    async fn open_runs(self: &Arc<Self>) -> Result<BTreeMap<String, Entry>, Error> {
        let journal = self.clone();
        let read = tokio::task::spawn_blocking(move || journal.read()).await;
        let read = read.unwrap_or_else(|_| Err(std::io::Error::other("the reading was cut off")));
        read.map_err(|source| unusable(&self.path, source))
    }

    fn read(&self) -> std::io::Result<BTreeMap<String, Entry>> {
        // Runs are named by their time, so they come in their order.
        let mut open = BTreeMap::new();
        for line in BufReader::new(File::open(&self.path)?).lines() {
            // A line that a crash cut off was never counted on.
            match serde_json::from_str(&line?) {
                Ok(Line::Begun {
                    run,
                    queue,
                    key,
                    ttl_ms,
                }) => {
                    let entry = Entry {
                        queue,
                        key,
                        ttl_ms,
                        output: None,
                    };
                    open.insert(run, entry);
                }
                Ok(Line::Ended { run, output }) => {
                    if let Some(entry) = open.get_mut(&run) {
                        entry.output = Some(output);
                    }
                }
                Ok(Line::Reconciled { run }) => drop(open.remove(&run)),
                Err(error) => tracing::warn!(%error, "a line of the journal cannot be read"),
            }
        }
        Ok(open)
    }
}

fn unusable(path: &Path, source: std::io::Error) -> Error {
    Invalid::new(
        format!("the journal {}", path.display()),
        "a file that can be written",
    )
    .found(source.to_string())
    .into()
}
