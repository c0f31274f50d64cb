//! `cargo xtask faults`: the campaigns at full length. The tests run a short, seeded piece of each.

use std::process::ExitCode;

use anyhow::Result;

use crate::cargo::{self, cargo};
use crate::prerequisites;

/// Runs the campaigns: `effects` those of steps, outbox and inbox, anything else those of the embedded store with the
/// given arguments, nothing all of them.
pub fn command(args: &[String]) -> Result<ExitCode> {
    prerequisites::ensure()?;
    if args.first().is_some_and(|first| first == "effects") {
        return effects(&args[1..]);
    }
    let mut command = cargo("run");
    // Release: a campaign is worth what it visits per minute.
    command
        .args(["--release", "-p", "semel-sqlite", "--example", "faults", "--"])
        .args(args);
    let stores = cargo::run(&mut command)?;
    if !args.is_empty() || stores != ExitCode::SUCCESS {
        return Ok(stores);
    }
    effects(&[])
}

/// One after another: they start servers and count what a second brings.
fn effects(args: &[String]) -> Result<ExitCode> {
    let mut command = cargo("test");
    command
        .args(["--release", "-p", "semel-outbox", "--test", "campaigns", "--"])
        .args(["--nocapture", "--test-threads", "1"])
        .args(args)
        .env("SEMEL_CAMPAIGN", "full");
    cargo::run(&mut command)
}
