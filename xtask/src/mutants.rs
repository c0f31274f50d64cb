//! `cargo xtask mutants`: a test suite is worth what it catches.
//!
//! `mutants/mutants.toml` lists bugs that other queues really had, each as one change of the SQLite store.
//! Every mutant is built as a package of its own and must fail the conformance case that cites the clause it
//! breaks. The unchanged store, the control, must pass the same cases: otherwise a failure would prove nothing.

mod build;
mod catalogue;
mod layout;
mod manifest;
mod trial;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};

use crate::cargo;
use crate::tally::Tally;
use build::Executables;
use catalogue::{Catalogue, Mutant};
use trial::Verdict;

/// The name of the unchanged copy among the mutants.
const CONTROL: &str = "control";

/// Where a round of mutants takes place.
pub struct Site {
    /// The workspace whose store is to be broken.
    pub root: PathBuf,
    /// The directory everything generated goes to.
    pub dir: PathBuf,
}

impl Site {
    /// The workspace xtask belongs to.
    pub fn of_workspace() -> Self {
        Self {
            root: cargo::root(),
            dir: cargo::target().join("mutants"),
        }
    }

    fn catalogue(&self) -> PathBuf {
        self.root.join("mutants/mutants.toml")
    }

    fn store(&self) -> PathBuf {
        self.root.join("crates/semel-sqlite")
    }

    /// The generated workspace: one package per mutant.
    fn workspace(&self) -> PathBuf {
        self.dir.join("ws")
    }

    fn package(&self, mutant: &str) -> PathBuf {
        self.workspace().join(mutant)
    }

    fn log(&self, mutant: &str, case: &str) -> PathBuf {
        self.dir.join("log").join(format!("{mutant}.{case}.log"))
    }
}

/// Runs all mutants, or the one named by `--only`.
pub fn command(args: &[String]) -> Result<ExitCode> {
    let only = match args {
        [] => None,
        [flag, name] if flag == "--only" => Some(name.as_str()),
        other => bail!("mutants does not understand {other:?}\nhint: cargo xtask mutants [--only NAME]"),
    };
    let tally = run(&Site::of_workspace(), only)?;
    Ok(cargo::exit_code(tally.is_good()))
}

/// Tries the mutants and counts a caught one as passed, any other as failed.
pub fn run(site: &Site, only: Option<&str>) -> Result<Tally> {
    let mutants = Catalogue::read(&site.catalogue())?.select(only)?;
    layout::write(site, &mutants)?;
    let built = build::conformance_tests(site)?;
    check_control(site, &built, &mutants)?;
    let mut tried = Vec::new();
    for mutant in &mutants {
        let verdict = match built.get(&mutant.name) {
            Some(executable) => trial::run(site, &mutant.name, &mutant.case, executable)?,
            None => Verdict::DoesNotBuild,
        };
        tried.push((mutant, verdict));
    }
    Ok(report(site, &tried))
}

fn check_control(site: &Site, built: &Executables, mutants: &[Mutant]) -> Result<()> {
    let executable = built
        .get(CONTROL)
        .context("the unchanged store does not build, see above")?;
    let cases: BTreeSet<&str> = mutants.iter().map(|mutant| mutant.case.as_str()).collect();
    for case in cases {
        let verdict = trial::run(site, CONTROL, case, executable)?;
        ensure!(
            verdict == Verdict::Passed,
            "the unchanged store must pass {case}, but the case {}\nhint: its output is in {}",
            verdict.in_words(),
            site.log(CONTROL, case).display(),
        );
    }
    Ok(())
}

fn report(site: &Site, tried: &[(&Mutant, Verdict)]) -> Tally {
    let is_caught = |(mutant, verdict): &&(&Mutant, Verdict)| verdict.catches(mutant.may_hang);
    let caught = tried.iter().filter(is_caught).count();
    print!("{}", table(tried));
    for (mutant, verdict) in tried.iter().filter(|row| !is_caught(row)) {
        println!("\nnot caught: {} — the case {}", mutant.name, verdict.in_words());
        println!("  the bug: {}", mutant.lesson);
        if *verdict == Verdict::DoesNotBuild {
            println!("  the errors are above, in {}/", mutant.name);
        } else {
            println!("  its output: {}", site.log(&mutant.name, &mutant.case).display());
        }
    }
    let tally = Tally {
        passed: caught as u64,
        failed: (tried.len() - caught) as u64,
        skipped: 0,
    };
    let word = if tally.is_good() { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {word}. {} passed; {} failed; 0 ignored",
        tally.passed, tally.failed
    );
    println!("caught {caught} of {}", tried.len());
    tally
}

fn table(tried: &[(&Mutant, Verdict)]) -> String {
    let mut rows = vec![["mutant", "clause", "case", "caught"].map(str::to_owned)];
    for (mutant, verdict) in tried {
        let caught = verdict.in_table(mutant.may_hang).to_owned();
        rows.push([
            mutant.name.clone(),
            mutant.clause.clone(),
            mutant.case.clone(),
            caught,
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let (name, clause, case) = (width(0), width(1), width(2));
    rows.iter()
        .map(|row| {
            format!(
                "{:name$}  {:clause$}  {:case$}  {}\n",
                row[0], row[1], row[2], row[3]
            )
        })
        .collect()
}

#[cfg(test)]
mod tests;
