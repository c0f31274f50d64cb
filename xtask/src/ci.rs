//! `cargo xtask ci`: what a change must pass, cheapest first.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

use crate::cargo::{self, cargo};
use crate::clock::Stopwatch;
use crate::test;

/// Runs every step, stops at the first that fails, and ends with the sum of the tests.
pub fn command(args: &[String]) -> Result<ExitCode> {
    ensure!(
        args.is_empty(),
        "ci takes no arguments, got {args:?}\nhint: cargo xtask test takes a filter"
    );
    step("format", || {
        must_pass(cargo("fmt").args(["--all", "--", "--check"]), "cargo fmt --all")
    })?;
    step("clippy", || {
        must_pass(&mut clippy(), "cargo clippy --workspace --all-targets --fix")
    })?;
    let tally = step("test", || test::run(&[]))?;
    println!("\n{tally}");
    Ok(cargo::exit_code(tally.is_good()))
}

fn clippy() -> Command {
    let mut command = cargo("clippy");
    command.args(["--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]);
    command
}

fn step<T>(name: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
    println!("\n== {name}");
    let watch = Stopwatch::start();
    let result = run().with_context(|| format!("step {name}"));
    println!("== {name}: {:.1} s", watch.elapsed().as_secs_f64());
    result
}

fn must_pass(command: &mut Command, remedy: &str) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("could not start {command:?}"))?;
    if !status.success() {
        bail!("failed, see above\nhint: {remedy}");
    }
    Ok(())
}
