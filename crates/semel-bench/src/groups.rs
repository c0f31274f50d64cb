//! Which measurements take turns with which ceiling.

use anyhow::{Context, Result};

use crate::bench::Bench;
use crate::ceiling::Ceiling;
use crate::load::{Kind, Load};
use crate::report::median;
use crate::rig::{Fill, LARGEST, Rig, preload};
use crate::rounds::{Contestant, alternate, quotients};
use crate::run_in::run_in;
use crate::settings::Group;
use crate::stopwatch::Stopwatch;
use crate::subjects::{Callers, Lifecycle, Process, Submitting, What};
use crate::targets::suffix;
use crate::{sizes, syncs};

/// The priority of jobs that are to wait behind all others.
const BEHIND: i8 = -10;

/// Sizes of batches, with the name of the ceiling and what is appended to the names of the store's.
const BULKS: [(usize, &str, &str); 3] = [
    (16, "ceiling_16", "_16"),
    (128, "ceiling_128", "_128"),
    (LARGEST, "ceiling_1024", ""),
];

/// Measures one group.
pub(crate) fn measure(bench: &mut Bench, group: Group) -> Result<()> {
    match group {
        Group::Singles => singles(bench)?,
        Group::Callers => callers(bench)?,
        Group::Bulk => bulk(bench)?,
        Group::Duplicates => duplicates(bench)?,
        Group::Process => process(bench)?,
        Group::Lifecycle => lifecycles(bench)?,
        Group::Sizes => sizes::measure(bench)?,
        Group::Syncs => syncs::measure(bench)?,
    }
    bench.clear()
}

fn rig(bench: &mut Bench) -> Result<Rig> {
    let load = Load::new(bench.settings.seed)?;
    let rig = Rig::open(&bench.fresh_file()?, bench.handle(), load)?;
    if bench.settings.steady {
        run_in(&rig)?;
    }
    Ok(rig)
}

fn ceiling(bench: &mut Bench, name: &str, rows: usize) -> Result<Contestant> {
    let ceiling = Ceiling::open(&bench.fresh_file()?, rows, bench.settings.seed)?;
    if bench.settings.steady {
        ceiling.run_in()?;
    }
    Ok(Contestant::ceiling(name, rows, ceiling))
}

fn submitting(
    bench: &mut Bench,
    name: &str,
    kind: Kind,
    batch: usize,
    against: &'static str,
) -> Result<Contestant> {
    let subject = Submitting::new(rig(bench)?, What::Fresh(kind), batch);
    Ok(Contestant::new(name, against, batch, subject))
}

fn singles(bench: &mut Bench) -> Result<()> {
    let contestants = vec![
        ceiling(bench, "ceiling_1", 1)?,
        submitting(bench, "enqueue_1", Kind::Plain, 1, "ceiling_1")?,
        submitting(bench, "enqueue_unique", Kind::Unique, 1, "ceiling_1")?,
    ];
    alternate(bench, contestants)
}

fn callers(bench: &mut Bench) -> Result<()> {
    let mut contestants = vec![ceiling(bench, "ceiling_128", 128)?];
    for (name, kind) in [("enqueue_c64", Kind::Plain), ("enqueue_unique_c64", Kind::Unique)] {
        let subject = Callers::new(rig(bench)?, kind, name);
        contestants.push(Contestant::new(name, "ceiling_128", Callers::COUNT, subject));
    }
    alternate(bench, contestants)
}

fn bulk(bench: &mut Bench) -> Result<()> {
    for (batch, against, suffix) in BULKS {
        let contestants = vec![
            ceiling(bench, against, batch)?,
            submitting(
                bench,
                &format!("enqueue_bulk{suffix}"),
                Kind::Plain,
                batch,
                against,
            )?,
            submitting(
                bench,
                &format!("enqueue_unique_bulk{suffix}"),
                Kind::Unique,
                batch,
                against,
            )?,
        ];
        alternate(bench, contestants)?;
    }
    let report = &mut bench.report;
    let costs = quotients(
        report.rounds_of("enqueue_bulk"),
        report.rounds_of("enqueue_unique_bulk"),
    );
    report.add("unique_over_plain", median(&costs), "x");
    Ok(())
}

fn duplicates(bench: &mut Bench) -> Result<()> {
    let rig = rig(bench)?;
    rig.fill(Kind::Unique, bench.settings.held, 0)?;
    let subject = Submitting::new(rig, What::Duplicates, LARGEST);
    let contestants = vec![
        ceiling(bench, "ceiling_1024", LARGEST)?,
        Contestant::new("enqueue_dup", "ceiling_1024", LARGEST, subject),
    ];
    alternate(bench, contestants)
}

fn process(bench: &mut Bench) -> Result<()> {
    let plain = Process::new(rig(bench)?, Kind::Plain, "");
    let unique = Process::new(rig(bench)?, Kind::Unique, "_unique");
    let contestants = vec![
        ceiling(bench, "ceiling_1024", LARGEST)?,
        Contestant::new("process", "ceiling_1024", LARGEST, plain),
        Contestant::new("process_unique", "ceiling_1024", LARGEST, unique),
    ];
    alternate(bench, contestants)
}

fn lifecycles(bench: &mut Bench) -> Result<()> {
    let empty = rig(bench)?;
    lifecycle(bench, empty, 0)?;
    for waiting in bench.settings.waiting.clone() {
        bench.clear()?;
        let crowded = crowded_rig(bench, waiting)?;
        lifecycle(bench, crowded, waiting)?;
    }
    Ok(())
}

/// A store in which so many unique jobs wait behind; how long it took to open is reported.
fn crowded_rig(bench: &mut Bench, waiting: usize) -> Result<Rig> {
    eprintln!("  with {waiting} waiting");
    let path = bench.fresh_file()?;
    let load = Load::new(bench.settings.seed)?;
    preload(
        &path,
        &bench.handle(),
        &load,
        &Fill {
            kind: Kind::Unique,
            jobs: waiting,
            priority: BEHIND,
        },
    )?;
    let watch = Stopwatch::start();
    let rig = Rig::open(&path, bench.handle(), load)?;
    rig.fill(Kind::Unique, 1, BEHIND)?;
    let millis = watch.elapsed().as_secs_f64() * 1_000.0;
    bench
        .report
        .add(&format!("open{}", suffix(waiting)), millis, "ms");
    if bench.settings.steady {
        run_in(&rig)?;
    }
    Ok(rig)
}

fn lifecycle(bench: &mut Bench, rig: Rig, waiting: usize) -> Result<()> {
    let name = |way: &str| format!("lifecycle{way}{}", suffix(waiting));
    let (sequential, pipelined) = (name("_sequential"), name("_pipelined"));
    let contestants = vec![
        ceiling(bench, "ceiling_1024", LARGEST)?,
        Contestant::new(
            &sequential,
            "ceiling_1024",
            LARGEST,
            Lifecycle::sequential(rig.clone()),
        ),
        Contestant::new(&pipelined, "ceiling_1024", LARGEST, Lifecycle::pipelined(rig)),
    ];
    alternate(bench, contestants)?;
    let of = |metric: &str| {
        bench
            .report
            .find(metric)
            .cloned()
            .context("a contestant was not reported")
    };
    let (sequential, pipelined) = (of(&sequential)?, of(&pipelined)?);
    let better = if pipelined.value > sequential.value {
        pipelined
    } else {
        sequential
    };
    bench.report.add_as(&name(""), better);
    Ok(())
}
