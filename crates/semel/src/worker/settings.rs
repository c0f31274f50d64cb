//! How a worker was set up: checked as a whole before anything runs.

use std::time::Duration;

use semel_core::error::Invalid;
use semel_core::ids::Name;
use semel_core::limits;
use semel_core::store::Retention;

use crate::worker::{Worker, registration};

/// How a worker was set up, checked.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Tells this worker from all others.
    pub(crate) id: Name,
    /// What its owner calls it.
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) queues: Vec<Name>,
    /// Tasks that are claimed together; all but the first have one task and a limit of their own.
    pub(crate) groups: Vec<Group>,
    pub(crate) slots: usize,
    pub(crate) prefetch: Option<usize>,
    pub(crate) lease: Duration,
    pub(crate) grace: Duration,
    /// How long things are kept; `None`: housekeeping is left to others.
    pub(crate) upkeep: Option<Retention>,
}

/// Tasks that are claimed together.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) tasks: Vec<Name>,
    pub(crate) limit: Option<usize>,
}

impl<S: Clone + Send + Sync + 'static> Worker<S> {
    /// The settings, or the first thing that makes no sense (contract 8.1).
    pub(super) fn settings(&self) -> Result<Settings, Invalid> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        limits::check_lease(self.lease.into())?;
        bounded("concurrency", self.slots, 1, 10_000)?;
        bounded("prefetch", self.prefetch.unwrap_or(0), 0, 2 * limits::BATCH)?;
        let queues = self.queues.iter().map(Name::new).collect::<Result<_, _>>()?;
        Ok(Settings {
            id: registration::unique_name(self.name.as_deref()),
            name: self.name.clone(),
            version: self.version.clone(),
            queues,
            groups: self.groups()?,
            slots: self.slots,
            prefetch: self.prefetch,
            lease: self.lease,
            grace: self.grace,
            upkeep: self.upkeep,
        })
    }

    /// Tasks without a limit are claimed together, each of the others by itself.
    fn groups(&self) -> Result<Vec<Group>, Invalid> {
        let tasks = self.handlers.tasks();
        if tasks.is_empty() {
            return Err(
                Invalid::new("tasks of a worker", "at least one").hint("add one with .task(TASK, handler)")
            );
        }
        for (task, limit) in &self.limits {
            bounded("concurrency of a task", *limit, 1, 10_000)?;
            if !tasks.iter().any(|served| served.as_str() == task) {
                return Err(
                    Invalid::new("concurrency of a task", "a task that this worker serves").found(task),
                );
            }
        }
        let limit = |task: &Name| self.limits.get(task.as_str()).copied();
        let (limited, free): (Vec<Name>, Vec<Name>) =
            tasks.into_iter().partition(|task| limit(task).is_some());
        let mut groups = Vec::new();
        if !free.is_empty() {
            groups.push(Group {
                tasks: free,
                limit: None,
            });
        }
        groups.extend(limited.into_iter().map(|task| Group {
            limit: limit(&task),
            tasks: vec![task],
        }));
        Ok(groups)
    }
}

fn bounded(what: &str, found: usize, least: usize, most: usize) -> Result<(), Invalid> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(Invalid::new(what, format!("{least} to {most}")).found(found.to_string()))
}
