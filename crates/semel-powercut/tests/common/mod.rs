//! Running a database under the recorder and judging the images.

#![allow(dead_code)] // each test binary uses its part

use std::collections::HashSet;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use semel_powercut::{Image, Log, Recorder, Survive, Vfs};

/// Opens `t.db` in `dir` through the VFS, with the given pragmas.
pub fn open(vfs: &Vfs, dir: &Path, pragmas: &str) -> Connection {
    let path = dir.join("t.db");
    let db = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), vfs.name()).unwrap();
    db.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    db.execute_batch(pragmas).unwrap();
    db.execute_batch("CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, pad BLOB)")
        .unwrap();
    db
}

/// Inserts one row in a transaction of its own and marks it.
pub fn commit(db: &Connection, recorder: &Recorder, n: u64) {
    db.execute("INSERT INTO t VALUES (?1, randomblob(300))", [n as i64])
        .unwrap();
    recorder.mark(n);
}

/// What opening an image showed.
#[derive(Debug, Default)]
pub struct Verdict {
    pub corrupt: bool,
    pub missing: usize,
    pub unmarked: usize,
}

/// Opens the image and looks for the marked rows.
pub fn judge(image: &Image, marked: &[u64]) -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    image.write_to(dir.path()).unwrap();
    let Ok(rows) = read(&dir.path().join("t.db")) else {
        return Verdict {
            corrupt: true,
            ..Verdict::default()
        };
    };
    let missing = marked.iter().filter(|n| !rows.contains(n)).count();
    Verdict {
        corrupt: false,
        missing,
        unmarked: rows.len() + missing - marked.len(),
    }
}

fn read(path: &Path) -> Result<HashSet<u64>, Box<dyn std::error::Error>> {
    let db = Connection::open(path)?;
    db.execute_batch("PRAGMA synchronous = OFF")?;
    let check: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    if check != "ok" {
        return Err(check.into());
    }
    if !db.table_exists(None, "t")? {
        return Ok(HashSet::new());
    }
    let mut query = db.prepare("SELECT n FROM t")?;
    let rows = query.query_map([], |row| row.get::<_, i64>(0))?;
    Ok(rows.map(|n| n.map(|n| n as u64)).collect::<Result<_, _>>()?)
}

/// The sum over many cuts.
#[derive(Debug, Default)]
pub struct Tally {
    pub cuts: usize,
    pub corrupt: usize,
    pub lossy: usize,
    pub missing: usize,
    /// Images with a row whose commit had not returned at the cut.
    pub ahead: usize,
}

/// Cuts the power `cuts` times at pseudo-random points.
pub fn many_cuts(log: &Log, cuts: u64, survive: Survive) -> Tally {
    let mut tally = Tally::default();
    for seed in 0..cuts {
        let cut = (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) as usize % (log.events() + 1);
        let verdict = judge(&log.image(cut, seed, survive), &log.marks_before(cut));
        tally.cuts += 1;
        tally.corrupt += usize::from(verdict.corrupt);
        tally.lossy += usize::from(verdict.missing > 0);
        tally.missing += verdict.missing;
        tally.ahead += usize::from(verdict.unmarked > 0);
    }
    println!("{survive:?} over {} events: {tally:?}", log.events());
    tally
}

/// Asserts that no cut loses a marked row or damages the database.
pub fn assert_nothing_lost(log: &Log, cuts: u64) {
    for survive in [Survive::None, Survive::Random, Survive::All] {
        let tally = many_cuts(log, cuts, survive);
        assert_eq!((tally.corrupt, tally.missing), (0, 0), "{survive:?}: {tally:?}");
    }
}
