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

/// How much is counted.
struct Counted {
    /// Commits of a lone caller.
    commits: usize,
    /// Calls in bulk, and rounds of the lifecycle.
    rounds: usize,
}

/// As many commits as raw SQLite makes between two checkpoints.
const STEADY: Counted = Counted {
    commits: 1_000,
    rounds: 50,
};
/// Too few for a checkpoint.
const QUICK: Counted = Counted {
    commits: 100,
    rounds: 4,
};
/// Submissions of each of the callers.
const EACH: usize = 20;

/// Counts per row, per job submitted alone, beside others or in bulk, and per job that lived.
pub(crate) fn measure(bench: &mut Bench) -> Result<()> {
    let vfs = semel_powercut::install("semel-count").context("installing the counting VFS")?;
    let Counted { commits, rounds } = if bench.settings.steady { STEADY } else { QUICK };
    let raw = raw(bench, &vfs)?;
    count(bench, &vfs, "ceiling_1", raw, commits)?;
    let alone = Submitting::new(rig(bench, &vfs)?, What::Fresh(Kind::Unique), 1);
    count(bench, &vfs, "enqueue_1", alone, commits)?;
    let callers = Callers::new(rig(bench, &vfs)?, Kind::Unique, "");
    count(bench, &vfs, "enqueue_c64", callers, Callers::COUNT * EACH)?;
    for (name, kind) in [
        ("enqueue_bulk", Kind::Plain),
        ("enqueue_unique_bulk", Kind::Unique),
    ] {
        let bulk = Submitting::new(rig(bench, &vfs)?, What::Fresh(kind), LARGEST);
        count(bench, &vfs, name, bulk, LARGEST * rounds)?;
    }
    let lives = Lifecycle::sequential(rig(bench, &vfs)?);
    count(bench, &vfs, "lifecycle", lives, LARGEST * rounds)
}

fn raw(bench: &mut Bench, vfs: &Vfs) -> Result<Ceiling> {
    let raw = Ceiling::open_with_vfs(&bench.fresh_file()?, vfs.name(), bench.settings.seed)?;
    if bench.settings.steady {
        raw.run_in()?;
    }
    Ok(raw)
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
