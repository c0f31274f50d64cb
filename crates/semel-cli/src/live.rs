//! Who works right now: a waiting task that no live worker serves is said so wherever it is shown (contract 4.4).

use std::collections::BTreeSet;

use semel::Client;
use semel::workers::{self, WorkerView};
use semel_core::ids::Name;

use crate::problem::Problem;
use crate::screen::{elide, flag};

/// The workers that were heard of lately.
#[derive(Debug, Default)]
pub struct LiveWorkers {
    workers: Vec<WorkerView>,
}

impl LiveWorkers {
    /// Looks who there is.
    pub async fn look(client: &Client) -> Result<Self, Problem> {
        let workers = workers::list(client).await?;
        Ok(LiveWorkers { workers })
    }

    /// How many serve a task, in whatever queue.
    pub fn serving(&self, task: &Name) -> usize {
        self.workers
            .iter()
            .filter(|worker| worker.serves_task(task.as_str()))
            .count()
    }

    /// How many serve a task in a queue.
    pub fn serving_in(&self, task: &Name, queue: &Name) -> usize {
        let serves = |worker: &&WorkerView| worker.serves(task.as_str(), queue.as_str());
        self.workers.iter().filter(serves).count()
    }

    /// What to do about work that waits and that nobody serves, if there is any.
    pub fn hint<'a>(&self, waiting: impl IntoIterator<Item = (&'a Name, &'a Name)>) -> Option<String> {
        let idle = |(task, queue): &(&Name, &Name)| self.serving_in(task, queue) == 0;
        let tasks: BTreeSet<&Name> = waiting.into_iter().filter(idle).map(|(task, _)| task).collect();
        let first = tasks.first()?;
        let start = format!(
            "start one:\nsemel work {} --exec 'CMD'",
            flag("--task", first.as_str())
        );
        let all: Vec<&str> = tasks.iter().map(|task| task.as_str()).collect();
        Some(match all.as_slice() {
            [task] if self.serving(first) > 0 => {
                format!("no live worker serves task {task} in the queue it waits in; {start}")
            }
            [task] => format!("no live worker serves task {task}; {start}"),
            several => format!(
                "no live worker serves these tasks: {}; {start}",
                elide(&several.join(", "), 200)
            ),
        })
    }
}
