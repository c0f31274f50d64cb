//! The campaigns of the Redis store at full length: what `cargo xtask faults` runs.
//!
//! First those that every store runs (model, storm, kills of a client), then faults of the server under load:
//! `--restarts N` kills of it with every write synced, `--flushes N` losses of its scripts, `--cuts N` replies lost
//! after the write was applied, `--limits N` times out of memory, `--steps N` steps of the clock. Then the whole
//! conformance suite: on a cluster of three masters (`--cluster 0` leaves it out), and through failovers by Sentinel
//! (`--sentinel 0`). The options of the other campaigns are theirs. Each prints its counts and its figures; a violation
//! ends the run with a panic.

#[allow(dead_code)] // as a test it has tests of its own
#[path = "../tests/servers/campaigns.rs"]
mod campaigns;
#[allow(dead_code)] // as a test it has a main of its own
#[path = "../tests/conformance.rs"]
mod conformance;
#[allow(dead_code)] // replies that come late are a matter of other tests
#[path = "../tests/servers/proxy.rs"]
mod proxy;
#[allow(dead_code)] // as a test it has tests of its own
#[path = "../tests/servers/steps_of_time.rs"]
mod steps_of_time;

use std::process::ExitCode;

use conformance::server;

/// How much of each campaign, where the command line says nothing.
const RESTARTS: u64 = 100;
const FLUSHES: u64 = 1_000;
const CUTS: u64 = 1_000;
const LIMITS: u64 = 100;
const STEPS: u64 = 5_000;
const CLUSTER: u64 = 1;
const SENTINEL: u64 = 1;

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    // The campaigns start this executable again, as a process to be killed.
    if args.first().is_some_and(|first| first == "--child") {
        return semel_conformance::campaign::run(conformance::Redis, &args);
    }
    let mut take = |name: &str, or: u64| {
        let Some(at) = args.iter().position(|arg| arg == name) else {
            return or;
        };
        let value = args.get(at + 1).and_then(|value| value.parse().ok());
        args.drain(at..(at + 2).min(args.len()));
        value.unwrap_or_else(|| {
            eprintln!("error: {name} needs a number");
            std::process::exit(2);
        })
    };
    let (restarts, flushes) = (take("--restarts", RESTARTS), take("--flushes", FLUSHES));
    let (cuts, limits) = (take("--cuts", CUTS), take("--limits", LIMITS));
    let (steps, cluster) = (take("--steps", STEPS), take("--cluster", CLUSTER));
    let sentinel = take("--sentinel", SENTINEL);
    let common = semel_conformance::campaign::run(conformance::Redis, &args);
    if common != ExitCode::SUCCESS {
        return common;
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    runtime.block_on(async {
        if restarts > 0 {
            println!("\n== restarts\n{}", campaigns::restarts(restarts).await);
        }
        if flushes > 0 {
            println!("\n== flushes\n{}", campaigns::flushes(flushes).await);
        }
        if cuts > 0 {
            let cuts = u32::try_from(cuts).expect("fewer cuts than numbers");
            println!("\n== cuts\n{}", campaigns::lost_replies(cuts).await);
        }
        if limits > 0 {
            println!("\n== limits\n{}", campaigns::memory_limits(limits).await);
        }
        if steps > 0 {
            println!("\n== steps\n{}", steps_of_time::steps(steps).await);
        }
    });
    let (mut clustered, mut failed_over) = (ExitCode::SUCCESS, ExitCode::SUCCESS);
    if cluster > 0 {
        clustered = conformance::on_cluster(true, &[]);
    }
    if sentinel > 0 {
        failed_over = conformance::through_failovers();
    }
    if clustered == ExitCode::SUCCESS {
        failed_over
    } else {
        clustered
    }
}
