//! A schedule as people see it.

use semel_core::time::Timestamp;
use serde::Serialize;

use crate::schedule::Schedule;
use crate::schedule::cron::Cron;
use crate::schedule::document::{Kept, Tick, Versioned};

/// A schedule as people see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScheduleView {
    /// What was set.
    #[serde(flatten)]
    pub schedule: Schedule,
    /// Since when: ticks before do not count.
    pub since: Timestamp,
    /// The last tick.
    pub last: Option<Tick>,
    /// The next one; `None`: never again.
    pub next: Option<Timestamp>,
    /// The first tick that was due and has not been carried out: nobody is there to do it.
    pub overdue: Option<Timestamp>,
    /// How often a tick was skipped.
    pub skipped: u64,
}

impl ScheduleView {
    /// As it is kept; a pattern that has come to its end has no next tick.
    pub(super) fn of(found: Versioned, now: Timestamp) -> Self {
        let Schedule { cron, zone, .. } = &found.kept.schedule;
        match Cron::new(cron, zone, now) {
            Ok(cron) => ScheduleView::at(found.kept, &cron, now),
            Err(_) => ScheduleView::without_next(found.kept),
        }
    }

    pub(super) fn at(kept: Kept, cron: &Cron, now: Timestamp) -> Self {
        ScheduleView {
            next: cron.next(now.max(kept.settled_until())),
            overdue: cron.next(kept.settled_until()).filter(|due| *due < now),
            ..ScheduleView::without_next(kept)
        }
    }

    fn without_next(kept: Kept) -> Self {
        ScheduleView {
            schedule: kept.schedule,
            since: kept.since,
            last: kept.last,
            next: None,
            overdue: None,
            skipped: kept.skipped,
        }
    }
}
