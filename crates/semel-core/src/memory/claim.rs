//! Leases: given, kept alive, run out.

use crate::counters::Counter;
use crate::error::Invalid;
use crate::job::{Phase, State};
use crate::json::Json;
use crate::lifecycle;
use crate::limits;
use crate::memory::inner::{Inner, Moment};
use crate::memory::record::Arrival;
use crate::store::{Beat, ClaimRequest, Claimed, WriteOutcome, log_feed};
use crate::time::{Millis, Timestamp};

/// What one claim was given.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    fence: i64,
    jobs: Vec<Arrival>,
    /// The claim may be sent again until then.
    forget_at: Timestamp,
}

impl Inner {
    pub(super) fn claim(&mut self, request: ClaimRequest, moment: Moment) -> Vec<Claimed> {
        if let Some(batch) = self.claims.get(&request.token) {
            return self.claimed(batch, moment.now);
        }
        let jobs = self.pick(&request, moment.now);
        if jobs.is_empty() {
            return Vec::new();
        }
        let fence = self.next_fence(&jobs, moment);
        let until = moment.now.plus(request.lease);
        for &job in &jobs {
            let life = lifecycle::lease(&self.record(job).life, fence, until, moment.now);
            self.advance(job, life, moment);
            self.amend(job, moment, |record| record.worker = Some(request.worker.clone()));
        }
        let forget_at = until.max(moment.now.plus(limits::CLAIM_KEPT));
        let batch = Batch {
            fence,
            jobs,
            forget_at,
        };
        let claimed = self.claimed(&batch, moment.now);
        self.claims.insert(request.token, batch);
        claimed
    }

    fn pick(&mut self, request: &ClaimRequest, now: Timestamp) -> Vec<Arrival> {
        let Inner { index, settings, .. } = self;
        index.ready.best(request.max, now, |lane| {
            let wanted = (request.queues.is_empty() || request.queues.contains(&lane.queue))
                && (request.tasks.is_empty() || request.tasks.contains(&lane.task));
            wanted && !super::control::is_paused(settings, lane, now)
        })
    }

    /// One fence for all jobs of a claim, above any that one of them or an earlier claim was given.
    fn next_fence(&mut self, jobs: &[Arrival], moment: Moment) -> i64 {
        let highest = jobs
            .iter()
            .map(|job| self.record(*job).life.fence)
            .fold(self.last_fence, i64::max);
        self.last_fence = lifecycle::next_fence(highest, moment.micros);
        self.last_fence
    }

    /// The jobs of a claim that still run under it.
    fn claimed(&self, batch: &Batch, now: Timestamp) -> Vec<Claimed> {
        let leased = |job: &Arrival| {
            let record = self.jobs.get(job)?;
            let lease_until = record.life.until.filter(|_| self.runs_under(*job, batch.fence))?;
            Some(Claimed {
                job: record.view(now),
                fence: batch.fence,
                lease_until,
            })
        };
        batch.jobs.iter().filter_map(leased).collect()
    }

    fn runs_under(&self, job: Arrival, fence: i64) -> bool {
        let life = self.jobs.get(&job).map(|record| &record.life);
        life.is_some_and(|life| life.phase == Phase::Running && life.fence == fence)
    }

    /// Forgets claims that nobody will send again; of those that still run, it asks again later. Says how many.
    pub(super) fn forget_claims(&mut self, most: usize, now: Timestamp) -> usize {
        let due = self
            .claims
            .iter()
            .filter(|(_, batch)| batch.forget_at <= now)
            .map(|(token, _)| *token);
        let due: Vec<_> = due.take(most).collect();
        for token in &due {
            let runs = self.claims[token]
                .jobs
                .iter()
                .any(|job| self.runs_under(*job, self.claims[token].fence));
            match self.claims.get_mut(token) {
                Some(batch) if runs => batch.forget_at = now.plus(limits::CLAIM_KEPT),
                _ => drop(self.claims.remove(token)),
            }
        }
        due.len()
    }

    pub(super) fn extend(&mut self, beat: Beat, lease: Millis, moment: Moment) -> WriteOutcome {
        let Some((job, record)) = self.find(&beat.id) else {
            return WriteOutcome::NotFound;
        };
        if beat
            .progress
            .is_some_and(|progress| !(0.0..=1.0).contains(&progress))
        {
            return WriteOutcome::Invalid(Invalid::new("progress", "0 to 1"));
        }
        let lane = record.lane();
        let until = moment.now.plus(lease);
        match lifecycle::extend(&record.life, beat.fence, until, moment.now) {
            Ok(life) => {
                self.advance(job, life, moment);
                self.amend(job, moment, |record| {
                    record.progress = beat.progress.or(record.progress)
                });
                self.append(
                    &log_feed(&beat.id),
                    beat.log.iter().map(|line| log_line(line)),
                    moment.now,
                );
                WriteOutcome::Ok(State::Running)
            }
            Err(refusal) => {
                self.count(&lane, Counter::StaleWrites);
                WriteOutcome::Refused(refusal)
            }
        }
    }

    /// Takes back leases that have run out, the oldest first (contract 1.7); says how many.
    pub(super) fn expire(&mut self, most: usize, moment: Moment) -> usize {
        let mut expired = 0;
        while expired < most
            && let Some(&(until, _, job)) = self.index.leases.first()
            && until <= moment.now
        {
            self.expire_one(job, moment);
            expired += 1;
        }
        expired
    }

    fn expire_one(&mut self, job: Arrival, moment: Moment) {
        let record = self.record(job);
        let lane = record.lane();
        let (life, end) = lifecycle::expire(&record.life, moment.now, moment.micros);
        self.count(&lane, Counter::Expired);
        if life.phase == Phase::Failed {
            self.count(&lane, Counter::Failed);
        }
        self.amend(job, moment, |record| record.close_attempt(end));
        self.advance(job, life, moment);
    }
}

fn log_line(line: &str) -> Json {
    let text = serde_json::to_string(limits::cut(line, limits::LOG_LINE_BYTES));
    Json::trusted(text.expect("a text can always be written as JSON"))
}
