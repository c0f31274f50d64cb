//! Housekeeping in small steps: each kind of work does at most `budget` rows in one call.

use std::collections::{BTreeSet, HashMap};

use rusqlite::{Row, params};

use semel_core::ids::Digest;
use semel_core::job::Phase;
use semel_core::limits;
use semel_core::store::{UpkeepReport, UpkeepRequest};
use semel_core::time::Millis;

use crate::act;
use crate::claim;
use crate::fail::Fail;
use crate::rows::{self, LifeRow};
use crate::statements::Sql;
use crate::stats;
use crate::tx::Tx;

/// One round.
pub fn upkeep(tx: &mut Tx<'_>, request: &UpkeepRequest) -> Result<UpkeepReport, Fail> {
    let budget = request.budget.max(1);
    let mut report = UpkeepReport {
        expired: tx.rescue()?,
        ..UpkeepReport::default()
    };
    report.more |= report.expired as usize >= 1_000;
    prune(tx, 0, request.retention.complete, budget, &mut report)?;
    prune(tx, 1, request.retention.failed, budget, &mut report)?;
    stubs(tx, request, budget, &mut report)?;
    sweep(tx, budget, &mut report)?;
    index_ledger(tx, budget, &mut report)?;
    age_ledger(tx, request.retention.ledger, budget, &mut report)?;
    report.more |= claim::forget(tx, budget)?;
    let now = tx.now.as_millis();
    tx.statements
        .get(Sql::GuardPrune)?
        .execute(params![now, budget as i64])?;
    tx.statements
        .get(Sql::DocumentPrune)?
        .execute(params![now, budget as i64])?;
    report.snapshot = stats::snapshot(tx)?;
    Ok(report)
}

/// Jobs whose retention is over: gone, or a stub while they hold a key.
fn prune(
    tx: &mut Tx<'_>,
    kind: i64,
    retention: Millis,
    budget: usize,
    report: &mut UpkeepReport,
) -> Result<(), Fail> {
    let over = tx.now.as_millis().saturating_sub(retention.as_millis());
    let mut left = budget;
    while left > 0 {
        let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?));
        let mut found = tx
            .statements
            .get(Sql::EndedFirst)?
            .query_map(params![tx.ns, kind, over], read)?;
        let first = found.next().transpose()?;
        drop(found);
        let Some((n, seqs)) = first else { return Ok(()) };
        let seqs = rows::unpack(&seqs);
        let now_done = seqs.len().min(left);
        for seq in &seqs[..now_done] {
            prune_one(tx, *seq, kind, over, report)?;
        }
        left -= now_done;
        if now_done == seqs.len() {
            tx.statements
                .get(Sql::EndedDelete)?
                .execute(params![tx.ns, kind, n])?;
        } else {
            let rest = rows::pack(seqs[now_done..].iter().copied());
            tx.statements
                .get(Sql::EndedShrink)?
                .execute(params![tx.ns, kind, n, rest])?;
        }
    }
    report.more = true;
    Ok(())
}

fn prune_one(tx: &mut Tx<'_>, seq: i64, kind: i64, over: i64, report: &mut UpkeepReport) -> Result<(), Fail> {
    let Some(row) = tx.life(seq)? else { return Ok(()) };
    // A job that was retried has ended again, perhaps in another way, or will: a later row says so.
    let of_this_kind = row.life.phase.is_terminal() && i64::from(row.life.phase != Phase::Complete) == kind;
    if !of_this_kind || row.life.finished_at.is_none_or(|at| at.as_millis() > over) {
        return Ok(());
    }
    if row.life.is_holder(tx.now) {
        report.stubbed += u64::from(act::strip(tx, &row)?);
        return Ok(());
    }
    if !act::is_stub(tx, seq)? {
        tx.uncount(&row);
    }
    report.pruned += 1;
    tx.erase(&row)
}

/// Stubs whose key is free again.
fn stubs(
    tx: &mut Tx<'_>,
    request: &UpkeepRequest,
    budget: usize,
    report: &mut UpkeepReport,
) -> Result<(), Fail> {
    let due = params![tx.ns, tx.now.as_millis(), budget as i64];
    let found = tx
        .statements
        .get(Sql::StubDue)?
        .query_map(due, |row| row.get::<_, i64>(0))?;
    let seqs = found.collect::<rusqlite::Result<Vec<_>>>()?;
    report.more |= seqs.len() == budget;
    for seq in seqs {
        let Some(row) = tx.life(seq)? else {
            tx.statements.get(Sql::StubDelete)?.execute([seq])?;
            continue;
        };
        let retention = match row.life.phase {
            Phase::Complete => request.retention.complete,
            _ => request.retention.failed,
        };
        let until = row.life.finished_at.map_or(tx.now, |at| at.plus(retention));
        if row.life.is_holder(tx.now) {
            act::strip(tx, &row)?;
        } else if until > tx.now {
            tx.statements
                .get(Sql::StubPut)?
                .execute(params![seq, tx.ns, until.as_millis()])?;
        } else {
            report.pruned += 1;
            tx.erase(&row)?;
        }
    }
    Ok(())
}

/// Jobs of removed queues: nobody sees them any more, so they are not reported.
fn sweep(tx: &mut Tx<'_>, budget: usize, report: &mut UpkeepReport) -> Result<(), Fail> {
    let found = tx
        .statements
        .get(Sql::LaneRemovedAny)?
        .query_map([tx.ns], |row| row.get::<_, i64>(0))?;
    let lanes = found.collect::<rusqlite::Result<Vec<_>>>()?;
    for lane in lanes {
        let jobs = tx.statements.get(Sql::RemovedJobs)?;
        let found = jobs.query_map(params![lane, 0, budget as i64], |row| row.get::<_, i64>(0))?;
        let seqs = found.collect::<rusqlite::Result<Vec<_>>>()?;
        report.more |= seqs.len() == budget;
        if seqs.len() < budget {
            tx.statements.get(Sql::LaneSwept)?.execute([lane])?;
        }
        for seq in seqs {
            let row = tx
                .statements
                .get(Sql::LifeFind)?
                .query_row([seq], LifeRow::read)?;
            if !act::is_stub(tx, seq)? {
                tx.uncount(&row);
            }
            tx.erase(&row)?;
        }
    }
    Ok(())
}

/// Makes new ledger entries findable by their key.
fn index_ledger(tx: &mut Tx<'_>, budget: usize, report: &mut UpkeepReport) -> Result<(), Fail> {
    let from = tx.floor("ledger_indexed")?;
    let range = tx.statements.get(Sql::LedgerRange)?;
    let found = range.query_map(params![from, budget as i64], |row| {
        Ok((row.get::<_, i64>(0)?, rows::digest(row, 1)?))
    })?;
    let mut entries = found.collect::<rusqlite::Result<Vec<_>>>()?;
    let Some((last, _)) = entries.last().copied() else {
        return Ok(());
    };
    report.more |= entries.len() == budget;
    report.ledger += entries.len() as u64;
    // In the order of the index, each of its pages is touched once.
    entries.sort_by_key(|(n, digest)| (digest.as_ref().map(rows::prefix), *n));
    let mut touched = BTreeSet::new();
    for (n, digest) in entries {
        if let Some(digest) = digest {
            tx.statements
                .get(Sql::LedgerKeyInsert)?
                .execute(params![rows::prefix(&digest), n])?;
            touched.insert(rows::prefix(&digest));
        }
    }
    tx.raise_floor("ledger_indexed", last)?;
    touched
        .into_iter()
        .try_for_each(|prefix| thin_ledger(tx, prefix, budget, report))
}

fn age_ledger(
    tx: &mut Tx<'_>,
    retention: Millis,
    budget: usize,
    report: &mut UpkeepReport,
) -> Result<(), Fail> {
    let over = tx.now.as_millis().saturating_sub(retention.as_millis());
    let crowded = tx.peek_entry() - 1 - limits::LEDGER_PER_STORE as i64;
    let mut found = tx.statements.get(Sql::LedgerOldest)?.query([budget as i64])?;
    let mut entries = Vec::new();
    while let Some(row) = found.next()? {
        if row.get::<_, i64>(0)? > crowded && row.get::<_, i64>(3)? > over {
            break;
        }
        entries.push(read_entry(row)?);
    }
    drop(found);
    report.more |= entries.len() == budget;
    drop_entries(tx, entries, report)
}

type LedgerRow = (i64, Option<Digest>, Vec<u8>);

fn read_entry(row: &Row<'_>) -> rusqlite::Result<LedgerRow> {
    Ok((row.get(0)?, rows::digest(row, 1)?, row.get(2)?))
}

/// Removes entries; they stay counted for as long as their key is known.
fn drop_entries(tx: &mut Tx<'_>, entries: Vec<LedgerRow>, report: &mut UpkeepReport) -> Result<(), Fail> {
    if let Some(last) = entries.iter().map(|(n, ..)| *n).max() {
        tx.raise_floor("ledger", last)?;
    }
    for (n, digest, token) in entries {
        tx.statements.get(Sql::LedgerDelete)?.execute([n])?;
        tx.statements.get(Sql::TokenDelete)?.execute(params![token, -n])?;
        if let Some(digest) = digest {
            tx.statements
                .get(Sql::LedgerKeyDelete)?
                .execute(params![rows::prefix(&digest), n])?;
            tx.statements
                .get(Sql::LedgerTotalAdd)?
                .execute(params![digest.as_bytes(), 1])?;
            tx.forget_total(&digest)?;
        }
        report.ledger += 1;
    }
    Ok(())
}

/// Keeps the newest entries of a key that has very many.
fn thin_ledger(tx: &mut Tx<'_>, prefix: i64, budget: usize, report: &mut UpkeepReport) -> Result<(), Fail> {
    let entries = tx
        .statements
        .get(Sql::LedgerOfPrefix)?
        .query_map([prefix], read_entry)?;
    let entries = entries.collect::<rusqlite::Result<Vec<_>>>()?;
    if entries.len() <= limits::LEDGER_PER_KEY {
        return Ok(());
    }
    let mut kept = HashMap::<Option<Digest>, usize>::new();
    let mut surplus = Vec::new();
    for entry in entries {
        let kept = kept.entry(entry.1).or_insert(0);
        *kept += 1;
        if *kept > limits::LEDGER_PER_KEY {
            surplus.push(entry);
        }
    }
    report.more |= surplus.len() > budget;
    drop_entries(tx, surplus, report)
}
