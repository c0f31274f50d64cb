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

/// How the name of a call begins that the next kill is to interrupt. Some kills are left to chance.
const AIMS: [&str; 6] = [
    "provider",
    "store: the beginning",
    "store: the confirmation",
    "store: a settlement",
    "store",
    "own database",
];

/// Looks without finding what is aimed at, before anything under way will do.
const PATIENCE: usize = 100;

/// What was interrupted by how many kills.
#[derive(Default)]
pub struct Histogram {
    kills: usize,
    idle: usize,
    interrupted: BTreeMap<String, usize>,
}

/// Chooses a worker, stops it where it is, and says what that is in the middle of. The caller kills it.
pub async fn choose(workers: &[Victim], random: &mut Random) -> (usize, Vec<String>) {
    let aim = usize::try_from(random.below(AIMS.len() as u64 + 1)).unwrap();
    for look in 0.. {
        let victim = usize::try_from(random.below(workers.len() as u64)).unwrap();
        workers[victim].process.stop();
        // It stands still: what its log says now is how it will be found.
        let open = under_way(&workers[victim].log);
        let hit = match AIMS.get(aim) {
            None => true,
            Some(_) if look > PATIENCE => !open.is_empty() || look > 50 * PATIENCE,
            Some(aim) => open.iter().any(|what| what.starts_with(aim)),
        };
        if hit {
            return (victim, open);
        }
        workers[victim].process.go_on();
        tokio::time::sleep(Duration::from_micros(random.below(1_500))).await;
    }
    unreachable!("it looks until it finds")
}

impl Histogram {
    pub fn note(&mut self, interrupted: Vec<String>) {
        self.kills += 1;
        self.idle += usize::from(interrupted.is_empty());
        for what in interrupted {
            *self.interrupted.entry(what).or_default() += 1;
        }
    }

    /// The figures; refuses a campaign of kills that found nothing to interrupt.
    pub fn told(&self) -> String {
        let hits = self.kills - self.idle;
        let mut text = format!("{hits} of {} kills interrupted a call", self.kills);
        for (what, count) in &self.interrupted {
            text.push_str(&format!("\n  {count:>5}  {what}"));
        }
        text.push_str(&format!("\n  {:>5}  nothing", self.idle));
        assert!(hits * 100 >= self.kills * 80, "{text}");
        text
    }
}
