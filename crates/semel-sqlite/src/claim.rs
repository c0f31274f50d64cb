//! Leasing due jobs, best first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use foldhash::HashSet;
use rusqlite::{OptionalExtension, params};

use semel_core::error::StoreError;
use semel_core::ids::Name;
use semel_core::job::Phase;
use semel_core::lifecycle;
use semel_core::limits::CLAIM_KEPT;
use semel_core::store::{ClaimRequest, Claimed};
use semel_core::time::Timestamp;

use crate::fail::Fail;
use crate::inspect::{self, Whole};
use crate::rows::{self, LIFE_COLUMNS, LifeRow};
use crate::statements::Sql;
use crate::tx::Tx;

/// A place in the order: negated priority, run_at, arrival.
type Place = (i64, i64, i64);

/// Leases up to `max` jobs under one fence.
pub fn claim(tx: &mut Tx<'_>, request: &ClaimRequest) -> Result<Vec<Claimed>, Fail> {
    tx.rescue()?;
    let token = rows::token_bytes(&request.token, tx.ns);
    if let Some(claims) = claimed_before(tx, request, &token)? {
        return Ok(claims);
    }
    let lanes = open_lanes(tx, &request.queues, &request.tasks);
    let newborn = best_newborn(tx, &lanes, request.max);
    let mut places = best(tx, &lanes, request.max)?;
    take(tx, &mut places, newborn, request.max)?;
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = Vec::with_capacity(places.len());
    for (_, (_, _, seq)) in &places {
        let row = claimable(tx, *seq)?;
        // A place that leads nowhere, or to a job that does not wait, is no reason to run anything.
        found.extend(row.filter(|(row, _)| row.life.phase == Phase::Waiting));
    }
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let highest = found.iter().map(|(row, _)| row.life.fence).max().unwrap_or(0);
    let fence = tx.next_fence(highest);
    let until = tx.now.plus(request.lease);
    let seqs = rows::pack(found.iter().map(|(row, _)| row.seq));
    let forget_at = until.max(tx.now.plus(CLAIM_KEPT)).as_millis();
    let batch = params![fence, tx.ns, until.as_millis(), token, seqs, forget_at];
    tx.statements.get(Sql::LeaseInsert)?.execute(batch)?;
    tx.note_lease(until);
    let worker = tx.worker(&request.worker)?;
    let lease = Lease { worker, fence, until };
    found
        .into_iter()
        .map(|(row, whole)| give(tx, &row, whole, &request.worker, &lease))
        .collect()
}

/// A job that may be leased: how it fares, unless that is remembered, and what it is.
fn claimable(tx: &mut Tx<'_>, seq: i64) -> Result<Option<(LifeRow, Whole)>, Fail> {
    if let Some(row) = tx.cache.recent.life(seq) {
        return Ok(inspect::whole_job(&mut tx.statements, seq)?.map(|whole| (row, whole)));
    }
    let read = |row: &rusqlite::Row<'_>| Ok((LifeRow::read(row)?, Whole::read(row, LIFE_COLUMNS)?));
    Ok(tx
        .statements
        .get(Sql::ClaimFind)?
        .query_row([seq], read)
        .optional()?)
}

struct Lease {
    worker: i64,
    fence: i64,
    until: Timestamp,
}

fn give(tx: &mut Tx<'_>, row: &LifeRow, whole: Whole, name: &Name, lease: &Lease) -> Result<Claimed, Fail> {
    let after = LifeRow {
        life: lifecycle::lease(&row.life, lease.fence, lease.until, tx.now),
        worker: Some(lease.worker),
        ..row.clone()
    };
    tx.put_taken(row, &after)?;
    show(tx, &after, whole, name, row.life.started_at.is_none())
}

fn show(tx: &mut Tx<'_>, row: &LifeRow, whole: Whole, worker: &Name, fresh: bool) -> Result<Claimed, Fail> {
    let (queue, task) = tx.names(row.lane)?;
    tx.remember_id(whole.id_bytes(), row.seq);
    let job = whole.show(
        &mut tx.statements,
        row,
        queue,
        task,
        Some(worker.clone()),
        tx.now,
        fresh,
    )?;
    Ok(Claimed {
        job,
        fence: row.life.fence,
        lease_until: row.life.until.unwrap_or(tx.now),
    })
}

/// Forgets claims of which nothing runs any more, once nobody will send them again.
pub fn forget(tx: &mut Tx<'_>, budget: usize) -> Result<bool, Fail> {
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?));
    let due = params![tx.ns, tx.now.as_millis(), budget as i64];
    let found = tx.statements.get(Sql::LeaseForgettable)?.query_map(due, read)?;
    let batches = found.collect::<rusqlite::Result<Vec<_>>>()?;
    let more = batches.len() == budget;
    for (fence, seqs) in batches {
        let mut runs = false;
        for seq in rows::unpack(&seqs) {
            runs |= tx
                .life(seq)?
                .is_some_and(|row| row.life.phase == Phase::Running && row.life.fence == fence);
        }
        if runs {
            let later = tx.now.plus(CLAIM_KEPT).as_millis();
            tx.statements
                .get(Sql::LeaseRemember)?
                .execute(params![fence, later])?;
        } else {
            tx.statements.get(Sql::LeaseDelete)?.execute([fence])?;
        }
    }
    Ok(more)
}

/// The same claim again, after a lost reply: what of it still runs (contract 3.5).
fn claimed_before(
    tx: &mut Tx<'_>,
    request: &ClaimRequest,
    token: &[u8],
) -> Result<Option<Vec<Claimed>>, Fail> {
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?));
    let found = tx
        .statements
        .get(Sql::LeaseByToken)?
        .query_row([token], read)
        .optional()?;
    let Some((fence, seqs)) = found else {
        return Ok(None);
    };
    let mut claims = Vec::new();
    for seq in rows::unpack(&seqs) {
        let Some(row) = tx.life(seq)? else { continue };
        if row.life.phase == Phase::Running && row.life.fence == fence {
            let whole = inspect::whole_job(&mut tx.statements, seq)?;
            let whole = whole.ok_or_else(|| Fail::Store(StoreError::corrupt("a life without its job")))?;
            claims.push(show(tx, &row, whole, &request.worker, false)?);
        }
    }
    Ok(Some(claims))
}

fn open_lanes(tx: &Tx<'_>, queues: &[Name], tasks: &[Name]) -> Vec<i64> {
    let wanted = |names: &[Name], name: &Name| names.is_empty() || names.contains(name);
    let newborn: HashSet<i64> = tx.cache.newborn.due(tx.now).map(|row| row.lane).collect();
    let lanes = tx.cache.lanes.iter().filter(|(number, lane)| {
        !lane.removed
            && (lane.phases[Phase::Waiting as usize] > 0 || newborn.contains(number))
            && wanted(queues, &lane.queue)
            && wanted(tasks, &lane.task)
            && !tx.is_paused(&lane.queue, &lane.task)
    });
    lanes.map(|(number, _)| *number).collect()
}

/// The best places over all lanes: each lane is read in order, a bit at a time, and the lanes are merged.
fn best(tx: &mut Tx<'_>, lanes: &[i64], max: usize) -> Result<Vec<(i64, Place)>, Fail> {
    let step = if lanes.len() <= 1 {
        max
    } else {
        max / lanes.len() + 8
    };
    let mut streams = Vec::with_capacity(lanes.len());
    let mut heads = BinaryHeap::new();
    let waits = |tx: &Tx<'_>, lane: i64| {
        let lane = tx.cache.lanes.get(&lane);
        lane.is_some_and(|lane| lane.phases[Phase::Waiting as usize] > 0)
    };
    for lane in lanes {
        if !waits(tx, *lane) {
            continue;
        }
        let mut stream = Stream::open(tx, *lane)?;
        if let Some(place) = stream.next(tx, step)? {
            heads.push(Reverse((place, streams.len())));
        }
        streams.push(stream);
    }
    let mut places = Vec::with_capacity(max.min(1_024));
    while places.len() < max {
        let Some(Reverse((place, at))) = heads.pop() else {
            break;
        };
        places.push((streams[at].lane, place));
        if let Some(next) = streams[at].next(tx, step)? {
            heads.push(Reverse((next, at)));
        }
    }
    Ok(places)
}

/// The due jobs of one lane, in order.
struct Stream {
    lane: i64,
    priorities: VecDeque<i64>,
    last: (i64, i64),
    buffer: VecDeque<Place>,
}

impl Stream {
    fn open(tx: &mut Tx<'_>, lane: i64) -> Result<Self, Fail> {
        let priorities = tx
            .statements
            .get(Sql::ReadyPriorities)?
            .query_map([lane], |row| row.get(0))?;
        let priorities = priorities.collect::<rusqlite::Result<_>>()?;
        Ok(Stream {
            lane,
            priorities,
            last: (i64::MIN, 0),
            buffer: VecDeque::new(),
        })
    }

    fn next(&mut self, tx: &mut Tx<'_>, step: usize) -> Result<Option<Place>, Fail> {
        while self.buffer.is_empty() {
            let Some(nprio) = self.priorities.front().copied() else {
                return Ok(None);
            };
            self.fill(tx, nprio, step)?;
            if self.buffer.len() < step {
                self.priorities.pop_front();
                self.last = (i64::MIN, 0);
            }
        }
        Ok(self.buffer.pop_front())
    }

    fn fill(&mut self, tx: &mut Tx<'_>, nprio: i64, step: usize) -> Result<(), Fail> {
        let now = tx.now.as_millis();
        let due = tx.statements.get(Sql::ReadyDue)?;
        let mut rows = due.query(params![
            self.lane,
            nprio,
            now,
            self.last.0,
            self.last.1,
            step as i64
        ])?;
        while let Some(row) = rows.next()? {
            self.last = (row.get(0)?, row.get(1)?);
            self.buffer.push_back((nprio, self.last.0, self.last.1));
        }
        Ok(())
    }
}

/// The best of the jobs that have no place yet.
fn best_newborn(tx: &Tx<'_>, lanes: &[i64], max: usize) -> Vec<(i64, Place)> {
    let lanes: HashSet<i64> = lanes.iter().copied().collect();
    let due = tx.cache.newborn.due(tx.now);
    let due = due.filter(|row| lanes.contains(&row.lane));
    let mut places: Vec<(i64, Place)> = due.map(|row| (row.lane, place(row))).collect();
    places.sort_unstable_by_key(|(_, place)| *place);
    places.truncate(max);
    places
}

fn place(row: &LifeRow) -> Place {
    let nprio = i64::from(row.life.priority.saturating_neg());
    (nprio, row.life.run_at.as_millis(), row.seq)
}

/// Merges what has a place with what has none, and takes the best out of the order: per lane and priority they are
/// always the first ones.
fn take(
    tx: &mut Tx<'_>,
    places: &mut Vec<(i64, Place)>,
    newborn: Vec<(i64, Place)>,
    max: usize,
) -> Result<(), Fail> {
    let unplaced: HashSet<i64> = newborn.iter().map(|(_, (_, _, seq))| *seq).collect();
    places.extend(newborn);
    places.sort_by_key(|(_, place)| *place);
    places.truncate(max);
    let (mut last, mut taken) = (BTreeMap::new(), HashSet::default());
    for (lane, (nprio, run_at, seq)) in places {
        if unplaced.contains(seq) {
            taken.insert(*seq);
        } else {
            last.insert((*lane, *nprio), (*run_at, *seq));
        }
    }
    tx.enter_but(&taken)?;
    for ((lane, nprio), (run_at, seq)) in last {
        tx.statements
            .get(Sql::ReadyTake)?
            .execute(params![lane, nprio, run_at, seq])?;
    }
    Ok(())
}
