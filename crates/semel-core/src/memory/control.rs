//! Settings, and the removal of a queue.

use std::collections::BTreeMap;

use crate::error::Invalid;
use crate::ids::{JobId, Name};
use crate::memory::inner::{Inner, Moment};
use crate::memory::record::{Arrival, Lane};
use crate::store::{Setting, SettingChange, Target};
use crate::time::Timestamp;

/// Refuses changes that mean nothing for their target.
pub(super) fn check_change(target: &Target, change: &SettingChange) -> Result<(), Invalid> {
    match (target, change) {
        (Target::Task(_), SettingChange::Unique { .. }) => {
            Err(Invalid::new("unique", "a queue, or all queues"))
        }
        _ => Ok(()),
    }
}

/// Whether work of a lane is held back.
pub(super) fn is_paused(settings: &BTreeMap<Target, Setting>, lane: &Lane, now: Timestamp) -> bool {
    concerning(settings, &lane.queue, &lane.task).any(|(_, setting)| setting.is_paused(now))
}

/// The settings that concern a queue and a task: of everything, of the queue, of the task.
fn concerning<'a>(
    settings: &'a BTreeMap<Target, Setting>,
    queue: &Name,
    task: &Name,
) -> impl Iterator<Item = (&'a Target, &'a Setting)> {
    let targets = [
        Target::All,
        Target::Queue(queue.clone()),
        Target::Task(task.clone()),
    ];
    targets
        .into_iter()
        .filter_map(|target| settings.get_key_value(&target))
}

impl Inner {
    pub(super) fn set(&mut self, target: Target, change: &SettingChange, moment: Moment) -> Setting {
        let setting = self
            .settings
            .get(&target)
            .cloned()
            .unwrap_or_default()
            .changed(change, moment.now);
        if setting == Setting::default() {
            self.settings.remove(&target);
        } else {
            self.settings.insert(target, setting.clone());
        }
        self.pulse.all_work();
        setting
    }

    /// What keeps a queue and a task from taking submissions, if something does.
    pub(super) fn closed(&self, queue: &Name, task: &Name, now: Timestamp) -> Option<Target> {
        let mut settings = concerning(&self.settings, queue, task);
        settings
            .find(|(_, setting)| setting.is_closed(now))
            .map(|(target, _)| target.clone())
    }

    pub(super) fn is_observed(&self, queue: &Name, task: &Name, now: Timestamp) -> bool {
        concerning(&self.settings, queue, task).any(|(_, setting)| setting.is_observed(now))
    }

    /// Whether a queue, or every queue, was declared unique.
    pub(super) fn is_unique(&self, queue: &Name) -> bool {
        let targets = [Target::All, Target::Queue(queue.clone())];
        targets
            .iter()
            .any(|target| self.settings.get(target).is_some_and(|setting| setting.unique))
    }

    /// Removes all jobs of a queue in one step (contract 2.16); says how many there were to be seen.
    pub(super) fn remove_queue(&mut self, queue: &Name, moment: Moment) -> i64 {
        let doomed: Vec<Arrival> = self
            .jobs
            .iter()
            .filter(|(_, job)| job.spec.queue == *queue)
            .map(|(arrival, _)| *arrival)
            .collect();
        let seen = doomed.iter().filter(|job| !self.record(**job).stub).count();
        // All of them go before anyone follows: a follower in the same queue is gone as well.
        let gone: Vec<JobId> = doomed
            .into_iter()
            .map(|job| self.forget(job, moment.now))
            .collect();
        gone.iter().for_each(|id| self.promote_follower(id, moment));
        self.settings.remove(&Target::Queue(queue.clone()));
        self.queues.remove(queue);
        i64::try_from(seen).unwrap_or(i64::MAX)
    }
}
