//! The one hand that writes about leases: heartbeats and settlements, never both at once.
//!
//! Whatever ended while a settlement was under way is the next one, so a busy worker settles in large
//! batches and an idle one at once. As settlements and heartbeats follow each other, a heartbeat is
//! never sent for a job that was settled a moment ago: a refused write means that the lease is lost.

use std::sync::Arc;
use std::time::Duration;

use semel_core::error::StoreError;
use semel_core::lifecycle::{Refusal, Settle};
use semel_core::limits::BATCH;
use semel_core::store::{Beat, ExtendRequest, Settlement, WriteOutcome};
use tokio::time::Instant;

use crate::clock;
use crate::worker::attempt::Ended;
use crate::worker::desk::Desk;
use crate::worker::jitter::Trouble;
use crate::worker::lease::{Fate, Lease};
use crate::worker::leases::beat_every;
use crate::worker::stop::Stage;
use crate::worker::watch::tell_cancelled;

/// Progress and log lines are gathered for so long.
const GATHER: Duration = Duration::from_millis(200);

/// Writes until the worker has left and everything is told.
pub(crate) struct Scribe {
    desk: Arc<Desk>,
    /// Results the store has not answered.
    backlog: Vec<Ended>,
    beat_at: Instant,
    notes_at: Option<Instant>,
    settle_at: Instant,
    trouble: Trouble,
}

impl Scribe {
    pub(crate) fn new(desk: Arc<Desk>) -> Self {
        let now = clock::instant();
        Scribe {
            beat_at: now + beat_every(desk.settings.lease),
            desk,
            backlog: Vec::new(),
            notes_at: None,
            settle_at: now,
            trouble: Trouble::default(),
        }
    }

    /// Ends once the worker leaves and every result was answered.
    pub(crate) async fn run(mut self) {
        loop {
            self.settle_what_ended().await;
            self.beat_if_due().await;
            let is_done = self.backlog.is_empty() && self.desk.stop.is_at(Stage::Leaving);
            if self.gather() {
                continue;
            }
            if is_done {
                return;
            }
            self.wait().await;
        }
    }

    /// Takes new results on; says whether there is something to settle right now.
    fn gather(&mut self) -> bool {
        let room = BATCH.saturating_sub(self.backlog.len());
        self.backlog.extend(self.desk.floor.take_results(room));
        !self.backlog.is_empty() && self.settle_at <= clock::instant()
    }

    async fn wait(&mut self) {
        let desk = self.desk.clone();
        let mut next = self.beat_at.min(self.notes_at.unwrap_or(self.beat_at));
        let blocked = !self.backlog.is_empty();
        if blocked {
            next = next.min(self.settle_at);
        }
        tokio::select! {
            () = desk.floor.results(), if !blocked => {}
            () = tokio::time::sleep_until(next) => {}
            () = desk.leases.urgent() => self.beat_at = clock::instant(),
            () = desk.leases.notes(), if self.notes_at.is_none() => self.notes_at = Some(clock::instant() + GATHER),
            () = desk.stop.comes_to(Stage::Leaving), if !blocked && !desk.stop.is_at(Stage::Leaving) => {}
        }
    }

    async fn beat_if_due(&mut self) {
        let now = clock::instant();
        if self.beat_at <= now {
            let all = self.desk.leases.ours(|_| true);
            self.notes_at = None;
            let every = beat_every(self.desk.settings.lease);
            self.beat_at = match self.beat(&all).await {
                true => now + every,
                false => now + every / 4,
            };
        } else if self.notes_at.is_some_and(|at| at <= now) {
            let some = self.desk.leases.ours(Lease::has_notes);
            let told = self.beat(&some).await;
            self.notes_at = (!told).then(|| now + GATHER * 5);
        }
    }

    /// Extends leases and passes on what their handlers said. `false`: the store could not be asked.
    async fn beat(&self, leases: &[Arc<Lease>]) -> bool {
        for some in leases.chunks(BATCH) {
            if let Err(error) = self.beat_some(some).await {
                let given_up = self.desk.leases.give_up(clock::instant());
                self.desk.tally.lost(given_up);
                tracing::warn!(%error, given_up, "leases could not be extended; trying again");
                return false;
            }
        }
        true
    }

    async fn beat_some(&self, leases: &[Arc<Lease>]) -> Result<(), StoreError> {
        let length = self.desk.settings.lease;
        let sent = clock::instant();
        let notes: Vec<_> = leases.iter().map(|lease| lease.take_notes()).collect();
        let beat = |(lease, notes): (&Arc<Lease>, &crate::worker::lease::Notes)| Beat {
            id: lease.job.id.clone(),
            fence: lease.fence,
            progress: notes.progress,
            log: notes.lines.clone(),
        };
        let request = ExtendRequest {
            leases: leases.iter().zip(&notes).map(beat).collect(),
            lease: length.into(),
        };
        let answer = self
            .in_time("extending leases", self.desk.store.extend(request))
            .await;
        let outcomes = match answer {
            Ok(outcomes) => outcomes,
            Err(error) => {
                let unsent = leases.iter().zip(notes);
                unsent.for_each(|(lease, notes)| lease.return_notes(notes));
                return Err(error);
            }
        };
        for (lease, outcome) in leases.iter().zip(outcomes) {
            match outcome {
                WriteOutcome::Ok(_) => lease.extended(sent + length),
                outcome => self.not_written(lease, &outcome),
            }
        }
        Ok(())
    }

    /// Tells the store how attempts ended; what it does not answer stays in the backlog.
    async fn settle_what_ended(&mut self) {
        if self.backlog.is_empty() || self.settle_at > clock::instant() {
            return;
        }
        let noted = self.backlog.iter().map(|ended| ended.lease.clone());
        let noted: Vec<_> = noted
            .filter(|lease| lease.has_notes() && lease.fate() == Fate::Held)
            .collect();
        let told = noted.is_empty() || self.beat(&noted).await;
        let answer = match told {
            true => self.settle().await,
            false => Err(StoreError::unavailable("passing on log lines")),
        };
        match answer {
            Ok(()) => self.trouble.over(),
            Err(error) => {
                if self.trouble.is_first() {
                    tracing::warn!(%error, waiting = self.backlog.len(), "results could not be settled; trying again");
                }
                self.settle_at = clock::instant() + self.trouble.again();
            }
        }
    }

    async fn settle(&mut self) -> Result<(), StoreError> {
        let batch = self.settlements();
        let outcomes = match batch.is_empty() {
            true => Vec::new(),
            false => {
                let settling = self.desk.store.settle(batch);
                self.in_time("settling", settling).await?
            }
        };
        let mut outcomes = outcomes.into_iter();
        let backlog = std::mem::take(&mut self.backlog);
        let mut told = Vec::with_capacity(backlog.len());
        for ended in backlog {
            let outcome = ended.settle.as_ref().and_then(|_| outcomes.next());
            match self.answered(&ended, outcome) {
                Some(instead) => self.backlog.push(Ended {
                    settle: Some(instead),
                    ..ended
                }),
                None => told.push(ended.lease),
            }
        }
        self.desk.leases.strike(&told);
        self.desk.floor.answered(told.len());
        Ok(())
    }

    /// What is to be sent. A lease that was lost since its job ended is not written about.
    fn settlements(&mut self) -> Vec<Settlement> {
        for ended in &mut self.backlog {
            if matches!(ended.lease.fate(), Fate::Cancelled | Fate::Lost) {
                ended.settle = None;
            }
        }
        let settlement = |ended: &Ended| {
            Some(Settlement {
                id: ended.lease.job.id.clone(),
                fence: ended.lease.fence,
                result: ended.settle.clone()?,
            })
        };
        self.backlog.iter().filter_map(settlement).collect()
    }

    /// Takes note of an answer; gives what to send instead, if the store cannot take what was sent.
    fn answered(&self, ended: &Ended, outcome: Option<WriteOutcome>) -> Option<Settle> {
        match (&ended.settle, outcome?) {
            (Some(settle), WriteOutcome::Ok(state)) => self.desk.tally.settled(settle, state),
            (_, WriteOutcome::Invalid(invalid)) => {
                let error = format!("how the attempt ended cannot be kept: {invalid}");
                return Some(Settle::Fail { error });
            }
            (_, outcome) => self.not_written(&ended.lease, &outcome),
        }
        None
    }

    fn not_written(&self, lease: &Lease, outcome: &WriteOutcome) {
        let (job_id, fence) = (&lease.job.id, lease.fence);
        match outcome {
            WriteOutcome::Refused(Refusal::Cancelled) => {
                self.desk.tally.refused();
                tell_cancelled(&self.desk, lease);
            }
            WriteOutcome::Refused(Refusal::LeaseLost) | WriteOutcome::NotFound => {
                self.desk.tally.refused();
                if lease.tell(Fate::Lost) {
                    self.desk.tally.lost(1);
                }
                tracing::warn!(%job_id, fence, "a write was refused: the lease is lost");
            }
            WriteOutcome::Invalid(invalid) => {
                tracing::error!(%job_id, %invalid, "a heartbeat makes no sense")
            }
            WriteOutcome::Ok(_) => {}
        }
    }

    /// A store that does not answer must not keep heartbeats from being tried again.
    async fn in_time<T>(
        &self,
        doing: &str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match tokio::time::timeout(beat_every(self.desk.settings.lease), call).await {
            Ok(answer) => answer,
            Err(_) => Err(StoreError::unavailable(doing)),
        }
    }
}
