//! What a relay asks of SQLite.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, Transaction, TransactionBehavior, params};
use semel_core::error::{Invalid, StoreError};
use semel_core::json::Json;

use crate::clock::now_millis;
use crate::error::{Error, While};
use crate::event::{Columns, Event};
use crate::relay::Boundary;
use crate::source::{Audit, Claim, Fate, ParkedEvent, Pending, Pruned, Source, Status};
use crate::sqlite::write::append_missing;
use crate::sqlite::{SqliteOutbox, migrate};

const CLAIM: &str = include_str!("../sql/sqlite/claim.sql");
const SENT: &str = include_str!("../sql/sqlite/sent.sql");
const LATER: &str = include_str!("../sql/sqlite/later.sql");
const PARK: &str = include_str!("../sql/sqlite/park.sql");
const GIVE_BACK: &str = include_str!("../sql/sqlite/give_back.sql");
const STATUS: &str = include_str!("../sql/sqlite/status.sql");
const PARKED: &str = include_str!("../sql/sqlite/parked.sql");
const UNPARK: &str = include_str!("../sql/sqlite/unpark.sql");
const MISSING: &str = include_str!("../sql/sqlite/missing.sql");
const PRUNE: &str = include_str!("../sql/sqlite/prune.sql");
const PRUNED: &str = include_str!("../sql/sqlite/pruned.sql");

/// Rows pruned in one transaction: other writers wait for it.
const PRUNED_AT_ONCE: i64 = 2_000;
/// Ids that an audit names at most, and events a rebuild writes in one transaction.
const NAMED: usize = 1_000;
/// No relay puts an event off for so long, in milliseconds, nor takes one for so much longer than its lease.
const FAR: i64 = 3_600_000;
/// How often to look whether somebody has written.
const LOOK: Duration = Duration::from_millis(5);

type Shared = Arc<Mutex<Connection>>;

/// Runs on a thread that may block, with the one connection.
async fn with<T: Send + 'static>(
    connection: &Shared,
    work: impl FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let connection = connection.clone();
    let done = tokio::task::spawn_blocking(move || {
        work(&mut connection.lock().unwrap_or_else(PoisonError::into_inner))
    })
    .await;
    done.map_err(|_| StoreError::unavailable("working on the outbox"))?
}

/// Changes when another connection has written.
fn version(connection: &mut Connection) -> Result<i64, Error> {
    let version = connection.query_row("PRAGMA data_version", [], |row| row.get(0));
    version.while_("looking for changes")
}

fn begin(connection: &mut Connection) -> Result<Transaction<'_>, Error> {
    connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .while_("beginning")
}

#[async_trait]
impl Source for SqliteOutbox {
    fn shown(&self) -> &str {
        &self.shown
    }

    async fn migrate(&self) -> Result<(), Error> {
        with(&self.connection, |connection| migrate(connection)).await
    }

    async fn claim(&self, most: usize, at: &Boundary) -> Result<Box<dyn Claim>, Error> {
        let (lease, boundary) = (self.lease, at.clone());
        let who = semel::ids::fresh_token().to_string();
        let name = who.clone();
        let seen = self.seen.clone();
        let take = move |connection: &mut Connection| {
            // Before looking for events: what is written from now on counts as a change.
            seen.store(version(connection)?, Ordering::Relaxed);
            boundary.reached("before begin");
            let tx = begin(connection)?;
            boundary.reached("after begin");
            let now = now_millis();
            let until = now.saturating_add(i64::try_from(lease.as_millis()).unwrap_or(i64::MAX));
            let mut events = take(&tx, &name, now, until, most)?;
            boundary.reached("after claim");
            tx.commit().while_("taking events")?;
            boundary.reached("after claim commit");
            events.sort_by_key(|pending| pending.seq);
            Ok(events)
        };
        let events = with(&self.connection, take).await?;
        Ok(Box::new(SqliteClaim {
            connection: self.connection.clone(),
            who,
            events,
        }))
    }

    async fn changed(&self, at_most: Duration) {
        let looking = async {
            loop {
                tokio::time::sleep(LOOK).await;
                match with(&self.connection, version).await {
                    Ok(now) if now == self.seen.load(Ordering::Relaxed) => {}
                    _ => return,
                }
            }
        };
        let _ = tokio::time::timeout(at_most, looking).await;
    }

    async fn status(&self) -> Result<Status, Error> {
        let count = |connection: &mut Connection| {
            let status = connection.query_row(STATUS, [now_millis()], |row| {
                Ok(Status {
                    pending: row.get(0)?,
                    failing: row.get(1)?,
                    parked: row.get(2)?,
                    lag_ms: row.get(3)?,
                    last_sent_ms: row.get(4)?,
                    pruned_before_ms: row.get(5)?,
                })
            });
            status.while_("counting events")
        };
        with(&self.connection, count).await
    }

    async fn parked(&self, most: usize) -> Result<Vec<ParkedEvent>, Error> {
        let list = move |connection: &mut Connection| {
            let mut statement = connection.prepare_cached(PARKED).while_("listing events")?;
            let rows = statement.query_map([i64::try_from(most).unwrap_or(i64::MAX)], |row| {
                // What is shown here may have been parked because it is no text.
                let shown = |place| row.get_ref(place).map(text);
                Ok(ParkedEvent {
                    id: shown(0)?.unwrap_or_default(),
                    task: shown(1)?.unwrap_or_default(),
                    partition: shown(2)?,
                    attempts: row.get(3)?,
                    error: row.get(4)?,
                })
            });
            rows.and_then(Iterator::collect).while_("listing events")
        };
        with(&self.connection, list).await
    }

    async fn unpark(&self, id: Option<&str>) -> Result<u64, Error> {
        let id = id.map(str::to_owned);
        let unpark = move |connection: &mut Connection| {
            let changed = connection.execute(UNPARK, params![id]);
            Ok(changed.while_("letting events be tried again")? as u64)
        };
        with(&self.connection, unpark).await
    }

    async fn audit(&self, query: &str) -> Result<Audit, Error> {
        let (path, query) = (self.path.clone(), query.to_owned());
        let compare = move |connection: &mut Connection| {
            let mut rows = Vec::new();
            business(&path, &query, &["id"], |mut row| {
                rows.push(row.remove(0).ok_or_else(no_id)?);
                Ok(())
            })?;
            compare(connection, &rows)
        };
        with(&self.connection, compare).await
    }

    async fn rebuild(&self, query: &str, pruned: Pruned) -> Result<Audit, Error> {
        let (path, query) = (self.path.clone(), query.to_owned());
        let rebuild = move |connection: &mut Connection| {
            let mut events = Vec::new();
            business(&path, &query, &["id", "task", "input"], |row| {
                events.push(rebuilt(row)?);
                Ok(())
            })?;
            let ids: Vec<String> = events.iter().map(|event| event.id.clone()).collect();
            let mut audit = compare(connection, &ids)?;
            pruned.check(&audit)?;
            for chunk in events.chunks(NAMED) {
                let tx = begin(connection)?;
                audit.added += append_missing(&tx, chunk)?;
                tx.commit().while_("writing events")?;
            }
            Ok(audit)
        };
        with(&self.connection, rebuild).await
    }

    async fn prune(&self, older_than: Duration) -> Result<u64, Error> {
        let age = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX);
        let before = now_millis().saturating_sub(age);
        // Said first: an audit that runs meanwhile must not take what is being pruned for lost.
        let note = move |connection: &mut Connection| {
            connection
                .execute(PRUNED, [before])
                .while_("noting what is pruned")
        };
        with(&self.connection, note).await?;
        let mut pruned = 0;
        loop {
            let prune = move |connection: &mut Connection| {
                connection
                    .execute(PRUNE, [before, PRUNED_AT_ONCE])
                    .while_("pruning")
            };
            let gone = with(&self.connection, prune).await?;
            pruned += gone as u64;
            if (gone as i64) < PRUNED_AT_ONCE {
                return Ok(pruned);
            }
        }
    }
}

/// Rows that carry the name of whoever took them.
struct SqliteClaim {
    connection: Shared,
    who: String,
    events: Vec<Pending>,
}

#[async_trait]
impl Claim for SqliteClaim {
    fn events(&self) -> &[Pending] {
        &self.events
    }

    async fn settle(self: Box<Self>, fates: Vec<Fate>, at: &Boundary) -> Result<(), Error> {
        let boundary = at.clone();
        let SqliteClaim {
            connection,
            who,
            events,
        } = *self;
        let settle = move |connection: &mut Connection| {
            boundary.reached("before mark");
            let tx = begin(connection)?;
            boundary.reached("after mark begin");
            for (pending, fate) in events.iter().zip(&fates) {
                mark(&tx, &who, pending.seq, fate).while_("marking events")?;
                boundary.reached(match fate {
                    Fate::Sent { .. } => "after sent",
                    Fate::Later { .. } => "after later",
                    Fate::Parked { .. } => "after park",
                    Fate::Untouched => "after give back",
                });
            }
            tx.commit().while_("committing")?;
            boundary.reached("after commit");
            Ok(())
        };
        with(&connection, settle).await
    }

    async fn give_back(self: Box<Self>, at: &Boundary) -> Result<(), Error> {
        if self.events.is_empty() {
            return Ok(());
        }
        let fates = vec![Fate::Untouched; self.events.len()];
        self.settle(fates, at).await
    }
}

fn take(tx: &Transaction<'_>, who: &str, now: i64, until: i64, most: usize) -> Result<Vec<Pending>, Error> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let mut statement = tx.prepare_cached(CLAIM).while_("taking events")?;
    let (put_off, taken) = (now.saturating_add(FAR), until.saturating_add(FAR));
    let rows = statement.query_map(params![who, now, until, most, put_off, taken], pending);
    rows.and_then(Iterator::collect).while_("taking events")
}

fn mark(tx: &Transaction<'_>, who: &str, seq: i64, fate: &Fate) -> rusqlite::Result<usize> {
    let now = now_millis();
    match fate {
        // Whoever has it meanwhile: the store has answered, so it is sent.
        Fate::Sent { job } => tx.prepare_cached(SENT)?.execute(params![seq, now, job]),
        Fate::Later { error, delay } => {
            let due = now.saturating_add(i64::try_from(delay.as_millis()).unwrap_or(i64::MAX));
            tx.prepare_cached(LATER)?.execute(params![seq, who, due, error])
        }
        Fate::Parked { error } => tx.prepare_cached(PARK)?.execute(params![seq, who, now, error]),
        Fate::Untouched => tx.prepare_cached(GIVE_BACK)?.execute(params![seq, who]),
    }
}

fn pending(row: &Row<'_>) -> rusqlite::Result<Pending> {
    Ok(Pending {
        seq: row.get("seq")?,
        event: Event::read(row),
        attempts: row.get("attempts")?,
    })
}

/// A column of SQLite holds whatever was put there.
impl Columns for Row<'_> {
    fn text(&self, name: &'static str) -> Result<Option<String>, Invalid> {
        self.get(name)
            .map_err(|error| Invalid::new(name, "a text in UTF-8").found(error.to_string()))
    }

    fn number(&self, name: &'static str) -> Result<Option<i64>, Invalid> {
        self.get(name)
            .map_err(|error| Invalid::new(name, "a whole number").found(error.to_string()))
    }
}

/// The columns a query may give.
const COLUMNS: [&str; 5] = ["id", "task", "input", "queue", "partition"];

/// Runs a query of the user's on a connection that cannot write; each row as the texts of [`COLUMNS`].
fn business(
    path: &std::path::Path,
    query: &str,
    needed: &[&str],
    mut each: impl FnMut(Vec<Option<String>>) -> Result<(), Error>,
) -> Result<(), Error> {
    let reader =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).while_("opening the database")?;
    let mut statement = reader.prepare(query).while_("running the query")?;
    let places = COLUMNS.map(|name| statement.column_index(name).ok());
    for name in needed {
        if statement.column_index(name).is_err() {
            return Err(Invalid::new(
                format!("the query gives no column {name}"),
                "columns id, task, input, queue, partition",
            )
            .hint(format!("SELECT … AS {name}"))
            .into());
        }
    }
    let mut rows = statement.query([]).while_("running the query")?;
    while let Some(row) = rows.next().while_("running the query")? {
        let texts = places.iter().map(|place| {
            let value = place.and_then(|place| row.get_ref(place).ok());
            value.and_then(text)
        });
        each(texts.collect())?;
    }
    Ok(())
}

fn text(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
    }
}

fn compare(connection: &Connection, ids: &[String]) -> Result<Audit, Error> {
    let mut statement = connection.prepare_cached(MISSING).while_("comparing")?;
    let mut audit = Audit {
        rows: ids.len() as u64,
        missing: Vec::new(),
        missing_total: 0,
        added: 0,
        pruned_before_ms: None,
    };
    for id in ids {
        if statement.exists([id]).while_("comparing")? {
            continue;
        }
        audit.missing_total += 1;
        if audit.missing.len() < NAMED {
            audit.missing.push(id.clone());
        }
    }
    let pruned = "SELECT at FROM semel_outbox_fact WHERE name = 'pruned_before'";
    audit.pruned_before_ms = connection
        .query_row(pruned, [], |row| row.get(0))
        .optional()
        .while_("comparing")?;
    Ok(audit)
}

fn rebuilt(row: Vec<Option<String>>) -> Result<Event, Error> {
    let mut row = row.into_iter();
    let mut next = || row.next().flatten();
    let need = |name: &str, found: Option<String>| {
        found.ok_or_else(|| Invalid::new(format!("column {name}"), "a text in every row"))
    };
    let id = need("id", next())?;
    let task = need("task", next())?;
    let input = Json::new(need("input", next())?)?;
    let mut event = Event::new(task, &input)?.id(id);
    event.queue = next();
    event.partition = next();
    Ok(event)
}

fn no_id() -> Error {
    Invalid::new("column id", "a text in every row").into()
}
