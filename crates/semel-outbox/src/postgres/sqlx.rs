//! Writing events in a transaction of sqlx.
//!
//! The tables are made by [`migrate`](super::migrate), or by sqlx itself from [`MIGRATION`](super::MIGRATION).

use ::sqlx::{PgConnection, Postgres, Transaction};

use super::write::{APPEND, Columns};
use crate::error::{Error, While};
use crate::event::Event;

/// Does the business and writes its events in one transaction, which the caller commits: both, or neither.
///
/// The business comes first: transactions that wait for each other in it write their events in the order in which they
/// commit.
///
/// ```no_run
/// use semel_outbox::{Error, Event, postgres};
/// use sqlx::PgConnection;
///
/// # async fn example(shop: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// let mut tx = shop.begin().await?;
/// let event = Event::new("send_receipt", &7)?.id("order-7-paid");
/// let business = async |tx: &mut PgConnection| {
///     let done = sqlx::query("INSERT INTO orders VALUES (7)").execute(tx).await;
///     done.map_err(|error| Error::Database { doing: "taking an order", source: error.into() })
/// };
/// postgres::sqlx::execute(&mut tx, business, &[event]).await?;
/// tx.commit().await?; // the order and its event, or neither
/// # Ok(()) }
/// ```
pub async fn execute<T, E, F>(
    tx: &mut Transaction<'_, Postgres>,
    business: F,
    events: &[Event],
) -> Result<T, E>
where
    E: From<Error>,
    F: AsyncFnOnce(&mut PgConnection) -> Result<T, E>,
{
    // What makes no sense is refused before anything is done.
    for event in events {
        event.check().map_err(Error::from)?;
    }
    let done = business(tx).await?;
    append(tx, events).await?;
    Ok(done)
}

/// Writes events in the caller's transaction.
pub async fn append(tx: &mut Transaction<'_, Postgres>, events: &[Event]) -> Result<(), Error> {
    if events.is_empty() {
        return Ok(());
    }
    let columns = Columns::of(events)?;
    let may_be_there = false;
    let written = ::sqlx::query(APPEND)
        .bind(columns.ids)
        .bind(columns.tasks)
        .bind(columns.queues)
        .bind(columns.partitions)
        .bind(columns.inputs)
        .bind(columns.headers)
        .bind(columns.priorities)
        .bind(may_be_there)
        .execute(&mut **tx)
        .await;
    written.map(|_| ()).while_("writing events")
}
