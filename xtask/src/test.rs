//! `cargo xtask test`: every test of the workspace, the doc tests, a neighbour, the mutants, and one sum at the end.

use std::process::ExitCode;

use anyhow::Result;

use crate::cargo::{self, cargo};
use crate::mutants;
use crate::neighbour;
use crate::prerequisites;
use crate::tally::Tally;

/// Runs the tests; the last line printed is the sum.
pub fn command(args: &[String]) -> Result<ExitCode> {
    let tally = run(args)?;
    println!("\n{tally}");
    Ok(cargo::exit_code(tally.is_good()))
}

/// Runs the tests and adds up how they went.
pub fn run(args: &[String]) -> Result<Tally> {
    prerequisites::ensure()?;
    if !args.is_empty() {
        return cargo_test(&selection(args));
    }
    // `--all-targets` leaves doc tests out, so they are a run of their own.
    let mut tally = cargo_test(&words("--workspace --all-targets"))?;
    tally += cargo_test(&words("--workspace --doc"))?;
    tally += neighbour::run()?;
    tally += run_mutants();
    Ok(tally)
}

/// What a narrowed run passes to cargo: all packages, unless the caller names some.
fn selection(args: &[String]) -> Vec<String> {
    let ours = args.iter().take_while(|arg| *arg != "--");
    let names_package = |arg: &String| arg.starts_with("-p") || arg.starts_with("--package");
    let mut selection = if ours.into_iter().any(names_package) {
        Vec::new()
    } else {
        words("--workspace")
    };
    selection.extend_from_slice(args);
    selection
}

fn cargo_test(args: &[String]) -> Result<Tally> {
    println!("\n== cargo test {}", args.join(" "));
    let mut tally = Tally::default();
    let mut command = cargo("test");
    command.arg("--no-fail-fast").args(args);
    let status = cargo::run_watched(&mut command, |line| {
        tally += Tally::of_line(line).unwrap_or_default()
    })?;
    if !status.success() && tally.is_good() {
        // It did not compile, or a test process died before it could sum up: that must not read as "0 failed".
        eprintln!("error: cargo test failed outside of any test, see above; counted as one failure");
        tally.failed += 1;
    }
    Ok(tally)
}

/// A mutant that cannot even be tried is a failure like one that survives, and must not hide the sum.
fn run_mutants() -> Tally {
    println!("\n== mutants");
    mutants::run(&mutants::Site::of_workspace(), None).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        Tally {
            failed: 1,
            ..Tally::default()
        }
    })
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_runs_in_all_packages() {
        assert_eq!(
            selection(&words("fence -- --exact")),
            words("--workspace fence -- --exact")
        );
    }

    #[test]
    fn a_named_package_is_taken_alone() {
        assert_eq!(selection(&words("-p semel-core")), words("-p semel-core"));
        assert_eq!(
            selection(&words("--package=semel-core")),
            words("--package=semel-core")
        );
        assert_eq!(selection(&words("x -- -p")), words("--workspace x -- -p"));
    }
}
