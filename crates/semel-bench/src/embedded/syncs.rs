//! How often the disk is told to sync, and how much is written: counted, not assumed.

use anyhow::{Context, Result};

use semel_powercut::Vfs;
use semel_sqlite::Options;

use crate::embedded::ceiling::Ceiling;
use crate::embedded::run_in::run_in;
use crate::embedded::{Run, file_rig};
use crate::load::{Kind, Load};
use crate::rig::{LARGEST, Rig};
use crate::rounds::Subject;
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
pub(crate) fn measure(run: &mut Run<'_>) -> Result<()> {
    let vfs = semel_powercut::install("semel-count").context("installing the counting VFS")?;
    let Counted { commits, rounds } = if run.bench.settings.steady { STEADY } else { QUICK };
    let raw = raw(run, &vfs)?;
    count(run, &vfs, "ceiling_1", raw, commits)?;
    let alone = Submitting::new(rig(run, &vfs)?, What::Fresh(Kind::Unique), 1);
    count(run, &vfs, "enqueue_1", alone, commits)?;
    let callers = Callers::new(rig(run, &vfs)?, Kind::Unique, "");
    count(run, &vfs, "enqueue_c64", callers, Callers::COUNT * EACH)?;
    for (name, kind) in [
        ("enqueue_bulk", Kind::Plain),
        ("enqueue_unique_bulk", Kind::Unique),
    ] {
        let bulk = Submitting::new(rig(run, &vfs)?, What::Fresh(kind), LARGEST);
        count(run, &vfs, name, bulk, LARGEST * rounds)?;
    }
    let lives = Lifecycle::sequential(rig(run, &vfs)?);
    count(run, &vfs, "lifecycle", lives, LARGEST * rounds)
}

fn raw(run: &mut Run<'_>, vfs: &Vfs) -> Result<Ceiling> {
    let raw = Ceiling::open_with_vfs(&run.files.fresh()?, vfs.name(), run.bench.settings.seed)?;
    if run.bench.settings.steady {
        raw.run_in()?;
    }
    Ok(raw)
}

fn rig(run: &mut Run<'_>, vfs: &Vfs) -> Result<Rig> {
    let path = run.files.fresh()?;
    let options = Options {
        vfs: Some(vfs.name().to_owned()),
        ..Options::new(&path)
    };
    let rig = file_rig::open_with(options, run.bench.handle(), Load::new(run.bench.settings.seed)?)?;
    // The first commit also syncs the header of the log.
    rig.fill(Kind::Plain, 1, -10)?;
    if run.bench.settings.steady {
        run_in(&rig, &path)?;
    }
    Ok(rig)
}

fn count(run: &mut Run<'_>, vfs: &Vfs, metric: &str, mut subject: impl Subject, jobs: usize) -> Result<()> {
    let before = vfs.counts();
    subject.slice(jobs)?;
    let counts = vfs.counts().since(before);
    let each = |count: u64| count as f64 / jobs as f64;
    run.bench
        .report
        .add(&format!("syncs_{metric}"), each(counts.syncs), "fsyncs");
    run.bench
        .report
        .add(&format!("written_{metric}"), each(counts.bytes), "bytes");
    Ok(())
}
