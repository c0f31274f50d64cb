//! How fast a store is, beside the most that its disk or server could do for the same program.
//!
//! Every figure is taken with production settings: ledger and counters on, inputs of about 300 bytes. The *ceiling* is
//! measured in the same run with the same payload. The machine is not quiet, so ceiling and store take turns in short
//! slices; a value is the median of its slices, and a ratio the median over the rounds of store against ceiling in the
//! same round. The names of the metrics are the same for all stores.
//!
//! | metric | what is measured |
//! |---|---|
//! | `enqueue_1`, `enqueue_unique` | one caller, one submission at a time; without and with a key |
//! | `enqueue_c64`, `enqueue_unique_c64` | 64 callers at once, with the latencies `…_p50` and `…_p99`; in a bucket 16 |
//! | `enqueue_bulk`, `enqueue_unique_bulk` | 1,000 in one call; `…_16`, `…_64`, `…_128` that many |
//! | `unique_over_plain` | the time of a unique submission in bulk over that of a plain one; `…_1`, `…_c64` of the embedded store: of one caller, of 64 |
//! | `enqueue_dup` | each with a key that is held: 1,000 in one call, in a bucket by 16 callers |
//! | `process`, `process_unique` | claim 1,000, settle them, with `claim…` and `settle…` alone; in a bucket 64 |
//! | `lifecycle` | submit, claim and settle unique jobs by as many: the better of `…_sequential` (each call waits for the one before) and `…_pipelined` (the calls of successive rounds are under way together) |
//! | `mem_job`, `mem_dedupe` | bytes per waiting job, and per held key beyond its job |
//! | `ratio_…` | the figure over its ceiling |
//!
//! `semel bench` and `cargo xtask bench` allocate with mimalloc, as the command `semel` does.
//!
//! **The embedded store**, `synchronous = FULL`, the default cache. Its ceiling is plain SQLite: one table, one prepared
//! INSERT, the same cache and durability, SQLite's own checkpoints. Each file is run in first, until its log is written
//! over instead of growing. The store takes at most 1,000 items in one call; where a name says `1024`, both sides use
//! 1,000.
//!
//! | metric | what is measured |
//! |---|---|
//! | `ceiling_1`, `_16`, `_128`, `_1024` | raw rows in transactions of that many |
//! | `lifecycle_1m`, … | with so many unique jobs waiting behind, in the same lane |
//! | `open_1m`, … | opening that file, until a first submission is answered |
//! | `syncs_…` of `ceiling_1`, `enqueue_1`, `enqueue_c64`, `enqueue_bulk`, `enqueue_unique_bulk`, `lifecycle` | fsyncs per row or job; those of one and of 64 callers are unique |
//! | `written_…` of the same | bytes written to log and file, per row or job |
//!
//! **Redis**, `--store redis://…`, in namespaces of its own that are removed.
//!
//! | metric | what is measured |
//! |---|---|
//! | `ceiling_set_1`, `_c64`, `_p64` | plain `SET` by the same client: one awaited after another, by 64 callers, 64 in a pipeline |
//! | `ceiling_redis_benchmark_p64` | what the server's own tool says, where it is installed |
//! | `…_c64_half_p50`, `…_half_p99` | how long a call takes when 64 callers are held to half of what they can; `…_half_rate` is what they did |
//! | `process_worker` | a worker of the library drains what waits, with a handler that does nothing |
//! | `mem_window_key` | bytes per key for a day whose job is gone |
//!
//! **A bucket**, `--store s3://…`, below a prefix of its own that is removed.
//!
//! | metric | what is measured |
//! |---|---|
//! | `ceiling_put_1`, `_c16` | plain `PUT` by the same client: one after another, by 16 callers |
//! | `requests_enqueue_1`, `_enqueue_unique`, `_enqueue_dup` | requests of one submission, beside the read of the settings that calls share |
//! | `requests_claim_1`, `requests_settle_1` | of one claim and one settlement of one job |
//! | `requests_claim`, `requests_settle` | of 50 at once, for each; `…_elsewhere`: jobs that another process submitted |

mod bench;
mod embedded;
mod load;
mod machine;
#[cfg(feature = "redis")]
mod redis;
mod report;
mod rig;
mod rounds;
#[cfg(feature = "s3")]
mod s3;
mod settings;
mod stopwatch;
mod subjects;
mod table;
mod targets;

pub use report::{Figure, Ratio, Report};
pub use settings::{Group, Settings};

use anyhow::{Result, bail};

use crate::bench::Bench;
use crate::targets::Target;

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

/// A kind of store: what can be measured of it, what it promises, and how it is measured.
struct Kind {
    groups: &'static [Group],
    /// Threads of the callers, of the ceiling and of the store alike.
    threads: usize,
    target: fn(&str) -> Option<Target>,
    measure: fn(&mut Bench, &[Group]) -> Result<()>,
}

const EMBEDDED: Kind = Kind {
    groups: &embedded::GROUPS,
    threads: 2,
    target: targets::embedded,
    measure: embedded::measure,
};

#[cfg(feature = "redis")]
const REDIS: Kind = Kind {
    groups: &redis::GROUPS,
    // The server beside it does all of its work in one thread, and needs a core for that.
    threads: 1,
    target: targets::redis,
    measure: redis::measure,
};

#[cfg(feature = "s3")]
const S3: Kind = Kind {
    groups: &s3::GROUPS,
    threads: 2,
    target: targets::s3,
    measure: s3::measure,
};

fn kind(settings: &Settings) -> Result<Kind> {
    let Some(url) = &settings.store else {
        return Ok(EMBEDDED);
    };
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    match scheme {
        #[cfg(feature = "redis")]
        "redis" | "rediss" | "redis+cluster" | "rediss+cluster" | "redis+sentinel" | "rediss+sentinel" => {
            Ok(REDIS)
        }
        #[cfg(feature = "s3")]
        "s3" => Ok(S3),
        other => bail!(
            "{other:?} stores cannot be measured on a server; hint: allowed are redis://… and s3://…, or no URL for \
             the embedded store"
        ),
    }
}

/// Measures; progress goes to the error output.
pub fn measure(settings: &Settings) -> Result<Report> {
    let kind = kind(settings)?;
    let groups = match &settings.groups {
        None => kind.groups,
        Some(asked) => asked,
    };
    if let Some(wrong) = groups.iter().find(|group| !kind.groups.contains(group)) {
        let allowed: Vec<&str> = kind.groups.iter().map(|group| group.word()).collect();
        bail!(
            "{} is nothing to measure of this store; hint: allowed are {}",
            wrong.word(),
            allowed.join(", ")
        );
    }
    let machine = machine::Machine::watch();
    let mut bench = Bench::new(settings, kind.threads, kind.target)?;
    (kind.measure)(&mut bench, groups)?;
    bench.report.add_notes(machine.note());
    Ok(bench.report)
}
