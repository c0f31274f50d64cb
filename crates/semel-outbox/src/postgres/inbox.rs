//! Effects on the user's own Postgres database, exactly once (contract 5.4).

use std::time::Duration;

use semel_core::ids::Name;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_postgres::{Client, Transaction};

use crate::error::{Error, While};
use crate::inbox::{Delivery, stored};

const FENCE: &str = include_str!("../sql/postgres/inbox_fence.sql");
const BEGIN: &str = include_str!("../sql/postgres/inbox_begin.sql");
const OUTPUT: &str = include_str!("../sql/postgres/inbox_output.sql");
const KEEP: &str = include_str!("../sql/postgres/inbox_keep.sql");
const PRUNE: &str = include_str!("../sql/postgres/inbox_prune.sql");

/// Carries out an effect in the caller's transaction, unless it was carried out before; then its output is given.
///
/// The effect, the record of it and the fence of the delivery commit together. A delivery that is not the newest to
/// have been here is refused with [`Error::Stale`]. The caller commits. Of an effect that gives an error nothing is
/// left, also where the caller commits all the same.
pub async fn once<T, E, F>(
    tx: &Transaction<'_>,
    delivery: impl Into<Delivery>,
    step: &str,
    effect: F,
) -> Result<T, E>
where
    T: Serialize + DeserializeOwned,
    E: From<Error>,
    F: AsyncFnOnce(&Transaction<'_>) -> Result<T, E>,
{
    let delivery = delivery.into();
    Name::new(step).map_err(Error::from)?;
    tx.batch_execute("SAVEPOINT semel_inbox")
        .await
        .while_("beginning")?;
    let kept = match begin(tx, &delivery, step).await {
        Ok(Some(output)) => stored(step, &output).map_err(E::from),
        Ok(None) => run(tx, &delivery, step, effect).await,
        Err(error) => Err(error.into()),
    };
    let end = match kept {
        Ok(_) => "RELEASE SAVEPOINT semel_inbox",
        Err(_) => "ROLLBACK TO SAVEPOINT semel_inbox; RELEASE SAVEPOINT semel_inbox",
    };
    let ended = tx.batch_execute(end).await.while_("ending");
    // What the effect said is worth more than that its transaction broke with it.
    let output = kept?;
    ended?;
    Ok(output)
}

async fn run<T, E, F>(tx: &Transaction<'_>, delivery: &Delivery, step: &str, effect: F) -> Result<T, E>
where
    T: Serialize,
    E: From<Error>,
    F: AsyncFnOnce(&Transaction<'_>) -> Result<T, E>,
{
    let output = effect(tx).await?;
    keep(tx, delivery, step, &output).await?;
    Ok(output)
}

/// Lets the delivery in; gives the output if the effect was carried out before.
async fn begin(tx: &Transaction<'_>, delivery: &Delivery, step: &str) -> Result<Option<String>, Error> {
    let let_in = tx
        .query_opt(FENCE, &[&delivery.job, &delivery.fence])
        .await
        .while_("comparing fences")?;
    if let_in.is_none() {
        return Err(Error::Stale {
            job: delivery.job.clone(),
            fence: delivery.fence,
        });
    }
    let fresh = tx
        .query_opt(BEGIN, &[&delivery.origin, &step, &delivery.job, &delivery.fence])
        .await
        .while_("noting an effect")?;
    if fresh.is_some() {
        return Ok(None);
    }
    let row = tx
        .query_one(OUTPUT, &[&delivery.origin, &step])
        .await
        .while_("reading what an effect gave")?;
    let output: Option<String> = row.get(0);
    Ok(Some(output.unwrap_or_else(|| "null".to_owned())))
}

async fn keep<T: Serialize>(
    tx: &Transaction<'_>,
    delivery: &Delivery,
    step: &str,
    output: &T,
) -> Result<(), Error> {
    let output = semel_core::json::Json::of(output)?;
    tx.execute(KEEP, &[&delivery.origin, &step, &output.as_str()])
        .await
        .while_("keeping what an effect gave")?;
    Ok(())
}

/// Forgets effects that were carried out longer ago than this. A job that is delivered again after so long would carry
/// its effect out again: keep them for longer than jobs are kept.
pub async fn prune_inbox(client: &Client, older_than: Duration) -> Result<u64, Error> {
    let age = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX / 2);
    client.execute(PRUNE, &[&age]).await.while_("pruning the inbox")
}
