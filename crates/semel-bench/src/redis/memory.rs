//! Bytes in the server's memory, of jobs and of keys.
//!
//! What `used_memory` grew by, divided by what was put in. Who shares the server with others sees theirs too.

use std::sync::PoisonError;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use semel_core::dedup::{Dedup, Hold};
use semel_core::job::Outcome;
use semel_core::store::{Retention, UpkeepRequest};
use semel_core::time::Millis;

use crate::load::Kind;
use crate::redis::Run;
use crate::rig::{Rig, batches};

/// How long the keys of jobs that are gone are held.
const WINDOW: Millis = Millis::from_secs(86_400);
/// How often, and after what pause, it is looked whether a server has come to rest.
const LOOKS: usize = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(300);

/// Compares an empty store with waiting jobs, with the same jobs made unique, and with keys whose jobs are gone. Of these
/// the keys themselves are told apart from what else is left of a job for as long as it holds its key.
pub(super) fn measure(run: &mut Run<'_>) -> Result<()> {
    let jobs = run.bench.settings.sized;
    let plain = grown(run, jobs, |rig| rig.fill(Kind::Plain, jobs, 0))?;
    let unique = grown(run, jobs, |rig| rig.fill(Kind::Unique, jobs, 0))?;
    let stubs = grown(run, jobs, |rig| leave_keys(rig, jobs))?;
    let made = run.made.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let namespace = made.last().context("a namespace was just filled")?;
    let keys = run.bench.block_on(run.raw.bytes_of_keys(namespace))?;
    let report = &mut run.bench.report;
    report.add("mem_job", plain, "bytes");
    report.add("mem_dedupe", unique - plain, "bytes");
    report.add("mem_window_key", keys as f64 / jobs as f64, "bytes");
    report.add("mem_window_stub", stubs, "bytes");
    Ok(())
}

/// By how much a server grows for each of so many.
fn grown(run: &mut Run<'_>, jobs: usize, fill: impl Fn(&Rig) -> Result<()>) -> Result<f64> {
    run.clear()?;
    let rig = run.rig()?;
    let empty = used(run)?;
    fill(&rig)?;
    Ok((used(run)? - empty) as f64 / jobs as f64)
}

/// Jobs with a key for a day come, are completed and removed: their keys stay.
fn leave_keys(rig: &Rig, jobs: usize) -> Result<()> {
    for size in batches(jobs, rig.batch) {
        let mut batch = rig.load.batch(Kind::Unique, size)?;
        for submission in &mut batch {
            submission.policy = Dedup::unique().hold(Hold::window(WINDOW)).into();
        }
        rig.block_on(rig.submit(batch, Outcome::Accepted))?;
        rig.block_on(async { rig.complete(rig.claim(size).await?).await })?;
    }
    // Retention is over at once: of a job that has ended only its key is left.
    std::thread::sleep(Duration::from_millis(1_100));
    let request = UpkeepRequest {
        retention: Retention {
            complete: Millis::new(1),
            failed: Millis::new(1),
            ledger: Millis::new(1),
        },
        ..UpkeepRequest::default()
    };
    while rig.block_on(rig.store.upkeep(request))?.more {}
    let held = rig.block_on(rig.store.stats())?;
    ensure!(
        held.active_keys == jobs as i64,
        "{jobs} keys should be held, not {}",
        held.active_keys
    );
    Ok(())
}

/// Bytes the servers use once they have come to rest: what was removed before is freed in the background, for seconds if
/// it was much.
fn used(run: &Run<'_>) -> Result<i64> {
    let mut before = i64::MAX;
    for _ in 0..LOOKS {
        std::thread::sleep(BETWEEN_LOOKS);
        let (used, is_freeing) = look(run)?;
        if !is_freeing && used >= before {
            return Ok(used);
        }
        before = used;
    }
    bail!("the memory of the server does not come to rest; hint: measure on one that nobody else uses")
}

/// Bytes the servers use, without what connections and the log hold for the moment, and whether they still free some.
fn look(run: &Run<'_>) -> Result<(i64, bool)> {
    let (mut used, mut pending) = (0, 0);
    for info in run.bench.block_on(run.raw.info())? {
        let fact = |name: &str| -> Result<i64> {
            let found = info
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let number = found.and_then(|value| value.trim().parse().ok());
            number.with_context(|| format!("the server does not say its {name}"))
        };
        used += fact("used_memory")? - fact("mem_clients_normal")? - fact("mem_aof_buffer")?;
        pending += fact("lazyfree_pending_objects")?;
    }
    Ok((used, pending > 0))
}
