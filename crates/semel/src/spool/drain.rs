//! Sending what waits in a spool, oldest first.

use std::sync::Arc;

use semel_core::error::StoreError;
use semel_core::limits;
use semel_core::store::{Store, Submitted};
use semel_core::submission::Submission;

use crate::clock;
use crate::error::Error;
use crate::spool::directory::{Directory, apart};
use crate::spool::record::Record;
use crate::spool::segment::Segment;

/// What a drain did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Submissions the store has answered.
    pub sent: u64,
    /// Submissions that wait on, at the end of the line: the intake of their queue or task is closed.
    pub put_back: u64,
    /// Submissions the store will never take: set aside.
    pub set_aside: u64,
    /// Another process was at it: nothing was done here.
    pub elsewhere: bool,
}

/// Sends what waits now, oldest first, as far as the store answers. What comes meanwhile is for the next time,
/// so that this ends however much comes.
pub(super) async fn drain(directory: &Arc<Directory>, store: &Arc<dyn Store>) -> Result<Drained, Error> {
    let mut drained = Drained::default();
    let theirs = directory.clone();
    let lock = apart("beginning to drain the spool", move || theirs.drain_lock()).await?;
    let Some(lock) = lock else {
        drained.elsewhere = true;
        return Ok(drained);
    };
    let theirs = directory.clone();
    for segment in apart("sealing the spool", move || theirs.seal()).await? {
        send(directory, store, segment, &mut drained).await?;
    }
    drop(lock);
    Ok(drained)
}

/// Sends one segment. It is taken off only once every record in it was answered.
async fn send(
    directory: &Arc<Directory>,
    store: &Arc<dyn Store>,
    segment: Segment,
    drained: &mut Drained,
) -> Result<(), Error> {
    let (theirs, which) = (directory.clone(), segment.clone());
    let lines = apart("reading the spool", move || theirs.read(&which)).await?;
    let mut sorting = Sorting::default();
    let ready = sorting.sort(lines);
    for batch in ready.chunks(limits::BATCH) {
        match store.submit(submissions(batch)).await {
            Ok(answers) => sorting.note_all(batch, &answers),
            Err(StoreError::Corrupt { .. }) => one_by_one(store, batch, &mut sorting).await?,
            Err(error) => return Err(error.into()),
        }
    }
    drained.sent += sorting.sent;
    drained.put_back += sorting.back.len() as u64;
    drained.set_aside += sorting.aside.len() as u64;
    if sorting.sent > 0 {
        tracing::info!(sent = sorting.sent, "submissions were sent from the spool");
    }
    let theirs = directory.clone();
    apart("taking sent submissions off the spool", move || {
        theirs.set_aside(&sorting.aside)?;
        theirs.finish(&segment, &sorting.back)
    })
    .await
}

/// Damage in the store that concerns one submission must not hold up its neighbours.
async fn one_by_one(store: &Arc<dyn Store>, batch: &[Ready], sorting: &mut Sorting) -> Result<(), Error> {
    for one in batch.chunks(1) {
        match store.submit(submissions(one)).await {
            Ok(answers) => sorting.note_all(one, &answers),
            Err(error @ StoreError::Corrupt { .. }) => {
                tracing::warn!(%error, "a submission from the spool waits on");
                sorting.back.extend(one.iter().map(|(record, _)| record.clone()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A record that can be sent, as what.
type Ready = (Record, Submission);

fn submissions(batch: &[Ready]) -> Vec<Submission> {
    batch.iter().map(|(_, submission)| submission.clone()).collect()
}

/// What is to become of the records of a segment.
#[derive(Default)]
struct Sorting {
    sent: u64,
    back: Vec<Record>,
    aside: Vec<(String, String)>,
}

impl Sorting {
    /// Those that can be sent; the others are set aside.
    fn sort(&mut self, lines: Vec<Result<Record, String>>) -> Vec<Ready> {
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

    fn note_all(&mut self, batch: &[Ready], answers: &[Submitted]) {
        for ((record, _), answer) in batch.iter().zip(answers) {
            self.note(record, answer);
        }
    }

    fn note(&mut self, record: &Record, answer: &Submitted) {
        match answer {
            Submitted::Closed { .. } => self.back.push(record.clone()),
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
