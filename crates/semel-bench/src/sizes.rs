//! Bytes on disk, of jobs and of keys.

use std::path::Path;

use anyhow::{Context, Result};
use rusqlite::Connection;

use crate::bench::Bench;
use crate::load::{Kind, Load};
use crate::rig::{Fill, preload};

/// Compares files with no jobs, with plain jobs, and with the same jobs made unique.
pub(crate) fn measure(bench: &mut Bench) -> Result<()> {
    let jobs = bench.settings.sized;
    let empty = size_with(bench, Kind::Plain, 0)?;
    let plain = size_with(bench, Kind::Plain, jobs)?;
    let unique = size_with(bench, Kind::Unique, jobs)?;
    bench
        .report
        .add("mem_job", (plain - empty) / jobs as f64, "bytes");
    bench
        .report
        .add("mem_dedupe", (unique - plain) / jobs as f64, "bytes");
    Ok(())
}

fn size_with(bench: &mut Bench, kind: Kind, jobs: usize) -> Result<f64> {
    let path = bench.fresh_file()?;
    let load = Load::new(bench.settings.seed)?;
    preload(
        &path,
        &bench.handle(),
        &load,
        &Fill {
            kind,
            jobs,
            priority: 0,
        },
    )?;
    size(&path)
}

/// The size of a closed file with everything in it, the log emptied.
fn size(path: &Path) -> Result<f64> {
    let connection = Connection::open(path).context("opening the file to checkpoint it")?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    drop(connection);
    let file = std::fs::metadata(path).with_context(|| format!("looking at {}", path.display()))?;
    Ok(file.len() as f64)
}
