//! Admission: token, key, job and place in the order in one commit (contract 2.9).

use rusqlite::{OptionalExtension, params};

use semel_core::admission::{self, Decision, Holder};
use semel_core::canonical::{self, Limits};
use semel_core::counters::Counter;
use semel_core::dedup::{Key, KeyBy};
use semel_core::error::{Invalid, StoreError};
use semel_core::ids::{Digest, JobId, Name};
use semel_core::job::{Life, Outcome, Phase, State, Would};
use semel_core::json::Json;
use semel_core::limits;
use semel_core::store::{Admitted, Explanation, Submitted};
use semel_core::submission::{Policy, Prepared};
use semel_core::time::Timestamp;
use semel_core::view::HolderView;

use crate::batch::{Batch, Item};
use crate::born::Newborn;
use crate::fail::Fail;
use crate::gathered::NewJob;
use crate::inspect;
use crate::ledger::{self, Packed, Words};
use crate::recent::Keyed;
use crate::rows::{self, AT_ADMISSION, IdBytes, LIFE_COLUMNS, LifeRow};
use crate::statements::Sql;
use crate::tx::Tx;

/// Admits a batch, one item after another.
pub fn submit(tx: &mut Tx<'_>, batch: &mut Batch) -> Result<Vec<Submitted>, Fail> {
    tx.rescue()?;
    (0..batch.len()).map(|at| one(tx, batch.item(at)?)).collect()
}

fn one(tx: &mut Tx<'_>, item: &Item) -> Result<Submitted, Fail> {
    let prepared = match item {
        Ok(prepared) => prepared,
        Err(invalid) => return Ok(Submitted::Invalid(invalid.clone())),
    };
    let submission = &prepared.submission;
    if let Some(target) = tx.closed(&submission.queue, &submission.task) {
        return Ok(answered_before(tx, prepared)?.unwrap_or(Submitted::Closed { target }));
    }
    if let Err(invalid) = tx.bounded(&submission.queue, &submission.task) {
        return Ok(answered_before(tx, prepared)?.unwrap_or(Submitted::Invalid(invalid)));
    }
    if submission.policy == Policy::Unsaid && tx.is_unique(&submission.queue) {
        return match prepared.clone().with_queue_policy(tx.namespace, tx.now) {
            Ok(prepared) => admit(tx, &prepared),
            Err(invalid) => Ok(answered_before(tx, prepared)?.unwrap_or(Submitted::Invalid(invalid))),
        };
    }
    admit(tx, prepared)
}

/// What admission has to know about the job that holds a key.
struct Found {
    row: LifeRow,
    id: JobId,
    bytes: [u8; 16],
    task: Name,
    enqueued_at: Timestamp,
    input: Option<Digest>,
    stub: bool,
}

impl Found {
    /// Where a key is made from the whole input, equal keys mean equal inputs and none is stored.
    fn holder<'a>(&'a self, key: &Key) -> Holder<'a> {
        Holder {
            id: &self.id,
            task: &self.task,
            enqueued_at: self.enqueued_at,
            input: self.input.unwrap_or(key.input),
            life: &self.row.life,
        }
    }
}

/// The owner of a key with the highest generation, if it holds the key.
fn find_holder(tx: &mut Tx<'_>, key: &Key) -> Result<Option<Found>, Fail> {
    let newborn = tx.cache.newborn.owner(&key.digest).map(|newborn| newborn.keyed);
    let found = match newborn.or_else(|| tx.cache.recent.owner(&key.digest)) {
        Some(keyed) => remembered(tx, &keyed)?,
        None => newest_owner(tx, key)?,
    };
    Ok(found.filter(|found| found.row.life.is_holder(tx.now)))
}

fn remembered(tx: &mut Tx<'_>, keyed: &Keyed) -> Result<Option<Found>, Fail> {
    let Some(row) = tx.life(keyed.seq)? else {
        return Ok(None);
    };
    let found = Untasked {
        row,
        bytes: keyed.id,
        enqueued_at: keyed.enqueued_at,
        input: keyed.input,
        stub: keyed.stub,
    };
    Ok(live(tx, found))
}

fn newest_owner(tx: &mut Tx<'_>, key: &Key) -> Result<Option<Found>, Fail> {
    for owner in tx.owners(&key.digest)? {
        let mut found = tx.statements.get(Sql::HolderFind)?.query([owner.seq])?;
        let Some(row) = found.next()? else { continue };
        if row.get_ref(LIFE_COLUMNS + 4)?.as_blob_or_null()? != Some(&key.digest.as_bytes()[..]) {
            continue;
        }
        let newest = read_found(row)?;
        let keyed = Keyed {
            seq: newest.row.seq,
            id: newest.bytes,
            enqueued_at: newest.enqueued_at,
            input: newest.input,
            stub: newest.stub,
        };
        drop(found);
        tx.cache.recent.put_owner(key.digest, keyed);
        tx.cache.recent.put_life(newest.row.clone());
        return Ok(live(tx, newest));
    }
    Ok(None)
}

/// A job by its number; none if its queue was removed.
fn found(tx: &mut Tx<'_>, seq: i64) -> Result<Option<Found>, Fail> {
    let found = tx
        .statements
        .get(Sql::HolderFind)?
        .query_row([seq], read_found)
        .optional()?;
    Ok(found.and_then(|found| live(tx, found)))
}

/// The job's task is not in its own row: it comes with the lane.
struct Untasked {
    row: LifeRow,
    bytes: [u8; 16],
    enqueued_at: Timestamp,
    input: Option<Digest>,
    stub: bool,
}

fn read_found(row: &rusqlite::Row<'_>) -> rusqlite::Result<Untasked> {
    let at = LIFE_COLUMNS;
    Ok(Untasked {
        row: LifeRow::read(row)?,
        bytes: rows::short(row.get_ref(at)?.as_blob()?),
        enqueued_at: rows::time(row.get(at + 1)?),
        input: rows::digest(row, at + 2)?,
        stub: row.get(at + 3)?,
    })
}

fn live(tx: &Tx<'_>, found: Untasked) -> Option<Found> {
    let task = tx.live_lane(found.row.lane)?.task.clone();
    let Untasked {
        row,
        bytes,
        enqueued_at,
        input,
        stub,
    } = found;
    Some(Found {
        row,
        id: rows::id_from(&bytes),
        bytes,
        task,
        enqueued_at,
        input,
        stub,
    })
}

fn admit(tx: &mut Tx<'_>, prepared: &Prepared) -> Result<Submitted, Fail> {
    let submission = &prepared.submission;
    let holder = match &prepared.key {
        Some(key) => find_holder(tx, key)?.map(|found| (key, found)),
        None => None,
    };
    let observe = tx.observes(&submission.queue, &submission.task);
    let view = holder.as_ref().map(|(key, found)| found.holder(key));
    let decision = admission::admit(prepared, view.as_ref(), observe, tx.now, tx.peek_seq());
    match (decision, holder) {
        (
            Decision::Accept {
                life,
                would,
                takes_over,
            },
            holder,
        ) => {
            let from = holder.filter(|_| takes_over).map(|(_, found)| found.row);
            accept(tx, prepared, *life, would, from)
        }
        (decision, Some((key, found))) => absorb(tx, prepared, key, &found, decision),
        (_, None) => unreachable!("only a holder absorbs"),
    }
}

fn accept(
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
    job.birth = Some(row.pack()?);
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
pub struct Birth<'a> {
    /// Its key.
    pub key: Option<&'a Key>,
    /// What an observing submission would have got.
    pub would: Option<&'a Would>,
    /// The job of the same hybrid fields it differs from.
    pub collides_with: Option<&'a JobId>,
    /// Born as a follower.
    pub deferred: bool,
}

fn insert(
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
        tx.own(&key.digest, key.group.as_ref(), holding.generation, seq);
        let keyed = Keyed {
            seq,
            id: rows::short(id),
            enqueued_at: tx.now,
            input: stored_input(key),
            stub: false,
        };
        tx.cache.recent.put_owner(key.digest, keyed);
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
fn stored_input(key: &Key) -> Option<Digest> {
    (!matches!(key.by, KeyBy::Input | KeyBy::Hybrid)).then_some(key.input)
}

/// Headers as their column: nothing where there are none.
pub fn headers_text(headers: &std::collections::BTreeMap<String, String>) -> Result<Option<String>, Fail> {
    if headers.is_empty() {
        return Ok(None);
    }
    serde_json::to_string(headers).map(Some).map_err(unwritable)
}

fn unwritable(error: serde_json::Error) -> Fail {
    Fail::Store(StoreError::corrupt(format!("cannot be written as JSON: {error}")))
}

/// Remembers what comes of a submission; if it is known, its first answer.
pub fn remember(tx: &mut Tx<'_>, token: &IdBytes, came_of_it: i64) -> Result<Option<Submitted>, Fail> {
    if tx.is_surely_new(token) || tx.token(token)?.is_none() {
        tx.remember_token(token, came_of_it)?;
        return Ok(None);
    }
    if let Some(answer) = known(tx, token)? {
        return Ok(Some(answer));
    }
    // The job it once named was removed with its queue: this is a new submission.
    let moved = tx
        .statements
        .get(Sql::TokenMove)?
        .execute(params![token, came_of_it])?;
    if moved == 0 {
        tx.remember_token(token, came_of_it)?;
    }
    Ok(None)
}

fn answered_before(tx: &mut Tx<'_>, prepared: &Prepared) -> Result<Option<Submitted>, Fail> {
    let token = rows::token_bytes(&prepared.submission.token, tx.ns);
    known(tx, &token)
}

/// The first answer to a submission that was sent before (contract 3.5).
fn known(tx: &mut Tx<'_>, token: &[u8]) -> Result<Option<Submitted>, Fail> {
    match tx.token(token)? {
        None => Ok(None),
        Some(seq) if seq > 0 => born_before(tx, seq),
        Some(entry) => absorbed_before(tx, entry.saturating_neg()),
    }
}

fn born_before(tx: &mut Tx<'_>, seq: i64) -> Result<Option<Submitted>, Fail> {
    let Some(row) = tx.life(seq)? else { return Ok(None) };
    let (_, task) = tx.names(row.lane)?;
    let whole = inspect::whole_job(&mut tx.statements, seq)?;
    let whole = whole.ok_or_else(|| Fail::Store(StoreError::corrupt("a life without its job")))?;
    Ok(Some(Submitted::Job(Box::new(Admitted {
        outcome: if whole.born_deferred {
            Outcome::Deferred
        } else {
            Outcome::Accepted
        },
        job: HolderView {
            id: whole.id,
            task,
            state: row.life.state(tx.now),
            enqueued_at: whole.enqueued_at,
        },
        key: whole.digest,
        would: whole.would,
        collides_with: whole.collides_with,
    }))))
}

fn absorbed_before(tx: &mut Tx<'_>, entry: i64) -> Result<Option<Submitted>, Fail> {
    tx.write_ledger()?;
    let Some(kept) = ledger::find(&mut tx.statements, entry)? else {
        return Ok(None);
    };
    let entries = kept.entries();
    let Some(first) = entries.iter().find(|found| found.n == entry) else {
        return Ok(None);
    };
    let Some(row) = tx.find(&rows::id_from(&first.holder))? else {
        return Ok(None);
    };
    let Some(found) = found(tx, row.seq)? else {
        return Ok(None);
    };
    let differs = inspect::pointers(first.differs)?;
    let job = view(tx, &found);
    Ok(Some(answer(first.outcome, job, Some(first.digest), differs)))
}

fn answer(outcome: Outcome, job: HolderView, key: Option<Digest>, differs: Vec<String>) -> Submitted {
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

fn absorb(
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

fn view(tx: &Tx<'_>, found: &Found) -> HolderView {
    HolderView {
        id: found.id.clone(),
        task: found.task.clone(),
        state: found.row.life.state(tx.now),
        enqueued_at: found.enqueued_at,
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
    let follower = self::found(tx, follower)?;
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

/// The answer a submission would get; the transaction it runs in is rolled back (contract 2.14).
pub fn explain(tx: &mut Tx<'_>, item: &Item) -> Result<Explanation, Fail> {
    tx.rescue()?;
    let prepared = match item {
        Ok(prepared) => prepared.clone(),
        Err(invalid) => {
            let submitted = Submitted::Invalid(invalid.clone());
            return Ok(Explanation {
                submitted,
                key: None,
                holder: None,
                admissible_at: None,
            });
        }
    };
    let (queue, task) = (&prepared.submission.queue, &prepared.submission.task);
    let judged = answered_before(tx, &prepared)?.is_none()
        && tx.closed(queue, task).is_none()
        && tx.bounded(queue, task).is_ok();
    let unsaid = prepared.submission.policy == Policy::Unsaid;
    let prepared = match judged && unsaid && tx.is_unique(&prepared.submission.queue) {
        true => prepared.with_queue_policy(tx.namespace, tx.now)?,
        false => prepared,
    };
    let found = match &prepared.key {
        Some(key) => find_holder(tx, key)?,
        None => None,
    };
    let (mut admissible_at, mut holder) = (None, None);
    if let Some(found) = found {
        let life = &found.row.life;
        admissible_at = life.holding.as_ref().and_then(|holding| holding.free_at(life));
        let whole = inspect::whole_job(&mut tx.statements, found.row.seq)?;
        holder = whole
            .and_then(|whole| whole.key_view(life, tx.now))
            .map(|key| (view(tx, &found), key));
    }
    let submitted = one(tx, &Ok(prepared.clone()))?;
    if !judged {
        admissible_at = None;
    } else if submitted.outcome() == Some(Outcome::Accepted) {
        admissible_at = Some(tx.now);
    }
    Ok(Explanation {
        submitted,
        key: prepared.key,
        holder,
        admissible_at,
    })
}
