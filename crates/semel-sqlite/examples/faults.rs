//! The campaigns of the embedded store at full length: what `cargo xtask faults` runs.
//!
//! First those that every store runs (model, storm, kills), then power cuts: `--cuts N` of them, half of which lose
//! every byte that was not synced and half a random part of it. The options of the other campaigns are theirs; `--seed`
//! is everybody's. Each prints its seed, its counts and its figures.

#[path = "../tests/power_cut/campaign.rs"]
mod campaign;
#[allow(dead_code)] // as a test it has a main of its own
#[path = "../tests/conformance.rs"]
mod conformance;
#[path = "../tests/stage/mod.rs"]
mod stage;

use std::process::ExitCode;

use campaign::{Recording, Tally};
use semel_powercut::Survive;
use semel_sqlite::Synchronous;

/// Cuts, where the command line says nothing.
const CUTS: usize = 1_000;
/// Cuts of one recording: another load is recorded for the next.
const CUTS_PER_LOAD: usize = 250;
/// Submissions of one load.
const SUBMISSIONS: usize = 800;

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    // The campaigns start this executable again, as a process to be killed.
    if args.first().is_some_and(|first| first == "--child") {
        return semel_conformance::campaign::run(conformance::Sqlite, &args);
    }
    let cuts = take_number(&mut args, "--cuts").map(|cuts| cuts.unwrap_or(CUTS as u64));
    let seed = take_number(&mut args.clone(), "--seed").map(|seed| seed.unwrap_or(1));
    let (Ok(cuts), Ok(seed)) = (cuts, seed) else {
        eprintln!("error: --cuts and --seed need a number");
        return ExitCode::from(2);
    };
    let others = semel_conformance::campaign::run(conformance::Sqlite, &args);
    if others == ExitCode::from(2) {
        return others;
    }
    if power_cuts(cuts as usize, seed) {
        others
    } else {
        ExitCode::FAILURE
    }
}

/// Takes an option and its number out of the arguments.
fn take_number(args: &mut Vec<String>, name: &str) -> Result<Option<u64>, ()> {
    let Some(at) = args.iter().position(|arg| arg == name) else {
        return Ok(None);
    };
    let number = args
        .get(at + 1)
        .and_then(|number| number.parse().ok())
        .ok_or(())?;
    args.drain(at..at + 2);
    Ok(Some(number))
}

/// Cuts the power under FULL, where nothing may be lost, and under NORMAL, where something must be.
fn power_cuts(cuts: usize, seed: u64) -> bool {
    if cuts == 0 {
        println!("\n== power cuts: left out");
        return true;
    }
    println!("\n== power cuts");
    let began = stage::now();
    let full = cut_loads(Synchronous::Full, seed, cuts);
    let normal = cut_loads(Synchronous::Normal, seed, cuts.div_ceil(10));
    full.unsound
        .iter()
        .chain(&normal.unsound)
        .for_each(|what| println!("unsound: {what}"));
    println!("FULL: {full}");
    println!("NORMAL: {normal}; it has to lose some, or the harness would not notice");
    if full.lost == 0 {
        // What none of n trials showed happens in less than 3/n of them, with a confidence of 95 %.
        let bound = 300.0 / full.cuts as f64;
        println!("FULL: a cut loses an answer in less than {bound:.2} % of all cases, at 95 %");
    }
    let good = full.lost == 0 && full.unsound.is_empty() && normal.unsound.is_empty() && normal.lost > 0;
    let word = if good { "ok" } else { "VIOLATED" };
    println!("power cuts: {word} in {:.1} s", began.elapsed().as_secs_f64());
    good
}

/// So many cuts over as many loads as that takes.
fn cut_loads(synchronous: Synchronous, seed: u64, cuts: usize) -> Tally {
    let mut sum = Tally::default();
    for load in 0..cuts.div_ceil(CUTS_PER_LOAD) as u64 {
        let seed = seed.wrapping_mul(1_000) + load;
        let recording = campaign::record("faults", seed, synchronous, SUBMISSIONS);
        tell(synchronous, seed, &recording);
        let here = CUTS_PER_LOAD.min(cuts - sum.cuts);
        sum.add(recording.cut(here.div_ceil(2), seed, Survive::None));
        sum.add(recording.cut(here / 2, seed + 500, Survive::Random));
    }
    sum
}

fn tell(synchronous: Synchronous, seed: u64, recording: &Recording) {
    let (synced, restarted) = recording.turns();
    println!(
        "{synchronous:?}, seed {seed}: {} events, {} writes, {} syncs, {} checkpoints ({synced} syncs of the database \
         file, {restarted} beginnings of the log)",
        recording.events(),
        recording.counts.writes,
        recording.counts.syncs,
        recording.checkpoints
    );
}
