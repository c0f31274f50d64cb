//! The invariants that can be checked on live data (contract 9.5). There is nothing to repair: a
//! finding here is a bug, and goes with the process.

use std::collections::HashMap;

use crate::counters::Counter;
use crate::dedup::HoldKind;
use crate::job::Outcome;
use crate::memory::inner::Inner;
use crate::memory::record::{Lane, Record};
use crate::store::Finding;
use crate::time::Timestamp;

impl Inner {
    pub(super) fn doctor(&self, now: Timestamp) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.check_owners(now, &mut findings);
        self.check_ended(now, &mut findings);
        self.check_counts(&mut findings);
        findings
    }

    /// At no instant do two jobs hold one key; no key is without its job.
    fn check_owners(&self, now: Timestamp, findings: &mut Vec<Finding>) {
        for (digest, owners) in &self.index.owners {
            let jobs: Vec<_> = owners
                .iter()
                .filter_map(|(_, arrival)| self.jobs.get(arrival))
                .collect();
            if jobs.len() < owners.len() {
                findings.push(finding(
                    "I13",
                    format!("the key {digest} has an owner that is gone"),
                ));
            }
            let holders = jobs.iter().filter(|job| job.life.is_holder(now)).count();
            if holders > 1 {
                findings.push(finding(
                    "I1",
                    format!("the key {digest} is held by {holders} jobs"),
                ));
            }
        }
    }

    /// A job that has ended holds no `until_finished` key, except in its cool-down.
    fn check_ended(&self, now: Timestamp, findings: &mut Vec<Finding>) {
        let overdue = |job: &Record| {
            let hold = job.life.holding.as_ref().map(|holding| holding.hold);
            let freed_at_end =
                hold.is_some_and(|hold| hold.kind == HoldKind::UntilFinished && hold.cool_down.is_none());
            freed_at_end && job.life.phase.is_terminal() && job.life.is_holder(now)
        };
        let jobs = self.jobs.values().filter(|job| overdue(job));
        findings
            .extend(jobs.map(|job| finding("I12", format!("{} has ended and holds its key", job.spec.id))));
    }

    /// No fewer submissions were counted than can be seen.
    fn check_counts(&self, findings: &mut Vec<Finding>) {
        let mut seen: HashMap<Lane, i64> = HashMap::new();
        for job in self.jobs.values().filter(|job| job.born == Outcome::Accepted) {
            *seen.entry(job.lane()).or_default() += 1;
        }
        for (Lane { queue, task }, jobs) in seen
            .iter()
            .filter(|(lane, jobs)| self.counted(lane, Counter::Accepted) < **jobs)
        {
            findings.push(finding(
                "I25",
                format!("{queue}/{task} has {jobs} jobs, more than it accepted"),
            ));
        }
        let wrong = self.ledger.wrong_totals();
        findings.extend(
            wrong.map(|digest| finding("I25", format!("the key {digest} absorbed more than it counts"))),
        );
    }

    fn counted(&self, lane: &Lane, counter: Counter) -> i64 {
        self.lanes.get(lane).map_or(0, |tally| tally.raw.get(counter))
    }
}

fn finding(invariant: &'static str, what: String) -> Finding {
    Finding {
        invariant,
        what,
        repaired: false,
    }
}
