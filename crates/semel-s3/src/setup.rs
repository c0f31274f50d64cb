//! Settings: one small object, read by every call, written by operators only.

use std::collections::BTreeMap;

use semel_core::ids::Name;
use semel_core::store::{Pause, Setting, Target};
use semel_core::time::Timestamp;

use crate::cell::{PausePart, SetupPart, TargetPart};
use crate::record::{Lane, Record};

/// Everything operators have set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    pub settings: BTreeMap<Target, Setting>,
    removed: BTreeMap<Name, u64>,
}

impl Setup {
    /// From how it is written.
    pub fn read(part: Option<&SetupPart>) -> Self {
        let Some(part) = part else {
            return Setup::default();
        };
        let setting = |part: &TargetPart| {
            let target = match (&part.queue, &part.task) {
                (Some(queue), _) => Target::Queue(queue.clone()),
                (_, Some(task)) => Target::Task(task.clone()),
                _ => Target::All,
            };
            let paused = part.paused.clone().map(|pause| Pause {
                since: pause.since,
                until: pause.until,
                reason: pause.reason,
            });
            let setting = Setting {
                paused,
                closed: part.closed,
                closed_until: part.closed_until,
                unique: part.unique,
                mode: part.mode,
                observed_until: part.observed_until,
            };
            (target, setting)
        };
        Setup {
            settings: part.targets.iter().map(setting).collect(),
            removed: part.removed.clone(),
        }
    }

    /// How it is written.
    pub fn write(&self) -> SetupPart {
        let part = |(target, setting): (&Target, &Setting)| {
            let (queue, task) = match target {
                Target::All => (None, None),
                Target::Queue(queue) => (Some(queue.clone()), None),
                Target::Task(task) => (None, Some(task.clone())),
            };
            TargetPart {
                queue,
                task,
                paused: setting.paused.clone().map(|pause| PausePart {
                    since: pause.since,
                    until: pause.until,
                    reason: pause.reason,
                }),
                closed: setting.closed,
                closed_until: setting.closed_until,
                unique: setting.unique,
                mode: setting.mode,
                observed_until: setting.observed_until,
            }
        };
        SetupPart {
            targets: self.settings.iter().map(part).collect(),
            removed: self.removed.clone(),
        }
    }

    /// How often a queue was removed.
    pub fn era(&self, queue: &Name) -> u64 {
        self.removed.get(queue).copied().unwrap_or(0)
    }

    /// Removes a queue: everything in it is void from now on.
    pub fn remove(&mut self, queue: &Name) {
        *self.removed.entry(queue.clone()).or_default() += 1;
        self.settings.remove(&Target::Queue(queue.clone()));
    }

    /// Whether a job is of a queue that was removed since it came.
    pub fn is_void(&self, job: &Record) -> bool {
        job.era < self.era(&job.spec.queue)
    }

    fn concerning<'a>(
        &'a self,
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
            .filter_map(|target| self.settings.get_key_value(&target))
    }

    /// Whether work of a lane is held back.
    pub fn is_paused(&self, lane: &Lane, now: Timestamp) -> bool {
        self.concerning(&lane.queue, &lane.task)
            .any(|(_, setting)| setting.is_paused(now))
    }

    /// What keeps a queue and a task from taking submissions, if something does.
    pub fn closed(&self, queue: &Name, task: &Name, now: Timestamp) -> Option<Target> {
        let mut settings = self.concerning(queue, task);
        settings
            .find(|(_, setting)| setting.is_closed(now))
            .map(|(target, _)| target.clone())
    }

    /// Whether policies only watch.
    pub fn is_observed(&self, queue: &Name, task: &Name, now: Timestamp) -> bool {
        self.concerning(queue, task)
            .any(|(_, setting)| setting.is_observed(now))
    }

    /// Whether a queue, or every queue, was declared unique.
    pub fn is_unique(&self, queue: &Name) -> bool {
        let targets = [Target::All, Target::Queue(queue.clone())];
        targets
            .iter()
            .any(|target| self.settings.get(target).is_some_and(|setting| setting.unique))
    }
}
