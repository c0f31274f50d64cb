//! What the tests need from the registries of other languages, at fixed versions, in folders of its own under `target`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// A package of npm, in `target/node/node_modules`.
struct Node {
    name: &'static str,
    version: &'static str,
}

const NODE: &[Node] = &[Node {
    name: "node-resque",
    version: "9.7.1",
}];

/// Installs what is missing.
pub fn ensure() -> Result<()> {
    let folder = target().join("node");
    let missing = NODE
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

impl Node {
    fn is_present(&self, folder: &Path) -> bool {
        let about = folder.join("node_modules").join(self.name).join("package.json");
        let version = format!("\"version\": \"{}\"", self.version);
        std::fs::read_to_string(about).is_ok_and(|about| about.contains(&version))
    }
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target")
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
