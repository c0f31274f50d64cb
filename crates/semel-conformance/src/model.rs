//! Random sequences of every operation, on the store under test and on the in-memory reference at once.
//!
//! Both see the same calls at the same time of the same clock, so every answer has to be equal and,
//! every so often, everything that can be read. Numbers a store is free to choose (fences,
//! generations, versions) are compared by what they mean: which delivery, which owner came later.
//!
//! A run is a function of its seed. A divergence names the seed and the operations before it; when it
//! showed only in what is stored, the run is repeated with a look after each operation, so that the
//! operation that caused it is the last one named.

mod acts;
pub mod cells;
mod dump;
mod keep;
mod keys;
mod known;
mod pair;
mod plain;
mod probe;
mod steer;
mod steps;
mod submissions;
mod submit;
mod trace;
mod words;
mod work;

use std::fmt;

pub use cells::{Cell, HolderState, Visits};

use crate::harness::Harness;
use pair::Run;

/// What a run has done.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Items applied to both: submissions, settlements, heartbeats, acts, settings, …
    pub transitions: u64,
    /// Calls made on each.
    pub calls: u64,
    /// Times everything that can be read was compared.
    pub dumps: u64,
    /// Times the store was crashed and opened again.
    pub crashes: u64,
    /// How often each cell of the duplicate table was visited.
    pub visits: Visits,
}

impl Report {
    /// Adds another run.
    pub fn merge(&mut self, other: Report) {
        self.transitions += other.transitions;
        self.calls += other.calls;
        self.dumps += other.dumps;
        self.crashes += other.crashes;
        for (cell, visits) in other.visits {
            *self.visits.entry(cell).or_default() += visits;
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report {
            transitions,
            calls,
            dumps,
            crashes,
            ..
        } = self;
        writeln!(
            f,
            "{transitions} transitions in {calls} calls, {dumps} full comparisons, {crashes} crashes"
        )?;
        write!(f, "{}", cells::table(&self.visits))
    }
}

/// The store did what the reference did not.
#[derive(Debug)]
pub struct Divergence {
    /// The seed that shows it again.
    pub seed: u64,
    /// After so many transitions.
    pub transition: u64,
    /// What differed.
    pub what: String,
    /// The operations about the jobs in question, marked, and the last ones; oldest first.
    pub trace: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Divergence {
            seed,
            transition,
            what,
            trace,
        } = self;
        write!(
            f,
            "seed {seed}, transition {transition}: {what}\nthe operations before, those about the same jobs marked:\n{trace}"
        )
    }
}

/// Runs random operations until `transitions` were made. Panics where store and reference part ways.
pub fn run(harness: &dyn Harness, seed: u64, transitions: u64) -> Report {
    attempt(harness, seed, transitions).unwrap_or_else(|divergence| panic!("{divergence}"))
}

/// Runs random operations until `transitions` were made, or store and reference part ways.
pub fn attempt(harness: &dyn Harness, seed: u64, transitions: u64) -> Result<Report, Box<Divergence>> {
    let first = match play(harness, seed, transitions, u64::MAX) {
        Ok(report) => return Ok(report),
        Err(divergence) => divergence,
    };
    let close = first.transition.saturating_sub(STRIDE * 10);
    match play(harness, seed, transitions, close) {
        Ok(_) => Err(first),
        Err(closer) => Err(closer),
    }
}

/// Calls between two full comparisons.
const STRIDE: u64 = 200;

/// From the transition `close` on, everything is compared after each call.
fn play(harness: &dyn Harness, seed: u64, transitions: u64, close: u64) -> Result<Report, Box<Divergence>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be made");
    runtime.block_on(async {
        let mut run = Run::new(harness, seed);
        let outcome = drive(&mut run, transitions, close).await;
        outcome.map_err(|what| {
            let trace = run.trace.about(&what);
            Box::new(Divergence {
                seed,
                transition: run.report.transitions,
                what,
                trace,
            })
        })?;
        Ok(run.report)
    })
}

async fn drive(run: &mut Run<'_>, transitions: u64, close: u64) -> Result<(), String> {
    let mut steps = 0u64;
    while run.report.transitions < transitions {
        one(run).await?;
        steps += 1;
        let close = run.report.transitions >= close;
        if steps.is_multiple_of(STRIDE) {
            run.dump(close).await?;
            run.forget_gone().await?;
            run.thin_out().await?;
            if run.rng.chance(30) {
                run.unset().await?;
            }
        } else if close {
            run.dump(close).await?;
        }
    }
    run.dump(false).await
}

#[derive(Clone, Copy)]
enum Operation {
    Submit,
    SubmitBatch,
    SubmitAgain,
    Probe,
    Explain,
    Claim,
    ClaimAgain,
    Extend,
    Settle,
    Plain,
    Step,
    Guard,
    Act,
    Revive,
    Release,
    Resolve,
    Set,
    RemoveQueue,
    Document,
    Feed,
    ResetStats,
    Upkeep,
    Pass,
    PassLong,
    Crash,
}

/// How often each operation comes: per thousand.
const MIX: [(usize, Operation); 25] = [
    (85, Operation::Submit),
    (45, Operation::SubmitBatch),
    (30, Operation::SubmitAgain),
    (230, Operation::Probe),
    (20, Operation::Explain),
    (115, Operation::Claim),
    (15, Operation::ClaimAgain),
    (35, Operation::Extend),
    (135, Operation::Settle),
    (15, Operation::Plain),
    (40, Operation::Step),
    (25, Operation::Guard),
    (50, Operation::Act),
    (20, Operation::Revive),
    (15, Operation::Release),
    (10, Operation::Resolve),
    (15, Operation::Set),
    (1, Operation::RemoveQueue),
    (20, Operation::Document),
    (5, Operation::Feed),
    (1, Operation::ResetStats),
    (5, Operation::Upkeep),
    (61, Operation::Pass),
    (6, Operation::PassLong),
    (1, Operation::Crash),
];

async fn one(run: &mut Run<'_>) -> Result<(), String> {
    match run.rng.weighted(&MIX) {
        Operation::Submit => run.submit_one().await,
        Operation::SubmitBatch => run.submit_batch().await,
        Operation::SubmitAgain => run.submit_again().await,
        Operation::Probe => run.probe().await,
        Operation::Explain => run.explain().await,
        Operation::Claim => run.claim().await,
        Operation::ClaimAgain => run.claim_again().await,
        Operation::Extend => run.extend().await,
        Operation::Settle => run.settle().await,
        Operation::Plain => run.plain().await,
        Operation::Step => run.step().await,
        Operation::Guard => run.guard().await,
        Operation::Act => run.act().await,
        Operation::Revive => run.revive().await,
        Operation::Release => run.release().await,
        Operation::Resolve => run.resolve().await,
        Operation::Set => run.set().await,
        Operation::RemoveQueue => run.remove_queue().await,
        Operation::Document => run.document().await,
        Operation::Feed => run.feed().await,
        Operation::ResetStats => run.reset_stats().await,
        Operation::Upkeep => run.upkeep().await,
        Operation::Pass => run.pass(),
        Operation::PassLong => run.pass_long(),
        Operation::Crash => run.crash(),
    }
}
