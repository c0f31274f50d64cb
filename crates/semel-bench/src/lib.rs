//! How fast the embedded store is, beside the most that SQLite could do on the same disk.
//!
//! Every figure is taken with production settings: `synchronous = FULL`, the default cache, ledger and
//! counters on, inputs of about 300 bytes. The *ceiling* is plain SQLite in the same run: one table, one
//! prepared INSERT, the same payload, cache and durability, SQLite's own checkpoints. The machine is not
//! quiet, so ceiling and store take turns in short slices; a value is the median of its slices, and a ratio
//! the median over the rounds of store against ceiling in the same round. Each file is run in first, until
//! its log is written over instead of growing.
//!
//! The store takes at most 1,000 items in one call. Where a name says `1024`, both sides use 1,000.
//!
//! | metric | what is measured |
//! |---|---|
//! | `ceiling_1`, `_16`, `_128`, `_1024` | raw rows in transactions of that many |
//! | `enqueue_1`, `enqueue_unique` | one caller, one submission at a time; without and with a key |
//! | `enqueue_c64`, `enqueue_unique_c64` | 64 callers at once, with the latencies `…_p50` and `…_p99` |
//! | `enqueue_bulk`, `enqueue_unique_bulk` | 1,000 in one call; also `…_16` and `…_128` |
//! | `unique_over_plain` | the time of a unique submission in bulk over that of a plain one |
//! | `enqueue_dup` | 1,000 in one call, each with a key that is held |
//! | `process`, `process_unique` | claim 1,000, settle them, with `claim…` and `settle…` alone |
//! | `lifecycle` | submit, claim and settle unique jobs by the 1,000: the better of `…_sequential` (each call waits for the one before) and `…_pipelined` (the calls of successive rounds are under way together) |
//! | `lifecycle_1m`, … | the same with so many unique jobs waiting behind, in the same lane |
//! | `open_1m`, … | opening that file, until a first submission is answered |
//! | `mem_job`, `mem_dedupe` | bytes on disk per job, and per held key beyond its job |
//! | `syncs_…` of `ceiling_1`, `enqueue_1`, `enqueue_c64`, `enqueue_bulk`, `enqueue_unique_bulk`, `lifecycle` | fsyncs per row or job; those of one and of 64 callers are unique |
//! | `written_…` of the same | bytes written to log and file, per row or job |
//! | `ratio_…` | the figure over its ceiling |

mod bench;
mod ceiling;
mod groups;
mod load;
mod machine;
mod report;
mod rig;
mod rounds;
mod run_in;
mod settings;
mod sizes;
mod stopwatch;
mod subjects;
mod syncs;
mod table;
mod targets;

pub use report::{Figure, Ratio, Report};
pub use settings::{Group, Settings};

use anyhow::Result;

/// Measures as the arguments say and prints a table, or with `--json` one object per line.
pub fn run(args: impl IntoIterator<Item = String>) -> Result<()> {
    let Some(settings) = Settings::parse(args)? else {
        print!("{}", settings::HELP);
        return Ok(());
    };
    let report = measure(&settings)?;
    if settings.json {
        print!("{}", report.json_lines()?);
    } else {
        print!("{}", report.table());
    }
    Ok(())
}

/// Measures; progress goes to the error output.
pub fn measure(settings: &Settings) -> Result<Report> {
    let machine = machine::Machine::watch();
    let mut bench = bench::Bench::new(settings)?;
    for group in &settings.groups {
        eprintln!("measuring {}", group.word());
        groups::measure(&mut bench, *group)?;
    }
    bench.report.add_notes(machine.note());
    Ok(bench.report)
}
