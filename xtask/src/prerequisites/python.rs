//! Python packages the tests use, in an environment of their own below `target/`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo::target;

/// What is installed, and how: versions are fixed, so that a test fails for what changed here.
const PACKAGES: &[&str] = &["schemathesis==4.32.5", "openapi-python-client==0.29.1"];

/// Whether Python can make environments.
pub fn makes_environments() -> bool {
    Command::new("python3")
        .args(["-c", "import ensurepip, venv"])
        .output()
        .is_ok_and(|out| out.status.success())
}

/// Makes the environment where it is not there, or not of today's packages.
pub fn ensure() -> Result<()> {
    let (dir, wanted) = (environment(), PACKAGES.join("\n"));
    let mark = dir.join("packages.txt");
    if std::fs::read_to_string(&mark).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    println!("installing {}", PACKAGES.join(" "));
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&dir))?;
    run(Command::new(dir.join("bin/pip"))
        .args(["install", "--quiet", "--disable-pip-version-check"])
        .args(PACKAGES))?;
    // Last, so that what was interrupted is begun again.
    std::fs::write(mark, wanted).context("could not note what was installed")
}

fn environment() -> PathBuf {
    target().join("python")
}

fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("could not start {command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed, see above");
    }
    Ok(())
}
