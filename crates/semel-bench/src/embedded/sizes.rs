//! Bytes on disk, of jobs and of keys.

use std::path::Path;

use anyhow::{Context, Result};
use rusqlite::Connection;

use crate::embedded::Run;
use crate::embedded::file_rig::{Fill, preload};
use crate::load::{Kind, Load};

/// Compares files with no jobs, with plain jobs, and with the same jobs made unique.
pub(crate) fn measure(run: &mut Run<'_>) -> Result<()> {
    let jobs = run.bench.settings.sized;
    let empty = size_with(run, Kind::Plain, 0)?;
    let plain = size_with(run, Kind::Plain, jobs)?;
    let unique = size_with(run, Kind::Unique, jobs)?;
    run.bench
        .report
        .add("mem_job", (plain - empty) / jobs as f64, "bytes");
    run.bench
        .report
        .add("mem_dedupe", (unique - plain) / jobs as f64, "bytes");
    Ok(())
}

fn size_with(run: &mut Run<'_>, kind: Kind, jobs: usize) -> Result<f64> {
    let path = run.files.fresh()?;
    let load = Load::new(run.bench.settings.seed)?;
    preload(
        &path,
        &run.bench.handle(),
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
