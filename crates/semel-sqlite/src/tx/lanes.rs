//! Lanes: tasks in queues, what is set for them, what is counted in them.

use foldhash::{HashMap, HashSet};
use rusqlite::params;

use semel_core::counters::Counter;
use semel_core::error::{Invalid, StoreError};
use semel_core::ids::Name;
use semel_core::job::Phase;
use semel_core::limits;
use semel_core::store::{Setting, Target};

use crate::fail::Fail;
use crate::statements::Sql;
use crate::tx::{Cache, Tx};

/// A task in a queue.
#[derive(Clone, Debug)]
pub struct Lane {
    /// The queue.
    pub queue: Name,
    /// The task.
    pub task: Name,
    /// Gone with its queue.
    pub removed: bool,
    /// Jobs by phase.
    pub phases: [i64; 7],
}

impl Tx<'_> {
    /// The lane of a task in a queue, made if it is new.
    pub fn lane(&mut self, queue: &Name, task: &Name) -> Result<i64, Fail> {
        if let Some(number) = self.known_lane(queue, task) {
            if self.cache.last_lane.as_ref().is_none_or(|last| last.2 != number) {
                self.cache.last_lane = Some((queue.clone(), task.clone(), number));
            }
            return Ok(number);
        }
        self.bounded(queue, task)?;
        let insert = self.statements.get(Sql::LaneInsert)?;
        let number = insert.insert(params![self.ns, queue.as_str(), task.as_str()])?;
        let lane = Lane {
            queue: queue.clone(),
            task: task.clone(),
            removed: false,
            phases: [0; 7],
        };
        self.cache.remember(number, lane);
        Ok(number)
    }

    fn known_lane(&self, queue: &Name, task: &Name) -> Option<i64> {
        if let Some((last_queue, last_task, number)) = &self.cache.last_lane
            && (last_queue, last_task) == (queue, task)
        {
            return Some(*number);
        }
        self.cache.by_name.get(queue)?.get(task).copied()
    }

    /// Bounds the numbers of queues and tasks (contract 8.1).
    pub fn bounded(&self, queue: &Name, task: &Name) -> Result<(), Invalid> {
        if self.known_lane(queue, task).is_some() {
            return Ok(());
        }
        if !self.cache.by_name.contains_key(queue) && self.cache.by_name.len() >= limits::QUEUES {
            return Err(Invalid::new(
                "queue",
                format!("at most {} queues", limits::QUEUES),
            ));
        }
        let known = || self.cache.by_name.values().any(|tasks| tasks.contains_key(task));
        let tasks = || {
            let names = self.cache.by_name.values().flat_map(HashMap::keys);
            names.collect::<HashSet<_>>().len()
        };
        if self.cache.lanes.len() >= limits::TASKS && !known() && tasks() >= limits::TASKS {
            return Err(Invalid::new("task", format!("at most {} tasks", limits::TASKS)));
        }
        Ok(())
    }

    /// A lane that is not removed.
    pub fn live_lane(&self, number: i64) -> Option<&Lane> {
        self.cache.lanes.get(&number).filter(|lane| !lane.removed)
    }

    /// Queue and task of a lane.
    pub fn names(&self, number: i64) -> Result<(Name, Name), Fail> {
        let lane = self.cache.lanes.get(&number);
        let lane =
            lane.ok_or_else(|| Fail::Store(StoreError::corrupt(format!("lane {number} is missing"))))?;
        Ok((lane.queue.clone(), lane.task.clone()))
    }

    /// Whether policies only watch in a lane.
    pub fn observes(&self, queue: &Name, task: &Name) -> bool {
        self.any_setting(queue, task, |setting| setting.is_observed(self.now))
    }

    /// Whether work of a lane is held back.
    pub fn is_paused(&self, queue: &Name, task: &Name) -> bool {
        self.any_setting(queue, task, |setting| setting.is_paused(self.now))
    }

    /// What keeps a submission out, if anything does.
    pub fn closed(&self, queue: &Name, task: &Name) -> Option<Target> {
        if self.cache.settings.is_empty() {
            return None;
        }
        let targets = [
            Target::All,
            Target::Queue(queue.clone()),
            Target::Task(task.clone()),
        ];
        targets.into_iter().find(|target| {
            self.cache
                .settings
                .get(target)
                .is_some_and(|setting| setting.is_closed(self.now))
        })
    }

    /// Whether a queue was declared unique.
    pub fn is_unique(&self, queue: &Name) -> bool {
        let is = |target: &Target| {
            self.cache
                .settings
                .get(target)
                .is_some_and(|setting| setting.unique)
        };
        !self.cache.settings.is_empty() && (is(&Target::All) || is(&Target::Queue(queue.clone())))
    }

    fn any_setting(&self, queue: &Name, task: &Name, holds: impl Fn(&Setting) -> bool) -> bool {
        if self.cache.settings.is_empty() {
            return false;
        }
        let targets = [
            Target::All,
            Target::Queue(queue.clone()),
            Target::Task(task.clone()),
        ];
        targets
            .iter()
            .any(|target| self.cache.settings.get(target).is_some_and(&holds))
    }

    /// Counts in a lane.
    pub fn count(&mut self, lane: i64, counter: Counter) {
        self.deltas.entry(lane).or_default().counts.add(counter, 1);
    }

    pub(super) fn moved(&mut self, lane: i64, from: Option<Phase>, to: Option<Phase>) {
        if from == to {
            return;
        }
        let delta = self.deltas.entry(lane).or_default();
        let known = self.cache.lanes.get_mut(&lane);
        let mut phases = known.map(|lane| &mut lane.phases);
        for (phase, by) in [(from, -1), (to, 1)] {
            let Some(phase) = phase else { continue };
            delta.phases[phase as usize] += by;
            if let Some(phases) = phases.as_deref_mut() {
                phases[phase as usize] = phases[phase as usize].saturating_add(by);
            }
        }
    }
}

impl Cache {
    pub(super) fn remember(&mut self, number: i64, lane: Lane) {
        if !lane.removed {
            self.by_name
                .entry(lane.queue.clone())
                .or_default()
                .insert(lane.task.clone(), number);
        }
        self.lanes.insert(number, lane);
    }

    /// Marks the lanes of a queue as removed; gives their numbers.
    pub fn remove_queue(&mut self, queue: &Name) -> Vec<i64> {
        self.last_lane = None;
        let lanes = self.by_name.remove(queue).unwrap_or_default();
        let numbers: Vec<i64> = lanes.into_values().collect();
        for number in &numbers {
            if let Some(lane) = self.lanes.get_mut(number) {
                lane.removed = true;
            }
        }
        numbers
    }
}
