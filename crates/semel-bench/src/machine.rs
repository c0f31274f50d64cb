//! Whether the machine was quiet while it was measured.

use std::time::Duration;

use crate::stopwatch::Stopwatch;

/// Watches how long tasks of any process had to wait for a processor.
pub(crate) struct Machine {
    watch: Stopwatch,
    waited: Option<Duration>,
}

impl Machine {
    /// Watches from now on.
    pub(crate) fn watch() -> Self {
        Machine {
            watch: Stopwatch::start(),
            waited: waited(),
        }
    }

    /// What was seen, in a sentence; nothing where the system does not tell.
    pub(crate) fn note(&self) -> Option<String> {
        let waited = waited()?.saturating_sub(self.waited?);
        let share = waited.as_secs_f64() / self.watch.elapsed().as_secs_f64().max(1e-9) * 100.0;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Some(format!(
            "{processors} processors; during {share:.0} % of the run some task of the machine waited for one"
        ))
    }
}

/// The total of Linux's pressure stall information.
fn waited() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/pressure/cpu").ok()?;
    let some = text.lines().find(|line| line.starts_with("some"))?;
    let total = some.split_once("total=")?.1;
    total.trim().parse().ok().map(Duration::from_micros)
}
