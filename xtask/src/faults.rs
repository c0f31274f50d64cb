//! `cargo xtask faults`: the campaigns at full length. The tests run a short, seeded piece of each.

use std::process::ExitCode;

use anyhow::Result;

use crate::cargo::{self, cargo};
use crate::prerequisites;

/// Runs the campaigns with the given arguments; `redis` as the first one names the store.
pub fn command(args: &[String]) -> Result<ExitCode> {
    prerequisites::ensure()?;
    let (package, args) = match args.split_first() {
        Some((store, rest)) if store == "redis" => ("semel-redis", rest),
        Some((store, rest)) if store == "sqlite" => ("semel-sqlite", rest),
        _ => ("semel-sqlite", args),
    };
    let mut command = cargo("run");
    // Release: a campaign is worth what it visits per minute.
    command
        .args(["--release", "-p", package, "--example", "faults", "--"])
        .args(args);
    cargo::run(&mut command)
}
