//! The campaigns at full length: what a store's `faults` binary runs.
//!
//! `--model N` transitions against the reference, `--storm N` rounds of a thousand submissions of one key,
//! `--kills N` kills under load, `--seed S`, `--piece N` transitions on one store before a fresh one is taken. Each
//! prints its seed, its counts and its figures; any violation makes the exit code that of a failure. A campaign of 0 is
//! left out.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use crate::cases;
use crate::harness::{Harness, message};
use crate::kit::World;
use crate::model::{self, Report, cells};
use crate::{crash, race};

/// Transitions on one store before a fresh one is taken, so that a divergence is quick to have again. Each such piece
/// prints how far the campaign is.
const PIECE: u64 = 100_000;
/// Visits of each legal cell per million transitions.
const LEAST: u64 = 100;

/// How much of each campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Options {
    model: u64,
    storm: u64,
    kills: u64,
    seed: u64,
    piece: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            model: 1_000_000,
            storm: 50,
            kills: 500,
            seed: 1,
            piece: PIECE,
        }
    }
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Options::default();
        for pair in args.chunks(2) {
            let [name, value] = pair else {
                return Err(format!("{} needs a number", pair[0]));
            };
            let number = value
                .parse()
                .map_err(|_| format!("{name} needs a number, not {value:?}"))?;
            match name.as_str() {
                "--model" => options.model = number,
                "--storm" => options.storm = number,
                "--kills" => options.kills = number,
                "--seed" => options.seed = number,
                "--piece" => options.piece = number.max(1),
                _ => {
                    return Err(format!(
                        "{name} is none of --model, --storm, --kills, --seed, --piece"
                    ));
                }
            }
        }
        Ok(options)
    }
}

/// Runs the campaigns on a store with the arguments of the command line; or, called with `--child`, plays one of
/// the processes they start.
pub fn run(harness: impl Harness, args: &[String]) -> ExitCode {
    if let Some(("--child", arguments)) = args.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return cases::play_child(&harness, arguments.to_vec());
    }
    let options = match Options::parse(args) {
        Ok(options) => options,
        Err(what) => {
            eprintln!("error: {what}");
            return ExitCode::from(2);
        }
    };
    let harness: Arc<dyn Harness> = Arc::new(harness);
    println!("{}: {options:?}", harness.name());
    let good = [
        campaign("model", options.model, |n| {
            random_operations(&*harness, &options, n)
        }),
        campaign("storm", options.storm, |n| {
            race::storm(&World::new(harness.clone()), n)
        }),
        campaign("kills", options.kills, |n| {
            kills(&World::new(harness.clone()), options.seed, n)
        }),
    ];
    if good.into_iter().all(|good| good) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs one campaign and prints what came of it; false if something was violated.
fn campaign<F: Display>(name: &str, count: u64, run: impl FnOnce(u64) -> F) -> bool {
    if count == 0 {
        println!("\n== {name}: left out");
        return true;
    }
    println!("\n== {name}");
    let begun = now();
    let outcome = catch_unwind(AssertUnwindSafe(|| run(count)));
    let seconds = begun.elapsed().as_secs_f64();
    match &outcome {
        Ok(figures) => println!("{figures}\n{name}: ok in {seconds:.1} s"),
        Err(panic) => println!("{name}: VIOLATED after {seconds:.1} s\n{}", message(&**panic)),
    }
    outcome.is_ok()
}

fn random_operations(harness: &dyn Harness, options: &Options, transitions: u64) -> Report {
    let mut report = Report::default();
    let mut seed = options.seed;
    while report.transitions < transitions {
        let begun = now();
        let left = transitions - report.transitions;
        let made = model::run(harness, seed, options.piece.min(left));
        println!(
            "seed {seed}: {} transitions, 0 divergences, {:.1} s",
            made.transitions,
            begun.elapsed().as_secs_f64()
        );
        report.merge(made);
        seed += 1;
    }
    let least = LEAST * transitions.min(1_000_000) / 1_000_000;
    let neglected = cells::neglected(&report.visits, least);
    assert!(
        neglected.is_empty(),
        "visited less than {least} times: {neglected:?}\n{report}"
    );
    report
}

fn kills(world: &World, seed: u64, kills: u64) -> crash::Report {
    println!("seed {seed}");
    let report = crash::run(world, kills, seed);
    assert!(
        report.percent_interrupting() >= 80,
        "too few kills interrupt a call\n{report}"
    );
    report
}

#[expect(
    clippy::disallowed_methods,
    reason = "a campaign says how long it took; no store sees this time"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn options_are_numbers_by_name() {
        let options = Options::parse(&words("--kills 7 --seed 9 --piece 500")).expect("valid");
        assert_eq!(
            options,
            Options {
                kills: 7,
                seed: 9,
                piece: 500,
                ..Options::default()
            }
        );
        assert!(Options::parse(&words("--kill 7")).is_err());
        assert!(Options::parse(&words("--kills many")).is_err());
        assert!(Options::parse(&words("--kills")).is_err());
    }
}
