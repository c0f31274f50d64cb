//! Whole lives: submitted, claimed, completed.

use anyhow::{Context, Result};

use semel_core::job::Outcome;
use semel_core::store::Claimed;
use semel_core::submission::Submission;

use crate::load::Kind;
use crate::report::Report;
use crate::rig::Rig;
use crate::rounds::{Slice, Subject};
use crate::stopwatch::Stopwatch;

/// Unique jobs by the thousand, each slice from the first submission to the last settlement.
pub(crate) struct Lifecycle {
    rig: Rig,
    pipelined: bool,
}

impl Lifecycle {
    /// Each call waits for the one before.
    pub(crate) fn sequential(rig: Rig) -> Self {
        Lifecycle {
            rig,
            pipelined: false,
        }
    }

    /// The claim of a round is under way together with the settlement of the round before and the
    /// submission of the round after.
    pub(crate) fn pipelined(rig: Rig) -> Self {
        Lifecycle { rig, pipelined: true }
    }

    async fn one_by_one(&self, rounds: Vec<Vec<Submission>>) -> Result<()> {
        for batch in rounds {
            self.rig.submit(batch, Outcome::Accepted).await?;
            let claimed = self.rig.claim(self.rig.batch).await?;
            self.rig.complete(claimed).await?;
        }
        Ok(())
    }

    async fn overlapping(&self, rounds: Vec<Vec<Submission>>) -> Result<()> {
        let mut rounds = rounds.into_iter();
        let mut submitted = self.submit(rounds.next()).await?;
        let mut claimed = Vec::new();
        while submitted {
            // The claim goes first: while the store is at it, the keys of the next batch are derived.
            let (claim, settle, submit) = tokio::join!(
                self.rig.claim(self.rig.batch),
                self.settle(claimed),
                self.submit(rounds.next())
            );
            settle?;
            claimed = claim?;
            submitted = submit?;
        }
        self.settle(claimed).await
    }

    async fn submit(&self, batch: Option<Vec<Submission>>) -> Result<bool> {
        let Some(batch) = batch else { return Ok(false) };
        self.rig.submit(batch, Outcome::Accepted).await?;
        Ok(true)
    }

    async fn settle(&self, claimed: Vec<Claimed>) -> Result<()> {
        self.rig.complete(claimed).await
    }
}

impl Subject for Lifecycle {
    fn slice(&mut self, jobs: usize) -> Result<Slice> {
        let rounds = jobs / self.rig.batch;
        let rounds = (0..rounds)
            .map(|_| self.rig.load.batch(Kind::Unique, self.rig.batch))
            .collect::<Result<_>>()?;
        let watch = Stopwatch::start();
        if self.pipelined {
            self.rig.block_on(self.overlapping(rounds))?;
        } else {
            self.rig.block_on(self.one_by_one(rounds))?;
        }
        Ok(Slice::new(jobs, watch.elapsed()))
    }
}

/// Reports the better of the two ways as `lifecycle`.
pub(crate) fn better_lifecycle(report: &mut Report, suffix: &str) -> Result<()> {
    let of = |way: &str| {
        let found = report.find(&format!("lifecycle_{way}{suffix}")).cloned();
        found.context("a contestant was not reported")
    };
    let (sequential, pipelined) = (of("sequential")?, of("pipelined")?);
    let better = match pipelined.value > sequential.value {
        true => pipelined,
        false => sequential,
    };
    report.add_as(&format!("lifecycle{suffix}"), better);
    Ok(())
}
