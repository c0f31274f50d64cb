//! Going on without a guard while the store is out of reach: asked for by name, written down, and set right afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use semel_core::error::Invalid;
use semel_core::ids::Token;
use semel_core::json::Json;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::guard::{Guard, Reservation, Reserved};

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
    pub(super) async fn begin(
        &self,
        token: Token,
        queue: &str,
        key: &str,
        ttl: Duration,
    ) -> Result<(), Error> {
        let line = Line::Begun {
            run: token.to_string(),
            queue: queue.to_owned(),
            key: key.to_owned(),
            ttl_ms: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX),
        };
        self.journal.write(line).await?;
        self.journal.count.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(queue, key, "the store is out of reach: going on without a guard");
        Ok(())
    }

    /// Writes down what it gave. It is done: where that cannot be written, the journal says that it was begun.
    pub(super) async fn end<T: Serialize>(&self, token: Token, key: &str, output: &T) {
        let written = match Json::of(output) {
            Ok(output) => {
                let run = token.to_string();
                self.journal.write(Line::Ended { run, output }).await
            }
            Err(invalid) => Err(invalid.into()),
        };
        if let Err(error) = written {
            tracing::error!(key, %error, "done without a guard, and what it gave could not be kept: it stays in doubt");
        }
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
            let (key, queue) = (entry.key.clone(), entry.queue.clone());
            match self.set_right(&run, entry).await? {
                Found::Once => reconciled.once.push(key),
                Found::InDoubt => reconciled.in_doubt.push(key),
                Found::Twice => {
                    tracing::warn!(queue, key, "done without a guard, and done before");
                    reconciled.duplicates.push(key);
                }
            }
            outage.journal.write(Line::Reconciled { run }).await?;
        }
        Ok(reconciled)
    }

    /// Everything is asked for under the token of the run: what it had reserved itself, or an earlier call of this had
    /// set right before a crash, is its own and no duplicate.
    async fn set_right(&self, run: &str, entry: Entry) -> Result<Found, Error> {
        let token: Token = run.parse()?;
        let ttl = Duration::from_millis(entry.ttl_ms);
        match (
            self.reserve_as(token, entry.key.clone(), ttl).await?,
            entry.output,
        ) {
            (Reserved::Fresh(reservation), Some(output)) => {
                reservation.confirm(&output).await?;
                Ok(Found::Once)
            }
            (Reserved::Fresh(_), None) => Ok(Found::InDoubt),
            (Reserved::Done(_), Some(output)) => {
                let own = Reservation {
                    guard: self.clone(),
                    key: entry.key,
                    token,
                };
                match own.confirm(&output).await {
                    Ok(()) => Ok(Found::Once),
                    Err(Error::ReservationLost { .. }) => Ok(Found::Twice),
                    Err(error) => Err(error),
                }
            }
            (Reserved::Done(_) | Reserved::InProgress, _) => Ok(Found::Twice),
        }
    }
}

/// What a run without a guard turns out to have been.
enum Found {
    Once,
    Twice,
    InDoubt,
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
        // On a line of its own, whatever a crash or a full disk left of the one before.
        let text = format!("\n{}\n", Json::of(&line)?);
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
        for line in BufReader::new(File::open(&self.path)?).split(b'\n') {
            let line = line?;
            if line.is_empty() {
                continue;
            }
            // A line that a crash cut off was never counted on.
            match serde_json::from_slice(&line) {
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
