//! First leases of jobs whose keys a lease leaves alone: one round trip, and one watched lease for all of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::{Cmd, Value};

use semel_core::error::StoreError;
use semel_core::ids::Name;
use semel_core::job::Phase;
use semel_core::lifecycle;
use semel_core::limits::CLAIM_KEPT;
use semel_core::store::{ClaimRequest, Claimed};
use semel_core::time::Timestamp;

use super::belief::{Leased, Together};
use super::{Moment, Said, ask, believed, config};
use crate::claim::{batch_member, parse_place};
use crate::config::Config;
use crate::head::{self, BORN, FRESH, Head};
use crate::inspect::{Parts, show};
use crate::jobs::unless_damaged;
use crate::keys::Id;
use crate::link::answer;
use crate::records::{Claim, Spec};
use crate::shard::Shard;

/// Orders of dispatch that are taken from at once; of more, the long way is not much longer.
const ORDERS: usize = 64;
/// Of so many jobs the script gives what they are; of more it is cheaper to ask for that without a script.
const WHOLE: usize = 8;

/// What all leases of a claim have in common.
struct Lease<'a> {
    request: &'a ClaimRequest,
    moment: Moment,
    fence: i64,
    until: Timestamp,
}

impl Lease<'_> {
    /// A head under the lease.
    fn of(&self, head: &Head) -> Head {
        Head {
            life: lifecycle::lease(&head.life, self.fence, self.until, self.moment.now),
            worker: Some(self.request.worker.clone()),
            version: head.version.wrapping_add(1),
            ..head.clone()
        }
    }
}

/// Leases up to `max` jobs; none if that takes the long way.
pub async fn claim(shard: &Shard, request: &ClaimRequest) -> Result<Option<Vec<Claimed>>, StoreError> {
    let Some(config) = config(shard) else {
        return Ok(None);
    };
    // The end of a pause is a matter of the exact time.
    if config.settings.values().any(|setting| setting.paused.is_some()) {
        return Ok(None);
    }
    for _ in 0..2 {
        let moment = Moment::of(shard);
        let lease = Lease {
            request,
            moment,
            fence: lifecycle::next_fence(0, moment.micros),
            until: moment.now.plus(request.lease),
        };
        let places = shard.believe(|belief| belief.places.clone());
        let orders = open(&config, &places, request);
        if orders.len() > ORDERS {
            return Ok(None);
        }
        let turn = lease.of(&Head::fresh()).turn_bytes();
        let call = call(shard, &config, &lease, &turn, &places, &orders);
        match ask(shard, "claiming", call).await? {
            Said::Done(rest) => return given(shard, &config, &lease, turn, rest).await.map(Some),
            Said::Places(found) => {
                let found = answer::all_bytes(Value::Array(found))?;
                shard.believe(|belief| belief.places = found.into_iter().collect());
            }
            Said::Again(_) => {}
            _ => return Ok(None),
        }
    }
    Ok(None)
}

/// Places that may be taken from, the highest priority first.
fn open(config: &Config, places: &BTreeSet<Vec<u8>>, request: &ClaimRequest) -> Vec<(u32, i8)> {
    let wanted = |names: &[Name], name: &Name| names.is_empty() || names.contains(name);
    let mut open: Vec<(u32, i8)> = places
        .iter()
        .filter_map(|place| parse_place(place))
        .filter(|(lane, _)| {
            config.live(*lane).is_some_and(|lane| {
                wanted(&request.queues, &lane.queue) && wanted(&request.tasks, &lane.task)
            })
        })
        .collect();
    open.sort_unstable_by_key(|(lane, priority)| (-i16::from(*priority), *lane));
    open
}

/// See `lua/claim.lua`.
fn call(
    shard: &Shard,
    config: &Config,
    lease: &Lease<'_>,
    turn: &[u8],
    places: &BTreeSet<Vec<u8>>,
    orders: &[(u32, i8)],
) -> Cmd {
    let keys = &shard.keys;
    let token = Id::from(lease.request.token);
    let mut call = redis::cmd("EVALSHA");
    call.arg(shard.link.scripts.claim.get_hash())
        .arg(8 + orders.len())
        .arg(keys.meta())
        .arg(keys.leases())
        .arg(keys.claims())
        .arg(keys.claims_due())
        .arg(keys.places())
        .arg(keys.counts())
        .arg(keys.heads())
        .arg(keys.specs());
    for (lane, priority) in orders {
        call.arg(keys.ready(*lane, *priority));
    }
    believed(&mut call, shard, lease.moment, config.version);
    let kept = Claim {
        fence: lease.fence,
        ids: Vec::new(),
    };
    let forget_at = lease.until.max(lease.moment.now.plus(CLAIM_KEPT));
    call.arg(&token.0)
        .arg(lease.request.max)
        .arg([&[BORN], FRESH.as_slice()].concat())
        .arg([&[head::SHORT, head::WHOLE], turn].concat())
        .arg(kept.encode())
        .arg(lease.until.as_millis())
        .arg(forget_at.as_millis())
        .arg(batch_member(&token));
    let mut all = vec![b','];
    for place in places {
        all.extend_from_slice(place);
        all.push(b',');
    }
    call.arg(places.len()).arg(all).arg(WHOLE);
    for (lane, priority) in orders {
        call.arg(*priority)
            .arg(format!("{lane}:{priority}"))
            .arg(format!("{lane}.p{}", Phase::Waiting as usize))
            .arg(format!("{lane}.p{}", Phase::Running as usize));
    }
    call
}

async fn given(
    shard: &Shard,
    config: &Config,
    lease: &Lease<'_>,
    turn: Vec<u8>,
    rest: Vec<Value>,
) -> Result<Vec<Claimed>, StoreError> {
    let mut rest = rest.into_iter();
    let mut jobs = jobs_in(rest.next().unwrap_or(Value::Nil))?;
    let empty = answer::all_bytes(rest.next().unwrap_or(Value::Nil))?;
    add_specs(shard, &mut jobs).await?;
    let together = Arc::new(Together {
        turn,
        member: batch_member(&Id::from(lease.request.token)),
        left: AtomicUsize::new(jobs.len()),
    });
    let (mut claims, mut leased) = (Vec::with_capacity(jobs.len()), Vec::with_capacity(jobs.len()));
    for Given { id, head, spec } in jobs {
        // One that is damaged is leased like the others, and nobody gets it.
        let one = one_given(shard, config, lease, id, (&head, &spec)).map(Some);
        let Some((head, claimed)) = unless_damaged(&id, one)? else {
            continue;
        };
        debug_assert_eq!(head.turn_bytes(), together.turn);
        claims.push(claimed);
        leased.push(Leased {
            head,
            together: together.clone(),
        });
    }
    let count = leased.len() as u64;
    shard.at_once.leased.fetch_add(count, Ordering::Relaxed);
    shard.believe(|belief| {
        belief.places.retain(|place| !empty.contains(place));
        belief.lease(leased.into_iter());
    });
    Ok(claims)
}

/// A job that was leased: its head before and what it is, as far as they are told.
struct Given {
    id: Id,
    head: Vec<u8>,
    spec: Vec<u8>,
}

/// What the script says of the jobs.
fn jobs_in(given: Value) -> Result<Vec<Given>, StoreError> {
    let amiss = || StoreError::corrupt("places that are no jobs'");
    let mut given = answer::list(given)?.into_iter();
    let mut next = || given.next().unwrap_or(Value::Nil);
    let ids = answer::bytes(next())?.unwrap_or_default();
    let (ids, []) = ids.as_chunks::<16>() else {
        return Err(amiss());
    };
    let one = |id: &[u8; 16]| Given {
        id: Id(*id),
        head: Vec::new(),
        spec: Vec::new(),
    };
    let mut jobs: Vec<Given> = ids.iter().map(one).collect();
    while let Some(place) = given.next() {
        let place = usize::try_from(answer::number(place)?).map_err(|_| amiss())?;
        let job = jobs.get_mut(place).ok_or_else(amiss)?;
        let mut told = || answer::bytes(given.next().unwrap_or(Value::Nil));
        job.head = told()?.unwrap_or_default();
        job.spec = told()?.unwrap_or_default();
    }
    Ok(jobs)
}

/// Asks for what leased jobs are, where the script has not said it. Nobody else changes that, or takes them away, but
/// whoever removes their queue.
async fn add_specs(shard: &Shard, jobs: &mut [Given]) -> Result<(), StoreError> {
    let mut lacking: Vec<&mut Given> = jobs.iter_mut().filter(|job| job.spec.is_empty()).collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let mut ask = redis::pipe();
    let read = ask.cmd("HMGET").arg(shard.keys.specs());
    for job in &lacking {
        read.arg(&job.id.0);
    }
    let found = answer::all_bytes(shard.link.ask("reading what was leased", &ask).await?.remove(0))?;
    for (job, found) in lacking.iter_mut().zip(found) {
        job.spec = found;
    }
    Ok(())
}

/// A job as it was leased, from its head and what it is before.
fn one_given(
    shard: &Shard,
    config: &Config,
    lease: &Lease<'_>,
    id: Id,
    (head, spec): (&[u8], &[u8]),
) -> Result<(Head, Claimed), StoreError> {
    let before = Head::read(id, Some(head).filter(|head| !head.is_empty()), Some(spec))?;
    let before = before.ok_or_else(|| StoreError::corrupt("a job without a head"))?;
    let head = lease.of(&before);
    debug_assert!(before.differs_in_turn_only(&head), "{before:?} {head:?}");
    let (spec, now) = (Spec::decode(spec)?, lease.moment.now);
    let job = show(&shard.keys, config, now, &head, spec, Parts::default())?;
    let claimed = Claimed {
        job,
        fence: lease.fence,
        lease_until: lease.until,
    };
    Ok((head, claimed))
}
