//! The job that holds a key.

use rusqlite::OptionalExtension;

use semel_core::admission::Holder;
use semel_core::dedup::Key;
use semel_core::ids::{Digest, JobId, Name};
use semel_core::time::Timestamp;
use semel_core::view::HolderView;

use crate::fail::Fail;
use crate::recent::Keyed;
use crate::rows::{self, LIFE_COLUMNS, LifeRow};
use crate::statements::Sql;
use crate::tx::Tx;

/// What admission has to know about the job that holds a key.
pub(super) struct Found {
    pub(super) row: LifeRow,
    pub(super) id: JobId,
    pub(super) bytes: [u8; 16],
    pub(super) task: Name,
    pub(super) enqueued_at: Timestamp,
    pub(super) input: Option<Digest>,
    pub(super) stub: bool,
}

impl Found {
    /// Where a key is made from the whole input, equal keys mean equal inputs and none is stored.
    pub(super) fn holder<'a>(&'a self, key: &Key) -> Holder<'a> {
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
pub(super) fn find_holder(tx: &mut Tx<'_>, key: &Key) -> Result<Option<Found>, Fail> {
    let newborn = tx.cache.newborn.owner(&key.digest).map(|newborn| newborn.keyed);
    // Most keys are new: then there is nothing to look for in a large memory either.
    if newborn.is_none() && !tx.may_be_owned(&key.digest) {
        return Ok(None);
    }
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
        tx.cache.recent.put_life(&newest.row);
        return Ok(live(tx, newest));
    }
    Ok(None)
}

/// A job by its number; none if its queue was removed.
pub(super) fn found(tx: &mut Tx<'_>, seq: i64) -> Result<Option<Found>, Fail> {
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

/// The job as its submitter is told of it.
pub(super) fn view(tx: &Tx<'_>, found: &Found) -> HolderView {
    HolderView {
        id: found.id.clone(),
        task: found.task.clone(),
        state: found.row.life.state(tx.now),
        enqueued_at: found.enqueued_at,
    }
}
