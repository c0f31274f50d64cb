//! A fresh crate that uses Semel beside another library that brings SQLite along.
//!
//! Only one version of SQLite can be linked into a program. Our range of rusqlite is wide so that a
//! user's sqlx finds one that suits both; this shows that it does, and that the store builds with it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::cargo::{cargo, root, target};
use crate::tally::Tally;

/// Resolves and checks the crate; one test.
pub fn run() -> Result<Tally> {
    println!("\n== a crate with semel and sqlx");
    let dir = target().join("neighbour");
    write(&dir, &root()).context("writing the crate")?;
    // A lock file of an earlier run would hide that today's versions no longer fit together.
    let _ = fs::remove_file(dir.join("Cargo.lock"));
    let status = cargo("check")
        .current_dir(&dir)
        .env("CARGO_TARGET_DIR", dir.join("target"))
        .status()
        .context("could not start cargo check")?;
    println!(
        "test semel_and_sqlx_build_together ... {}",
        if status.success() { "ok" } else { "FAILED" }
    );
    Ok(Tally {
        passed: u64::from(status.success()),
        failed: u64::from(!status.success()),
        ..Tally::default()
    })
}

fn write(dir: &Path, root: &Path) -> Result<()> {
    let semel = root.join("crates/semel");
    let manifest = format!(
        r#"[package]
name = "neighbour"
version = "0.1.0"
edition = "2024"

[workspace]

[dependencies]
semel = {{ path = {semel:?} }}
sqlx = {{ version = "0.9", default-features = false, features = ["sqlite", "runtime-tokio"] }}
"#
    );
    let main = r#"//! Both in one program.

use sqlx::sqlite::SqlitePoolOptions;

/// Never called: it has to compile.
pub async fn both() -> Result<(), Box<dyn std::error::Error>> {
    let pool = SqlitePoolOptions::new().connect("sqlite:orders.db").await?;
    let jobs = semel::connect("sqlite:jobs.db").await?;
    jobs.submit_json("charge", "ORD-1").idempotency_key("ORD-1").await?;
    pool.close().await;
    Ok(())
}

fn main() {}
"#;
    fs::create_dir_all(dir.join("src"))?;
    fs::write(dir.join("Cargo.toml"), manifest)?;
    fs::write(dir.join("src/main.rs"), main)?;
    Ok(())
}
