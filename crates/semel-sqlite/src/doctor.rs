//! Checks the invariants on live data and repairs what can be derived (contract 9.5).

use std::collections::HashSet;

use rusqlite::{Connection, params};

use semel_core::store::Finding;

use crate::fail::Fail;
use crate::keys::{self, Place};
use crate::ledger;
use crate::statements::Statements;

/// A broken invariant: how it is found, and the statements that mend it.
struct Check {
    invariant: &'static str,
    what: &'static str,
    /// Gives one number: how many.
    find: &'static str,
    mend: &'static [&'static str],
}

const CHECKS: &[Check] = &[
    Check {
        invariant: "I13",
        what: "lives without a job, or jobs without a life",
        find: "SELECT (SELECT count(*) FROM life WHERE seq NOT IN (SELECT seq FROM job)) + (SELECT count(*) FROM job j WHERE j.seq NOT IN (SELECT seq FROM life) AND (j.birth IS NULL OR j.seq <= coalesce((SELECT value FROM floor WHERE name = 'born'), 0)))",
        mend: &["DELETE FROM life WHERE seq NOT IN (SELECT seq FROM job)",
               "DELETE FROM job WHERE seq NOT IN (SELECT seq FROM life)"],
    },
    Check {
        invariant: "I2",
        what: "waiting jobs that are not in the order of dispatch",
        find: "SELECT count(*) FROM life l JOIN lane a ON a.lane = l.lane WHERE l.phase = 0 AND a.removed = 0 AND NOT EXISTS
               (SELECT 1 FROM ready r WHERE r.lane = l.lane AND r.nprio = l.nprio AND r.run_at = l.run_at AND r.seq = l.seq)",
        mend: &["INSERT OR IGNORE INTO ready (lane, nprio, run_at, seq) SELECT lane, nprio, run_at, seq FROM life WHERE phase = 0"],
    },
    Check {
        invariant: "I8",
        what: "places in the order of dispatch without a job that waits there",
        find: "SELECT count(*) FROM ready r WHERE NOT EXISTS (SELECT 1 FROM life l WHERE l.seq = r.seq AND l.phase = 0
               AND l.lane = r.lane AND l.nprio = r.nprio AND l.run_at = r.run_at)",
        mend: &["DELETE FROM ready WHERE NOT EXISTS (SELECT 1 FROM life l WHERE l.seq = ready.seq AND l.phase = 0
               AND l.lane = ready.lane AND l.nprio = ready.nprio AND l.run_at = ready.run_at)"],
    },
    Check {
        invariant: "I11",
        what: "running jobs whose lease nobody watches",
        find: "SELECT count(*) FROM life l JOIN lane a ON a.lane = l.lane WHERE a.removed = 0 AND l.phase = 1 AND NOT EXISTS (SELECT 1 FROM lease e WHERE e.fence = l.fence AND e.until < 9223372036854775807)",
        mend: &["UPDATE life SET phase = 0, until = NULL WHERE phase = 1 AND NOT EXISTS (SELECT 1 FROM lease e WHERE e.fence = life.fence AND e.until < 9223372036854775807)",
               "INSERT OR IGNORE INTO ready (lane, nprio, run_at, seq) SELECT lane, nprio, run_at, seq FROM life WHERE phase = 0"],
    },
    Check {
        invariant: "I13",
        what: "keys without a job",
        find: "SELECT count(*) FROM key k WHERE NOT EXISTS (SELECT 1 FROM job j WHERE j.seq = coalesce(k.seq, k.generation))",
        mend: &["DELETE FROM key WHERE NOT EXISTS (SELECT 1 FROM job j WHERE j.seq = coalesce(key.seq, key.generation))"],
    },
    Check {
        invariant: "I1",
        what: "keys with two owners that both have not let go",
        find: "SELECT count(*) FROM (SELECT j.digest FROM life l JOIN job j ON j.seq = l.seq JOIN lane a ON a.lane = l.lane
               WHERE a.removed = 0 AND l.hold IS NOT NULL AND l.hold & 64 = 0 AND l.phase < 4 AND l.expires_at IS NULL GROUP BY j.digest HAVING count(*) > 1)",
        mend: &[],
    },
    Check {
        invariant: "I25",
        what: "lanes whose numbers of jobs are wrong",
        find: "SELECT count(*) FROM lane a LEFT JOIN (SELECT l.lane,
                 sum(l.phase = 0) w, sum(l.phase = 1) r, sum(l.phase = 2) d, sum(l.phase = 3) p, sum(l.phase = 4) c, sum(l.phase = 5) f, sum(l.phase = 6) x
               FROM life l JOIN job j ON j.seq = l.seq WHERE j.input IS NOT NULL GROUP BY l.lane) n ON n.lane = a.lane
               WHERE (a.waiting, a.running, a.deferred, a.parked, a.complete, a.failed, a.cancelled)
               IS NOT (coalesce(n.w, 0), coalesce(n.r, 0), coalesce(n.d, 0), coalesce(n.p, 0), coalesce(n.c, 0), coalesce(n.f, 0), coalesce(n.x, 0))",
        mend: &["UPDATE lane SET (waiting, running, deferred, parked, complete, failed, cancelled) = (SELECT
                 coalesce(sum(l.phase = 0), 0), coalesce(sum(l.phase = 1), 0), coalesce(sum(l.phase = 2), 0), coalesce(sum(l.phase = 3), 0),
                 coalesce(sum(l.phase = 4), 0), coalesce(sum(l.phase = 5), 0), coalesce(sum(l.phase = 6), 0)
               FROM life l JOIN job j ON j.seq = l.seq WHERE l.lane = lane.lane AND j.input IS NOT NULL)"],
    },
    Check {
        invariant: "I8",
        what: "jobs in a rare phase that are not listed, or listed in another",
        find: "SELECT (SELECT count(*) FROM life l WHERE l.phase IN (2, 3, 5, 6) AND NOT EXISTS (SELECT 1 FROM rare r WHERE r.phase = l.phase AND r.lane = l.lane AND r.seq = l.seq))
               + (SELECT count(*) FROM rare r WHERE NOT EXISTS (SELECT 1 FROM life l WHERE l.seq = r.seq AND l.phase = r.phase AND l.lane = r.lane))",
        mend: &["DELETE FROM rare", "INSERT INTO rare (phase, lane, seq) SELECT phase, lane, seq FROM life WHERE phase IN (2, 3, 5, 6)"],
    },
    Check {
        invariant: "I13",
        what: "followers whose predecessor has ended or is gone",
        find: "SELECT count(*) FROM follow f LEFT JOIN life l ON l.seq = f.holder WHERE l.seq IS NULL OR l.phase IN (4, 5, 6)",
        mend: &[],
    },
];

/// Runs every check; `repair` mends what can be mended.
pub fn examine(connection: &Connection, repair: bool) -> Result<Vec<Finding>, Fail> {
    let mut findings = Vec::new();
    let health: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if health != "ok" {
        findings.push(Finding {
            invariant: "I30",
            what: format!("the file is damaged: {health}"),
            repaired: false,
        });
    }
    let mut broken = Vec::new();
    for check in CHECKS {
        let found: i64 = connection.query_row(check.find, params![], |row| row.get(0))?;
        if found > 0 {
            broken.push((check, found));
        }
        // In order: what one check mends, a later one may have to follow.
        if repair {
            check
                .mend
                .iter()
                .try_for_each(|sql| connection.execute(sql, []).map(|_| ()))?;
        }
    }
    findings.extend(examine_keys(connection, repair)?);
    findings.extend(examine_ledger(connection)?);
    for (check, found) in broken {
        let left: i64 = connection.query_row(check.find, [], |row| row.get(0))?;
        findings.push(Finding {
            invariant: check.invariant,
            what: format!("{found} {}", check.what),
            repaired: repair && left == 0,
        });
    }
    Ok(findings)
}

/// The owners of keys that are in the log rather than in the index.
fn examine_keys(connection: &Connection, repair: bool) -> Result<Vec<Finding>, Fail> {
    let mut statements = Statements::new(connection);
    let logged = keys::logged(&mut statements)?;
    let mut findings = Vec::new();
    let mut finding = |found: usize, what: &str, repaired: bool| {
        if found > 0 {
            findings.push(Finding {
                invariant: "I13",
                what: format!("{found} {what}"),
                repaired,
            });
        }
    };
    let mut is_job = connection.prepare("SELECT 1 FROM job WHERE seq = ?1")?;
    let mut orphans: Vec<Place> = Vec::new();
    for (place, seq) in &logged {
        if !is_job.exists([seq])? {
            orphans.push(*place);
        }
    }
    if repair && !orphans.is_empty() {
        keys::forget_logged(&mut statements, &orphans)?;
    }
    finding(orphans.len(), "new keys without a job", repair);
    let owners: HashSet<(i64, i64)> = logged
        .iter()
        .map(|((_, generation), seq)| (*generation, *seq))
        .collect();
    let mut unindexed = connection.prepare(UNINDEXED_HOLDERS)?;
    let mut lost = 0;
    for holder in unindexed.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))? {
        lost += usize::from(!owners.contains(&holder?));
    }
    finding(lost, "jobs that hold a key which does not lead to them", false);
    Ok(findings)
}

/// Entries that cannot be read are told; what they said is lost.
fn examine_ledger(connection: &Connection) -> Result<Option<Finding>, Fail> {
    let broken = ledger::broken(&mut Statements::new(connection))?;
    Ok((broken > 0).then(|| Finding {
        invariant: "I30",
        what: format!("{broken} rows of the ledger cannot be read to their end"),
        repaired: false,
    }))
}

/// Jobs that have not let go of a key whose index does not have them.
const UNINDEXED_HOLDERS: &str = "SELECT coalesce(l.generation, l.seq), l.seq FROM life l WHERE l.hold IS NOT NULL AND l.hold & 64 = 0
    AND (coalesce(l.generation, l.seq), l.seq) NOT IN (SELECT k.generation, coalesce(k.seq, k.generation) FROM key k)";
