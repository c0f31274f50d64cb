//! Between rows and the types of core.
//!
//! Two columns are empty where they say nothing new, which is nearly always: `taken_at` when a key was
//! taken as the job was admitted, `generation` when it equals the job's own number.

use std::convert::Infallible;
use std::ops::Deref;

use rusqlite::types::{ToSqlOutput, Type};
use rusqlite::{Row, ToSql};
use uuid::Uuid;

use semel_core::dedup::{Hold, HoldKind, Holding, KeyBy, ReleaseOn};
use semel_core::ids::{Digest, JobId, Token};
use semel_core::job::{Life, Outcome, Phase, State};
use semel_core::lifecycle::AttemptResult;
use semel_core::step::StepState;
use semel_core::time::{Millis, Timestamp};

/// Stands for "when the job was admitted" until the job's own row is at hand.
pub const AT_ADMISSION: Timestamp = Timestamp::from_millis(0);

/// How many columns [`LifeRow::read`] takes.
pub const LIFE_COLUMNS: usize = 23;

/// A row of `life`.
#[derive(Clone, Debug)]
pub struct LifeRow {
    /// Arrival.
    pub seq: i64,
    /// Its task in its queue.
    pub lane: i64,
    /// How it fares.
    pub life: Life,
    /// Who runs it, or ran it last.
    pub worker: Option<i64>,
    /// Which of its deliveries gave the last error.
    pub last_error: Option<i64>,
}

impl LifeRow {
    /// Reads the first [`LIFE_COLUMNS`] columns.
    pub fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Self::from_columns(|column| row.get(column))
    }

    #[inline(always)]
    fn from_columns(get: impl Fn(usize) -> rusqlite::Result<Option<i64>>) -> rusqlite::Result<Self> {
        let number = |column| required(column, get(column)?);
        let small = |column| narrow(column, number(column)?);
        let moment = |column| get(column).map(|moment| moment.map(time));
        let seq = number(0)?;
        let life = Life {
            phase: decoded(2, number(2)?, &Phase::ALL)?,
            priority: narrow::<i8>(3, number(3)?)?.saturating_neg(),
            run_at: time(number(4)?),
            attempt: small(5)?,
            max_attempts: small(6)?,
            deliveries: small(7)?,
            max_deliveries: small(8)?,
            fence: number(9)?,
            settled: get(10)?
                .map(|place| decoded(10, place, &State::ALL))
                .transpose()?,
            began: moment(11)?,
            until: moment(12)?,
            started_at: moment(13)?,
            finished_at: moment(14)?,
            holding: read_holding(&get, seq)?,
        };
        Ok(LifeRow {
            seq,
            lane: number(1)?,
            life,
            worker: get(15)?,
            last_error: get(16)?,
        })
    }

    /// All columns but the first as one value: which are there, and their numbers.
    pub fn pack(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(32);
        self.pack_into(&mut bytes);
        bytes
    }

    /// As [`LifeRow::pack`], at the end of `bytes`.
    pub fn pack_into(&self, bytes: &mut Vec<u8>) {
        let (mut columns, mut there, mut at) = ([None; LIFE_COLUMNS], 0i64, 0);
        let Ok(()) = self.each_column(|number| -> Result<(), Infallible> {
            if number.is_some() && at > 0 {
                there |= 1 << at;
                columns[at] = number;
            }
            at += 1;
            Ok(())
        });
        push_number(bytes, there);
        columns
            .into_iter()
            .flatten()
            .for_each(|number| push_number(bytes, number));
    }

    /// The inverse of [`LifeRow::pack`].
    pub fn unpack(seq: i64, mut bytes: &[u8]) -> Option<Self> {
        let there = take_number(&mut bytes)?;
        let mut columns = [None; LIFE_COLUMNS];
        columns[0] = Some(seq);
        for (at, column) in columns.iter_mut().enumerate().skip(1) {
            if there & (1 << at) != 0 {
                *column = Some(take_number(&mut bytes)?);
            }
        }
        Self::from_columns(|column| Ok(columns[column])).ok()
    }

    /// Every column in order.
    pub fn columns(&self, column: impl FnMut(Option<i64>) -> rusqlite::Result<()>) -> rusqlite::Result<()> {
        self.each_column(column)
    }

    #[inline(always)]
    fn each_column<E>(&self, mut column: impl FnMut(Option<i64>) -> Result<(), E>) -> Result<(), E> {
        let (life, hold) = (&self.life, HoldColumns::of(self));
        column(Some(self.seq))?;
        column(Some(self.lane))?;
        column(Some(life.phase as i64))?;
        column(Some(i64::from(life.priority.saturating_neg())))?;
        column(Some(life.run_at.as_millis()))?;
        column(Some(i64::from(life.attempt)))?;
        column(Some(i64::from(life.max_attempts)))?;
        column(Some(i64::from(life.deliveries)))?;
        column(Some(i64::from(life.max_deliveries)))?;
        column(Some(life.fence))?;
        column(life.settled.map(|state| state as i64))?;
        column(millis(life.began))?;
        column(millis(life.until))?;
        column(millis(life.started_at))?;
        column(millis(life.finished_at))?;
        column(self.worker)?;
        column(self.last_error)?;
        column(hold.hold)?;
        column(hold.ttl)?;
        column(hold.cool_down)?;
        column(hold.taken_at)?;
        column(hold.expires_at)?;
        column(hold.generation)
    }
}

/// How a key is held, packed: two bits for the kind, then flags.
const RELEASE_ON_FAILED: i64 = 4;
const RELEASE_ON_CANCELLED: i64 = 8;
const OBSERVED: i64 = 32;
const FREED: i64 = 64;

#[derive(Default)]
struct HoldColumns {
    hold: Option<i64>,
    ttl: Option<i64>,
    cool_down: Option<i64>,
    taken_at: Option<i64>,
    expires_at: Option<i64>,
    generation: Option<i64>,
}

impl HoldColumns {
    fn of(row: &LifeRow) -> Self {
        let Some(holding) = &row.life.holding else {
            return HoldColumns::default();
        };
        let hold = &holding.hold;
        let flag = |set: bool, bit: i64| if set { bit } else { 0 };
        HoldColumns {
            hold: Some(
                hold.kind as i64
                    | flag(hold.release_on.failed, RELEASE_ON_FAILED)
                    | flag(hold.release_on.cancelled, RELEASE_ON_CANCELLED)
                    | flag(holding.observed, OBSERVED)
                    | flag(holding.freed, FREED),
            ),
            ttl: hold.ttl.map(Millis::as_millis),
            cool_down: hold.cool_down.map(Millis::as_millis),
            taken_at: (holding.taken_at != AT_ADMISSION).then(|| holding.taken_at.as_millis()),
            expires_at: millis(holding.expires_at),
            generation: (holding.generation != row.seq).then_some(holding.generation),
        }
    }
}

fn read_holding(
    get: impl Fn(usize) -> rusqlite::Result<Option<i64>>,
    seq: i64,
) -> rusqlite::Result<Option<Holding>> {
    let Some(packed) = get(17)? else {
        return Ok(None);
    };
    let has = |bit: i64| packed & bit != 0;
    let hold = Hold {
        kind: HoldKind::ALL[(packed & 3) as usize],
        ttl: get(18)?.map(Millis::new),
        cool_down: get(19)?.map(Millis::new),
        release_on: ReleaseOn {
            failed: has(RELEASE_ON_FAILED),
            cancelled: has(RELEASE_ON_CANCELLED),
        },
    };
    Ok(Some(Holding {
        hold,
        taken_at: get(20)?.map_or(AT_ADMISSION, time),
        expires_at: get(21)?.map(time),
        generation: get(22)?.unwrap_or(seq),
        freed: has(FREED),
        observed: has(OBSERVED),
    }))
}

/// A moment from its column.
pub fn time(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// A moment that may be missing.
pub fn optional_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(time))
}

/// A moment for its column.
pub fn millis(time: Option<Timestamp>) -> Option<i64> {
    time.map(Timestamp::as_millis)
}

/// A value stored as its place in a list.
pub fn decode<T: Copy>(row: &Row<'_>, column: usize, all: &[T]) -> rusqlite::Result<T> {
    decoded(column, row.get(column)?, all)
}

fn decoded<T: Copy>(column: usize, place: i64, all: &[T]) -> rusqlite::Result<T> {
    let found = usize::try_from(place).ok().and_then(|place| all.get(place));
    found
        .copied()
        .ok_or(rusqlite::Error::IntegralValueOutOfRange(column, place))
}

fn narrow<T: TryFrom<i64>>(column: usize, number: i64) -> rusqlite::Result<T> {
    T::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

fn required(column: usize, number: Option<i64>) -> rusqlite::Result<i64> {
    number.ok_or_else(|| rusqlite::Error::InvalidColumnType(column, "life".to_owned(), Type::Null))
}

/// A stored value that core does not accept.
pub fn unreadable(error: semel_core::error::Invalid) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error))
}

/// Outcomes by their number in the ledger and in `job.born`.
pub const OUTCOMES: [Outcome; 7] = [
    Outcome::Accepted,
    Outcome::Duplicate,
    Outcome::Replaced,
    Outcome::Debounced,
    Outcome::Deferred,
    Outcome::Rejected,
    Outcome::Conflict,
];

/// The number of an outcome.
pub fn outcome_number(outcome: Outcome) -> i64 {
    OUTCOMES
        .iter()
        .position(|known| *known == outcome)
        .map_or(0, |place| place as i64)
}

/// Ways a delivery can end, by their number.
pub const RESULTS: [AttemptResult; 8] = [
    AttemptResult::Complete,
    AttemptResult::Error,
    AttemptResult::Failed,
    AttemptResult::Snoozed,
    AttemptResult::HandedBack,
    AttemptResult::Parked,
    AttemptResult::Cancelled,
    AttemptResult::Expired,
];

/// States of a step, by their number.
pub const STEP_STATES: [StepState; 3] = [StepState::Begun, StepState::Confirmed, StepState::Refused];

/// Kinds of keys, by their number.
pub const KEY_BYS: [KeyBy; 6] = [
    KeyBy::Explicit,
    KeyBy::Input,
    KeyBy::Fields,
    KeyBy::Except,
    KeyBy::Hybrid,
    KeyBy::Generated,
];

/// The first 48 bits of a digest: what the index of keys is ordered by.
pub fn prefix(digest: &Digest) -> i64 {
    let mut bytes = [0u8; 8];
    bytes[2..].copy_from_slice(&digest.as_bytes()[..6]);
    i64::from_be_bytes(bytes)
}

/// A digest from its column.
pub fn digest(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Digest>> {
    Ok(row.get::<_, Option<[u8; 32]>>(column)?.map(Digest::from_bytes))
}

/// The bytes of an id or token in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdBytes {
    bytes: [u8; 24],
    length: usize,
}

impl Deref for IdBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl ToSql for IdBytes {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self[..].to_sql()
    }
}

impl IdBytes {
    /// The bytes as they were stored.
    pub fn read(stored: &[u8]) -> Self {
        let mut bytes = [0; 24];
        let length = stored.len().min(24);
        bytes[..length].copy_from_slice(&stored[..length]);
        IdBytes { bytes, length }
    }
}

/// The bytes of an id in a namespace; `None` if no job of this store can have it.
pub fn id_bytes(id: &JobId, ns: i64) -> Option<IdBytes> {
    let parsed = Uuid::try_parse(id.as_str()).ok()?;
    let mut buffer = Uuid::encode_buffer();
    let as_written = &*parsed.hyphenated().encode_lower(&mut buffer) == id.as_str();
    as_written.then(|| token_bytes(&Token::from_bytes(parsed.into_bytes()), ns))
}

/// The bytes of a token in a namespace.
pub fn token_bytes(token: &Token, ns: i64) -> IdBytes {
    let mut bytes = [0; 24];
    bytes[..16].copy_from_slice(token.as_bytes());
    bytes[16..].copy_from_slice(&ns.to_be_bytes());
    IdBytes {
        bytes,
        length: if ns == 1 { 16 } else { 24 },
    }
}

/// An id from its bytes.
pub fn id_from(bytes: &[u8]) -> JobId {
    JobId::from(Token::from_bytes(short(bytes)))
}

/// The bytes of an id without the namespace.
pub fn short(bytes: &[u8]) -> [u8; 16] {
    let mut token = [0u8; 16];
    let length = bytes.len().min(16);
    token[..length].copy_from_slice(&bytes[..length]);
    token
}

/// An id from its column.
pub fn id(row: &Row<'_>, column: usize) -> rusqlite::Result<JobId> {
    Ok(id_from(row.get_ref(column)?.as_blob()?))
}

/// An id that may be missing.
pub fn optional_id(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<JobId>> {
    Ok(row.get_ref(column)?.as_blob_or_null()?.map(id_from))
}

/// Numbers of jobs as one value: differences, each as a variable number of bytes.
pub fn pack(seqs: impl IntoIterator<Item = i64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut last = 0i64;
    for seq in seqs {
        push_number(&mut bytes, seq.wrapping_sub(last));
        last = seq;
    }
    bytes
}

/// The inverse of [`pack`].
pub fn unpack(mut bytes: &[u8]) -> Vec<i64> {
    let (mut seqs, mut last) = (Vec::new(), 0i64);
    while let Some(difference) = take_number(&mut bytes) {
        last = last.wrapping_add(difference);
        seqs.push(last);
    }
    seqs
}

/// Appends a number as a variable number of bytes.
pub fn push_number(bytes: &mut Vec<u8>, number: i64) {
    let mut rest = zigzag(number);
    while rest >= 128 {
        bytes.push((rest & 127) as u8 | 128);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

/// Takes a number that [`push_number`] appended; none if there is no whole one.
pub fn take_number(bytes: &mut &[u8]) -> Option<i64> {
    let (mut value, mut shift) = (0u64, 0u32);
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 127) << shift.min(63);
        shift += 7;
        if byte & 128 == 0 {
            return Some(unzigzag(value));
        }
    }
}

fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)) as u64
}

fn unzigzag(n: u64) -> i64 {
    (n >> 1) as i64 ^ -((n & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_numbers_come_back() {
        for seqs in [
            vec![],
            vec![1],
            vec![5, 6, 7, 1_000_000, 3],
            vec![i64::MAX, 0, i64::MIN, -1],
        ] {
            assert_eq!(unpack(&pack(seqs.clone())), seqs);
        }
    }

    #[test]
    fn a_packed_life_comes_back() {
        let numbers: [Option<i64>; LIFE_COLUMNS] = std::array::from_fn(|at| match at {
            10..=16 | 18 | 20 | 22 => None,
            17 => Some(4),
            _ => Some(at as i64 % 4),
        });
        let row = LifeRow::from_columns(|at| Ok(numbers[at])).expect("a life");
        let packed = row.pack();
        let back = LifeRow::unpack(row.seq, &packed).expect("unpacked");
        assert_eq!(format!("{back:?}"), format!("{row:?}"));
        assert!(LifeRow::unpack(1, &packed[..packed.len() - 1]).is_none());
    }

    #[test]
    fn ids_of_other_namespaces_are_other_bytes() {
        let token = Token::from_parts(7, &[1; 10]);
        assert_ne!(token_bytes(&token, 1), token_bytes(&token, 2));
        assert_eq!(id_from(&token_bytes(&token, 2)), JobId::from(token));
        assert_eq!(id_bytes(&JobId::new("nonsense").expect("an id"), 1), None);
    }
}
