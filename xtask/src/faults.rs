//! `cargo xtask faults`: the campaigns at full length. The tests run a short, seeded piece of each.

use std::process::ExitCode;

use anyhow::Result;

use crate::cargo::{self, cargo};
use crate::prerequisites;

/// Runs the campaigns with the given arguments.
pub fn command(args: &[String]) -> Result<ExitCode> {
    prerequisites::ensure()?;
    let mut command = cargo("run");
    // Release: a campaign is worth what it visits per minute.
    command
        .args(["--release", "-p", "semel-sqlite", "--example", "faults", "--"])
        .args(args);
    cargo::run(&mut command)
}
