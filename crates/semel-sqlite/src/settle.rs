//! What workers write about running jobs: heartbeats and ends. Nothing is written unless the fence is the newest.

use rusqlite::{OptionalExtension, params};

use semel_core::counters::Counter;
use semel_core::error::Invalid;
use semel_core::job::State;
use semel_core::lifecycle::{self, Refusal, Settle, Settled};
use semel_core::limits;
use semel_core::store::{Beat, ExtendRequest, Settlement, WriteOutcome, log_feed};
use semel_core::time::{Millis, Timestamp};

use crate::documents;
use crate::fail::Fail;
use crate::rows::{self, LifeRow};
use crate::statements::Sql;
use crate::tx::Tx;

/// Heartbeats, one after another.
pub fn extend(tx: &mut Tx<'_>, request: &ExtendRequest) -> Result<Vec<WriteOutcome>, Fail> {
    tx.rescue()?;
    request
        .leases
        .iter()
        .map(|beat| one_beat(tx, beat, request.lease))
        .collect()
}

fn one_beat(tx: &mut Tx<'_>, beat: &Beat, lease: Millis) -> Result<WriteOutcome, Fail> {
    let Some(row) = tx.find(&beat.id)? else {
        return Ok(WriteOutcome::NotFound);
    };
    if beat
        .progress
        .is_some_and(|progress| !(0.0..=1.0).contains(&progress))
    {
        return Ok(WriteOutcome::Invalid(Invalid::new(
            "progress",
            "a number from 0 to 1",
        )));
    }
    let until = tx.now.plus(lease);
    let life = match lifecycle::extend(&row.life, beat.fence, until, tx.now) {
        Ok(life) => life,
        Err(refusal) => return Ok(refused(tx, &row, refusal)),
    };
    let revived = row.life.until.is_none();
    tx.put(&row, life)?;
    if revived || row.life.until.is_some_and(|old| until < old) {
        watch(tx, &row, beat.fence, until)?;
    }
    if let Some(progress) = beat.progress {
        tx.statements
            .get(Sql::ProgressPut)?
            .execute(params![row.seq, progress])?;
    }
    let lines = beat
        .log
        .iter()
        .map(|line| limits::cut(line, limits::LOG_LINE_BYTES));
    documents::append_lines(tx, &log_feed(&beat.id), lines)?;
    Ok(WriteOutcome::Ok(State::Running))
}

/// A lease that ends sooner than its batch says, or whose batch was given up, is watched again.
fn watch(tx: &mut Tx<'_>, row: &LifeRow, fence: i64, until: Timestamp) -> Result<(), Fail> {
    tx.note_lease(until);
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?));
    let batch = tx
        .statements
        .get(Sql::LeaseFind)?
        .query_row([fence], read)
        .optional()?;
    let (soonest, seqs) = batch.unwrap_or((i64::MAX, Vec::new()));
    let mut seqs = rows::unpack(&seqs);
    if !seqs.contains(&row.seq) {
        seqs.push(row.seq);
    }
    let token = format!("revived/{}/{fence}", row.seq).into_bytes();
    let until = soonest.min(until.as_millis());
    let forget_at = tx.now.plus(limits::CLAIM_KEPT).as_millis();
    let batch = params![fence, tx.ns, until, token, rows::pack(seqs), forget_at];
    tx.statements.get(Sql::LeasePut)?.execute(batch)?;
    Ok(())
}

fn refused(tx: &mut Tx<'_>, row: &LifeRow, refusal: Refusal) -> WriteOutcome {
    tx.count(row.lane, Counter::StaleWrites);
    WriteOutcome::Refused(refusal)
}

/// Ends of attempts, one after another.
pub fn settle(tx: &mut Tx<'_>, batch: &[Settlement]) -> Result<Vec<WriteOutcome>, Fail> {
    tx.rescue()?;
    batch.iter().map(|settlement| one_end(tx, settlement)).collect()
}

fn one_end(tx: &mut Tx<'_>, settlement: &Settlement) -> Result<WriteOutcome, Fail> {
    let Some(row) = tx.find(&settlement.id)? else {
        return Ok(WriteOutcome::NotFound);
    };
    if let Err(invalid) = check(&settlement.result) {
        return Ok(WriteOutcome::Invalid(invalid));
    }
    let settled = lifecycle::settle(
        &row.life,
        &settlement.id,
        settlement.fence,
        &settlement.result,
        tx.now,
    );
    let (life, end) = match settled {
        Err(refusal) => return Ok(refused(tx, &row, refusal)),
        Ok(Settled::Before(state)) => return Ok(WriteOutcome::Ok(state)),
        Ok(Settled::Moved { life, end }) => (*life, end),
    };
    let state = life.state(tx.now);
    let mut after = LifeRow { life, ..row.clone() };
    match &settlement.result {
        // The delivery that completes a job is told by the job itself.
        Settle::Complete { output } => {
            if let Some(output) = output {
                tx.statements
                    .get(Sql::OutputPut)?
                    .execute(params![row.seq, output.as_str()])?;
            }
        }
        _ => after = tx.record(&after, &end)?,
    }
    if let Some(counter) = Counter::of_attempt(end.result) {
        tx.count(row.lane, counter);
    }
    tx.put_row(&row, &after)?;
    if state.is_terminal() {
        tx.forget_id(&settlement.id);
    }
    Ok(WriteOutcome::Ok(state))
}

fn check(result: &Settle) -> Result<(), Invalid> {
    let delay = match result {
        Settle::Complete { output: Some(output) } if output.as_str().len() > limits::OUTPUT_BYTES => {
            return Err(Invalid::new(
                "output",
                format!("at most {} bytes", limits::OUTPUT_BYTES),
            ));
        }
        Settle::Retry { delay, .. } => delay.unwrap_or(Millis::ZERO),
        Settle::Snooze { delay } => *delay,
        _ => Millis::ZERO,
    };
    if delay > limits::LONGEST {
        return Err(Invalid::new("delay", "at most ten years"));
    }
    Ok(())
}
