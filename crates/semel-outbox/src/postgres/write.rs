//! Writing events in the user's own transaction.

use tokio_postgres::Transaction;

use crate::error::{Error, While};
use crate::event::Event;

pub(super) const APPEND: &str = include_str!("../sql/postgres/append.sql");

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
    let columns = Columns::of(events)?;
    let row = tx
        .query_one(
            APPEND,
            &[
                &columns.ids,
                &columns.tasks,
                &columns.queues,
                &columns.partitions,
                &columns.inputs,
                &columns.headers,
                &columns.priorities,
                &may_be_there,
            ],
        )
        .await
        .while_("writing events")?;
    Ok(row.get::<_, i64>(0).unsigned_abs())
}

/// Events as the statement wants them: a column each.
pub(super) struct Columns<'e> {
    pub ids: Vec<&'e str>,
    pub tasks: Vec<&'e str>,
    pub queues: Vec<Option<&'e str>>,
    pub partitions: Vec<Option<&'e str>>,
    pub inputs: Vec<&'e str>,
    pub headers: Vec<Option<String>>,
    pub priorities: Vec<Option<i16>>,
}

impl<'e> Columns<'e> {
    /// Refuses what no store would take.
    pub fn of(events: &'e [Event]) -> Result<Self, Error> {
        for event in events {
            event.check()?;
        }
        Ok(Columns {
            ids: events.iter().map(|event| event.id.as_str()).collect(),
            tasks: events.iter().map(|event| event.task.as_str()).collect(),
            queues: events.iter().map(|event| event.queue.as_deref()).collect(),
            partitions: events.iter().map(|event| event.partition.as_deref()).collect(),
            inputs: events.iter().map(|event| event.input.as_str()).collect(),
            headers: events.iter().map(Event::headers_json).collect(),
            priorities: events.iter().map(|event| event.priority.map(i16::from)).collect(),
        })
    }
}
