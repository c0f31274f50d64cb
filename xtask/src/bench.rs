//! `cargo xtask bench`: the measurements, with production settings.

use std::process::ExitCode;

use anyhow::Result;

use crate::cargo::{self, cargo};
use crate::prerequisites;

/// Runs the benchmark binary with the given arguments; after the word `server`, what a server bears.
pub fn command(args: &[String]) -> Result<ExitCode> {
    prerequisites::ensure()?;
    let mut command = cargo("run");
    command.arg("--release");
    match args.split_first() {
        Some((word, rest)) if word == "server" => command
            .args(["-p", "semel-server", "--example", "load", "--"])
            .args(rest),
        _ => command
            .args(["-p", "semel-bench", "--bin", "semel-bench", "--"])
            .args(args),
    };
    cargo::run(&mut command)
}
