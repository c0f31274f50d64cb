//! The journal of what was done without a guard: a file of lines, each on the disk before it counts.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use semel_core::error::Invalid;
use semel_core::ids::Token;
use semel_core::json::Json;
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::error::Error;

/// A journal that is open. Other processes may have it open too: the file is locked while it is read or written.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: Mutex<File>,
    ran: AtomicU64,
}

#[derive(Serialize, Deserialize)]
// Not tagged inside: an output is kept as it is written, and that cannot be looked into twice.
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
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
        /// It had not ended: an end that is written later counts.
        #[serde(default)]
        in_doubt: bool,
    },
    /// So many runs were written down here and are gone.
    Forgotten {
        runs: u64,
    },
}

/// Something that was done without a guard.
pub(super) struct Entry {
    pub(super) queue: String,
    pub(super) key: String,
    pub(super) ttl_ms: u64,
    pub(super) output: Option<Json>,
}

/// What a journal says. Runs are named by their time, so they come in their order.
#[derive(Default)]
struct Contents {
    /// Runs whose beginning is here.
    begun: u64,
    /// Runs whose beginning was here.
    forgotten: u64,
    /// Not set right yet.
    open: BTreeMap<String, Entry>,
    /// Found in doubt, and perhaps still going.
    in_doubt: BTreeMap<String, Entry>,
}

impl Journal {
    pub(super) fn open(path: PathBuf) -> Result<Self, Error> {
        let opened = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(&path)
            .and_then(|file| {
                let contents = locked(&file, Contents::read)?;
                Ok((file, contents.begun + contents.forgotten))
            });
        let (file, ran) = opened.map_err(|source| unusable(&path, source))?;
        Ok(Journal {
            path,
            file: Mutex::new(file),
            ran: AtomicU64::new(ran),
        })
    }

    pub(super) fn ran(&self) -> u64 {
        self.ran.load(Ordering::Relaxed)
    }

    pub(super) async fn write(self: &Arc<Self>, lines: Vec<Line>) -> Result<(), Error> {
        let begun = lines.iter().filter(|line| matches!(line, Line::Begun { .. }));
        let begun = begun.count() as u64;
        self.apart(move |file| append(file, &lines)).await?;
        self.ran.fetch_add(begun, Ordering::Relaxed);
        Ok(())
    }

    /// What was not set right yet, oldest first.
    pub(super) async fn open_runs(self: &Arc<Self>) -> Result<BTreeMap<String, Entry>, Error> {
        Ok(self.apart(Contents::read).await?.open)
    }

    /// Empties the journal if there is nothing in it that anybody waits for.
    pub(super) async fn shrink(self: &Arc<Self>) -> Result<(), Error> {
        self.apart(|file| {
            let contents = Contents::read(file)?;
            if contents.begun == 0 || contents.is_awaited() {
                return Ok(());
            }
            // A crash in between loses the count, and nothing that is to be set right.
            file.set_len(0)?;
            let runs = contents.begun + contents.forgotten;
            append(file, &[Line::Forgotten { runs }])
        })
        .await
    }

    /// Does something with the file on a thread that may wait, alone among all threads and processes.
    async fn apart<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&File) -> io::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let journal = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            let file = journal.file.lock().unwrap_or_else(PoisonError::into_inner);
            locked(&file, work)
        });
        let done = done
            .await
            .unwrap_or_else(|_| Err(io::Error::other("the work on it was cut off")));
        done.map_err(|source| unusable(&self.path, source))
    }
}

fn locked<T>(file: &File, work: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
    file.lock()?;
    let done = work(file);
    let unlocked = file.unlock();
    let done = done?;
    unlocked?;
    Ok(done)
}

fn append(mut file: &File, lines: &[Line]) -> io::Result<()> {
    let mut text = String::new();
    for line in lines {
        // On a line of its own, whatever a crash or a full disk left of the one before.
        text.push('\n');
        text.push_str(&serde_json::to_string(line)?);
        text.push('\n');
    }
    file.write_all(text.as_bytes())?;
    file.sync_data()
}

impl Contents {
    fn read(mut file: &File) -> io::Result<Self> {
        let mut contents = Contents::default();
        file.rewind()?;
        for line in BufReader::new(file).split(b'\n') {
            let line = line?;
            if line.is_empty() {
                continue;
            }
            // A line that a crash cut off was never counted on.
            match serde_json::from_slice(&line) {
                Ok(line) => contents.take_in(line),
                Err(error) => tracing::warn!(%error, "a line of the journal cannot be read"),
            }
        }
        Ok(contents)
    }

    fn take_in(&mut self, line: Line) {
        match line {
            Line::Begun {
                run,
                queue,
                key,
                ttl_ms,
            } => {
                let entry = Entry {
                    queue,
                    key,
                    ttl_ms,
                    output: None,
                };
                self.begun += 1;
                self.open.insert(run, entry);
            }
            Line::Ended { run, output } => {
                // It was still going when it was looked at: now there is an answer to keep.
                let entry = self.in_doubt.remove(&run).or_else(|| self.open.remove(&run));
                if let Some(mut entry) = entry {
                    entry.output = Some(output);
                    self.open.insert(run, entry);
                }
            }
            Line::Reconciled { run, in_doubt } => match self.open.remove(&run) {
                // It ended after it was looked at, and before that was written down.
                Some(entry) if in_doubt && entry.output.is_some() => drop(self.open.insert(run, entry)),
                Some(entry) if in_doubt => drop(self.in_doubt.insert(run, entry)),
                _ => {}
            },
            Line::Forgotten { runs } => self.forgotten += runs,
        }
    }

    /// Whether a line that is here or may come still matters. Of a run in doubt, until its reservation has lapsed: one
    /// that died never ends.
    fn is_awaited(&self) -> bool {
        let now = clock::now().as_millis();
        let has_lapsed = |(run, entry): (&String, &Entry)| {
            let ttl = i64::try_from(entry.ttl_ms).unwrap_or(i64::MAX);
            begun_at(run).is_some_and(|begun| begun.saturating_add(ttl) < now)
        };
        !self.open.is_empty() || !self.in_doubt.iter().all(has_lapsed)
    }
}

/// When a run was begun, in milliseconds: its name is a UUID v7.
fn begun_at(run: &str) -> Option<i64> {
    let token: Token = run.parse().ok()?;
    let millis = token.as_bytes().first_chunk::<6>()?;
    Some(millis.iter().fold(0, |sum, byte| (sum << 8) | i64::from(*byte)))
}

fn unusable(path: &Path, source: io::Error) -> Error {
    Invalid::new(
        format!("the journal {}", path.display()),
        "a file that can be written",
    )
    .found(source.to_string())
    .into()
}
