//! What a relay asks of Postgres.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::Object;
use semel_core::error::Invalid;
use semel_core::json::Json;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, SimpleQueryMessage, SimpleQueryRow};

use crate::error::{Error, While};
use crate::event::{Columns, Event};
use crate::postgres::write::write;
use crate::postgres::{PostgresOutbox, migrate};
use crate::relay::Boundary;
use crate::source::{Audit, Claim, Fate, ParkedEvent, Pending, Pruned, Source, Status};

const HOLD: &str = include_str!("../sql/postgres/hold.sql");
const CLAIM: &str = include_str!("../sql/postgres/claim.sql");
const SENT: &str = include_str!("../sql/postgres/sent.sql");
const LATER: &str = include_str!("../sql/postgres/later.sql");
const PARK: &str = include_str!("../sql/postgres/park.sql");
const STATUS: &str = include_str!("../sql/postgres/status.sql");
const PARKED: &str = include_str!("../sql/postgres/parked.sql");
const UNPARK: &str = include_str!("../sql/postgres/unpark.sql");
const MISSING: &str = include_str!("../sql/postgres/missing.sql");
const PRUNE: &str = include_str!("../sql/postgres/prune.sql");
const PRUNED: &str = include_str!("../sql/postgres/pruned.sql");

/// Rows pruned in one transaction.
const PRUNED_AT_ONCE: i64 = 10_000;
/// Ids that an audit compares at once, and names at most.
const COMPARED: usize = 1_000;

impl PostgresOutbox {
    async fn connection(&self) -> Result<Object, Error> {
        self.pool.get().await.while_("connecting")
    }

    /// The rows a query of the user's gives, as texts. The transaction is read-only: looking changes nothing.
    async fn business(&self, query: &str, needed: &[&'static str]) -> Result<Vec<SimpleQueryRow>, Error> {
        let mut connection = self.connection().await?;
        let tx = connection
            .build_transaction()
            .read_only(true)
            .start()
            .await
            .while_("beginning to read")?;
        // Only one statement can be prepared: behind a `COMMIT;` the next one could write.
        let prepared = tx.prepare(query).await.while_("running the query")?;
        let gives = |name: &&str| prepared.columns().iter().any(|column| column.name() == *name);
        if let Some(name) = needed.iter().find(|name| !gives(name)) {
            return Err(no_column(name));
        }
        // And yet sent as a text: so every value is given as one, whatever its type.
        let messages = tx.simple_query(query).await.while_("running the query")?;
        let rows = messages.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        Ok(rows.collect())
    }

    async fn compare(&self, rows: &[SimpleQueryRow]) -> Result<Audit, Error> {
        let ids = rows
            .iter()
            .map(|row| column(row, "id")?.ok_or_else(no_id))
            .collect::<Result<Vec<_>, _>>()?;
        let connection = self.connection().await?;
        let mut audit = Audit {
            rows: ids.len() as u64,
            missing: Vec::new(),
            missing_total: 0,
            added: 0,
            pruned_before_ms: self.status().await?.pruned_before_ms,
        };
        for chunk in ids.chunks(COMPARED) {
            let missing = connection.query(MISSING, &[&chunk]).await.while_("comparing")?;
            audit.missing_total += missing.len() as u64;
            let room = COMPARED.saturating_sub(audit.missing.len());
            audit
                .missing
                .extend(missing.iter().take(room).map(|row| row.get::<_, String>(0)));
        }
        Ok(audit)
    }
}

#[async_trait]
impl Source for PostgresOutbox {
    fn shown(&self) -> &str {
        &self.shown
    }

    async fn migrate(&self) -> Result<(), Error> {
        migrate(&*self.connection().await?).await
    }

    async fn claim(&self, most: usize, at: &Boundary) -> Result<Box<dyn Claim>, Error> {
        let connection = self.connection().await?;
        at.reached("before begin");
        let mut claim = PostgresClaim {
            connection: Some(connection),
            events: Vec::new(),
            lease: self.lease,
        };
        let client = claim.client();
        let hold = client.prepare_cached(HOLD).await.while_("beginning")?;
        let lease = self.lease.as_millis().clamp(1, i32::MAX as u128).to_string();
        let values: [&(dyn ToSql + Sync); 1] = [&lease];
        // Both at once, in this order: one way to the server and back.
        tokio::try_join!(client.batch_execute("BEGIN"), client.execute(&hold, &values))
            .while_("beginning")?;
        at.reached("after begin");
        claim.events = take(client, most, at).await?;
        Ok(Box::new(claim))
    }

    async fn changed(&self, at_most: Duration) {
        self.listener.heard(at_most).await;
    }

    async fn status(&self) -> Result<Status, Error> {
        let row = self
            .connection()
            .await?
            .query_one(STATUS, &[])
            .await
            .while_("counting events")?;
        Ok(Status {
            pending: row.get("pending"),
            failing: row.get("failing"),
            parked: row.get("parked"),
            lag_ms: row.get("lag_ms"),
            last_sent_ms: row.get("last_sent_ms"),
            pruned_before_ms: row.get("pruned_before_ms"),
        })
    }

    async fn parked(&self, most: usize) -> Result<Vec<ParkedEvent>, Error> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = self
            .connection()
            .await?
            .query(PARKED, &[&most])
            .await
            .while_("listing events")?;
        let events = rows.iter().map(|row| ParkedEvent {
            id: row.get("id"),
            task: row.get("task"),
            partition: row.get("partition"),
            attempts: row.get("attempts"),
            error: row.get("error"),
        });
        Ok(events.collect())
    }

    async fn unpark(&self, id: Option<&str>) -> Result<u64, Error> {
        let connection = self.connection().await?;
        connection
            .execute(UNPARK, &[&id])
            .await
            .while_("letting events be tried again")
    }

    async fn audit(&self, query: &str) -> Result<Audit, Error> {
        self.compare(&self.business(query, &["id"]).await?).await
    }

    async fn rebuild(&self, query: &str, pruned: Pruned) -> Result<Audit, Error> {
        let rows = self.business(query, &["id", "task", "input"]).await?;
        let mut audit = self.compare(&rows).await?;
        pruned.check(&audit)?;
        let events = rows.iter().map(rebuilt).collect::<Result<Vec<_>, _>>()?;
        let mut connection = self.connection().await?;
        for chunk in events.chunks(COMPARED) {
            let tx = connection.transaction().await.while_("beginning")?;
            audit.added += write(&tx, chunk, true).await?;
            tx.commit().await.while_("writing events")?;
        }
        Ok(audit)
    }

    async fn prune(&self, older_than: Duration) -> Result<u64, Error> {
        let connection = self.connection().await?;
        let age = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX / 2);
        // Said first: an audit that runs meanwhile must not take what is being pruned for lost.
        connection
            .execute(PRUNED, &[&age])
            .await
            .while_("noting what is pruned")?;
        let mut pruned = 0;
        loop {
            let gone = connection
                .execute(PRUNE, &[&age, &PRUNED_AT_ONCE])
                .await
                .while_("pruning")?;
            pruned += gone;
            if gone < PRUNED_AT_ONCE.unsigned_abs() {
                return Ok(pruned);
            }
        }
    }
}

/// Takes at most so many events.
///
/// A relay that stands still may have locked the first event of a partition with any number behind it. Those are no
/// reason to come back with less than was asked for: where they filled the claim, it is repeated without them.
async fn take(client: &Object, most: usize, at: &Boundary) -> Result<Vec<Pending>, Error> {
    let statement = client.prepare_cached(CLAIM).await.while_("taking events")?;
    let (mut events, mut places): (Vec<Pending>, Vec<i64>) = (Vec::new(), Vec::new());
    let (mut last, mut blocked): (i64, BTreeSet<String>) = (0, BTreeSet::new());
    loop {
        let room = most - events.len();
        let asked = i64::try_from(room).unwrap_or(i64::MAX);
        let left_out: Vec<&str> = blocked.iter().map(String::as_str).collect();
        let values: [&(dyn ToSql + Sync); 4] = [&asked, &last, &left_out, &places];
        let rows = client.query(&statement, &values).await.while_("taking events")?;
        at.reached("after claim");
        for row in &rows {
            last = row.get("seq");
            if row.get("behind") {
                blocked.extend(row.try_get::<_, Option<String>>("partition").ok().flatten());
                continue;
            }
            places.push(last);
            events.push(pending(row));
        }
        if rows.len() < room || events.len() == most {
            return Ok(events);
        }
    }
}

/// Rows that are locked by a transaction that is open.
struct PostgresClaim {
    connection: Option<Object>,
    events: Vec<Pending>,
    lease: Duration,
}

impl PostgresClaim {
    fn client(&self) -> &Object {
        self.connection.as_ref().expect("taken only when the claim ends")
    }

    /// The transaction has ended: the connection is good for others.
    fn ended(mut self: Box<Self>) {
        drop(self.connection.take());
    }
}

#[async_trait]
impl Claim for PostgresClaim {
    fn events(&self) -> &[Pending] {
        &self.events
    }

    async fn hold(&self) -> Infallible {
        loop {
            tokio::time::sleep(self.lease / 3).await;
            // Said to a transaction that is gone it changes nothing: whoever settles the claim is told.
            let _ = self.client().batch_execute("SELECT 1").await;
        }
    }

    async fn settle(self: Box<Self>, fates: Vec<Fate>, at: &Boundary) -> Result<(), Error> {
        let marks = Marks::of(&self.events, fates);
        let client = self.client();
        at.reached("before mark");
        if !marks.sent.is_empty() {
            let statement = client.prepare_cached(SENT).await.while_("marking events")?;
            let values: [&(dyn ToSql + Sync); 2] = [&marks.sent, &marks.jobs];
            client
                .execute(&statement, &values)
                .await
                .while_("marking events")?;
            at.reached("after sent");
        }
        if !marks.later.is_empty() {
            let values: [&(dyn ToSql + Sync); 3] = [&marks.later, &marks.later_errors, &marks.delays];
            client
                .execute(LATER, &values)
                .await
                .while_("putting events off")?;
            at.reached("after later");
        }
        if !marks.parked.is_empty() {
            let values: [&(dyn ToSql + Sync); 2] = [&marks.parked, &marks.parked_errors];
            client.execute(PARK, &values).await.while_("parking events")?;
            at.reached("after park");
        }
        client.batch_execute("COMMIT").await.while_("committing")?;
        at.reached("after commit");
        self.ended();
        Ok(())
    }

    async fn give_back(self: Box<Self>, at: &Boundary) -> Result<(), Error> {
        at.reached("before rollback");
        self.client()
            .batch_execute("ROLLBACK")
            .await
            .while_("giving events back")?;
        at.reached("after rollback");
        self.ended();
        Ok(())
    }
}

impl Drop for PostgresClaim {
    fn drop(&mut self) {
        // A transaction that nobody ended ends with its connection.
        if let Some(connection) = self.connection.take() {
            drop(Object::take(connection));
        }
    }
}

/// Fates by kind, as the statements take them.
#[derive(Default)]
struct Marks {
    sent: Vec<i64>,
    jobs: Vec<String>,
    later: Vec<i64>,
    later_errors: Vec<String>,
    delays: Vec<i64>,
    parked: Vec<i64>,
    parked_errors: Vec<String>,
}

impl Marks {
    fn of(events: &[Pending], fates: Vec<Fate>) -> Self {
        let mut marks = Marks::default();
        for (pending, fate) in events.iter().zip(fates) {
            match fate {
                Fate::Sent { job } => {
                    marks.sent.push(pending.seq);
                    marks.jobs.push(job);
                }
                Fate::Later { error, delay } => {
                    marks.later.push(pending.seq);
                    marks.later_errors.push(error);
                    marks
                        .delays
                        .push(i64::try_from(delay.as_millis()).unwrap_or(i64::MAX));
                }
                Fate::Parked { error } => {
                    marks.parked.push(pending.seq);
                    marks.parked_errors.push(error);
                }
                Fate::Untouched => {}
            }
        }
        marks
    }
}

fn pending(row: &Row) -> Pending {
    Pending {
        seq: row.get("seq"),
        event: Event::read(row),
        attempts: row.get::<_, i32>("attempts").unsigned_abs(),
    }
}

impl Columns for Row {
    fn text(&self, name: &'static str) -> Result<Option<String>, Invalid> {
        self.try_get(name)
            .map_err(|error| Invalid::new(name, "a text in UTF-8").found(error.to_string()))
    }

    fn number(&self, name: &'static str) -> Result<Option<i64>, Invalid> {
        let number: Result<Option<i16>, _> = self.try_get(name);
        let number = number.map_err(|error| Invalid::new(name, "a whole number").found(error.to_string()))?;
        Ok(number.map(i64::from))
    }
}

fn rebuilt(row: &SimpleQueryRow) -> Result<Event, Error> {
    let need = |name: &'static str| {
        column(row, name)?
            .ok_or_else(|| Error::from(Invalid::new(format!("column {name}"), "a text in every row")))
    };
    let input = Json::new(need("input")?)?;
    let mut event = Event::new(need("task")?, &input)?.id(need("id")?);
    event.queue = column(row, "queue").ok().flatten().map(str::to_owned);
    event.partition = column(row, "partition").ok().flatten().map(str::to_owned);
    Ok(event)
}

fn column<'a>(row: &'a SimpleQueryRow, name: &'static str) -> Result<Option<&'a str>, Error> {
    row.try_get(name).map_err(|_| no_column(name))
}

fn no_column(name: &str) -> Error {
    Invalid::new(
        format!("the query gives no column {name}"),
        "columns id, task, input, queue, partition",
    )
    .hint(format!("SELECT … AS {name}"))
    .into()
}

fn no_id() -> Error {
    Invalid::new("column id", "a text in every row").into()
}
