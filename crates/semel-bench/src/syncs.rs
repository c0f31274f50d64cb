//! How often the disk is told to sync, and how much is written: counted, not assumed.

use anyhow::{Context, Result};

use semel_powercut::Vfs;
use semel_sqlite::Options;

use crate::bench::Bench;
use crate::ceiling::Ceiling;
use crate::load::{Kind, Load};
use crate::rig::{LARGEST, Rig};
use crate::rounds::Subject;
use crate::run_in::run_in;
use crate::subjects::{Callers, Lifecycle, Submitting, What};

/// Commits of a lone caller: as many as raw SQLite makes between two checkpoints.
const COMMITS: usize = 1_000;
/// The same where files are not run in.
const FEW_COMMITS: usize = 100;
/// Submissions of each of the callers.
const EACH: usize = 20;
/// Rounds of the lifecycle.
const ROUNDS: usize = 4;

/// Counts per row, per job submitted alone or beside others, and per job that lived.
pub(crate) fn measure(bench: &mut Bench) -> Result<()> {
    let vfs = semel_powercut::install("semel-count").context("installing the counting VFS")?;
    let seed = bench.settings.seed;
    let commits = if bench.settings.steady {
        COMMITS
    } else {
        FEW_COMMITS
    };
    let raw = Ceiling::open_with_vfs(&bench.fresh_file()?, vfs.name(), seed)?;
    if bench.settings.steady {
        raw.run_in()?;
    }
    count(bench, &vfs, "ceiling_1", raw, commits)?;
    let alone = Submitting::new(rig(bench, &vfs)?, What::Fresh(Kind::Unique), 1);
    count(bench, &vfs, "enqueue_1", alone, commits)?;
    let callers = Callers::new(rig(bench, &vfs)?, Kind::Unique, "");
    count(bench, &vfs, "enqueue_c64", callers, Callers::COUNT * EACH)?;
    let lives = Lifecycle::sequential(rig(bench, &vfs)?);
    count(bench, &vfs, "lifecycle", lives, LARGEST * ROUNDS)
}

fn rig(bench: &mut Bench, vfs: &Vfs) -> Result<Rig> {
    let options = Options {
        vfs: Some(vfs.name().to_owned()),
        ..Options::new(bench.fresh_file()?)
    };
    let rig = Rig::open_with(options, bench.handle(), Load::new(bench.settings.seed)?)?;
    // The first commit also syncs the header of the log.
    rig.fill(Kind::Plain, 1, -10)?;
    if bench.settings.steady {
        run_in(&rig)?;
    }
    Ok(rig)
}

fn count(bench: &mut Bench, vfs: &Vfs, metric: &str, mut subject: impl Subject, jobs: usize) -> Result<()> {
    let before = vfs.counts();
    subject.slice(jobs)?;
    let counts = vfs.counts().since(before);
    let each = |count: u64| count as f64 / jobs as f64;
    bench
        .report
        .add(&format!("syncs_{metric}"), each(counts.syncs), "fsyncs");
    bench
        .report
        .add(&format!("written_{metric}"), each(counts.bytes), "bytes");
    Ok(())
}
