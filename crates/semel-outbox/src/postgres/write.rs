//! Writing events in the user's own transaction.

use tokio_postgres::Transaction;

use crate::error::{Error, While};
use crate::event::Event;

const APPEND: &str = include_str!("../sql/postgres/append.sql");

/// Does the business and writes its events in one transaction, which the caller commits: both, or neither.
///
/// The business comes first: transactions that wait for each other in it write their events in the order in which they
/// commit.
pub async fn execute<T, E, F>(tx: &Transaction<'_>, business: F, events: &[Event]) -> Result<T, E>
where
    E: From<Error>,
    F: AsyncFnOnce(&Transaction<'_>) -> Result<T, E>,
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
pub async fn append(tx: &Transaction<'_>, events: &[Event]) -> Result<(), Error> {
    write(tx, events, false).await.map(|_| ())
}

/// Writes events; says how many were written.
pub(super) async fn write(tx: &Transaction<'_>, events: &[Event], may_be_there: bool) -> Result<u64, Error> {
    if events.is_empty() {
        return Ok(0);
    }
    for event in events {
        event.check()?;
    }
    let ids: Vec<&str> = events.iter().map(|event| event.id.as_str()).collect();
    let tasks: Vec<&str> = events.iter().map(|event| event.task.as_str()).collect();
    let queues: Vec<Option<&str>> = events.iter().map(|event| event.queue.as_deref()).collect();
    let partitions: Vec<Option<&str>> = events.iter().map(|event| event.partition.as_deref()).collect();
    let inputs: Vec<&str> = events.iter().map(|event| event.input.as_str()).collect();
    let headers: Vec<Option<String>> = events.iter().map(Event::headers_json).collect();
    let priorities: Vec<Option<i16>> = events.iter().map(|event| event.priority.map(i16::from)).collect();
    let row = tx
        .query_one(
            APPEND,
            &[
                &ids,
                &tasks,
                &queues,
                &partitions,
                &inputs,
                &headers,
                &priorities,
                &may_be_there,
            ],
        )
        .await
        .while_("writing events")?;
    Ok(row.get::<_, i64>(0).unsigned_abs())
}
