//! Who works right now: a waiting task that no live worker serves is said so wherever it is shown (contract 4.4).

use semel::Client;
use semel::workers::{self, WorkerView};
use semel_core::ids::Name;

use crate::problem::Problem;

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
            .filter(|worker| worker.info.tasks.contains(task))
            .count()
    }

    /// How many serve a task in a queue.
    pub fn serving_in(&self, task: &Name, queue: &Name) -> usize {
        let serves = |worker: &&WorkerView| worker.serves(task.as_str(), queue.as_str());
        self.workers.iter().filter(serves).count()
    }

    /// What to do about a task in a queue that nobody serves.
    pub fn hint_about(&self, task: &Name, queue: &Name) -> Option<String> {
        if self.serving_in(task, queue) > 0 {
            return None;
        }
        let elsewhere = match self.serving(task) {
            0 => String::new(),
            _ => format!(" in queue {queue}"),
        };
        Some(format!(
            "no live worker serves task {task}{elsewhere}; start one: semel work --task {task} --exec 'CMD'"
        ))
    }
}
