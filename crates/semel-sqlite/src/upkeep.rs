//! Housekeeping in small steps: each kind of work does at most `budget` rows in one call.

use rusqlite::{Row, params};

use semel_core::ids::{Digest, Token};
use semel_core::job::Phase;
use semel_core::limits;
use semel_core::store::{UpkeepReport, UpkeepRequest};
use semel_core::time::Millis;

use crate::act;
use crate::claim;
use crate::fail::Fail;
use crate::ledger;
use crate::rows::{self, LifeRow};
use crate::statements::Sql;
use crate::stats;
use crate::tx::Tx;

/// How many entries the ledger had that are gone, as a number that never goes back.
const GONE: &str = "ledger_gone";

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
    tx.write_ledger()?;
    let from = ledger::indexed(&mut tx.statements)?;
    let (mut entries, mut last) = (Vec::new(), from);
    ledger::rows_after(&mut tx.statements, from, |row| {
        for entry in row.entries() {
            last = last.max(entry.n);
            entries.push((entry.digest, entry.n));
        }
        Ok(entries.len() < budget)
    })?;
    if last == from {
        return Ok(());
    }
    report.more |= entries.len() >= budget;
    report.ledger += entries.len() as u64;
    // In the order of the index, each of its pages is touched once.
    entries.sort_unstable();
    for (digest, n) in &entries {
        tx.statements
            .get(Sql::LedgerKeyInsert)?
            .execute(params![digest.as_bytes(), n])?;
    }
    tx.raise_floor("ledger_indexed", last)?;
    entries.dedup_by_key(|(digest, _)| *digest);
    entries
        .iter()
        .try_for_each(|(digest, _)| thin_ledger(tx, digest, budget, report))
}

fn age_ledger(
    tx: &mut Tx<'_>,
    retention: Millis,
    budget: usize,
    report: &mut UpkeepReport,
) -> Result<(), Fail> {
    let over = tx.now.as_millis().saturating_sub(retention.as_millis());
    // Numbers alone do not tell how many there are: those of a busy key are thinned out.
    let there = tx.peek_entry() - 1 - tx.floor(GONE)?;
    let surplus = usize::try_from(there - limits::LEDGER_PER_STORE as i64).unwrap_or(0);
    let entries = ledger::oldest(&mut tx.statements, over, surplus, budget)?;
    report.more |= entries.len() == budget;
    drop_entries(tx, &entries, report)?;
    tx.cache.ledger.drop_runs(&mut tx.statements, tx.ns)
}

/// Removes entries; they stay counted for as long as their key is known.
fn drop_entries(tx: &mut Tx<'_>, entries: &[i64], report: &mut UpkeepReport) -> Result<(), Fail> {
    if let Some(last) = entries.iter().max() {
        tx.raise_floor("ledger", *last)?;
    }
    let removed = ledger::remove(&mut tx.statements, entries)?;
    let before = tx.floor(GONE)?;
    tx.raise_floor(GONE, before + removed.len() as i64)?;
    for gone in removed {
        if gone.ns == tx.ns {
            tx.cache.ledger.forget(gone.token, gone.n);
        }
        let token = rows::token_bytes(&Token::from_bytes(gone.token), gone.ns);
        tx.statements
            .get(Sql::TokenDelete)?
            .execute(params![token, gone.n.saturating_neg()])?;
        tx.statements
            .get(Sql::LedgerKeyDelete)?
            .execute(params![gone.digest.as_bytes(), gone.n])?;
        tx.statements
            .get(Sql::LedgerTotalAdd)?
            .execute(params![gone.digest.as_bytes(), 1])?;
        tx.forget_total(&gone.digest)?;
        report.ledger += 1;
    }
    Ok(())
}

/// Keeps the newest entries of a key that has very many.
fn thin_ledger(
    tx: &mut Tx<'_>,
    digest: &Digest,
    budget: usize,
    report: &mut UpkeepReport,
) -> Result<(), Fail> {
    let count: i64 = tx
        .statements
        .get(Sql::LedgerKeyCount)?
        .query_row([digest.as_bytes()], |row| row.get(0))?;
    if count <= limits::LEDGER_PER_KEY as i64 {
        return Ok(());
    }
    let entries = ledger::of_key(&mut tx.statements, digest, i64::MAX)?;
    let surplus = &entries[limits::LEDGER_PER_KEY.min(entries.len())..];
    report.more |= surplus.len() > budget;
    drop_entries(tx, surplus, report)
}
