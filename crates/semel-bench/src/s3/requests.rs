//! How many requests an operation makes: counted, not assumed. The read of the settings, which calls that run at the
//! same time share, is left out.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use semel_core::job::Outcome;
use semel_core::store::Inspect as _;
use semel_s3::{S3Options, S3Store};

use crate::load::Kind;
use crate::rig::Rig;
use crate::s3::Run;
use crate::subjects::What;

/// Jobs in a claim and a settlement of many.
const MANY: usize = 50;

struct Counted<'a, 'b> {
    run: &'a mut Run<'b>,
    store: Arc<S3Store>,
    rig: Rig,
}

impl Counted<'_, '_> {
    /// Reports what a call costs, for each of so many jobs.
    fn count<T>(&mut self, metric: &str, jobs: usize, call: impl Future<Output = Result<T>>) -> Result<T> {
        let before = self.store.requests();
        let answer = self.run.bench.block_on(call)?;
        let requests = self.store.requests().since(&before).beside_settings();
        let each = requests as f64 / jobs as f64;
        self.run
            .bench
            .report
            .add(&format!("requests_{metric}"), each, "requests");
        Ok(answer)
    }

    fn submit(&mut self, metric: &str, what: What) -> Result<()> {
        let (rig, batch) = (self.rig.clone(), what.make(&self.rig.load, 1)?);
        self.count(metric, 1, rig.submit(batch, what.expected()))
    }

    fn live(&mut self, suffix: &str, jobs: usize) -> Result<()> {
        let rig = self.rig.clone();
        let claimed = self.count(&format!("claim{suffix}"), jobs, rig.claim(jobs))?;
        self.count(&format!("settle{suffix}"), jobs, rig.complete(claimed))
    }
}

/// Counts one operation after the other, on a store that has been in use.
pub(super) fn measure(run: &mut Run<'_>) -> Result<()> {
    let store = run.fresh_store()?;
    let rig = run.rig_on(store.clone())?;
    // The first use of a queue and a task is written down once.
    rig.fill(Kind::Plain, 1, 0)?;
    rig.block_on(async { rig.complete(rig.claim(1).await?).await })?;
    let elsewhere = elsewhere(run)?;
    let mut counted = Counted { run, store, rig };
    counted.submit("enqueue_1", What::Fresh(Kind::Plain))?;
    let batch = counted.rig.load.batch(Kind::Unique, 1)?;
    let again = counted.rig.load.again_of(&batch[0]);
    let rig = counted.rig.clone();
    counted.count("enqueue_unique", 1, rig.submit(batch, Outcome::Accepted))?;
    counted.count("enqueue_dup", 1, rig.submit(vec![again], Outcome::Duplicate))?;
    rig.block_on(async { rig.complete(rig.claim(1).await?).await })?;
    counted.live("_1", 1)?;
    counted.rig.fill(Kind::Plain, MANY, 0)?;
    counted.live("", MANY)?;
    // A worker that did not submit what it works on has to read it.
    counted.rig.fill(Kind::Plain, MANY, 0)?;
    counted.rig = counted.run.rig_on(elsewhere.clone())?;
    counted.store = elsewhere;
    // By its clock, which goes in steps, the last of them may not be due yet.
    let step = counted.store.capabilities().clock_resolution;
    let due = async { tokio::time::sleep(Duration::from(step) * 2).await };
    counted.run.bench.block_on(due);
    counted.live("_elsewhere", MANY)
}

/// Another handle on the store that was made last.
fn elsewhere(run: &Run<'_>) -> Result<Arc<S3Store>> {
    run.open(S3Options {
        prefix: format!("{}/{}", run.options.prefix, run.stores),
        ..run.options.clone()
    })
}
