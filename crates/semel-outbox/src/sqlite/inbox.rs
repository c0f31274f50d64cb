//! Effects on the user's own SQLite database, exactly once (contract 5.4).

use std::time::Duration;

use rusqlite::{Connection, Transaction, params};
use semel_core::ids::Name;
use semel_core::json::Json;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clock::now_millis;
use crate::error::{Error, While};
use crate::inbox::{Delivery, stored};

const FENCE: &str = include_str!("../sql/sqlite/inbox_fence.sql");
const BEGIN: &str = include_str!("../sql/sqlite/inbox_begin.sql");
const OUTPUT: &str = include_str!("../sql/sqlite/inbox_output.sql");
const KEEP: &str = include_str!("../sql/sqlite/inbox_keep.sql");
const PRUNE: &str = include_str!("../sql/sqlite/inbox_prune.sql");
const PRUNE_FENCES: &str = include_str!("../sql/sqlite/inbox_prune_fences.sql");

/// Carries out an effect in the caller's transaction, unless it was carried out before; then its output is given.
///
/// The effect, the record of it and the fence of the delivery commit together. A delivery that is not the newest to
/// have been here is refused with [`Error::Stale`]. The caller commits; a transaction that begins `IMMEDIATE` never
/// has to be tried again. Of an effect that gives an error nothing is left, also where the caller commits all the same.
pub fn once<T, E, F>(
    tx: &Transaction<'_>,
    delivery: impl Into<Delivery>,
    step: &str,
    effect: F,
) -> Result<T, E>
where
    T: Serialize + DeserializeOwned,
    E: From<Error>,
    F: FnOnce(&Transaction<'_>) -> Result<T, E>,
{
    let delivery = delivery.into();
    Name::new(step).map_err(Error::from)?;
    tx.execute_batch("SAVEPOINT semel_inbox").while_("beginning")?;
    let kept = match begin(tx, &delivery, step) {
        Ok(Some(output)) => stored(step, &output).map_err(E::from),
        Ok(None) => run(tx, &delivery, step, effect),
        Err(error) => Err(error.into()),
    };
    let end = match kept {
        Ok(_) => "RELEASE semel_inbox",
        Err(_) => "ROLLBACK TO semel_inbox; RELEASE semel_inbox",
    };
    let ended = tx.execute_batch(end).while_("ending");
    // What the effect said is worth more than that its transaction broke with it.
    let output = kept?;
    ended?;
    Ok(output)
}

fn run<T, E, F>(tx: &Transaction<'_>, delivery: &Delivery, step: &str, effect: F) -> Result<T, E>
where
    T: Serialize,
    E: From<Error>,
    F: FnOnce(&Transaction<'_>) -> Result<T, E>,
{
    let output = effect(tx)?;
    keep(tx, delivery, step, &output)?;
    Ok(output)
}

/// Lets the delivery in; gives the output if the effect was carried out before.
fn begin(tx: &Transaction<'_>, delivery: &Delivery, step: &str) -> Result<Option<String>, Error> {
    let now = now_millis();
    let let_in = tx
        .execute(FENCE, params![delivery.job, delivery.fence, now])
        .while_("comparing fences")?;
    if let_in == 0 {
        return Err(Error::Stale {
            job: delivery.job.clone(),
            fence: delivery.fence,
        });
    }
    let fresh = tx
        .execute(
            BEGIN,
            params![delivery.origin, step, delivery.job, delivery.fence, now],
        )
        .while_("noting an effect")?;
    if fresh > 0 {
        return Ok(None);
    }
    let output: Option<String> = tx
        .query_row(OUTPUT, params![delivery.origin, step], |row| row.get(0))
        .while_("reading what an effect gave")?;
    Ok(Some(output.unwrap_or_else(|| "null".to_owned())))
}

fn keep<T: Serialize>(
    tx: &Transaction<'_>,
    delivery: &Delivery,
    step: &str,
    output: &T,
) -> Result<(), Error> {
    let output = Json::of(output)?;
    tx.execute(KEEP, params![delivery.origin, step, output.as_str()])
        .while_("keeping what an effect gave")?;
    Ok(())
}

/// Forgets effects that were carried out longer ago than this. A job that is delivered again after so long would carry
/// its effect out again: keep them for longer than jobs are kept.
pub fn prune_inbox(connection: &Connection, older_than: Duration) -> Result<u64, Error> {
    let before = now_millis().saturating_sub(i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX));
    connection
        .execute(PRUNE_FENCES, [before])
        .while_("pruning the inbox")?;
    Ok(connection.execute(PRUNE, [before]).while_("pruning the inbox")? as u64)
}
