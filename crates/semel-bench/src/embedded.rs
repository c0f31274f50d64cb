//! The embedded store, beside plain SQLite on the same disk.

mod ceiling;
mod file_rig;
mod files;
mod run_in;
mod sizes;
mod syncs;

use std::path::Path;

use anyhow::{Result, bail};

use crate::bench::Bench;
use crate::embedded::ceiling::Ceiling;
use crate::embedded::file_rig::{Fill, preload};
use crate::embedded::files::Files;
use crate::embedded::run_in::run_in;
use crate::load::{Kind, Load};
use crate::report::median;
use crate::rig::{LARGEST, Rig};
use crate::rounds::{Contestant, alternate, quotients};
use crate::settings::Group;
use crate::stopwatch::Stopwatch;
use crate::subjects::{Callers, Lifecycle, Process, Submitting, What, better_lifecycle};
use crate::targets::suffix;

/// What the groups share.
struct Run<'a> {
    bench: &'a mut Bench,
    files: Files,
}

impl Run<'_> {
    /// How many times as long the second takes as the first.
    fn compare(&mut self, name: &str, [first, second]: [&str; 2]) {
        let report = &mut self.bench.report;
        let costs = quotients(report.rounds_of(first), report.rounds_of(second));
        report.add(name, median(&costs), "x");
    }
}

/// The priority of jobs that are to wait behind all others.
const BEHIND: i8 = -10;

/// Sizes of batches, with the name of the ceiling and what is appended to the names of the store's.
const BULKS: [(usize, &str, &str); 3] = [
    (16, "ceiling_16", "_16"),
    (128, "ceiling_128", "_128"),
    (LARGEST, "ceiling_1024", ""),
];

/// The groups that are measured of this store.
pub(crate) const GROUPS: [Group; 8] = [
    Group::Singles,
    Group::Callers,
    Group::Bulk,
    Group::Duplicates,
    Group::Process,
    Group::Lifecycle,
    Group::Sizes,
    Group::Syncs,
];

/// Measures some groups.
pub(crate) fn measure(bench: &mut Bench, groups: &[Group]) -> Result<()> {
    bench.report.add_notes([
        format!(
            "SQLite {}, WAL, synchronous FULL, in {}; raw: wal_autocheckpoint at its default of 1,000 pages",
            rusqlite::version(),
            bench.settings.dir.display()
        ),
        "where a name says 1024 both sides use 1,000, the most the store takes in one call".to_owned(),
    ]);
    let files = Files::new(&bench.settings)?;
    let mut run = Run { bench, files };
    for group in groups {
        eprintln!("measuring {}", group.word());
        measure_group(&mut run, *group)?;
    }
    Ok(())
}

fn measure_group(run: &mut Run<'_>, group: Group) -> Result<()> {
    match group {
        Group::Singles => singles(run)?,
        Group::Callers => callers(run)?,
        Group::Bulk => bulk(run)?,
        Group::Duplicates => duplicates(run)?,
        Group::Process => process(run)?,
        Group::Lifecycle => lifecycles(run)?,
        Group::Sizes => sizes::measure(run)?,
        Group::Syncs => syncs::measure(run)?,
        Group::Requests => bail!("the embedded store makes no requests"),
    }
    run.files.clear()
}

fn rig(run: &mut Run<'_>) -> Result<Rig> {
    let (load, path) = (Load::new(run.bench.settings.seed)?, run.files.fresh()?);
    let rig = file_rig::open(&path, run.bench.handle(), load)?;
    steady(run, &rig, &path)?;
    Ok(rig)
}

fn steady(run: &Run<'_>, rig: &Rig, path: &Path) -> Result<()> {
    match run.bench.settings.steady {
        true => run_in(rig, path),
        false => Ok(()),
    }
}

fn ceiling(run: &mut Run<'_>, name: &str, rows: usize) -> Result<Contestant> {
    Ok(Contestant::ceiling(name, rows, raw(run, rows)?))
}

fn raw(run: &mut Run<'_>, rows: usize) -> Result<Ceiling> {
    let raw = Ceiling::open(&run.files.fresh()?, rows, run.bench.settings.seed)?;
    if run.bench.settings.steady {
        raw.run_in()?;
    }
    Ok(raw)
}

fn submitting(
    run: &mut Run<'_>,
    name: &str,
    kind: Kind,
    batch: usize,
    against: &'static str,
) -> Result<Contestant> {
    let subject = Submitting::new(rig(run)?, What::Fresh(kind), batch);
    Ok(Contestant::new(name, against, batch, subject))
}

fn singles(run: &mut Run<'_>) -> Result<()> {
    let contestants = vec![
        ceiling(run, "ceiling_1", 1)?,
        submitting(run, "enqueue_1", Kind::Plain, 1, "ceiling_1")?,
        submitting(run, "enqueue_unique", Kind::Unique, 1, "ceiling_1")?,
    ];
    alternate(run.bench, contestants)?;
    run.compare("unique_over_plain_1", ["enqueue_1", "enqueue_unique"]);
    Ok(())
}

fn callers(run: &mut Run<'_>) -> Result<()> {
    let raw = raw(run, 128)?.with_slowest("ceiling_128");
    let mut contestants = vec![Contestant::ceiling("ceiling_128", 128, raw)];
    for (name, kind) in [("enqueue_c64", Kind::Plain), ("enqueue_unique_c64", Kind::Unique)] {
        let subject = Callers::new(rig(run)?, kind, name);
        contestants.push(Contestant::new(name, "ceiling_128", Callers::COUNT, subject));
    }
    alternate(run.bench, contestants)?;
    run.compare("unique_over_plain_c64", ["enqueue_c64", "enqueue_unique_c64"]);
    Ok(())
}

fn bulk(run: &mut Run<'_>) -> Result<()> {
    for (batch, against, suffix) in BULKS {
        let contestants = vec![
            ceiling(run, against, batch)?,
            submitting(run, &format!("enqueue_bulk{suffix}"), Kind::Plain, batch, against)?,
            submitting(
                run,
                &format!("enqueue_unique_bulk{suffix}"),
                Kind::Unique,
                batch,
                against,
            )?,
        ];
        alternate(run.bench, contestants)?;
    }
    run.compare("unique_over_plain", ["enqueue_bulk", "enqueue_unique_bulk"]);
    Ok(())
}

fn duplicates(run: &mut Run<'_>) -> Result<()> {
    let rig = rig(run)?;
    rig.fill(Kind::Unique, run.bench.settings.held, 0)?;
    let subject = Submitting::new(rig, What::Duplicates, LARGEST);
    let contestants = vec![
        ceiling(run, "ceiling_1024", LARGEST)?,
        Contestant::new("enqueue_dup", "ceiling_1024", LARGEST, subject),
    ];
    alternate(run.bench, contestants)
}

fn process(run: &mut Run<'_>) -> Result<()> {
    let plain = Process::new(rig(run)?, Kind::Plain, "");
    let unique = Process::new(rig(run)?, Kind::Unique, "_unique");
    let contestants = vec![
        ceiling(run, "ceiling_1024", LARGEST)?,
        Contestant::new("process", "ceiling_1024", LARGEST, plain),
        Contestant::new("process_unique", "ceiling_1024", LARGEST, unique),
    ];
    alternate(run.bench, contestants)
}

fn lifecycles(run: &mut Run<'_>) -> Result<()> {
    let empty = rig(run)?;
    lifecycle(run, empty, 0)?;
    for waiting in run.bench.settings.waiting.clone() {
        run.files.clear()?;
        let crowded = crowded_rig(run, waiting)?;
        lifecycle(run, crowded, waiting)?;
    }
    Ok(())
}

/// A store in which so many unique jobs wait behind; how long it took to open is reported.
fn crowded_rig(run: &mut Run<'_>, waiting: usize) -> Result<Rig> {
    eprintln!("  with {waiting} waiting");
    let path = run.files.fresh()?;
    let load = Load::new(run.bench.settings.seed)?;
    preload(
        &path,
        &run.bench.handle(),
        &load,
        &Fill {
            kind: Kind::Unique,
            jobs: waiting,
            priority: BEHIND,
        },
    )?;
    let watch = Stopwatch::start();
    let rig = file_rig::open(&path, run.bench.handle(), load)?;
    rig.fill(Kind::Unique, 1, BEHIND)?;
    let millis = watch.elapsed().as_secs_f64() * 1_000.0;
    run.bench
        .report
        .add(&format!("open{}", suffix(waiting)), millis, "ms");
    steady(run, &rig, &path)?;
    Ok(rig)
}

fn lifecycle(run: &mut Run<'_>, rig: Rig, waiting: usize) -> Result<()> {
    let name = |way: &str| format!("lifecycle{way}{}", suffix(waiting));
    let (sequential, pipelined) = (name("_sequential"), name("_pipelined"));
    let contestants = vec![
        ceiling(run, "ceiling_1024", LARGEST)?,
        Contestant::new(
            &sequential,
            "ceiling_1024",
            LARGEST,
            Lifecycle::sequential(rig.clone()),
        ),
        Contestant::new(&pipelined, "ceiling_1024", LARGEST, Lifecycle::pipelined(rig)),
    ];
    alternate(run.bench, contestants)?;
    better_lifecycle(&mut run.bench.report, &suffix(waiting))
}
