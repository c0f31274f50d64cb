//! Submissions that become jobs.

use rusqlite::params;

use semel_core::counters::Counter;
use semel_core::dedup::{Key, KeyBy};
use semel_core::error::StoreError;
use semel_core::ids::{Digest, JobId, Name};
use semel_core::job::{Life, Outcome, Phase, State, Would};
use semel_core::json::Json;
use semel_core::store::{Admitted, Submitted};
use semel_core::submission::Prepared;
use semel_core::view::HolderView;

use crate::born::Newborn;
use crate::fail::Fail;
use crate::gathered::NewJob;
use crate::recent::Keyed;
use crate::rows::{self, AT_ADMISSION, IdBytes, LifeRow};
use crate::statements::Sql;
use crate::submit::known::remember;
use crate::tx::Tx;

pub(super) fn accept(
    tx: &mut Tx<'_>,
    prepared: &Prepared,
    life: Life,
    would: Option<Would>,
    taken_from: Option<LifeRow>,
) -> Result<Submitted, Fail> {
    let submission = &prepared.submission;
    let seq = tx.peek_seq();
    let token = rows::token_bytes(&submission.token, tx.ns);
    if would.is_none()
        && taken_from.is_none()
        && let Some(admitted) = bear(tx, &token, prepared, &life)?
    {
        return Ok(admitted);
    }
    tx.enter_newborn()?;
    if let Some(answer) = remember(tx, &token, seq)? {
        return Ok(answer);
    }
    tx.next_seq();
    if let Some(row) = taken_from {
        tx.let_go(&row)?;
    }
    let key = prepared.key.as_ref().filter(|_| life.holding.is_some());
    let collides_with = match key.and_then(|key| key.group.as_ref().map(|group| (key, group))) {
        Some((key, group)) => tx.collision(group, &key.digest)?,
        None => None,
    };
    let collides_with = collides_with.map(|other| tx.id_of(other)).transpose()?;
    let lane = tx.lane(&submission.queue, &submission.task)?;
    let state = life.state(tx.now);
    let born = Birth {
        key,
        would: would.as_ref(),
        collides_with: collides_with.as_ref(),
        ..Birth::default()
    };
    insert(tx, seq, lane, &token, prepared, life, &born)?;
    tx.count(lane, Counter::Accepted);
    if would.is_some() {
        tx.count(lane, Counter::Observed);
    }
    if collides_with.is_some() {
        tx.count(lane, Counter::Collisions);
    }
    let mut admitted = accepted(tx, prepared, state, key);
    (admitted.would, admitted.collides_with) = (would, collides_with);
    Ok(Submitted::Job(Box::new(admitted)))
}

fn accepted(tx: &Tx<'_>, prepared: &Prepared, state: State, key: Option<&Key>) -> Admitted {
    let submission = &prepared.submission;
    Admitted {
        outcome: Outcome::Accepted,
        job: HolderView {
            id: JobId::from(submission.token),
            task: submission.task.clone(),
            state,
            enqueued_at: tx.now,
        },
        key: key.map(|key| key.digest),
        would: None,
        collides_with: None,
    }
}

/// Accepts by the job's own row alone, if that is enough for now.
fn bear(tx: &mut Tx<'_>, id: &IdBytes, prepared: &Prepared, life: &Life) -> Result<Option<Submitted>, Fail> {
    let submission = &prepared.submission;
    let key = prepared.key.as_ref().filter(|_| life.holding.is_some());
    let birth = Birth {
        key,
        ..Birth::default()
    };
    if !tx.deferring || life.phase != Phase::Waiting || !is_plain(prepared, &birth) {
        return Ok(None);
    }
    let mut row = LifeRow {
        seq: tx.peek_seq(),
        lane: tx.lane(&submission.queue, &submission.task)?,
        life: life.clone(),
        worker: None,
        last_error: None,
    };
    if let Some(holding) = &mut row.life.holding {
        holding.taken_at = AT_ADMISSION;
    }
    if !tx.may_be_newborn(&row, id) {
        return Ok(None);
    }
    tx.next_seq();
    let mut job = new_job(tx, row.seq, id, prepared, &birth);
    job.birth = Some(row.pack());
    tx.statements.gather(|gathered| gathered.job(job))?;
    let keyed = Keyed {
        seq: row.seq,
        id: rows::short(id),
        enqueued_at: tx.now,
        input: key.and_then(stored_input),
        stub: false,
    };
    tx.bear(Newborn {
        row,
        id: *id,
        digest: key.map(|key| key.digest),
        keyed,
    });
    let state = life.state(tx.now);
    Ok(Some(Submitted::Job(Box::new(accepted(tx, prepared, state, key)))))
}

/// What a new job carries beside its submission.
#[derive(Default)]
pub(super) struct Birth<'a> {
    /// Its key.
    pub(super) key: Option<&'a Key>,
    /// What an observing submission would have got.
    pub(super) would: Option<&'a Would>,
    /// The job of the same hybrid fields it differs from.
    pub(super) collides_with: Option<&'a JobId>,
    /// Born as a follower.
    pub(super) deferred: bool,
}

pub(super) fn insert(
    tx: &mut Tx<'_>,
    seq: i64,
    lane: i64,
    id: &IdBytes,
    prepared: &Prepared,
    mut life: Life,
    birth: &Birth<'_>,
) -> Result<(), Fail> {
    if let Some(holding) = &mut life.holding {
        holding.taken_at = AT_ADMISSION;
    }
    if is_plain(prepared, birth) {
        let job = new_job(tx, seq, id, prepared, birth);
        tx.statements.gather(|gathered| gathered.job(job))?;
    } else {
        insert_whole(tx, seq, id, prepared, birth)?;
    }
    if let (Some(key), Some(holding)) = (birth.key, &life.holding) {
        let keyed = Keyed {
            seq,
            id: rows::short(id),
            enqueued_at: tx.now,
            input: stored_input(key),
            stub: false,
        };
        tx.own_newly(&key.digest, key.group.as_ref(), holding.generation, keyed);
    }
    tx.begin(&LifeRow {
        seq,
        lane,
        life,
        worker: None,
        last_error: None,
    })
}

fn new_job(tx: &Tx<'_>, seq: i64, id: &IdBytes, prepared: &Prepared, birth: &Birth<'_>) -> NewJob {
    NewJob {
        seq,
        id: *id,
        enqueued_at: tx.now.as_millis(),
        birth: None,
        input: prepared.submission.content.input.clone(),
        digest: birth.key.map(|key| key.digest),
        key_text: birth.key.and_then(|key| key.text.clone()),
        key_by: birth.key.map(|key| key.by as i64),
        input_digest: birth.key.and_then(stored_input),
    }
}

/// Whether a job has nothing that most jobs lack.
fn is_plain(prepared: &Prepared, birth: &Birth<'_>) -> bool {
    let (submission, content) = (&prepared.submission, &prepared.submission.content);
    content.headers.is_empty()
        && content.meta.is_none()
        && content.timeout.is_none()
        && submission.producer.is_none()
        && birth
            .key
            .is_none_or(|key| key.group.is_none() && &*key.scope == "task")
        && birth.would.is_none()
        && birth.collides_with.is_none()
        && !birth.deferred
}

fn insert_whole(
    tx: &mut Tx<'_>,
    seq: i64,
    id: &IdBytes,
    prepared: &Prepared,
    birth: &Birth<'_>,
) -> Result<(), Fail> {
    let content = &prepared.submission.content;
    let headers = headers_text(&content.headers)?;
    let would = birth
        .would
        .map(serde_json::to_string)
        .transpose()
        .map_err(unwritable)?;
    let collides_with = birth.collides_with.and_then(|id| rows::id_bytes(id, tx.ns));
    tx.statements.get(Sql::JobInsert)?.execute(params![
        seq,
        id,
        tx.now.as_millis(),
        content.input.as_str(),
        headers,
        content.meta.as_ref().map(Json::as_str),
        content.timeout.map(|timeout| timeout.as_millis()),
        prepared.submission.producer.as_ref().map(Name::as_str),
        birth.key.map(|key| key.digest.as_bytes()),
        birth.key.and_then(|key| key.group.as_ref()).map(Digest::as_bytes),
        birth.key.and_then(|key| key.text.as_deref()),
        birth.key.map(|key| key.by as i64),
        birth.key.map(|key| &*key.scope).filter(|scope| *scope != "task"),
        birth.key.and_then(stored_input).map(|digest| *digest.as_bytes()),
        None::<Vec<u8>>,
        None::<Vec<u8>>,
        would,
        collides_with,
        birth.deferred.then(|| rows::outcome_number(Outcome::Deferred)),
    ])?;
    Ok(())
}

/// Equal keys made from the whole input mean equal inputs: nothing to store.
pub(super) fn stored_input(key: &Key) -> Option<Digest> {
    (!matches!(key.by, KeyBy::Input | KeyBy::Hybrid)).then_some(key.input)
}

/// Headers as their column: nothing where there are none.
pub(super) fn headers_text(
    headers: &std::collections::BTreeMap<String, String>,
) -> Result<Option<String>, Fail> {
    if headers.is_empty() {
        return Ok(None);
    }
    serde_json::to_string(headers).map(Some).map_err(unwritable)
}

pub(super) fn unwritable(error: serde_json::Error) -> Fail {
    Fail::Store(StoreError::corrupt(format!("cannot be written as JSON: {error}")))
}
