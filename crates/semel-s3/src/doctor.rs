//! The invariants, checked on live data (contract 9.5). What the indexes have lost is found again; a broken truth is
//! told, not guessed at.

use std::collections::{BTreeMap, HashSet};

use semel_core::counters::{Counter, Counts};
use semel_core::dedup::HoldKind;
use semel_core::error::StoreError;
use semel_core::ids::JobId;
use semel_core::job::{Outcome, Phase};
use semel_core::store::Finding;

use crate::cell::Pointer;
use crate::clock::random;
use crate::desk::{Desk, lock};
use crate::inspect::Sight;
use crate::layout;
use crate::record::{Lane, Record};
use crate::setup::Setup;

impl Desk {
    pub async fn doctor(&self, repair: bool) -> Result<Vec<Finding>, StoreError> {
        let look = self.look().await?;
        let mut findings = Vec::new();
        check_keys(&look.sight, &mut findings);
        check_counts(&look.sight, &look.counted.lanes, &mut findings);
        self.check_indexes(&look.sight, repair, &mut findings).await?;
        // Last: all of them have been read by now.
        let broken = lock(&self.broken).clone();
        findings.extend(broken.into_values().map(|what| told("I30", what)));
        Ok(findings)
    }

    /// Every waiting job is in the index, every running one has a lease entry, every job is found by its id.
    async fn check_indexes(
        &self,
        sight: &Sight,
        repair: bool,
        findings: &mut Vec<Finding>,
    ) -> Result<(), StoreError> {
        let hints = self.bucket.list(layout::READY, None, usize::MAX).await?;
        let hints: HashSet<String> = hints.into_iter().map(|one| one.name).collect();
        let leased = self.advertised().await?;
        let pointers: HashSet<(&str, &str)> = sight
            .cells
            .iter()
            .filter_map(|(name, cell)| Some((name.as_str(), cell.points_to.as_ref()?.cell.as_str())))
            .collect();
        for (name, cell) in &sight.cells {
            for job in &cell.jobs {
                let hint = layout::hint(name, job);
                let missing = match job.life.phase {
                    Phase::Waiting => !hints.contains(&hint),
                    Phase::Running => {
                        !leased.contains(&(name.clone(), job.spec.id.clone())) && !hints.contains(&hint)
                    }
                    _ => false,
                };
                if missing {
                    findings.extend(self.lost_entry(name, job, repair).await?);
                }
                let Some((token, key)) = layout::parts_of(&job.spec.id) else {
                    findings.push(told(
                        "I13",
                        format!("{} is an id that leads nowhere", job.spec.id),
                    ));
                    continue;
                };
                // With a key the id says where the job is. Without one it is in the object of its token, or that says
                // where it is.
                let task = layout::task(&token.to_string());
                if key.is_none() && task != *name && !pointers.contains(&(task.as_str(), name.as_str())) {
                    findings.extend(self.lost_pointer(name, &task, job, repair).await?);
                }
            }
        }
        Ok(())
    }

    async fn advertised(&self) -> Result<HashSet<(String, JobId)>, StoreError> {
        let entries = self.lease_entries().await?;
        Ok(entries.into_iter().flat_map(|(_, claim)| claim.jobs).collect())
    }

    /// The store lives while it is looked at: what seems lost is looked at once more.
    async fn lost_entry(
        &self,
        name: &str,
        seen: &Record,
        repair: bool,
    ) -> Result<Option<Finding>, StoreError> {
        let loaded = self.read(name).await?;
        let Some(job) = loaded
            .base
            .as_ref()
            .and_then(|(_, cell)| cell.find(&seen.spec.id))
        else {
            return Ok(None);
        };
        let unchanged = (job.life.phase, job.placement, job.life.until)
            == (seen.life.phase, seen.placement, seen.life.until);
        let hint = layout::hint(name, job);
        if !unchanged || self.bucket.get(&hint).await?.is_some() {
            return Ok(None);
        }
        if repair {
            match (job.life.phase, job.life.until) {
                (Phase::Running, Some(until)) => {
                    let token = format!("{:016x}", random());
                    self.advertise(until, &token, vec![(name.to_owned(), job.spec.id.clone())])
                        .await?;
                }
                _ => self.bucket.put(&hint, Vec::new()).await?,
            }
        }
        let what = match job.life.phase {
            Phase::Running => format!(
                "{} runs, but nobody would notice if its lease ran out",
                job.spec.id
            ),
            _ => format!("{} waits, but no worker would find it", job.spec.id),
        };
        Ok(Some(Finding {
            invariant: "I13",
            what,
            repaired: repair,
        }))
    }

    async fn lost_pointer(
        &self,
        name: &str,
        task: &str,
        job: &Record,
        repair: bool,
    ) -> Result<Option<Finding>, StoreError> {
        let there = self.read(task).await?;
        let points = there.base.as_ref().and_then(|(_, cell)| cell.points_to.as_ref());
        let still = self.read(name).await?;
        let still = still
            .base
            .as_ref()
            .is_some_and(|(_, cell)| cell.find(&job.spec.id).is_some());
        if !still || points.is_some_and(|pointer| pointer.cell == name) {
            return Ok(None);
        }
        if repair {
            self.change(task, false, &Setup::default(), |cell, moment| {
                cell.points_to = Some(Pointer {
                    cell: name.to_owned(),
                    at: moment.now,
                });
            })
            .await?;
        }
        Ok(Some(Finding {
            invariant: "I13",
            what: format!("{} is not found by its id", job.spec.id),
            repaired: repair,
        }))
    }
}

/// At no instant do two jobs hold one key; a job that has ended holds no `until_finished` key.
fn check_keys(sight: &Sight, findings: &mut Vec<Finding>) {
    for (name, cell) in &sight.cells {
        let holders = cell.jobs.iter().filter(|job| job.life.is_holder(sight.now));
        let count = holders.count();
        if count > 1 {
            findings.push(told("I1", format!("the key of {name} is held by {count} jobs")));
        }
        for job in cell.jobs.iter().filter(|job| is_overdue(job, sight)) {
            findings.push(told(
                "I12",
                format!("{} has ended and holds its key", job.spec.id),
            ));
        }
    }
}

fn is_overdue(job: &Record, sight: &Sight) -> bool {
    let hold = job.life.holding.as_ref().map(|holding| holding.hold);
    let freed_at_end =
        hold.is_some_and(|hold| hold.kind == HoldKind::UntilFinished && hold.cool_down.is_none());
    freed_at_end && job.life.phase.is_terminal() && job.life.is_holder(sight.now)
}

/// No fewer submissions were counted than can be seen.
fn check_counts(sight: &Sight, lanes: &BTreeMap<Lane, Counts>, findings: &mut Vec<Finding>) {
    let mut seen: BTreeMap<Lane, i64> = BTreeMap::new();
    for job in sight.jobs().filter(|job| job.born == Outcome::Accepted) {
        *seen.entry(job.lane()).or_default() += 1;
    }
    for (lane, jobs) in seen {
        let counted = lanes.get(&lane).map_or(0, |counts| counts.get(Counter::Accepted));
        if counted < jobs {
            let Lane { queue, task } = lane;
            findings.push(told(
                "I25",
                format!("{queue}/{task} has {jobs} jobs, more than it accepted"),
            ));
        }
    }
}

fn told(invariant: &'static str, what: String) -> Finding {
    Finding {
        invariant,
        what,
        repaired: false,
    }
}
