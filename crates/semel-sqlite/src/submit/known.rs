//! Submissions that were sent before.

use rusqlite::params;

use semel_core::error::StoreError;
use semel_core::job::Outcome;
use semel_core::store::{Admitted, Submitted};
use semel_core::submission::Prepared;
use semel_core::view::HolderView;

use crate::fail::Fail;
use crate::inspect;
use crate::ledger;
use crate::rows::{self, IdBytes};
use crate::statements::Sql;
use crate::submit::absorb::answer;
use crate::submit::holder::{found, view};
use crate::tx::Tx;

/// Remembers what comes of a submission; if it is known, its first answer.
pub fn remember(tx: &mut Tx<'_>, token: &IdBytes, came_of_it: i64) -> Result<Option<Submitted>, Fail> {
    if tx.is_surely_new(token) || tx.token(token)?.is_none() {
        tx.remember_token(token, came_of_it)?;
        return Ok(None);
    }
    if let Some(answer) = known(tx, token)? {
        return Ok(Some(answer));
    }
    // The job it once named was removed with its queue: this is a new submission.
    let moved = tx
        .statements
        .get(Sql::TokenMove)?
        .execute(params![token, came_of_it])?;
    if moved == 0 {
        tx.remember_token(token, came_of_it)?;
    }
    Ok(None)
}

pub(super) fn answered_before(tx: &mut Tx<'_>, prepared: &Prepared) -> Result<Option<Submitted>, Fail> {
    let token = rows::token_bytes(&prepared.submission.token, tx.ns);
    known(tx, &token)
}

/// The first answer to a submission that was sent before (contract 3.5).
fn known(tx: &mut Tx<'_>, token: &[u8]) -> Result<Option<Submitted>, Fail> {
    match tx.token(token)? {
        None => Ok(None),
        Some(seq) if seq > 0 => born_before(tx, seq),
        Some(entry) => absorbed_before(tx, entry.saturating_neg()),
    }
}

fn born_before(tx: &mut Tx<'_>, seq: i64) -> Result<Option<Submitted>, Fail> {
    let Some(row) = tx.life(seq)? else { return Ok(None) };
    let (_, task) = tx.names(row.lane)?;
    let whole = inspect::whole_job(&mut tx.statements, seq)?;
    let whole = whole.ok_or_else(|| Fail::Store(StoreError::corrupt("a life without its job")))?;
    Ok(Some(Submitted::Job(Box::new(Admitted {
        outcome: if whole.born_deferred {
            Outcome::Deferred
        } else {
            Outcome::Accepted
        },
        job: HolderView {
            id: whole.id,
            task,
            state: row.life.state(tx.now),
            enqueued_at: whole.enqueued_at,
        },
        key: whole.digest,
        would: whole.would,
        collides_with: whole.collides_with,
    }))))
}

fn absorbed_before(tx: &mut Tx<'_>, entry: i64) -> Result<Option<Submitted>, Fail> {
    tx.write_ledger()?;
    let Some(kept) = ledger::find(&mut tx.statements, entry)? else {
        return Ok(None);
    };
    let entries = kept.entries();
    let Some(first) = entries.iter().find(|found| found.n == entry) else {
        return Ok(None);
    };
    // The job it was answered with is gone, and that it followed another one is no answer.
    if first.made_a_job {
        return Ok(None);
    }
    let Some(row) = tx.find(&rows::id_from(&first.holder))? else {
        return Ok(None);
    };
    let Some(found) = found(tx, row.seq)? else {
        return Ok(None);
    };
    let differs = inspect::pointers(first.differs)?;
    let job = view(tx, &found);
    Ok(Some(answer(first.outcome, job, Some(first.digest), differs)))
}
