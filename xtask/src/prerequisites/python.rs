//! Python packages the tests use, in environments of their own below `target/`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo::target;

/// What is installed, in which folder: versions are fixed, so that a test fails for what changed here.
const ENVIRONMENTS: &[(&str, &[&str])] = &[
    (
        "python",
        &["schemathesis==4.32.5", "openapi-python-client==0.29.1"],
    ),
    // One S3 server keeps what it is told, the other is a second opinion.
    ("s3-servers", &["ministack==1.5.33", "moto[s3,server]==5.2.5"]),
];

/// Whether Python can make environments.
pub fn makes_environments() -> bool {
    Command::new("python3")
        .args(["-c", "import ensurepip, venv"])
        .output()
        .is_ok_and(|out| out.status.success())
}

/// Makes the environments that are not there, or not of today's packages.
pub fn ensure() -> Result<()> {
    ENVIRONMENTS
        .iter()
        .try_for_each(|(folder, packages)| ensure_one(&target().join(folder), packages))
}

fn ensure_one(folder: &Path, packages: &[&str]) -> Result<()> {
    let wanted = packages.join("\n");
    let mark = folder.join("packages.txt");
    if std::fs::read_to_string(&mark).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    println!("installing {}", packages.join(" "));
    run(Command::new("python3")
        .args(["-m", "venv", "--clear"])
        .arg(folder))?;
    run(Command::new(folder.join("bin/pip"))
        .args(["install", "--quiet", "--disable-pip-version-check"])
        .args(packages))?;
    // Last, so that what was interrupted is begun again.
    std::fs::write(mark, wanted).context("could not note what was installed")
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
