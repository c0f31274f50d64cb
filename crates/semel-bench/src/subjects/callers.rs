//! Many callers at once, each with one submission at a time.

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use semel_core::job::Outcome;
use semel_core::submission::Submission;

use crate::load::Kind;
use crate::rig::Rig;
use crate::rounds::{Slice, Subject};
use crate::stopwatch::Stopwatch;
use crate::subjects::What;

/// Callers that each submit one job, wait for the answer, and go on.
pub(crate) struct Callers {
    rig: Rig,
    what: What,
    count: usize,
    name: &'static str,
}

impl Callers {
    /// How many there are, where nothing else is said.
    pub(crate) const COUNT: usize = 64;

    /// Callers whose latencies are reported under this name.
    pub(crate) fn new(rig: Rig, kind: Kind, name: &'static str) -> Self {
        Callers {
            rig,
            what: What::Fresh(kind),
            count: Self::COUNT,
            name,
        }
    }

    /// So many of them, who submit this.
    #[cfg(feature = "s3")]
    pub(crate) fn of(rig: Rig, count: usize, what: What, name: &'static str) -> Self {
        Callers {
            rig,
            what,
            count,
            name,
        }
    }

    /// All submit their share; the latencies are in microseconds.
    async fn run(&self, shares: Vec<Vec<Submission>>) -> Result<Histogram<u64>> {
        let mut callers = JoinSet::new();
        for share in shares {
            callers.spawn_on(
                submit_all(self.rig.clone(), share, self.what.expected()),
                self.rig.handle(),
            );
        }
        let mut latencies = Histogram::new(3)?;
        while let Some(caller) = callers.join_next().await {
            for latency in caller.context("a caller panicked")?? {
                latencies.record(latency)?;
            }
        }
        Ok(latencies)
    }
}

async fn submit_all(rig: Rig, share: Vec<Submission>, expected: Outcome) -> Result<Vec<u64>> {
    let mut latencies = Vec::with_capacity(share.len());
    for submission in share {
        let watch = Stopwatch::start();
        rig.submit(vec![rig.load.sent_now(submission)], expected).await?;
        latencies.push(u64::try_from(watch.elapsed().as_micros())?);
    }
    Ok(latencies)
}

impl Subject for Callers {
    fn slice(&mut self, jobs: usize) -> Result<Slice> {
        let share = jobs / self.count;
        let shares = (0..self.count)
            .map(|_| self.what.make(&self.rig.load, share))
            .collect::<Result<_>>()?;
        let watch = Stopwatch::start();
        let latencies = self.rig.block_on(self.run(shares))?;
        let elapsed = watch.elapsed();
        let millis = |quantile: f64| latencies.value_at_quantile(quantile) as f64 / 1_000.0;
        Ok(Slice::new(share * self.count, elapsed)
            .with(format!("{}_p50", self.name), millis(0.50), "ms")
            .with(format!("{}_p99", self.name), millis(0.99), "ms"))
    }
}
