//! The campaigns of the S3 store at full length: what `cargo xtask faults s3` runs, one after the other.
//!
//! | argument | campaign |
//! |---|---|
//! | `--check 1` | every state of the protocol, in small scenarios |
//! | `--submissions 10000` | submissions, in a bucket in memory behind injected faults |
//! | `--rounds 200` | races of 32 for one key, in the same |
//! | `--model 1000000` | transitions against the reference, in the same |
//! | `--finished 100000` | what a claim costs beside so many finished jobs |
//! | `--server-model 20000` | transitions against the reference, on a real server |
//! | `--storm 10` | rounds of a thousand submissions of one key, on a real server |
//! | `--kills 60` | kills under load, on a real server |
//!
//! The numbers are those of a run without arguments; a campaign of 0 is left out. `--only NAME[,NAME]` leaves out all
//! others: `--only model --model 50000`. `--seed N` begins with other draws, `--server moto` takes the other server.
//! Each prints how far it is, and its counts; a violation ends the run with a panic.

#[path = "../tests/bucket/mod.rs"]
mod bucket;
#[path = "../tests/campaigns/mod.rs"]
mod campaigns;
#[path = "../tests/protocol.rs"]
mod checker;
#[allow(dead_code, reason = "as a test it has a main of its own")]
#[path = "../tests/conformance.rs"]
mod conformance;
#[path = "../tests/history/mod.rs"]
mod history;
#[path = "../tests/kit/mod.rs"]
mod kit;
#[path = "../tests/through/mod.rs"]
mod through;

use std::collections::BTreeMap;
use std::process::ExitCode;

use bucket::{Faults, Memory};
use conformance::{S3, server::Kind, with_server};
use semel_conformance::campaign;

/// Transitions on one store before a fresh one is taken.
const PIECE: u64 = 10_000;
/// The same on a server, where they take longer.
const SERVER_PIECE: u64 = 5_000;

/// The campaigns, and how much of each unless something else is said.
const CAMPAIGNS: [(&str, u64); 8] = [
    ("check", 1),
    ("submissions", 10_000),
    ("rounds", 200),
    ("model", 1_000_000),
    ("finished", 100_000),
    ("server-model", 20_000),
    ("storm", 10),
    ("kills", 60),
];

/// What to run.
struct Plan {
    counts: BTreeMap<&'static str, u64>,
    seed: u64,
    server: Kind,
}

impl Plan {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut plan = Plan {
            counts: CAMPAIGNS.into(),
            seed: 1,
            server: Kind::Ministack,
        };
        let mut only = None;
        for pair in args.chunks(2) {
            let [name, value] = pair else {
                return Err(format!("{} needs a value", pair[0]));
            };
            let number = || value.parse().map_err(|_| format!("{value:?} is no number"));
            match name.trim_start_matches("--") {
                "only" => only = Some(value.split(',').map(named).collect::<Result<Vec<_>, _>>()?),
                "seed" => plan.seed = number()?,
                "server" => plan.server = server(value)?,
                other => {
                    plan.counts.insert(named(other)?, number()?);
                }
            }
        }
        if let Some(only) = only {
            plan.counts.retain(|name, _| only.contains(name));
        }
        Ok(plan)
    }

    /// How much of a campaign; 0 leaves it out.
    fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }
}

fn named(name: &str) -> Result<&'static str, String> {
    let names = CAMPAIGNS.map(|(name, _)| name);
    let known = names.into_iter().find(|known| *known == name);
    known.ok_or_else(|| format!("{name} is none of only, seed, server, {}", names.join(", ")))
}

fn server(name: &str) -> Result<Kind, String> {
    match name {
        "ministack" => Ok(Kind::Ministack),
        "moto" => Ok(Kind::Moto),
        _ => Err(format!("{name} is none of ministack, moto")),
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    // The campaigns start this executable again, as a process to be killed.
    if args.first().is_some_and(|first| first == "--child") {
        return campaign::run(S3, &args);
    }
    match Plan::parse(&args) {
        Ok(plan) => run(&plan),
        Err(what) => {
            eprintln!("error: {what}");
            ExitCode::from(2)
        }
    }
}

fn run(plan: &Plan) -> ExitCode {
    let seed = plan.seed;
    timed(plan, "check", |_| {
        println!("{}", checker::all());
        checker::larger_rules();
    });
    timed(plan, "submissions", |count| {
        let count = usize::try_from(count).expect("fewer than fit into memory");
        println!("{}", campaigns::submissions(count, 20, seed));
    });
    timed(plan, "rounds", |rounds| {
        println!("{}", campaigns::races(32, rounds, 20, seed));
    });
    timed(plan, "model", |transitions| under_faults(transitions, seed));
    timed(plan, "finished", beside_finished);
    on_server(plan)
}

/// Runs a campaign, unless it is left out; says how long it took.
fn timed(plan: &Plan, name: &str, run: impl FnOnce(u64)) {
    let count = plan.count(name);
    if count > 0 {
        println!("\n== {name} {count}");
        let begun = history::now();
        run(count);
        println!("{name}: ok in {:.1} s", begun.elapsed().as_secs_f64());
    }
}

fn on_server(plan: &Plan) -> ExitCode {
    let counts = ["server-model", "storm", "kills"].map(|name| plan.count(name));
    if counts == [0; 3] {
        return ExitCode::SUCCESS;
    }
    let [model, storm, kills] = counts;
    let args = [
        ("--model", model),
        ("--piece", SERVER_PIECE),
        ("--storm", storm),
        ("--kills", kills),
        ("--seed", plan.seed),
    ];
    let args: Vec<String> = args
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value.to_string()])
        .collect();
    println!("\n== on {:?}", plan.server);
    with_server(plan.server, || campaign::run(S3, &args))
}

/// A claim costs the same requests beside ten finished jobs and beside many.
fn beside_finished(finished: u64) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    let few = runtime.block_on(history::beside(10));
    let many = runtime.block_on(history::beside(finished));
    println!("claims of one job\nbeside 10 finished jobs {few:?}\nbeside {finished} finished jobs {many:?}");
    assert_eq!(few.requests, many.requests, "finished jobs make claims dearer");
}

/// The model on a bucket whose writes go wrong.
fn under_faults(transitions: u64, mut seed: u64) {
    let mut whole = semel_conformance::model::Report::default();
    let mut left = transitions;
    while left > 0 {
        let piece = left.min(PIECE);
        let harness = Memory {
            faults: Faults::all(1),
            seed,
        };
        let begun = history::now();
        whole.merge(semel_conformance::model::run(&harness, seed, piece));
        left -= piece;
        println!(
            "seed {seed}: {} of {transitions} transitions, 0 divergences, {:.1} s",
            whole.transitions,
            begun.elapsed().as_secs_f64()
        );
        seed += 1;
    }
    println!("{whole}");
}
