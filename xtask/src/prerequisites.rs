//! What the tests need beyond Rust. Missing things are installed where that is possible, never skipped:
//! a test left out for want of a program would look like a test that passed.

mod node;
mod python;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// One thing the tests need.
struct Prerequisite {
    name: &'static str,
    needed_for: &'static str,
    is_present: fn() -> bool,
    debian_packages: &'static [&'static str],
}

/// Everything the tests need; a new store or front end adds its servers here.
const PREREQUISITES: &[Prerequisite] = &[
    Prerequisite {
        name: "a C compiler (cc) with the C library's headers",
        needed_for: "building the bundled SQLite",
        is_present: compiles_c,
        debian_packages: &["gcc", "libc6-dev"],
    },
    Prerequisite {
        name: "Node.js with npm",
        needed_for: "node-resque at the other end of the bridge",
        is_present: || answers("node", "--version") && answers("npm", "--version"),
        debian_packages: &["nodejs", "npm"],
    },
    Prerequisite {
        name: "a Postgres server",
        needed_for: "the outbox and the inbox in a real database",
        is_present: has_postgres,
        debian_packages: &["postgresql"],
    },
    Prerequisite {
        name: "promtool",
        needed_for: "checking the server's metrics",
        is_present: || answers("promtool", "--version"),
        debian_packages: &["prometheus"],
    },
    Prerequisite {
        name: "chromium and chromedriver",
        needed_for: "looking at the dashboard in a browser",
        is_present: || answers("chromium", "--version") && answers("chromedriver", "--version"),
        debian_packages: &["chromium", "chromium-driver"],
    },
    Prerequisite {
        name: "openssl",
        needed_for: "certificates of servers that encrypt",
        is_present: || answers("openssl", "version"),
        debian_packages: &["openssl"],
    },
    Prerequisite {
        name: "Python that makes environments",
        needed_for: "clients made from the server's OpenAPI document, and S3 servers",
        is_present: python::makes_environments,
        debian_packages: &["python3", "python3-venv"],
    },
    Prerequisite {
        name: "setpriv",
        needed_for: "the private servers of the tests of semel-s3",
        is_present: || answers("setpriv", "--version"),
        debian_packages: &["util-linux"],
    },
    Prerequisite {
        name: "redis-server",
        needed_for: "the private servers of the tests of semel-redis",
        is_present: || answers("redis-server", "--version"),
        debian_packages: &["redis-server"],
    },
];

/// Makes sure that everything is there, installing it if we may.
pub fn ensure() -> Result<()> {
    ensure_programs()?;
    node::ensure()?;
    python::ensure()
}

fn ensure_programs() -> Result<()> {
    let missing: Vec<&Prerequisite> = PREREQUISITES
        .iter()
        .filter(|wanted| !(wanted.is_present)())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing
        .iter()
        .flat_map(|wanted| wanted.debian_packages)
        .copied()
        .collect();
    if !may_install() {
        bail!("{}", explain(&missing, &packages));
    }
    install(&packages)?;
    match missing.iter().find(|wanted| !(wanted.is_present)()) {
        Some(still) => bail!("installed {packages:?}, but {} is still not usable", still.name),
        None => Ok(()),
    }
}

fn explain(missing: &[&Prerequisite], packages: &[&str]) -> String {
    let lines: Vec<String> = missing
        .iter()
        .map(|wanted| format!("missing {}, needed for {}", wanted.name, wanted.needed_for))
        .collect();
    format!(
        "{}\nhint: on Debian, as root: apt-get install {}",
        lines.join("\n"),
        packages.join(" ")
    )
}

/// Compiles rather than asks for a version: a compiler without the C library's headers would pass that.
fn compiles_c() -> bool {
    let child = Command::new("cc")
        .args(["-x", "c", "-fsyntax-only", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return false };
    let source = child
        .stdin
        .take()
        .map(|mut stdin| stdin.write_all(b"#include <stdio.h>\n"));
    let status = child.wait();
    source.is_some_and(|written| written.is_ok()) && status.is_ok_and(|status| status.success())
}

/// The server's programs are not on the path: Debian keeps them apart by version.
fn has_postgres() -> bool {
    let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") else {
        return false;
    };
    let complete = |version: std::path::PathBuf| {
        ["initdb", "postgres", "pg_isready"]
            .iter()
            .all(|program| version.join("bin").join(program).is_file())
    };
    versions.flatten().any(|version| complete(version.path()))
}

fn answers(program: &str, argument: &str) -> bool {
    Command::new(program)
        .arg(argument)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn may_install() -> bool {
    let is_root = Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|out| out.stdout.trim_ascii() == b"0");
    is_root && Path::new("/etc/debian_version").exists()
}

fn install(packages: &[&str]) -> Result<()> {
    println!("installing {}", packages.join(" "));
    apt_get(&["update", "-qq"])?;
    let mut args = vec!["install", "-y", "--no-install-recommends"];
    args.extend_from_slice(packages);
    apt_get(&args)
}

fn apt_get(args: &[&str]) -> Result<()> {
    let status = Command::new("apt-get")
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .status()
        .context("could not start apt-get")?;
    if !status.success() {
        bail!("apt-get {} failed, see above", args.join(" "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_use_and_its_remedy() {
        let wanted = Prerequisite {
            name: "a tea pot",
            needed_for: "tea",
            is_present: || false,
            debian_packages: &["pot", "lid"],
        };
        let text = explain(&[&wanted], wanted.debian_packages);
        assert_eq!(
            text,
            "missing a tea pot, needed for tea\nhint: on Debian, as root: apt-get install pot lid"
        );
    }

    #[test]
    fn the_probe_finds_the_compiler_that_linked_this_test() {
        assert!(compiles_c());
    }
}
