//! Steps and guards: effects that happen once (contract 5).

use rusqlite::{OptionalExtension, Row, params};

use semel_core::counters::Counter;
use semel_core::dedup::key;
use semel_core::error::Invalid;
use semel_core::guard::{self, GuardAnswer, GuardCall, GuardChange, GuardRecord};
use semel_core::ids::{JobId, Name, Token};
use semel_core::job::Phase;
use semel_core::json::Json;
use semel_core::lifecycle;
use semel_core::limits;
use semel_core::step::{self, Speaker, StepAnswer, StepChange, StepPhase, StepRecord, Verdict};
use semel_core::store::{GuardOutcome, GuardRequest, StepOutcome, StepRequest};
use semel_core::time::Millis;

use crate::fail::Fail;
use crate::rows::{self, LifeRow};
use crate::statements::{Sql, Statements};
use crate::tx::Tx;

/// What workers say about steps, one after another.
pub fn steps(tx: &mut Tx<'_>, batch: &[StepRequest]) -> Result<Vec<StepOutcome>, Fail> {
    tx.rescue()?;
    batch.iter().map(|request| one_step(tx, request)).collect()
}

fn one_step(tx: &mut Tx<'_>, request: &StepRequest) -> Result<StepOutcome, Fail> {
    let Some(row) = tx.find(&request.id)? else {
        return Ok(StepOutcome::NotFound);
    };
    if let Err(refusal) = lifecycle::may_write(&row.life, request.fence) {
        tx.count(row.lane, Counter::StaleWrites);
        return Ok(StepOutcome::Refused(refusal));
    }
    if let StepPhase::Confirm { output } = &request.phase
        && output.as_str().len() > limits::OUTPUT_BYTES
    {
        let allowed = format!("at most {} bytes", limits::OUTPUT_BYTES);
        return Ok(StepOutcome::Invalid(Invalid::new("output of a step", allowed)));
    }
    let origin = origin_of(tx, row.seq)?;
    let stored = find_step(&mut tx.statements, &origin, &request.step, tx.ns)?;
    let speaker = Speaker {
        origin: origin.clone(),
        job: request.id.clone(),
        fence: request.fence,
    };
    let change = step::step(stored.as_ref(), &speaker, &request.step, &request.phase, tx.now);
    let (record, verdict) = match change {
        StepChange::Write(record, verdict) => {
            put_step(tx, &record)?;
            (Some(record), verdict)
        }
        StepChange::Keep(verdict) => (stored, verdict),
    };
    let generation = record.map_or(0, |record| record.generation);
    let key = key::downstream(tx.namespace, origin.as_str(), &request.step, generation);
    Ok(StepOutcome::Answer(match verdict {
        Verdict::Ok => StepAnswer::Ok { key },
        Verdict::InDoubt => StepAnswer::InDoubt { key },
        Verdict::Confirmed(output) => StepAnswer::Confirmed { output },
        Verdict::NotBegun => StepAnswer::NotBegun,
    }))
}

/// The first job of a job's chain.
pub fn origin_of(tx: &mut Tx<'_>, seq: i64) -> Result<JobId, Fail> {
    let read = |row: &Row<'_>| Ok(rows::optional_id(row, 3)?.map_or_else(|| rows::id(row, 0), Ok));
    Ok(tx.statements.get(Sql::JobKeyed)?.query_row([seq], read)??)
}

/// The jobs of a chain that are there, oldest first.
pub fn chain(tx: &mut Tx<'_>, origin: &JobId) -> Result<Vec<LifeRow>, Fail> {
    let Some(bytes) = rows::id_bytes(origin, tx.ns) else {
        return Ok(Vec::new());
    };
    let found = tx
        .statements
        .get(Sql::OriginList)?
        .query_map([bytes], |row| row.get::<_, i64>(0))?;
    let mut seqs = found.collect::<rusqlite::Result<Vec<_>>>()?;
    seqs.extend(tx.find(origin)?.map(|row| row.seq));
    seqs.sort_unstable();
    let mut jobs = Vec::new();
    for seq in seqs {
        jobs.extend(tx.life(seq)?);
    }
    Ok(jobs)
}

/// A step by its chain and name.
pub fn find_step(
    statements: &mut Statements<'_>,
    origin: &JobId,
    name: &Name,
    ns: i64,
) -> Result<Option<StepRecord>, Fail> {
    let Some(origin) = rows::id_bytes(origin, ns) else {
        return Ok(None);
    };
    Ok(statements
        .get(Sql::StepFind)?
        .query_row(params![origin, name.as_str()], read_step)
        .optional()?)
}

/// A row of `step`.
pub fn read_step(row: &Row<'_>) -> rusqlite::Result<StepRecord> {
    let name: String = row.get(1)?;
    Ok(StepRecord {
        origin: rows::id(row, 0)?,
        name: Name::new(name).map_err(rows::unreadable)?,
        state: rows::decode(row, 2, &rows::STEP_STATES)?,
        job: rows::id(row, 3)?,
        fence: row.get(4)?,
        token: Token::from_bytes(row.get(5)?),
        generation: row.get(6)?,
        begun_at: rows::time(row.get(7)?),
        ended_at: rows::optional_time(row, 8)?,
        output: row.get::<_, Option<String>>(9)?.map(Json::trusted),
    })
}

/// Writes a step.
pub fn put_step(tx: &mut Tx<'_>, record: &StepRecord) -> Result<(), Fail> {
    tx.statements.get(Sql::StepPut)?.execute(params![
        rows::id_bytes(&record.origin, tx.ns),
        record.name.as_str(),
        rows::STEP_STATES
            .iter()
            .position(|state| *state == record.state)
            .map(|place| place as i64),
        rows::id_bytes(&record.job, tx.ns),
        record.fence,
        record.token.as_bytes(),
        record.generation,
        record.begun_at.as_millis(),
        rows::millis(record.ended_at),
        record.output.as_ref().map(Json::as_str),
    ])?;
    Ok(())
}

/// Whether a step's effect may have happened and nobody is at it.
pub fn is_in_doubt(tx: &mut Tx<'_>, record: &StepRecord) -> Result<bool, Fail> {
    if record.state != step::StepState::Begun {
        return Ok(false);
    }
    let row = tx.find(&record.job)?;
    Ok(!row.is_some_and(|row| row.life.phase == Phase::Running && row.life.fence == record.fence))
}

/// Calls to guards, one after another.
pub fn guard(tx: &mut Tx<'_>, batch: &[GuardRequest]) -> Result<Vec<GuardOutcome>, Fail> {
    tx.rescue()?;
    batch.iter().map(|request| one_guard(tx, request)).collect()
}

fn one_guard(tx: &mut Tx<'_>, request: &GuardRequest) -> Result<GuardOutcome, Fail> {
    let digest = match check_guard(tx.namespace, request) {
        Ok(digest) => digest,
        Err(invalid) => return Ok(GuardOutcome::Invalid(invalid)),
    };
    let read = |row: &Row<'_>| {
        Ok(GuardRecord {
            digest,
            token: Token::from_bytes(row.get(0)?),
            ttl: Millis::new(row.get(1)?),
            expires_at: rows::time(row.get(2)?),
            output: row.get::<_, Option<String>>(3)?.map(Json::trusted),
        })
    };
    let stored = tx
        .statements
        .get(Sql::GuardFind)?
        .query_row([digest.as_bytes()], read)
        .optional()?;
    let (change, answer) = guard::guard(stored.as_ref(), digest, &request.call, tx.now);
    let fresh = matches!(change, GuardChange::Write(_)) && answer == GuardAnswer::Fresh;
    match change {
        GuardChange::Keep => {}
        GuardChange::Remove => {
            tx.statements
                .get(Sql::GuardDelete)?
                .execute([digest.as_bytes()])?;
        }
        GuardChange::Write(record) => {
            tx.statements.get(Sql::GuardPut)?.execute(params![
                digest.as_bytes(),
                record.token.as_bytes(),
                record.ttl.as_millis(),
                record.expires_at.as_millis(),
                record.output.as_ref().map(Json::as_str),
            ])?;
        }
    }
    let counts = [
        fresh,
        answer == GuardAnswer::InProgress,
        matches!(answer, GuardAnswer::Done(_)),
    ]
    .map(i64::from);
    if counts != [0; 3] {
        tx.statements
            .get(Sql::GuardCount)?
            .execute(params![tx.ns, counts[0], counts[1], counts[2]])?;
    }
    Ok(GuardOutcome::Answer(answer))
}

fn check_guard(namespace: &Name, request: &GuardRequest) -> Result<semel_core::ids::Digest, Invalid> {
    match &request.call {
        GuardCall::Reserve { ttl, .. } if ttl.is_zero() || *ttl > limits::LONGEST => {
            return Err(Invalid::new("ttl", "one millisecond to ten years"));
        }
        GuardCall::Confirm { output, .. } if output.as_str().len() > limits::OUTPUT_BYTES => {
            return Err(Invalid::new(
                "output",
                format!("at most {} bytes", limits::OUTPUT_BYTES),
            ));
        }
        _ => {}
    }
    key::guard_digest(namespace, &request.key)
}
