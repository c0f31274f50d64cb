//! A worker that finds its work waiting.

use std::time::Duration;

use anyhow::Result;

use crate::load::Kind;
use crate::rig::Rig;
use crate::rounds::{Slice, Subject, rate};
use crate::stopwatch::Stopwatch;

/// Claims and completes, in turns, jobs that were submitted before.
pub(crate) struct Process {
    rig: Rig,
    kind: Kind,
    /// Told at the end of the names of the parts.
    suffix: &'static str,
}

impl Process {
    /// A worker whose parts are reported as `claim` and `settle` with this at the end.
    pub(crate) fn new(rig: Rig, kind: Kind, suffix: &'static str) -> Self {
        Process { rig, kind, suffix }
    }

    async fn one_batch(&self, claiming: &mut Duration, settling: &mut Duration) -> Result<()> {
        let watch = Stopwatch::start();
        let claimed = self.rig.claim(self.rig.batch).await?;
        *claiming += watch.elapsed();
        let watch = Stopwatch::start();
        self.rig.complete(claimed).await?;
        *settling += watch.elapsed();
        Ok(())
    }
}

impl Subject for Process {
    fn slice(&mut self, jobs: usize) -> Result<Slice> {
        self.rig.fill(self.kind, jobs, 0)?;
        let (mut claiming, mut settling) = (Duration::ZERO, Duration::ZERO);
        self.rig.block_on(async {
            for _ in 0..jobs / self.rig.batch {
                self.one_batch(&mut claiming, &mut settling).await?;
            }
            anyhow::Ok(())
        })?;
        Ok(Slice::new(jobs, claiming + settling)
            .with(format!("claim{}", self.suffix), rate(jobs, claiming), "jobs/s")
            .with(format!("settle{}", self.suffix), rate(jobs, settling), "jobs/s"))
    }
}
