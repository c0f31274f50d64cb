//! Submissions that another job takes in.

use rusqlite::{OptionalExtension, params};

use semel_core::admission::{self, Decision};
use semel_core::canonical::{self, Limits};
use semel_core::counters::Counter;
use semel_core::dedup::Key;
use semel_core::error::{Invalid, StoreError};
use semel_core::ids::{Digest, JobId, Name};
use semel_core::job::{Life, Outcome, State};
use semel_core::json::Json;
use semel_core::limits;
use semel_core::store::{Admitted, Submitted};
use semel_core::submission::Prepared;
use semel_core::view::HolderView;

use crate::fail::Fail;
use crate::ledger::{Packed, Words};
use crate::rows;
use crate::statements::Sql;
use crate::submit::accept::{Birth, headers_text, insert, stored_input, unwritable};
use crate::submit::holder::{self, Found, view};
use crate::submit::known::remember;
use crate::tx::Tx;

pub(super) fn answer(
    outcome: Outcome,
    job: HolderView,
    key: Option<Digest>,
    differs: Vec<String>,
) -> Submitted {
    match outcome {
        Outcome::Rejected => Submitted::Rejected { holder: job },
        Outcome::Conflict => Submitted::Conflict { holder: job, differs },
        outcome => Submitted::Job(Box::new(Admitted {
            outcome,
            job,
            key,
            would: None,
            collides_with: None,
        })),
    }
}

pub(super) fn absorb(
    tx: &mut Tx<'_>,
    prepared: &Prepared,
    key: &Key,
    found: &Found,
    decision: Decision,
) -> Result<Submitted, Fail> {
    if !matches!(decision, Decision::Absorb { .. }) {
        tx.enter_newborn()?;
    }
    match decision {
        Decision::Absorb { outcome } => {
            let differs = differences(tx, prepared, key, found)?;
            let entry = Entry {
                outcome,
                key,
                named: found.bytes,
                differs: &differs,
            };
            if let Some(answer) = enter(tx, prepared, &entry, None)? {
                return Ok(answer);
            }
            Ok(answer(
                outcome,
                view(tx, found),
                Some(key.digest),
                differs.unwrap_or_default(),
            ))
        }
        Decision::Replace { outcome, life } => {
            let differs = differences(tx, prepared, key, found)?;
            let entry = Entry {
                outcome,
                key,
                named: found.bytes,
                differs: &differs,
            };
            if let Some(answer) = enter(tx, prepared, &entry, None)? {
                return Ok(answer);
            }
            replace(tx, prepared, key, found.row.seq)?;
            let state = tx.put(&found.row, *life)?.life.state(tx.now);
            let job = HolderView {
                state,
                ..view(tx, found)
            };
            Ok(answer(outcome, job, Some(key.digest), Vec::new()))
        }
        Decision::Defer { life } => defer(tx, prepared, key, found, *life),
        Decision::Accept { .. } => unreachable!("accepted before"),
    }
}

fn replace(tx: &mut Tx<'_>, prepared: &Prepared, key: &Key, seq: i64) -> Result<(), Fail> {
    tx.cache.recent.forget_owner(&key.digest);
    let content = &prepared.submission.content;
    tx.statements.get(Sql::JobReplace)?.execute(params![
        seq,
        content.input.as_str(),
        headers_text(&content.headers)?,
        content.meta.as_ref().map(Json::as_str),
        content.timeout.map(|timeout| timeout.as_millis()),
        stored_input(key).map(|digest| *digest.as_bytes()),
    ])?;
    Ok(())
}

fn defer(
    tx: &mut Tx<'_>,
    prepared: &Prepared,
    key: &Key,
    found: &Found,
    life: Life,
) -> Result<Submitted, Fail> {
    let follower = tx
        .statements
        .get(Sql::FollowerFind)?
        .query_row([found.row.seq], |row| row.get::<_, i64>(0));
    let Some(follower) = follower.optional()? else {
        return follow(tx, prepared, key, found, life);
    };
    let follower = holder::found(tx, follower)?;
    let follower = follower.ok_or_else(|| Fail::Store(StoreError::corrupt("a follower without a life")))?;
    let differs = differences(tx, prepared, key, &follower)?;
    let entry = Entry {
        outcome: Outcome::Deferred,
        key,
        named: follower.bytes,
        differs: &differs,
    };
    if let Some(answer) = enter(tx, prepared, &entry, None)? {
        return Ok(answer);
    }
    replace(tx, prepared, key, follower.row.seq)?;
    let next = admission::replaced(
        prepared,
        &follower.row.life,
        prepared.submission.run_at.resolve(tx.now),
    );
    tx.put(&follower.row, next)?;
    Ok(answer(
        Outcome::Deferred,
        view(tx, &follower),
        Some(key.digest),
        Vec::new(),
    ))
}

fn follow(
    tx: &mut Tx<'_>,
    prepared: &Prepared,
    key: &Key,
    found: &Found,
    life: Life,
) -> Result<Submitted, Fail> {
    let seq = tx.peek_seq();
    let differs = differences(tx, prepared, key, found)?;
    let entry = Entry {
        outcome: Outcome::Deferred,
        key,
        named: found.bytes,
        differs: &differs,
    };
    if let Some(answer) = enter(tx, prepared, &entry, Some(seq))? {
        return Ok(answer);
    }
    tx.next_seq();
    let lane = tx.lane(&prepared.submission.queue, &prepared.submission.task)?;
    let token = rows::token_bytes(&prepared.submission.token, tx.ns);
    let birth = Birth {
        key: Some(key),
        deferred: true,
        ..Birth::default()
    };
    insert(tx, seq, lane, &token, prepared, life, &birth)?;
    tx.statements
        .get(Sql::FollowInsert)?
        .execute(params![found.row.seq, seq])?;
    tx.cache.followers = true;
    let job = HolderView {
        id: JobId::from(prepared.submission.token),
        task: prepared.submission.task.clone(),
        state: State::Deferred,
        enqueued_at: tx.now,
    };
    Ok(answer(Outcome::Deferred, job, Some(key.digest), Vec::new()))
}

/// Where the input differs from the job's; `None`: it does not.
fn differences(
    tx: &mut Tx<'_>,
    prepared: &Prepared,
    key: &Key,
    found: &Found,
) -> Result<Option<Vec<String>>, Fail> {
    if found.input.is_none_or(|input| input == key.input) {
        return Ok(None);
    }
    if found.stub {
        return Ok(Some(vec![String::new()]));
    }
    let theirs: String = tx
        .statements
        .get(Sql::JobInput)?
        .query_row([found.row.seq], |row| row.get(0))?;
    let theirs = canonical::parse(&theirs, Limits::default()).map_err(Invalid::from)?;
    let ours = canonical::parse(prepared.submission.content.input.as_str(), Limits::default())
        .map_err(Invalid::from)?;
    Ok(Some(canonical::differs(&theirs, &ours, limits::DIFFERS)))
}

struct Entry<'a> {
    outcome: Outcome,
    key: &'a Key,
    /// The job it is answered with.
    named: [u8; 16],
    differs: &'a Option<Vec<String>>,
}

/// Writes an absorbed submission into the ledger and counts it; if it is known, its first answer instead.
fn enter(
    tx: &mut Tx<'_>,
    prepared: &Prepared,
    entry: &Entry<'_>,
    born: Option<i64>,
) -> Result<Option<Submitted>, Fail> {
    let submission = &prepared.submission;
    let token = rows::token_bytes(&submission.token, tx.ns);
    let n = tx.peek_entry();
    if let Some(answer) = remember(tx, &token, born.unwrap_or(-n))? {
        return Ok(Some(answer));
    }
    tx.next_entry();
    let input = &submission.content.input;
    let kept = entry.differs.is_some() && input.as_str().len() <= limits::LEDGER_INPUT_BYTES;
    let differs = entry
        .differs
        .as_ref()
        .map(serde_json::to_string)
        .transpose()
        .map_err(unwritable)?;
    tx.cache.ledger.enter(&Packed {
        n,
        token: *submission.token.as_bytes(),
        outcome: entry.outcome,
        digest: entry.key.digest,
        holder: entry.named,
        words: Words {
            queue: submission.queue.as_str(),
            task: submission.task.as_str(),
            producer: submission.producer.as_ref().map(Name::as_str),
            policy: prepared.policy().map_or("", |policy| policy.on_duplicate.word()),
        },
        differs: differs.as_deref(),
        input: kept.then(|| input.as_str()),
        made_a_job: born.is_some(),
    });
    if tx.cache.ledger.is_full() {
        tx.write_ledger()?;
    }
    let lane = tx.lane(&submission.queue, &submission.task)?;
    if let Some(counter) = Counter::of_outcome(entry.outcome) {
        tx.count(lane, counter);
    }
    Ok(None)
}
