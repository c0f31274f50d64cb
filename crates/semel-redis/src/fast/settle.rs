//! Completions of jobs that this handle has leased together: one round trip, and of each job only its id is sent.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use redis::Cmd;

use semel_core::counters::Counter;
use semel_core::error::StoreError;
use semel_core::job::Life;
use semel_core::lifecycle::{self, Settle, Settled};
use semel_core::store::{Settlement, WriteOutcome};

use super::belief::{Leased, Together};
use super::{Moment, Said, ask, believed, config};
use crate::config::Config;
use crate::head::{self, Head, held};
use crate::jobs::tallies;
use crate::link::answer;
use crate::settle::check;
use crate::shard::Shard;
use crate::tx::Signals;

/// A completion that may be written at once.
struct End<'a> {
    place: usize,
    settlement: &'a Settlement,
    leased: Leased,
    /// What core makes of it.
    life: Life,
}

/// Ends that make the same of heads that are the same.
struct Batch<'a> {
    together: Arc<Together>,
    turn: Vec<u8>,
    output: bool,
    ends: Vec<End<'a>>,
}

/// Settles what can be settled at once; the others go the long way.
pub async fn settle(
    shard: &Shard,
    settlements: &[&Settlement],
) -> Result<Vec<Option<WriteOutcome>>, StoreError> {
    let mut outcomes: Vec<Option<WriteOutcome>> = settlements.iter().map(|_| None).collect();
    let Some(config) = config(shard) else {
        return Ok(outcomes);
    };
    let moment = Moment::of(shard);
    for mut batch in sorted(shard, &config, settlements, moment) {
        // Once more without those that are not as they were leased.
        for _ in 0..2 {
            if batch.ends.is_empty() {
                break;
            }
            match write(shard, &batch, moment, config.version).await? {
                Said::Done(_) => {
                    let signals = Signals {
                        work: false,
                        ends: true,
                    };
                    shard.wake.signal(signals);
                    batch.together.left.fetch_sub(batch.ends.len(), Ordering::Relaxed);
                    let completed = batch.ends.len() as u64;
                    shard.at_once.completed.fetch_add(completed, Ordering::Relaxed);
                    for end in &batch.ends {
                        outcomes[end.place] = Some(WriteOutcome::Ok(end.life.state(moment.now)));
                    }
                    break;
                }
                Said::Other(places) => {
                    let mut others = Vec::with_capacity(places.len());
                    for place in places {
                        others.push(answer::number(place)?);
                    }
                    let mut n = -1;
                    batch.ends.retain(|_| {
                        n += 1;
                        !others.contains(&n)
                    });
                }
                _ => break,
            }
        }
    }
    Ok(outcomes)
}

fn sorted<'a>(
    shard: &Shard,
    config: &Config,
    settlements: &[&'a Settlement],
    moment: Moment,
) -> Vec<Batch<'a>> {
    let mut batches: Vec<Batch<'a>> = Vec::new();
    let mut ids = HashSet::with_capacity(settlements.len());
    for (place, settlement) in settlements.iter().enumerate() {
        // They are judged in their order: of several about one job only the first may be written ahead of the others.
        if !ids.insert(&settlement.id) {
            continue;
        }
        let Settle::Complete { output } = &settlement.result else {
            continue;
        };
        let Some(leased) = shard
            .locate(&settlement.id)
            .filter(|_| check(&settlement.result).is_ok())
            .and_then(|id| shard.believe(|belief| belief.take(&id)))
            .filter(|leased| config.live(leased.head.lane).is_some())
        else {
            continue;
        };
        let Some((life, turn)) = ended(&leased.head, settlement, moment) else {
            continue;
        };
        let output = output.is_some();
        let end = End {
            place,
            settlement,
            leased,
            life,
        };
        let fits = |batch: &&mut Batch<'_>| {
            Arc::ptr_eq(&batch.together, &end.leased.together) && batch.turn == turn && batch.output == output
        };
        match batches.iter_mut().find(fits) {
            Some(batch) => batch.ends.push(end),
            None => batches.push(Batch {
                together: end.leased.together.clone(),
                turn,
                output,
                ends: vec![end],
            }),
        }
    }
    batches
}

/// The life of a job that completes, and what its head begins with then; none if more of its head changes.
fn ended(head: &Head, settlement: &Settlement, moment: Moment) -> Option<(Life, Vec<u8>)> {
    let Settlement { id, fence, result } = settlement;
    let Ok(Settled::Moved { life, .. }) = lifecycle::settle(&head.life, id, *fence, result, moment.now)
    else {
        return None;
    };
    let mut marks = head.marks;
    marks.output |= matches!(result, Settle::Complete { output: Some(_) });
    let after = Head {
        life: (*life).clone(),
        marks,
        version: head.version.wrapping_add(1),
        ..head.clone()
    };
    head.differs_in_turn_only(&after)
        .then(|| (*life, after.turn_bytes()))
}

async fn write(shard: &Shard, batch: &Batch<'_>, moment: Moment, version: i64) -> Result<Said, StoreError> {
    ask(shard, "settling", call(shard, batch, moment, version)).await
}

/// See `lua/settle.lua`.
fn call(shard: &Shard, batch: &Batch<'_>, moment: Moment, version: i64) -> Cmd {
    let (keys, jobs) = (&shard.keys, batch.ends.len());
    let mut sums: BTreeMap<(String, String), i64> = BTreeMap::new();
    let mut same: Vec<(u32, crate::head::Held, crate::head::Held, i64)> = Vec::new();
    for end in &batch.ends {
        let head = &end.leased.head;
        let kind = (head.lane, head.held(), held(&end.life));
        match same.iter_mut().rev().find(|one| (one.0, one.1, one.2) == kind) {
            Some(one) => one.3 += 1,
            None => same.push((kind.0, kind.1, kind.2, 1)),
        }
    }
    let phases = batch
        .ends
        .first()
        .map(|end| (end.leased.head.life.phase, end.life.phase));
    for (lane, before, after, count) in same {
        let completed = (keys.counts(), format!("{lane}.c{}", Counter::Completed as usize));
        *sums.entry(completed).or_default() += count;
        for at in tallies(keys, lane, phases.map(|(before, _)| before), before) {
            *sums.entry(at).or_default() -= count;
        }
        for at in tallies(keys, lane, phases.map(|(_, after)| after), after) {
            *sums.entry(at).or_default() += count;
        }
    }
    sums.retain(|_, by| *by != 0);
    let mut call = Cmd::with_capacity(32 + jobs, 1_024 + jobs * 32);
    call.arg("EVALSHA").arg(shard.link.scripts.settle.get_hash());
    call.arg(6 + sums.len())
        .arg(keys.meta())
        .arg(keys.leases())
        .arg(keys.heads())
        .arg(keys.followers())
        .arg(keys.completed())
        .arg(keys.outputs());
    for (key, _) in sums.keys() {
        call.arg(key);
    }
    believed(&mut call, shard, moment, version);
    let signals = Signals {
        work: false,
        ends: true,
    };
    call.arg(keys.channel()).arg(shard.wake.message(signals));
    for turn in [&batch.together.turn, &batch.turn] {
        call.arg([&[head::SHORT], turn.as_slice()].concat());
    }
    match batch.together.left.load(Ordering::Relaxed) == jobs {
        true => call.arg(&batch.together.member),
        false => call.arg(""),
    };
    let outputs = if batch.output { jobs } else { 0 };
    call.arg(jobs).arg(sums.len()).arg(outputs);
    call.arg(&moment.now.as_millis().to_be_bytes());
    for ((_, field), by) in &sums {
        call.arg(field).arg(by);
    }
    for end in &batch.ends {
        call.arg(&end.leased.head.id.0);
    }
    for end in batch.ends.iter().filter(|_| batch.output) {
        if let Settle::Complete { output: Some(output) } = &end.settlement.result {
            call.arg(&end.leased.head.id.0).arg(output.as_str());
        }
    }
    call
}
