//! Writing events in the user's own transaction.

use rusqlite::{Transaction, params};

use crate::clock::now_millis;
use crate::error::{Error, While};
use crate::event::Event;

const APPEND: &str = include_str!("../sql/sqlite/append.sql");
const APPEND_MISSING: &str = include_str!("../sql/sqlite/append_missing.sql");

/// Does the business and writes its events in one transaction, which the caller commits: both, or neither.
pub fn execute<T, E, F>(tx: &Transaction<'_>, business: F, events: &[Event]) -> Result<T, E>
where
    E: From<Error>,
    F: FnOnce(&Transaction<'_>) -> Result<T, E>,
{
    // What makes no sense is refused before anything is done.
    for event in events {
        event.check().map_err(Error::from)?;
    }
    let done = business(tx)?;
    append(tx, events)?;
    Ok(done)
}

/// Writes events in the caller's transaction.
pub fn append(tx: &Transaction<'_>, events: &[Event]) -> Result<(), Error> {
    write(tx, events, APPEND).map(|_| ())
}

/// Writes those events that are not there; says how many that were.
pub(super) fn append_missing(tx: &Transaction<'_>, events: &[Event]) -> Result<u64, Error> {
    write(tx, events, APPEND_MISSING)
}

fn write(tx: &Transaction<'_>, events: &[Event], how: &str) -> Result<u64, Error> {
    let now = now_millis();
    let mut statement = tx.prepare_cached(how).while_("writing events")?;
    let mut written = 0;
    for event in events {
        event.check()?;
        let values = params![
            event.id,
            event.task,
            event.queue,
            event.partition,
            event.input.as_str(),
            event.headers_json(),
            event.priority,
            now
        ];
        written += statement.execute(values).while_("writing events")? as u64;
    }
    Ok(written)
}
