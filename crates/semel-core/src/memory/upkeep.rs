//! Housekeeping: what time has made superfluous goes.

use crate::job::Phase;
use crate::memory::inner::{Inner, Moment};
use crate::memory::record::{Arrival, Record};
use crate::store::{Retention, UpkeepReport, UpkeepRequest};
use crate::time::{Millis, Timestamp};

impl Inner {
    pub(super) fn upkeep(&mut self, request: UpkeepRequest, moment: Moment) -> UpkeepReport {
        let UpkeepRequest {
            retention, budget, ..
        } = request;
        let expired = self.expire(budget, moment);
        let (pruned, stubbed) = self.prune_jobs(&retention, budget, moment);
        let ledger = self.ledger.prune(before(moment.now, retention.ledger), budget);
        let others = [
            self.forget_claims(budget, moment.now),
            self.prune_guards(budget, moment.now),
            self.prune_documents(budget, moment),
            self.prune_feeds(budget),
        ];
        let spent = [expired, pruned + stubbed, ledger].into_iter().chain(others);
        UpkeepReport {
            expired: expired as u64,
            pruned: pruned as u64,
            stubbed: stubbed as u64,
            ledger: ledger as u64,
            snapshot: self.take_snapshot(moment.now),
            more: spent.max().is_some_and(|most| most >= budget),
        }
    }

    /// Removes jobs that ended long ago; of those that hold a key a stub stays.
    fn prune_jobs(&mut self, retention: &Retention, most: usize, moment: Moment) -> (usize, usize) {
        let (mut pruned, mut stubbed) = (0, 0);
        for job in self.outlived(retention, most, moment.now) {
            match self.drop_content(job, true, moment) {
                true => pruned += 1,
                false => stubbed += 1,
            }
        }
        (pruned, stubbed)
    }

    /// Jobs past their retention with which something is to be done, those that ended first in front.
    fn outlived(&self, retention: &Retention, most: usize, now: Timestamp) -> Vec<Arrival> {
        let shortest = before(now, retention.complete.min(retention.failed));
        let ended = self.index.ended.range(..=(shortest, Arrival::MAX));
        let superfluous = |job: &Record| {
            let kept = if job.life.phase == Phase::Complete {
                retention.complete
            } else {
                retention.failed
            };
            let outlived = job.life.finished_at.is_some_and(|at| at.plus(kept) <= now);
            outlived && !(job.stub && job.life.is_holder(now))
        };
        ended
            .map(|(_, job)| *job)
            .filter(|job| superfluous(self.record(*job)))
            .take(most)
            .collect()
    }

    fn prune_guards(&mut self, most: usize, now: Timestamp) -> usize {
        let lapsed = self
            .guards
            .values()
            .filter(|guard| guard.expires_at <= now)
            .map(|guard| guard.digest);
        let lapsed: Vec<_> = lapsed.take(most).collect();
        lapsed.iter().for_each(|digest| drop(self.guards.remove(digest)));
        lapsed.len()
    }
}

/// The moment `length` before `now`.
fn before(now: Timestamp, length: Millis) -> Timestamp {
    Timestamp::from_millis(now.as_millis().saturating_sub(length.as_millis()))
}
