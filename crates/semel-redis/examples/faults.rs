//! The campaigns of the Redis store at full length: model, storm and kills, as every store runs them. Each prints its
//! seed, its counts and its figures.

#[allow(dead_code)] // as a test it has a main of its own
#[path = "../tests/conformance.rs"]
mod conformance;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    semel_conformance::campaign::run(conformance::Redis, &args)
}
