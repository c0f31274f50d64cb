//! When to kill whom: most kills are to interrupt something, and each kind of call is to have its share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::calls::under_way;
use crate::process::Process;
use crate::random::Random;

/// A worker process, and where it writes what it does.
pub struct Victim {
    pub process: Process,
    pub log: PathBuf,
}

/// How the name of a call begins that a kill is to interrupt, one after the other.
const AIMS: [&str; 10] = [
    "provider: a charge",
    "store: the beginning of step letter",
    "own database",
    "store: the confirmation of step charge",
    "store: a settlement",
    "provider: a letter",
    "store: the beginning of step charge",
    "own database",
    "store: the confirmation of step letter",
    // Left to chance.
    "",
];

/// How the name of a call begins that is a part of a step.
const STEP: [&str; 4] = [
    "provider",
    "own database",
    "store: the beginning",
    "store: the confirmation",
];

/// Looks without finding what is aimed at, before any step will do; and then, before anything will.
const PATIENCE: (usize, usize) = (300, 10_000);
/// Looks between two rounds of new orders.
const FEED_EVERY: usize = 20;

/// What was interrupted by how many kills.
#[derive(Default)]
pub struct Histogram {
    kills: usize,
    idle: usize,
    /// Of an effect: being asked for, begun, confirmed, booked.
    steps: usize,
    interrupted: BTreeMap<String, usize>,
}

/// Chooses a worker for the kill of this number, stops it where it is, and says what that is in the middle of. The
/// caller kills it. Meanwhile `feed` sees to it that there is something to interrupt.
pub async fn choose(
    kill: usize,
    workers: &[Victim],
    random: &mut Random,
    mut feed: impl AsyncFnMut(),
) -> (usize, Vec<String>) {
    let aim = AIMS[kill % AIMS.len()];
    for look in 0.. {
        if look % FEED_EVERY == 0 {
            feed().await;
        }
        let victim = usize::try_from(random.below(workers.len() as u64)).unwrap();
        workers[victim].process.stop();
        // It stands still: what its log says now is how it will be found.
        let open = under_way(&workers[victim].log);
        let hit = aim.is_empty()
            || open.iter().any(|what| what.starts_with(aim))
            || look > PATIENCE.0 && open.iter().any(|what| is_of_a_step(what))
            || look > PATIENCE.1;
        if hit {
            return (victim, open);
        }
        workers[victim].process.go_on();
        tokio::time::sleep(Duration::from_micros(random.below(1_500))).await;
    }
    unreachable!("it looks until it finds")
}

fn is_of_a_step(what: &str) -> bool {
    STEP.iter().any(|step| what.starts_with(step))
}

impl Histogram {
    pub fn note(&mut self, interrupted: Vec<String>) {
        self.kills += 1;
        self.idle += usize::from(interrupted.is_empty());
        self.steps += usize::from(interrupted.iter().any(|what| is_of_a_step(what)));
        for what in interrupted {
            *self.interrupted.entry(what).or_default() += 1;
        }
    }

    /// The figures; refuses a campaign of kills of which too few interrupted a step, in percent.
    pub fn told(&self, least: usize) -> String {
        let hits = self.kills - self.idle;
        let mut text = format!(
            "{hits} of {} kills interrupted a call, {} of them a step",
            self.kills, self.steps
        );
        for (what, count) in &self.interrupted {
            text.push_str(&format!("\n  {count:>5}  {what}"));
        }
        text.push_str(&format!("\n  {:>5}  nothing", self.idle));
        assert!(self.steps * 100 >= self.kills * least, "{text}");
        text
    }
}
