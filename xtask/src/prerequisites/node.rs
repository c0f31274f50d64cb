//! Packages of npm the tests use, at fixed versions, in a folder of their own below `target/`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo::target;

/// One of them.
struct Package {
    name: &'static str,
    version: &'static str,
}

const PACKAGES: &[Package] = &[Package {
    name: "node-resque",
    version: "9.7.1",
}];

/// Installs what is missing.
pub fn ensure() -> Result<()> {
    let folder = target().join("node");
    let missing = PACKAGES
        .iter()
        .filter(|package| !package.is_present(&folder))
        .map(|package| format!("{}@{}", package.name, package.version));
    let missing: Vec<String> = missing.collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("installing {}", missing.join(" "));
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let mut npm = Command::new("npm");
    npm.args([
        "install",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
        "--prefix",
    ])
    .arg(&folder)
    .args(&missing);
    run(&mut npm)
}

impl Package {
    fn is_present(&self, folder: &Path) -> bool {
        let about = folder.join("node_modules").join(self.name).join("package.json");
        let version = format!("\"version\": \"{}\"", self.version);
        std::fs::read_to_string(about).is_ok_and(|about| about.contains(&version))
    }
}

fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("starting {command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed, see above");
    }
    Ok(())
}
