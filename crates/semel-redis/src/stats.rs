//! Counters, sizes and their history (contract 7.1, 7.2).

use std::collections::{BTreeMap, HashMap};

use redis::Value;

use semel_core::counters::{Counter, Counts};
use semel_core::error::StoreError;
use semel_core::ids::Name;
use semel_core::job::{Phase, State};
use semel_core::store::StepFilter;
use semel_core::time::{Millis, Timestamp};
use semel_core::view::{GuardStats, LaneStats, Snapshot, Stats};

use crate::claim::parse_place;
use crate::codec::{Reader, Writer};
use crate::jobs::score;
use crate::keys::LAPSE_SPAN;
use crate::link::answer;
use crate::pack;
use crate::tx::{Slot, Tx};

const VERSION: u8 = 1;
const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
/// How long one snapshot is kept per minute.
const MINUTES_KEPT: Millis = Millis::from_days(1);
/// How long one snapshot is kept per hour.
const HOURS_KEPT: Millis = Millis::from_days(30);

/// The numbers of one lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Counters.
    pub counts: Counts,
    /// Jobs by phase.
    pub phases: [i64; 7],
    /// Keys held until something is written.
    pub held: i64,
}

/// The numbers of all lanes, and of guards.
pub fn read_numbers(answer: Value) -> Result<(HashMap<u32, Numbers>, GuardStats), StoreError> {
    let mut lanes: HashMap<u32, Numbers> = HashMap::new();
    let mut guard = GuardStats::default();
    for (field, value) in answer::pairs(answer)? {
        let value = answer::parse(&value)?;
        let field = String::from_utf8_lossy(&field).into_owned();
        match field.as_str() {
            "g.fresh" => guard.fresh = value,
            "g.in_progress" => guard.in_progress = value,
            "g.done" => guard.done = value,
            field => {
                let Some((lane, number)) = field.split_once('.') else {
                    continue;
                };
                let Ok(lane) = lane.parse::<u32>() else { continue };
                lanes.entry(lane).or_default().count(number, value);
            }
        }
    }
    Ok((lanes, guard))
}

impl Numbers {
    /// Several fields may say part of one number.
    fn count(&mut self, name: &str, value: i64) {
        let place = |prefix: char| {
            name.strip_prefix(prefix)
                .and_then(|place| place.parse::<usize>().ok())
        };
        if name == "h" {
            self.held += value;
        } else if name == "b" || name == "k" {
            self.counts.add(Counter::Accepted, value);
            self.phases[Phase::Waiting as usize] += value;
            self.held += if name == "k" { value } else { 0 };
        } else if let Some(counter) = place('c').and_then(|place| Counter::ALL.get(place)) {
            self.counts.add(*counter, value);
        } else if let Some(phase) = place('p').filter(|place| *place < self.phases.len()) {
            self.phases[phase] += value;
        }
    }
}

/// Waiting jobs of a lane: how many are not due, and since when the oldest one that is has been waiting.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    scheduled: i64,
    oldest: Option<i64>,
}

impl Tx<'_> {
    /// Counters and sizes.
    pub async fn stats(&mut self) -> Result<Stats, StoreError> {
        let keys = self.names();
        let span = self.now.as_millis() / LAPSE_SPAN;
        let mut ask = redis::pipe();
        ask.atomic();
        ask.cmd("HGETALL").arg(keys.counts());
        ask.cmd("HGETALL").arg(keys.baseline());
        ask.cmd("HMGET").arg(keys.meta()).arg("since").arg("packed_to");
        ask.cmd("HGETALL").arg(keys.lapses());
        ask.cmd("HGETALL").arg(keys.lapse(span));
        ask.cmd("SMEMBERS").arg(keys.places());
        ask.cmd("ZCOUNT")
            .arg(keys.stubs())
            .arg("-inf")
            .arg(self.now.as_millis());
        let answers = self.look(&ask).await?;
        let [counts, baseline, since, lapses, lapse, places, passed] = <[Value; 7]>::try_from(answers)
            .map_err(|_| StoreError::corrupt("an answer of another length"))?;
        let (numbers, guard) = read_numbers(counts)?;
        let (baseline, _) = read_numbers(baseline)?;
        let [since, packed_to] = <[Vec<u8>; 2]>::try_from(answer::all_bytes(since)?)
            .map_err(|_| StoreError::corrupt("an answer of another length"))?;
        let told = |text: Vec<u8>| (!text.is_empty()).then(|| answer::parse(&text)).transpose();
        let (since, packed_to) = (told(since)?, told(packed_to)?);
        let waiting = self.waiting_by_lane(places, packed_to.unwrap_or(0)).await?;
        let mut active_keys = self.lapsing(lapses, span)? + self.lapsing(lapse, self.now.as_millis())?;
        let (mut raw, mut totals, mut jobs) = (Counts::default(), Counts::default(), BTreeMap::new());
        let mut lanes: BTreeMap<(Name, Name), LaneStats> = BTreeMap::new();
        for (number, lane) in (0u32..).zip(&self.config.lanes) {
            let own = numbers.get(&number).copied().unwrap_or_default();
            let old = baseline.get(&number).copied().unwrap_or_default();
            let counts = own.counts.since(&old.counts);
            raw.merge(&own.counts);
            totals.merge(&counts);
            let entry = lanes
                .entry((lane.queue.clone(), lane.task.clone()))
                .or_insert_with(|| LaneStats {
                    queue: lane.queue.clone(),
                    task: lane.task.clone(),
                    counts: Counts::default(),
                    jobs: BTreeMap::new(),
                    oldest_waiting: None,
                    paused: self.config.is_paused(&lane.queue, &lane.task, self.now),
                });
            entry.counts.merge(&counts);
            if lane.gone {
                continue;
            }
            active_keys += own.held;
            let waiting = waiting.get(&number).copied().unwrap_or_default();
            entry.jobs = by_state(&own.phases, waiting.scheduled);
            entry.oldest_waiting = waiting.oldest.map(Timestamp::from_millis);
            for (state, n) in &entry.jobs {
                *jobs.entry(*state).or_insert(0) += n;
            }
        }
        Ok(Stats {
            as_of: self.now,
            since: since.map(Timestamp::from_millis),
            totals,
            raw,
            jobs,
            active_keys,
            keys_by_hold: BTreeMap::new(),
            expired_keys: answer::number(passed)?,
            storage_bytes: 0,
            storage_limit: None,
            steps_in_doubt: self.list_steps(&StepFilter::InDoubt).await?.len() as i64,
            guard,
            lanes: lanes.into_values().collect(),
        })
    }

    /// Keys of live lanes that lapse after a place in time.
    fn lapsing(&self, answer: Value, after: i64) -> Result<i64, StoreError> {
        let mut sum = 0;
        for (field, count) in answer::pairs(answer)? {
            let field = String::from_utf8_lossy(&field).into_owned();
            let Some((lane, at)) = field.split_once(':') else {
                continue;
            };
            let (Ok(lane), Ok(at)) = (lane.parse::<u32>(), at.parse::<i64>()) else {
                continue;
            };
            if at > after && self.config.live(lane).is_some() {
                sum += answer::parse(&count)?;
            }
        }
        Ok(sum)
    }

    /// Packs are due when they are made, so members that are not due stand for one job each; but where the clock was
    /// set back, up to the moment of the last pack.
    async fn waiting_by_lane(
        &self,
        places: Value,
        packed_to: i64,
    ) -> Result<HashMap<u32, Waiting>, StoreError> {
        let places = answer::all_bytes(places)?;
        let places: Vec<(u32, i8)> = places.iter().filter_map(|place| parse_place(place)).collect();
        let mut waiting: HashMap<u32, Waiting> = HashMap::new();
        if places.is_empty() {
            return Ok(waiting);
        }
        let now = self.now.as_millis();
        let mut ask = redis::pipe();
        for (lane, priority) in &places {
            let ready = self.names().ready(*lane, *priority);
            ask.cmd("ZCOUNT").arg(&ready).arg(format!("({now}")).arg("+inf");
            if packed_to > now {
                ask.cmd("ZRANGEBYSCORE")
                    .arg(&ready)
                    .arg(format!("({now}"))
                    .arg(packed_to);
            }
            ask.cmd("ZRANGE").arg(&ready).arg(0).arg(0).arg("WITHSCORES");
        }
        let mut answers = self.look(&ask).await?.into_iter();
        for (lane, _) in places {
            let lane = waiting.entry(lane).or_default();
            lane.scheduled += answer::number(answers.next().unwrap_or(Value::Nil))?;
            if packed_to > now {
                let members = answer::all_bytes(answers.next().unwrap_or(Value::Nil))?;
                let others = members.iter().map(|member| pack::count(member) as i64 - 1);
                lane.scheduled += others.sum::<i64>();
            }
            let first = answer::pairs(answers.next().unwrap_or(Value::Nil))?;
            let first = first
                .first()
                .map(|(_, run_at)| answer::parse(run_at))
                .transpose()?;
            let due = first.filter(|run_at| *run_at <= now);
            lane.oldest = [lane.oldest, due].into_iter().flatten().min();
        }
        Ok(waiting)
    }

    /// Snapshots of the counters over a window, oldest first.
    pub async fn history(&mut self, window: Millis) -> Result<Vec<Snapshot>, StoreError> {
        let since = self.now.as_millis().saturating_sub(window.as_millis());
        let mut ask = redis::pipe();
        ask.cmd("HGETALL").arg(self.names().snapshots());
        let mut snapshots = Vec::new();
        for (at, counts) in answer::pairs(self.look(&ask).await?.remove(0))? {
            let at = answer::parse(&at)?;
            if at >= since {
                snapshots.push(Snapshot {
                    at: Timestamp::from_millis(at),
                    counts: decode_counts(&counts)?,
                });
            }
        }
        snapshots.sort_by_key(|snapshot| snapshot.at);
        Ok(snapshots)
    }

    /// Takes a snapshot if this minute has none, and thins out old ones. Whether one was taken.
    pub async fn take_snapshot(&mut self) -> Result<bool, StoreError> {
        let keys = self.names();
        let minute = floored(self.now.as_millis(), MINUTE);
        let slot = Slot::new(keys.snapshots(), minute.to_string());
        let due = self.get(&slot).await?.is_none();
        let mut ask = redis::pipe();
        ask.cmd("HKEYS").arg(keys.snapshots());
        ask.cmd("HGETALL").arg(keys.counts());
        let mut answers = self.look(&ask).await?.into_iter();
        let taken = answer::all_bytes(answers.next().unwrap_or(Value::Nil))?;
        let mut taken = taken
            .iter()
            .map(|at| answer::parse(at))
            .collect::<Result<Vec<_>, _>>()?;
        if due {
            let (numbers, _) = read_numbers(answers.next().unwrap_or(Value::Nil))?;
            let mut raw = Counts::default();
            numbers.values().for_each(|own| raw.merge(&own.counts));
            self.set(slot, encode_counts(&raw));
            taken.push(minute);
        }
        taken.sort_unstable();
        for at in superfluous(&taken, self.now) {
            self.run("HDEL", keys.snapshots(), vec![score(at)]);
        }
        Ok(due)
    }

    /// Moves the baseline of the counters to now.
    pub fn reset_stats(&mut self) -> Timestamp {
        let keys = self.names();
        self.copy(keys.counts(), keys.baseline());
        self.run(
            "HSET",
            keys.meta(),
            vec![b"since".to_vec(), score(self.now.as_millis())],
        );
        self.now
    }
}

fn by_state(phases: &[i64; 7], scheduled: i64) -> BTreeMap<State, i64> {
    let at = |phase: Phase| phases[phase as usize];
    let numbers = [
        (State::Scheduled, scheduled),
        (State::Queued, at(Phase::Waiting) - scheduled),
        (State::Running, at(Phase::Running)),
        (State::Deferred, at(Phase::Deferred)),
        (State::Parked, at(Phase::Parked)),
        (State::Complete, at(Phase::Complete)),
        (State::Failed, at(Phase::Failed)),
        (State::Cancelled, at(Phase::Cancelled)),
    ];
    numbers.into_iter().filter(|(_, n)| *n != 0).collect()
}

/// Snapshots that are too old: one per minute is kept for a day, the first of each hour for a month.
fn superfluous(taken: &[i64], now: Timestamp) -> Vec<i64> {
    let mut hour = None;
    let mut old = Vec::new();
    for at in taken {
        let first_of_hour = hour.replace(floored(*at, HOUR)) != Some(floored(*at, HOUR));
        let age = now.since(Timestamp::from_millis(*at));
        if age > MINUTES_KEPT && (age > HOURS_KEPT || !first_of_hour) {
            old.push(*at);
        }
    }
    old
}

fn floored(at: i64, length: i64) -> i64 {
    at.div_euclid(length) * length
}

/// The counters of a snapshot.
pub fn encode_counts(counts: &Counts) -> Vec<u8> {
    let mut out = Writer::new(VERSION);
    for counter in Counter::ALL {
        out.long(counts.get(counter));
    }
    out.done()
}

/// Counters added since a snapshot was taken are missing in it: they were zero.
pub fn decode_counts(bytes: &[u8]) -> Result<Counts, StoreError> {
    let mut from = Reader::new(bytes, VERSION, "a snapshot")?;
    let mut counts = Counts::default();
    for counter in Counter::ALL {
        if !from.is_done() {
            counts.set(counter, from.long()?);
        }
    }
    Ok(counts)
}
