//! What people do to jobs and keys (contract 6.2–6.5, 7.3, 5.2).

use rusqlite::{OptionalExtension, params};

use semel_core::counters::Counter;
use semel_core::ids::{Digest, JobId, Name, Token};
use semel_core::job::{Phase, State};
use semel_core::lifecycle::{self, AttemptEnd, AttemptResult};
use semel_core::step::{self, Resolution};
use semel_core::store::{Act, ActOutcome, StepFilter, log_feed};
use semel_core::view::HolderView;

use crate::effects;
use crate::fail::Fail;
use crate::inspect;
use crate::rows::{self, AT_ADMISSION, LifeRow};
use crate::statements::Sql;
use crate::submit;
use crate::tx::Tx;

/// Acts, one after another.
pub fn act(tx: &mut Tx<'_>, batch: &[Act]) -> Result<Vec<ActOutcome>, Fail> {
    tx.rescue()?;
    batch.iter().map(|act| one(tx, act)).collect()
}

fn one(tx: &mut Tx<'_>, act: &Act) -> Result<ActOutcome, Fail> {
    if let Err(invalid) = act.check() {
        return Ok(ActOutcome::Invalid(invalid));
    }
    match act {
        Act::Cancel { id } => with_job(tx, id, cancel),
        Act::Retry { id } => with_job(tx, id, retry),
        Act::Replay { id, token } => with_job(tx, id, |tx, id, row| replay(tx, id, row, token)),
        Act::Delete { id } => with_job(tx, id, delete),
        Act::Release { digest, holder } => release(tx, digest, holder),
        Act::Resolve {
            origin,
            step,
            resolution,
        } => resolve(tx, origin, step, resolution),
    }
}

fn with_job(
    tx: &mut Tx<'_>,
    id: &JobId,
    act: impl FnOnce(&mut Tx<'_>, &JobId, LifeRow) -> Result<ActOutcome, Fail>,
) -> Result<ActOutcome, Fail> {
    match tx.find(id)? {
        Some(row) => act(tx, id, row),
        None => Ok(ActOutcome::NotFound),
    }
}

fn cancel(tx: &mut Tx<'_>, id: &JobId, row: LifeRow) -> Result<ActOutcome, Fail> {
    let life = match lifecycle::cancel(&row.life, tx.now, tx.micros) {
        Ok(life) => life,
        Err(state) => return Ok(ActOutcome::WrongState(state)),
    };
    let mut after = LifeRow { life, ..row.clone() };
    if row.life.phase == Phase::Running {
        let end = AttemptEnd {
            attempt: row.life.attempt,
            fence: row.life.fence,
            began_at: row.life.began,
            ended_at: tx.now,
            result: AttemptResult::Cancelled,
            error: None,
        };
        after = tx.record(&after, &end)?;
    }
    if row.life.phase == Phase::Deferred {
        tx.statements.get(Sql::FollowCut)?.execute([row.seq])?;
    }
    tx.count(row.lane, Counter::Cancelled);
    tx.put_row(&row, &after)?;
    Ok(ActOutcome::Done {
        id: id.clone(),
        state: after.life.state(tx.now),
    })
}

fn retry(tx: &mut Tx<'_>, id: &JobId, row: LifeRow) -> Result<ActOutcome, Fail> {
    if let Some(by) = replay_of(tx, row.seq)? {
        return Ok(ActOutcome::Replayed { by });
    }
    let (digest, group) = tx.key_of(row.seq)?;
    if let Err(state) = lifecycle::retry(&row.life, digest.is_some(), tx.now, tx.micros, 0) {
        return Ok(ActOutcome::WrongState(state));
    }
    if is_stub(tx, row.seq)? {
        return Ok(ActOutcome::NotFound);
    }
    if let Some(held) = held_by_another(tx, digest.as_ref(), &row)? {
        return Ok(held);
    }
    let keeps = row.life.is_holder(tx.now);
    let generation = if keeps || digest.is_none() {
        0
    } else {
        tx.next_generation()?
    };
    let Ok(life) = lifecycle::retry(&row.life, digest.is_some(), tx.now, tx.micros, generation) else {
        return Ok(ActOutcome::WrongState(row.life.state(tx.now)));
    };
    if let (Some(digest), true) = (&digest, generation != 0) {
        tx.own(digest, group.as_ref(), generation, row.seq);
    }
    tx.count(row.lane, Counter::Retried);
    tx.statements.get(Sql::OutputDelete)?.execute([row.seq])?;
    tx.statements.get(Sql::ProgressDelete)?.execute([row.seq])?;
    let after = tx.put(&row, life)?;
    Ok(ActOutcome::Done {
        id: id.clone(),
        state: after.life.state(tx.now),
    })
}

/// Retry and replay are admitted with `reject`: another holder of the key keeps them out.
fn held_by_another(
    tx: &mut Tx<'_>,
    digest: Option<&Digest>,
    row: &LifeRow,
) -> Result<Option<ActOutcome>, Fail> {
    let Some(digest) = digest else { return Ok(None) };
    match tx.holder(digest)? {
        Some(holder) if holder.seq != row.seq => {
            let holder = holder_view(tx, &holder)?;
            Ok(Some(ActOutcome::Held { holder }))
        }
        _ => Ok(None),
    }
}

fn holder_view(tx: &mut Tx<'_>, row: &LifeRow) -> Result<HolderView, Fail> {
    let (_, task) = tx.names(row.lane)?;
    let whole = inspect::whole_job(&mut tx.statements, row.seq)?;
    let whole =
        whole.ok_or_else(|| Fail::Store(semel_core::error::StoreError::corrupt("a life without its job")))?;
    Ok(HolderView {
        id: whole.id,
        task,
        state: row.life.state(tx.now),
        enqueued_at: whole.enqueued_at,
    })
}

fn replay_of(tx: &mut Tx<'_>, seq: i64) -> Result<Option<JobId>, Fail> {
    Ok(tx
        .statements
        .get(Sql::ReplayFind)?
        .query_row([seq], |row| rows::id(row, 0))
        .optional()?)
}

/// Whether only a stub is left of a job: its input is gone.
pub fn is_stub(tx: &mut Tx<'_>, seq: i64) -> Result<bool, Fail> {
    let input: Option<String> = tx
        .statements
        .get(Sql::JobInput)?
        .query_row([seq], |row| row.get(0))?;
    Ok(input.is_none())
}

fn replay(tx: &mut Tx<'_>, id: &JobId, row: LifeRow, token: &Token) -> Result<ActOutcome, Fail> {
    if let Some(before) = replay_of(tx, row.seq)? {
        return Ok(ActOutcome::Before { id: before });
    }
    if row.life.phase != Phase::Failed {
        return Ok(ActOutcome::WrongState(row.life.state(tx.now)));
    }
    if is_stub(tx, row.seq)? {
        return Ok(ActOutcome::NotFound);
    }
    let (queue, task) = tx.names(row.lane)?;
    if let Some(target) = tx.closed(&queue, &task) {
        return Ok(ActOutcome::Closed { target });
    }
    let (digest, group) = tx.key_of(row.seq)?;
    if let Some(held) = held_by_another(tx, digest.as_ref(), &row)? {
        return Ok(held);
    }
    let fresh = rows::token_bytes(token, tx.ns);
    let seq = tx.peek_seq();
    if submit::remember(tx, &fresh, seq)?.is_some() {
        return Ok(ActOutcome::Invalid(Act::token_taken()));
    }
    tx.next_seq();
    let origin = effects::origin_of(tx, row.seq)?;
    copy_job(tx, row.seq, seq, &fresh, &origin, id)?;
    tx.let_go(&row)?;
    tx.statements
        .get(Sql::ReplayInsert)?
        .execute(params![row.seq, fresh])?;
    let mut life = lifecycle::replay(&row.life, digest.is_some(), tx.now, seq);
    if let Some(holding) = &mut life.holding {
        holding.taken_at = AT_ADMISSION;
        if let Some(digest) = &digest {
            tx.own(digest, group.as_ref(), seq, seq);
        }
    }
    let state = life.state(tx.now);
    tx.begin(&LifeRow {
        seq,
        lane: row.lane,
        life,
        worker: None,
        last_error: None,
    })?;
    tx.count(row.lane, Counter::Accepted);
    Ok(ActOutcome::Done {
        id: JobId::from(*token),
        state,
    })
}

fn copy_job(
    tx: &mut Tx<'_>,
    from: i64,
    to: i64,
    id: &[u8],
    origin: &JobId,
    letter: &JobId,
) -> Result<(), Fail> {
    let origin = rows::id_bytes(origin, tx.ns);
    let letter = rows::id_bytes(letter, tx.ns);
    let now = tx.now.as_millis();
    tx.statements
        .get(Sql::JobCopy)?
        .execute(params![from, to, id, now, origin, letter])?;
    Ok(())
}

fn delete(tx: &mut Tx<'_>, id: &JobId, row: LifeRow) -> Result<ActOutcome, Fail> {
    let state = row.life.state(tx.now);
    if !row.life.phase.is_terminal() {
        return Ok(ActOutcome::WrongState(state));
    }
    if row.life.is_holder(tx.now) {
        strip(tx, &row)?;
        tx.statements.get(Sql::OutputDelete)?.execute([row.seq])?;
    } else {
        if !is_stub(tx, row.seq)? {
            tx.uncount(&row);
        }
        tx.erase(&row)?;
        tx.forget_id(id);
    }
    Ok(ActOutcome::Done {
        id: id.clone(),
        state,
    })
}

/// Leaves only a stub of a job that still holds its key, and its output (contract 2.4). Whether there was more.
pub fn strip(tx: &mut Tx<'_>, row: &LifeRow) -> Result<bool, Fail> {
    let free_at = row
        .life
        .holding
        .as_ref()
        .and_then(|holding| holding.free_at(&row.life));
    let check_at = free_at.map_or(i64::MAX, |at| at.as_millis());
    tx.statements
        .get(Sql::StubPut)?
        .execute(params![row.seq, tx.ns, check_at])?;
    if is_stub(tx, row.seq)? {
        return Ok(false);
    }
    tx.uncount(row);
    if let (Some(digest), _) = tx.key_of(row.seq)? {
        tx.cache.recent.forget_owner(&digest);
    }
    tx.statements.get(Sql::JobStrip)?.execute([row.seq])?;
    tx.statements.get(Sql::ProgressDelete)?.execute([row.seq])?;
    tx.statements
        .get(Sql::AttemptStrip)?
        .execute(params![row.seq, row.last_error])?;
    let feed = log_feed(&tx.id_of(row.seq)?);
    tx.statements
        .get(Sql::FeedDelete)?
        .execute(params![tx.ns, feed])?;
    Ok(true)
}

fn release(tx: &mut Tx<'_>, digest: &Digest, holder: &JobId) -> Result<ActOutcome, Fail> {
    let Some(row) = tx.holder(digest)? else {
        return Ok(ActOutcome::NotFound);
    };
    let view = holder_view(tx, &row)?;
    if view.id != *holder {
        return Ok(ActOutcome::Held { holder: view });
    }
    let after = tx.let_go(&row)?;
    tx.free(&after)?;
    Ok(ActOutcome::Done {
        id: view.id,
        state: view.state,
    })
}

fn resolve(
    tx: &mut Tx<'_>,
    origin: &JobId,
    name: &Name,
    resolution: &Resolution,
) -> Result<ActOutcome, Fail> {
    let Some(record) = effects::find_step(&mut tx.statements, origin, name, tx.ns)? else {
        return Ok(ActOutcome::NotFound);
    };
    if !effects::is_in_doubt(tx, &record)? {
        return Ok(ActOutcome::NotInDoubt);
    }
    effects::put_step(tx, &step::resolve(&record, resolution, tx.now))?;
    let jobs = effects::chain(tx, origin)?;
    let parked = jobs.iter().find(|row| row.life.phase == Phase::Parked).cloned();
    if !others_in_doubt(tx, origin)? {
        for row in &jobs {
            if let Some(life) = lifecycle::unpark(&row.life, tx.now) {
                tx.put(row, life)?;
            }
        }
    }
    let began = tx.find(&record.job)?;
    let Some(concerned) = parked.or(began).or_else(|| jobs.first().cloned()) else {
        return Ok(ActOutcome::NotFound);
    };
    let state = tx
        .life(concerned.seq)?
        .map_or(State::Queued, |row| row.life.state(tx.now));
    Ok(ActOutcome::Done {
        id: tx.id_of(concerned.seq)?,
        state,
    })
}

fn others_in_doubt(tx: &mut Tx<'_>, origin: &JobId) -> Result<bool, Fail> {
    let filter = StepFilter::Origin(origin.clone());
    for record in inspect::step_records(&mut tx.statements, &filter, tx.ns)? {
        if effects::is_in_doubt(tx, &record)? {
            return Ok(true);
        }
    }
    Ok(false)
}
