//! The campaigns of the S3 store at full length: what `cargo xtask faults s3` runs.
//!
//! First every state of the protocol in small scenarios, unless `--check 0`. Then on a bucket in memory behind injected
//! faults: `--submissions N` submissions, `--rounds N` races of 32 for one key, `--model N` transitions against the
//! reference; and claims beside `--finished N` finished jobs. Then on a real server: `--server-model N` transitions, `--storm
//! N` rounds of a thousand submissions of one key, `--kills N` kills under load. `--server moto` takes the other
//! server. Each prints its counts; a violation ends the run with a panic.

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

use std::process::ExitCode;

use bucket::{Faults, Memory};
use conformance::{S3, server::Kind, with_server};
use semel_conformance::campaign;

/// Transitions on one store before a fresh one is taken.
const PIECE: u64 = 10_000;

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    // The campaigns start this executable again, as a process to be killed.
    if args.first().is_some_and(|first| first == "--child") {
        return campaign::run(S3, &args);
    }
    let mut take = |name: &str, or: &str| {
        let Some(at) = args.iter().position(|arg| arg == name) else {
            return or.to_owned();
        };
        let taken: Vec<String> = args.drain(at..(at + 2).min(args.len())).collect();
        taken.get(1).cloned().unwrap_or_else(|| {
            eprintln!("error: {name} needs a value");
            std::process::exit(2);
        })
    };
    let kind = match take("--server", "ministack").as_str() {
        "moto" => Kind::Moto,
        _ => Kind::Ministack,
    };
    let number = |text: String| -> u64 {
        text.parse().unwrap_or_else(|_| {
            eprintln!("error: {text:?} is no number");
            std::process::exit(2);
        })
    };
    let check = number(take("--check", "1"));
    let finished = number(take("--finished", "100000"));
    let submissions = number(take("--submissions", "10000"));
    let rounds = number(take("--rounds", "200"));
    let model = number(take("--model", "1000000"));
    let seed = number(take("--seed", "1"));
    let on_server = [
        ("--model", take("--server-model", "20000")),
        ("--storm", take("--storm", "10")),
        ("--kills", take("--kills", "60")),
        ("--seed", seed.to_string()),
    ];
    if !args.is_empty() {
        eprintln!(
            "error: {args:?} is none of --check, --submissions, --rounds, --finished, --model, --server-model, --storm, --kills, --seed, --server"
        );
        return ExitCode::from(2);
    }
    if check > 0 {
        println!("== every state of the protocol\n{}", checker::all());
        checker::larger_rules();
    }
    if submissions > 0 {
        let count = usize::try_from(submissions).expect("fewer than fit into memory");
        println!("== submissions\n{}", campaigns::submissions(count, 20, seed));
    }
    if rounds > 0 {
        println!("== races of 32\n{}", campaigns::races(32, rounds, 20, seed));
    }
    under_faults(model, seed);
    if finished > 0 {
        beside_finished(finished);
    }
    let args: Vec<String> = on_server
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect();
    println!("\n== on {kind:?}");
    with_server(kind, || campaign::run(S3, &args))
}

/// A claim costs the same requests beside ten finished jobs and beside many.
fn beside_finished(finished: u64) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    let few = runtime.block_on(history::beside(10));
    let many = runtime.block_on(history::beside(finished));
    println!(
        "== claims of one job\nbeside 10 finished jobs {few:?}\nbeside {finished} finished jobs {many:?}"
    );
    assert_eq!(few.requests, many.requests, "finished jobs make claims dearer");
}

/// The model on a bucket whose writes go wrong.
fn under_faults(transitions: u64, seed: u64) {
    let mut left = transitions;
    let mut whole = semel_conformance::model::Report::default();
    let mut seed = seed;
    while left > 0 {
        let piece = left.min(PIECE);
        let harness = Memory {
            faults: Faults::all(1),
            seed,
        };
        whole.merge(semel_conformance::model::run(&harness, seed, piece));
        left -= piece;
        seed += 1;
        println!("model under faults: {} transitions", whole.transitions);
    }
    if transitions > 0 {
        println!("== model under faults\n{whole}");
    }
}
