//! `cargo xtask bench`: the measurements, with production settings.

use std::process::ExitCode;

use anyhow::Result;

use crate::cargo::{self, cargo};
use crate::prerequisites;

/// Runs the benchmark binary with the given arguments.
pub fn command(args: &[String]) -> Result<ExitCode> {
    prerequisites::ensure()?;
    let mut command = cargo("run");
    command
        .args(["--release", "-p", "semel-bench", "--bin", "semel-bench", "--"])
        .args(args);
    cargo::run(&mut command)
}
