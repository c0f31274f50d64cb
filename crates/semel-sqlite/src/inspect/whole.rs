//! A row of `job`, and the job as anyone sees it.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Row};

use semel_core::dedup::Key;
use semel_core::error::StoreError;
use semel_core::ids::{Digest, JobId, Name};
use semel_core::job::{Life, Phase, Would};
use semel_core::json::Json;
use semel_core::time::{Millis, Timestamp};
use semel_core::view::{Job, JobError, KeyView};

use crate::fail::Fail;
use crate::rows::{self, AT_ADMISSION, IdBytes, LifeRow};
use crate::statements::{Sql, Statements};

/// A row of `job`.
pub struct Whole {
    /// Its identity.
    pub id: JobId,
    /// When it was admitted.
    pub enqueued_at: Timestamp,
    /// Its key.
    pub digest: Option<Digest>,
    /// What an observing submission would have got.
    pub would: Option<Would>,
    /// The job of the same hybrid fields it differs from.
    pub collides_with: Option<JobId>,
    /// Born as a follower.
    pub born_deferred: bool,
    bytes: IdBytes,
    input: Option<Json>,
    headers: Option<String>,
    meta: Option<String>,
    timeout: Option<i64>,
    producer: Option<String>,
    key: Option<Key>,
    origin: Option<JobId>,
    replayed_from: Option<JobId>,
}

impl Whole {
    /// Reads a job whose columns begin at `from`.
    pub fn read(row: &Row<'_>, from: usize) -> rusqlite::Result<Self> {
        let digest = rows::digest(row, from + 7)?;
        let would: Option<String> = row.get(from + 15)?;
        let bytes = IdBytes::read(row.get_ref(from)?.as_blob()?);
        let input = row.get_ref(from + 2)?.as_str_or_null()?;
        Ok(Whole {
            id: rows::id_from(&bytes),
            bytes,
            enqueued_at: rows::time(row.get(from + 1)?),
            input: input.map(Json::trusted),
            headers: row.get(from + 3)?,
            meta: row.get(from + 4)?,
            timeout: row.get(from + 5)?,
            producer: row.get(from + 6)?,
            digest,
            key: digest.map(|digest| read_key(row, from + 8, digest)).transpose()?,
            origin: rows::optional_id(row, from + 13)?,
            replayed_from: rows::optional_id(row, from + 14)?,
            would: would.and_then(|text| serde_json::from_str(&text).ok()),
            collides_with: rows::optional_id(row, from + 16)?,
            born_deferred: row.get::<_, Option<i64>>(from + 17)?.is_some(),
        })
    }

    /// The bytes of its id.
    pub fn id_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its key as anyone sees it.
    pub fn key_view(&self, life: &Life, now: Timestamp) -> Option<KeyView> {
        let (key, holding) = (self.key.as_ref()?, life.holding.as_ref()?);
        let taken_at = if holding.taken_at == AT_ADMISSION {
            self.enqueued_at
        } else {
            holding.taken_at
        };
        Some(KeyView {
            digest: key.digest,
            text: key.text.as_deref().map(str::to_owned),
            scope: key.scope.to_string(),
            by: key.by,
            hold: holding.hold,
            held: holding.is_held(life, now),
            taken_at,
            expires_at: holding.expires_at,
            generation: holding.generation,
            observed: holding.observed,
        })
    }

    /// The job as anyone sees it. `fresh` says that nobody can have written about it yet.
    #[expect(
        clippy::too_many_arguments,
        reason = "what is known of a job comes from as many tables"
    )]
    pub fn show(
        self,
        statements: &mut Statements<'_>,
        row: &LifeRow,
        queue: Name,
        task: Name,
        worker: Option<Name>,
        now: Timestamp,
        fresh: bool,
    ) -> Result<Job, Fail> {
        let life = &row.life;
        let key = self.key_view(life, now);
        let ended = life.phase.is_terminal();
        // Most jobs have none of these: ask only where there can be one.
        let seen = life.started_at.is_some() && !fresh;
        let blocked_by = if life.phase == Phase::Deferred {
            followed_by(statements, row.seq)?
        } else {
            None
        };
        let replayed_as = if life.phase == Phase::Failed {
            replayed_as(statements, row.seq)?
        } else {
            None
        };
        Ok(Job {
            origin: self.origin.unwrap_or_else(|| self.id.clone()),
            id: self.id,
            task,
            queue,
            state: life.state(now),
            stub: self.input.is_none(),
            input: self.input.unwrap_or_else(Json::null),
            output: if ended {
                text(statements, Sql::OutputFind, row.seq)?.map(Json::trusted)
            } else {
                None
            },
            error: last_error(statements, row)?,
            attempt: life.attempt,
            max_attempts: life.max_attempts,
            deliveries: life.deliveries,
            max_deliveries: life.max_deliveries,
            priority: life.priority,
            enqueued_at: self.enqueued_at,
            run_at: life.run_at,
            started_at: life.started_at,
            finished_at: life.finished_at,
            timeout: self.timeout.map(Millis::new),
            progress: if seen {
                progress(statements, row.seq)?
            } else {
                None
            },
            key,
            worker,
            lease_until: life.until,
            fence: life.fence,
            replayed_from: self.replayed_from,
            replayed_as,
            blocked_by,
            would: self.would,
            collides_with: self.collides_with,
            producer: self.producer.map(Name::new).transpose()?,
            headers: match self.headers {
                Some(text) => serde_json::from_str(&text).map_err(unreadable)?,
                None => BTreeMap::new(),
            },
            meta: self.meta.map(Json::trusted),
        })
    }
}

fn read_key(row: &Row<'_>, at: usize, digest: Digest) -> rusqlite::Result<Key> {
    let scope: Option<String> = row.get(at + 3)?;
    Ok(Key {
        digest,
        group: rows::digest(row, at)?,
        text: row.get::<_, Option<String>>(at + 1)?.map(String::into_boxed_str),
        by: rows::decode(row, at + 2, &rows::KEY_BYS)?,
        scope: scope.map_or("task".into(), Into::into),
        input: rows::digest(row, at + 4)?.unwrap_or(digest),
    })
}

fn unreadable(error: serde_json::Error) -> Fail {
    Fail::Store(StoreError::corrupt(format!(
        "stored JSON cannot be read: {error}"
    )))
}

/// A whole job by its number, without its life.
pub fn whole_job(statements: &mut Statements<'_>, seq: i64) -> Result<Option<Whole>, Fail> {
    Ok(statements
        .get(Sql::JobFind)?
        .query_row([seq], |row| Whole::read(row, 0))
        .optional()?)
}

/// JSON pointers from their column.
pub fn pointers(text: Option<&str>) -> Result<Vec<String>, Fail> {
    text.map_or(Ok(Vec::new()), |text| {
        serde_json::from_str(text).map_err(unreadable)
    })
}

fn text(statements: &mut Statements<'_>, sql: Sql, seq: i64) -> Result<Option<String>, Fail> {
    Ok(statements
        .get(sql)?
        .query_row([seq], |row| row.get(0))
        .optional()?)
}

fn progress(statements: &mut Statements<'_>, seq: i64) -> Result<Option<f64>, Fail> {
    Ok(statements
        .get(Sql::ProgressFind)?
        .query_row([seq], |row| row.get(0))
        .optional()?)
}

fn replayed_as(statements: &mut Statements<'_>, seq: i64) -> Result<Option<JobId>, Fail> {
    Ok(statements
        .get(Sql::ReplayFind)?
        .query_row([seq], |row| rows::id(row, 0))
        .optional()?)
}

fn followed_by(statements: &mut Statements<'_>, seq: i64) -> Result<Option<JobId>, Fail> {
    let holder = statements
        .get(Sql::FollowedFind)?
        .query_row([seq], |row| row.get::<_, i64>(0))
        .optional()?;
    let Some(holder) = holder else { return Ok(None) };
    Ok(statements
        .get(Sql::JobId)?
        .query_row([holder], |row| rows::id(row, 0))
        .optional()?)
}

fn last_error(statements: &mut Statements<'_>, row: &LifeRow) -> Result<Option<JobError>, Fail> {
    let Some(n) = row.last_error else { return Ok(None) };
    let read = |row: &Row<'_>| {
        Ok(JobError {
            message: row.get(0)?,
            at: rows::time(row.get(1)?),
            attempt: row.get(2)?,
        })
    };
    Ok(statements
        .get(Sql::AttemptError)?
        .query_row([row.seq, n], read)
        .optional()?)
}
