//! What a server bears, measured: `cargo xtask bench server [rate | million | hostile | large]`.
//!
//! The server is a process of its own on the embedded store, so that its memory and its processor time are its own.
//! Ends with 1 if something misses its bar.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot be made is not made")]
#![allow(clippy::disallowed_methods, reason = "it measures real time")]

mod hostile;
mod large;
mod process;
mod rate;
mod wire;

use std::path::Path;
use std::process::ExitCode;

/// How one measurement went.
pub struct Verdict {
    /// In a sentence, with figures.
    pub says: String,
    /// Whether it reaches its bar.
    pub good: bool,
}

impl Verdict {
    /// A sentence, and whether it reaches its bar.
    pub fn new(good: bool, says: String) -> Self {
        println!("{} {says}", if good { "good" } else { "MISS" });
        Verdict { says, good }
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    if let [serve, store] = args.as_slice()
        && serve == "--serve"
    {
        runtime.block_on(process::serve(store));
        return ExitCode::SUCCESS;
    }
    process::raise_the_limit_of_files();
    let parts = match args.first().map(String::as_str) {
        None => vec!["rate", "million", "hostile", "large"],
        Some(one) => vec![one],
    };
    let dir = tempfile::tempdir().unwrap();
    let mut verdicts = Vec::new();
    for part in parts {
        println!("== {part}");
        verdicts.extend(runtime.block_on(run(part, dir.path())));
    }
    let missed: Vec<&Verdict> = verdicts.iter().filter(|verdict| !verdict.good).collect();
    println!(
        "\n{} good, {} missed",
        verdicts.len() - missed.len(),
        missed.len()
    );
    missed.iter().for_each(|verdict| println!("  {}", verdict.says));
    match verdicts.is_empty() || !missed.is_empty() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

async fn run(part: &str, dir: &Path) -> Vec<Verdict> {
    match part {
        "rate" => rate::compare(dir).await,
        "million" => rate::million(dir).await,
        "hostile" => hostile::bear(dir).await,
        "large" => large::look(dir).await,
        other => {
            eprintln!("there is no part {other:?}: allowed are rate, million, hostile, large");
            Vec::new()
        }
    }
}
