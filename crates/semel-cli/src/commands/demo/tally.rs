//! What came of it: the store's counters beside the log of the outside world.

use std::collections::HashMap;
use std::path::Path;

use semel::Client;
use semel_core::counters::Counter;
use serde::Serialize;

use crate::commands::demo::scenes::Scene;
use crate::commands::demo::world::Effect;
use crate::commands::demo::{EFFECTS, trouble};
use crate::problem::Problem;

/// Everything that was counted.
#[derive(Debug, Serialize)]
pub struct Tally {
    /// By scenario.
    pub scenarios: Vec<Row>,
    /// Workers killed and restarted.
    pub workers_killed: usize,
    /// How often the world was asked for an effect it had done already, and said so.
    pub asked_again: i64,
    /// Leases that ran out because their worker was dead.
    pub leases_expired: i64,
}

/// One scenario.
#[derive(Debug, Default, Serialize)]
pub struct Row {
    /// Which.
    pub scenario: &'static str,
    /// Its task.
    pub task: &'static str,
    /// Calls of producers that were answered.
    pub submitted: i64,
    /// Calls that became a job.
    pub accepted: i64,
    /// Calls that did not.
    pub absorbed: i64,
    /// Effects in the log.
    pub effects: i64,
    /// Effects in the log beyond the first for the same order, event or run.
    pub twice: i64,
    /// Jobs without an effect in the log, and calls without a trace.
    pub lost: i64,
}

impl Tally {
    /// Reads both.
    pub async fn take(
        client: &Client,
        dir: &Path,
        submitted: [i64; 4],
        killed: usize,
    ) -> Result<Self, Problem> {
        let effects = read(dir)?;
        let stats = client.store().stats().await?;
        let mut scenarios = Vec::new();
        for scene in Scene::ALL {
            let lane = stats.lanes.iter().find(|lane| lane.task.as_str() == scene.task());
            let accepted = lane.map_or(0, |lane| lane.counts.get(Counter::Accepted));
            let absorbed = lane.map_or(0, |lane| lane.counts.duplicates());
            let submitted = submitted[scene as usize];
            let mut done = HashMap::<&str, i64>::new();
            let mut jobs = HashMap::<&str, i64>::new();
            for effect in effects
                .iter()
                .filter(|effect| effect.task == scene.task() && !effect.again)
            {
                *done.entry(&effect.what).or_default() += 1;
                *jobs.entry(&effect.job).or_default() += 1;
            }
            let without = accepted - i64::try_from(jobs.len()).unwrap_or(i64::MAX);
            scenarios.push(Row {
                scenario: scene.title(),
                task: scene.task(),
                submitted,
                accepted,
                absorbed,
                effects: done.values().sum(),
                twice: done.values().map(|times| times - 1).sum(),
                lost: without.max(0) + (submitted - accepted - absorbed).max(0),
            });
        }
        Ok(Tally {
            scenarios,
            workers_killed: killed,
            asked_again: count(&effects, |effect| effect.again),
            leases_expired: stats.totals.get(Counter::Expired),
        })
    }

    /// The sum of all scenarios.
    pub fn total(&self) -> Row {
        let sum = |of: fn(&Row) -> i64| self.scenarios.iter().map(of).sum();
        Row {
            scenario: "all",
            task: "",
            submitted: sum(|row| row.submitted),
            accepted: sum(|row| row.accepted),
            absorbed: sum(|row| row.absorbed),
            effects: sum(|row| row.effects),
            twice: sum(|row| row.twice),
            lost: sum(|row| row.lost),
        }
    }

    /// Whether something happened, nothing twice, and nothing was lost.
    pub fn is_good(&self) -> bool {
        let total = self.total();
        total.effects > 0 && total.twice == 0 && total.lost == 0
    }
}

fn count(effects: &[Effect], which: impl Fn(&Effect) -> bool) -> i64 {
    i64::try_from(effects.iter().filter(|effect| which(effect)).count()).unwrap_or(i64::MAX)
}

/// How many effects there are so far.
pub fn effects_so_far(dir: &Path) -> Result<i64, Problem> {
    Ok(count(&read(dir)?, |effect| !effect.again))
}

fn read(dir: &Path) -> Result<Vec<Effect>, Problem> {
    let text = std::fs::read_to_string(dir.join(EFFECTS));
    let text = text.map_err(|error| trouble("the log of effects cannot be read", &error))?;
    // The last line may be on its way.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole
        .lines()
        .map(|line| {
            serde_json::from_str(line)
                .map_err(|error| trouble("the log of effects has a line that is no effect", &error))
        })
        .collect()
}
