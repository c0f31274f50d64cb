//! Sending what waits in a spool, oldest first.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use semel_core::limits;
use semel_core::store::{Store, Submitted};
use semel_core::submission::Submission;

use crate::clock;
use crate::error::Error;
use crate::spool::directory::{Directory, Segment, apart};
use crate::spool::record::Record;

/// What a drain did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Submissions the store has answered.
    pub sent: u64,
    /// Submissions that wait on, as the intake of their queue or task is closed.
    pub closed: u64,
    /// Submissions the store will never take: set aside.
    pub set_aside: u64,
    /// Another process was at it: nothing was done here.
    pub elsewhere: bool,
}

/// Sends everything that waits, as far as the store answers.
pub(super) async fn drain(directory: &Arc<Directory>, store: &Arc<dyn Store>) -> Result<Drained, Error> {
    let mut drained = Drained::default();
    let Some(lock) = take_lock(directory).await? else {
        drained.elsewhere = true;
        return Ok(drained);
    };
    let mut tried = BTreeSet::new();
    loop {
        let theirs = directory.clone();
        let sealed = apart("sealing the spool", move || theirs.seal()).await?;
        let fresh: Vec<Segment> = sealed
            .into_iter()
            .filter(|segment| tried.insert(segment.path.clone()))
            .collect();
        if fresh.is_empty() {
            break;
        }
        for segment in fresh {
            // What waits on is not to be tried again at once.
            tried.extend(send(directory, store, segment, &mut drained).await?);
        }
    }
    drop(lock);
    Ok(drained)
}

async fn take_lock(directory: &Arc<Directory>) -> Result<Option<File>, Error> {
    let theirs = directory.clone();
    apart("beginning to drain the spool", move || theirs.drain_lock()).await
}

/// Sends one segment. It is taken off only once every record in it was answered.
async fn send(
    directory: &Arc<Directory>,
    store: &Arc<dyn Store>,
    segment: Segment,
    drained: &mut Drained,
) -> Result<Option<PathBuf>, Error> {
    let (theirs, which) = (directory.clone(), segment.clone());
    let lines = apart("reading the spool", move || theirs.read(&which)).await?;
    let mut sorting = Sorting::default();
    let ready = sorting.sort(lines);
    for batch in ready.chunks(limits::BATCH) {
        let submissions = batch.iter().map(|(_, submission)| submission.clone()).collect();
        let answers = store.submit(submissions).await?;
        for ((record, _), answer) in batch.iter().zip(&answers) {
            sorting.note(record, answer);
        }
    }
    drained.sent += sorting.sent;
    drained.closed += sorting.closed.len() as u64;
    drained.set_aside += sorting.aside.len() as u64;
    if sorting.sent > 0 {
        tracing::info!(sent = sorting.sent, "submissions were sent from the spool");
    }
    let theirs = directory.clone();
    apart("taking sent submissions off the spool", move || {
        theirs.set_aside(&sorting.aside)?;
        theirs.finish(&segment, &sorting.closed)
    })
    .await
}

/// What is to become of the records of a segment.
#[derive(Default)]
struct Sorting {
    sent: u64,
    closed: Vec<Record>,
    aside: Vec<(String, String)>,
}

impl Sorting {
    /// Those that can be sent; the others are set aside.
    fn sort(&mut self, lines: Vec<Result<Record, String>>) -> Vec<(Record, Submission)> {
        let now = clock::now();
        let mut ready = Vec::with_capacity(lines.len());
        for line in lines {
            match line.map(|record| (record.clone().submission(now), record)) {
                Ok((Ok(submission), record)) => ready.push((record, submission)),
                Ok((Err(invalid), record)) => self.put_aside(&record, invalid.to_string()),
                Err(line) => {
                    tracing::warn!("a damaged line of the spool is set aside");
                    self.aside.push((line, "damaged".to_owned()));
                }
            }
        }
        ready
    }

    fn note(&mut self, record: &Record, answer: &Submitted) {
        match answer {
            Submitted::Closed { .. } => self.closed.push(record.clone()),
            Submitted::Invalid(invalid) => self.put_aside(record, invalid.to_string()),
            Submitted::Rejected { holder } | Submitted::Conflict { holder, .. } => {
                // Its producer has gone on: the ledger and this line are all that is left to tell.
                tracing::warn!(
                    token = ?record.submission.token,
                    holder = %holder.id,
                    outcome = answer.outcome().map(|outcome| outcome.word()),
                    "a submission from the spool was refused"
                );
                self.sent += 1;
            }
            Submitted::Job(_) => self.sent += 1,
        }
    }

    fn put_aside(&mut self, record: &Record, why: String) {
        tracing::warn!(
            why,
            "a submission from the spool makes no sense to the store and is set aside"
        );
        self.aside.push((record.line(), why));
    }
}
