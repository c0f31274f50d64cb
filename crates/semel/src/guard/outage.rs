//! Going on without a guard while the store is out of reach: asked for by name, written down, and set right afterwards.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use semel_core::ids::Token;
use semel_core::json::Json;
use serde::Serialize;

use crate::error::Error;
use crate::guard::journal::{Entry, Journal, Line};
use crate::guard::{Guard, Reservation, Reserved};

/// Which work goes on while the store is out of reach, and where it is written down.
///
/// Without this, work is refused then. With it, the work of the queues that are named is done although nobody can say
/// whether it was done before: each time there is a warning, a count, and two lines in a journal on this machine's
/// disk, one before and one after. [`Guard::reconcile`] goes through them later. Several processes of a machine can share
/// a journal.
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

    /// How often work went on without a guard: by all that the journal knew when it was opened, and by this process since.
    pub fn ran_unguarded(&self) -> u64 {
        self.journal.ran()
    }

    /// Writes down that something is about to be done without a guard.
    pub(super) async fn begin(
        &self,
        token: Token,
        queue: &str,
        key: &str,
        ttl: Duration,
    ) -> Result<(), Error> {
        self.journal.write(vec![begun(token, queue, key, ttl)]).await?;
        tracing::warn!(queue, key, "the store is out of reach: going on without a guard");
        Ok(())
    }

    /// Writes down what it gave. It is done: where that cannot be written, the journal says that it was begun.
    pub(super) async fn end<T: Serialize>(&self, token: Token, key: &str, output: &T) {
        let written = match Json::of(output) {
            Ok(output) => {
                let run = token.to_string();
                self.journal.write(vec![Line::Ended { run, output }]).await
            }
            Err(invalid) => Err(invalid.into()),
        };
        if let Err(error) = written {
            tracing::error!(key, %error, "done without a guard, and what it gave could not be kept: it stays in doubt");
        }
    }

    /// Writes down what something gave that was done under a reservation, when the store could no longer be told.
    pub(super) async fn keep(
        &self,
        token: Token,
        queue: &str,
        key: &str,
        ttl: Duration,
        output: &Json,
    ) -> Result<(), Error> {
        let ended = Line::Ended {
            run: token.to_string(),
            output: output.clone(),
        };
        self.journal
            .write(vec![begun(token, queue, key, ttl), ended])
            .await?;
        tracing::warn!(
            queue,
            key,
            "the store is out of reach: the answer is in the journal"
        );
        Ok(())
    }
}

fn begun(token: Token, queue: &str, key: &str, ttl: Duration) -> Line {
    Line::Begun {
        run: token.to_string(),
        queue: queue.to_owned(),
        key: key.to_owned(),
        ttl_ms: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX),
    }
}

/// What became of work that was done without a guard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reconciled {
    /// Keys of work that nobody else had done: its answer is kept under its key now.
    pub once: Vec<String>,
    /// Keys of work that was done before, or by somebody else as well.
    pub duplicates: Vec<String>,
    /// Keys of work that did not end well, or not yet, or never will: they stay reserved until their ttl has passed. What
    /// was merely still going is found by the next call after it has ended.
    pub in_doubt: Vec<String>,
}

impl Guard {
    /// Goes through what was done without a guard, now that the store answers again: keeps its answers, and says what
    /// was done twice. Safe to repeat after a crash; what was set right before is not counted again.
    pub async fn reconcile(&self, outage: &Outage) -> Result<Reconciled, Error> {
        let mut reconciled = Reconciled::default();
        for (run, entry) in outage.journal.open_runs().await? {
            let (key, queue) = (entry.key.clone(), entry.queue.clone());
            let found = self.set_right(&run, entry).await?;
            let in_doubt = matches!(found, Found::InDoubt);
            match found {
                Found::Once => reconciled.once.push(key),
                Found::InDoubt => reconciled.in_doubt.push(key),
                Found::Twice => {
                    tracing::warn!(queue, key, "done without a guard, and done before");
                    reconciled.duplicates.push(key);
                }
            }
            outage
                .journal
                .write(vec![Line::Reconciled { run, in_doubt }])
                .await?;
        }
        if let Err(error) = outage.journal.shrink().await {
            tracing::warn!(%error, "a journal of which nothing is open could not be emptied");
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
