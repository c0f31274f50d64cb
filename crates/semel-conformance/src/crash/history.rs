//! What the answers, taken together, say has to be true. Shares nothing with the store but words.

use std::collections::{BTreeMap, BTreeSet};

use semel_core::counters::Counter;
use semel_core::ids::JobId;

use super::log::Call;
use super::resolve::id;
use crate::kit::made_by;

/// Everything the answers said.
#[derive(Default)]
pub(super) struct History {
    /// Every job that was ever answered with.
    pub(super) jobs: BTreeMap<JobId, Track>,
    /// Jobs that something was said about since the last look.
    pub(super) touched: BTreeSet<JobId>,
    /// What was counted for sure.
    pub(super) counts: BTreeMap<Counter, i64>,
    /// What may have been counted by unknown calls, beyond what is sure.
    pub(super) perhaps: BTreeMap<Counter, i64>,
    /// Calls learned of.
    pub(super) calls: u64,
}

/// What was said about one job.
#[derive(Default, Debug)]
pub(super) struct Track {
    /// Its key, and under which policy it was asked for.
    pub(super) key: Option<(String, String)>,
    /// It began as the follower of another.
    pub(super) was_deferred: bool,
    /// Its leases, by fence: what each was settled to.
    pub(super) leases: BTreeMap<i64, Option<String>>,
    /// It was cancelled.
    pub(super) cancelled: bool,
    /// Retries by hand that were answered, and those that were not.
    pub(super) retries: (u64, u64),
    /// The job that replays it.
    pub(super) replayed_as: Option<JobId>,
    /// Retries by hand that turned out to have been applied.
    pub(super) lives_begun: u64,
}

impl Track {
    /// How often it came to an end.
    pub(super) fn ends(&self) -> u64 {
        let settled = self
            .leases
            .values()
            .flatten()
            .filter(|state| is_end(state))
            .count() as u64;
        settled + u64::from(self.cancelled)
    }

    /// The end said last: cancelled jobs are never retried here, and fences only grow.
    pub(super) fn last_end(&self) -> Option<&str> {
        let settled = self.leases.values().rev().flatten().find(|state| is_end(state));
        if self.cancelled {
            Some("cancelled")
        } else {
            settled.map(String::as_str)
        }
    }
}

fn is_end(state: &str) -> bool {
    matches!(state, "complete" | "failed" | "cancelled")
}

impl History {
    /// A call and its definite answer.
    pub(super) fn learn(&mut self, call: &Call) {
        self.calls += 1;
        match call.verb() {
            "submit" => self.submitted(call),
            "claim" => self.claimed(call),
            "settle" => self.settled(call),
            "stale" => self.stale(call),
            "cancel" => self.cancelled(call),
            "retry" => self.retried(call),
            "replay" => self.replayed(call),
            verb => panic!("the load does not {verb}"),
        }
    }

    /// Leases that were given and neither settled nor taken away by a cancel.
    pub(super) fn open_leases(&self) -> Vec<(JobId, i64)> {
        let open = self
            .jobs
            .iter()
            .filter(|(_, track)| !track.cancelled)
            .filter_map(|(id, track)| {
                let (fence, settled) = track.leases.last_key_value()?;
                settled.is_none().then(|| (id.clone(), *fence))
            });
        open.collect()
    }

    fn count(&mut self, counter: Counter) {
        *self.counts.entry(counter).or_default() += 1;
    }

    fn perhaps(&mut self, counter: Counter) {
        *self.perhaps.entry(counter).or_default() += 1;
    }

    fn track(&mut self, id: &JobId) -> &mut Track {
        self.touched.insert(id.clone());
        self.jobs.entry(id.clone()).or_default()
    }

    fn submitted(&mut self, call: &Call) {
        let named = id(call.said(1));
        let own = call.asked(1).parse().expect("a token");
        let counter = match call.said(0) {
            "accepted" => Counter::Accepted,
            "duplicate" => Counter::Duplicate,
            "replaced" => Counter::Replaced,
            "deferred" => Counter::Deferred,
            "rejected" => Counter::Rejected,
            word => panic!("{word} is no answer to {:?}", call.request),
        };
        self.count(counter);
        let made = made_by(&named, own);
        assert!(
            made || counter != Counter::Accepted,
            "accepted under another id: {call:?}"
        );
        let key = (call.asked(3) != "plain").then(|| (call.asked(2).to_owned(), call.asked(3).to_owned()));
        let track = self.track(&named);
        if made {
            track.key = key;
            track.was_deferred = counter == Counter::Deferred;
        }
    }

    fn claimed(&mut self, call: &Call) {
        for lease in call.answer.iter().flatten() {
            let (job, fence) = lease.split_once(':').expect("a job and its fence");
            let fence: i64 = fence.parse().expect("a fence");
            self.track(&id(job)).leases.entry(fence).or_default();
        }
    }

    /// Settling again with the same fence answers the same (I9); only the first counts.
    fn settled(&mut self, call: &Call) {
        let fence: i64 = call.asked(2).parse().expect("a fence");
        if call.said(0) == "refused" {
            return self.refused(call);
        }
        let said = call.said(1).to_owned();
        let track = self.track(&id(call.asked(1)));
        let first = track.leases.entry(fence).or_default();
        if let Some(first) = first {
            assert_eq!(
                *first, said,
                "a settlement made again is answered alike: {call:?}"
            );
            return;
        }
        *first = Some(said);
        let counted = match (call.said(1), call.asked(3)) {
            ("complete", _) => Some(Counter::Completed),
            ("failed", _) => Some(Counter::Failed),
            (_, "retry") => Some(Counter::Retried),
            _ => None,
        };
        counted.into_iter().for_each(|counter| self.count(counter));
    }

    /// A fence that is not the newest changes nothing (I8).
    fn stale(&mut self, call: &Call) {
        assert_eq!(call.said(0), "refused", "a stale write was accepted: {call:?}");
        self.refused(call);
    }

    /// A refused write is counted each time it is made: of an unknown call, perhaps twice.
    fn refused(&mut self, call: &Call) {
        self.count(Counter::StaleWrites);
        if call.repeated {
            self.perhaps(Counter::StaleWrites);
        }
        let fence: i64 = call.asked(2).parse().expect("a fence");
        let given_back = call.repeated && matches!(call.asked(3), "retry" | "hand_back");
        let superseded = given_back && call.said(1) == "lost";
        let track = self.track(&id(call.asked(1)));
        if superseded && let Some(first @ None) = track.leases.get_mut(&fence) {
            // The job could be leased again only because the unknown settlement had given it back.
            *first = Some("queued".to_owned());
            if call.asked(3) == "retry" {
                self.count(Counter::Retried);
            }
        } else if given_back && call.asked(3) == "retry" {
            // It was cancelled since: before the settlement, or after it.
            self.perhaps(Counter::Retried);
        }
    }

    /// Each job is cancelled at most once here, so a job found cancelled by the same call made again was cancelled by it.
    fn cancelled(&mut self, call: &Call) {
        let done = call.said(0) == "done" || (call.repeated && call.said(1) == "cancelled");
        assert!(done || call.said(0) == "wrong", "{call:?}");
        let track = self.track(&id(call.asked(1)));
        if done && !track.cancelled {
            track.cancelled = true;
            self.count(Counter::Cancelled);
        }
    }

    fn retried(&mut self, call: &Call) {
        let track = self.track(&id(call.asked(1)));
        match call.said(0) {
            "done" => track.retries.0 += 1,
            "" => track.retries.1 += 1,
            _ => {}
        }
    }

    fn replayed(&mut self, call: &Call) {
        if !matches!(call.said(0), "done" | "before") {
            return;
        }
        let (letter, fresh) = (id(call.asked(1)), id(call.said(1)));
        let track = self.track(&letter);
        assert!(track.replayed_as.is_none(), "{letter} was replayed twice");
        track.replayed_as = Some(fresh.clone());
        let key = track.key.clone();
        self.track(&fresh).key = key;
        self.count(Counter::Accepted);
    }
}
