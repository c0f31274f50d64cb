//! Running a file in: a log that still grows is slower to sync than one that is written over.
//!
//! Growing a file makes the file system commit its own journal with every sync. A store that has been at
//! work for a while does not pay that any more, nor does raw SQLite; a fresh file would be measured by it.

use std::io::Read;
use std::path::Path;

use anyhow::Result;

use semel_core::job::Outcome;

use crate::rig::Rig;

/// Bytes of a large input.
const LARGE: usize = 200_000;
/// Large inputs in a call.
const IN_A_CALL: usize = 100;
/// Calls with large inputs at most: several times what a log may hold before it is restarted.
const LARGE_CALLS: usize = 12;
/// Small jobs at most after these: a restart may wait for the copying of what is in the log.
const SMALL_JOBS: usize = 500;

/// Lets the store fill its log and begin it anew. No job is left waiting that was not before.
pub(crate) fn run_in(rig: &Rig, path: &Path) -> Result<()> {
    let log = path.with_extension("db-wal");
    rig.block_on(live(rig, 1, 1))?;
    let before = restarts(&log);
    let large = std::iter::repeat_n((IN_A_CALL, LARGE), LARGE_CALLS);
    let small = std::iter::repeat_n((1, 1), SMALL_JOBS);
    for (jobs, bytes) in large.chain(small) {
        rig.block_on(live(rig, jobs, bytes))?;
        if restarts(&log) != before {
            return Ok(());
        }
    }
    eprintln!("  the log was never restarted: the figures are those of a growing file");
    Ok(())
}

async fn live(rig: &Rig, jobs: usize, bytes: usize) -> Result<()> {
    let batch = (0..jobs).map(|_| rig.load.filler(bytes)).collect::<Result<_>>()?;
    rig.submit(batch, Outcome::Accepted).await?;
    let claimed = rig.claim(jobs).await?;
    rig.complete(claimed).await
}

/// How often the log was begun anew, as its header says; nothing if there is none.
fn restarts(log: &Path) -> Option<[u8; 4]> {
    let mut header = [0u8; 16];
    std::fs::File::open(log)
        .and_then(|mut file| file.read_exact(&mut header))
        .ok()?;
    header.last_chunk().copied()
}
