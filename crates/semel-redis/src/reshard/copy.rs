//! Jobs on their way into other shards.
//!
//! They arrive in the order they had over all shards, and are written by the same functions as any job, which enter them
//! everywhere. What an old shard numbers by itself (lanes, arrivals) is numbered anew.

use std::collections::{BTreeMap, HashMap};

use semel_core::error::StoreError;
use semel_core::ids::{Digest, Name};
use semel_core::job::Phase;

use super::source::{Moving, Source, scored};
use super::{Notice, tell};
use crate::config::{encode_lane, encode_setting, encode_target};
use crate::head::Head;
use crate::jobs::score;
use crate::keys::{Id, Keys};
use crate::link::{Link, answer};
use crate::name::{Layout, Named};
use crate::records::{self, Owner};
use crate::route;
use crate::settle::follower_slot;
use crate::shard::Shard;
use crate::tx::{Slot, Tx, Written};

/// Jobs written at once.
const TOGETHER: usize = 200;
/// Bytes of input written at once.
const BYTES: usize = 1 << 20;

/// What the jobs have told that everything else hangs on.
#[derive(Default)]
pub struct Found {
    /// Jobs that were copied.
    pub jobs: u64,
    /// The number of each lane.
    pub lanes: HashMap<(Name, Name), u32>,
    /// Where jobs are that run.
    pub running: HashMap<Id, usize>,
    /// How many jobs of a lane a shard has that were accepted, not deferred.
    pub accepted: BTreeMap<(usize, u32), i64>,
    /// Slots of keys that are not where their digests would be.
    elsewhere: HashMap<Digest, u16>,
}

impl Found {
    /// Where a key is.
    pub fn shard_of(&self, digest: &Digest, shards: usize) -> usize {
        let slot = self.elsewhere.get(digest).copied();
        route::of_slot(slot.unwrap_or_else(|| route::slot_of_digest(digest)), shards)
    }
}

/// A key or a group of keys with several jobs: where it was, and where it is.
struct Several {
    digest: Digest,
    from: usize,
    to: usize,
}

/// Copies jobs.
pub struct Copier<'l> {
    link: &'l Link,
    from: &'l [Keys],
    names: Vec<Named>,
    sources: Vec<Source<'l>>,
    targets: &'l [Shard],
    pending: Vec<Vec<Moving>>,
    bytes: Vec<usize>,
    found: Found,
    kin: Vec<Several>,
    groups: Vec<Several>,
}

impl<'l> Copier<'l> {
    /// Looks at the old shards and gives the new ones their lanes and settings.
    pub async fn begin(
        link: &'l Link,
        (old, from): (Layout, &'l [Keys]),
        targets: &'l [Shard],
        notice: Notice<'_>,
    ) -> Result<Self, StoreError> {
        tell(notice, "copying lanes and settings", 0, 1)?;
        let mut sources = Vec::with_capacity(from.len());
        for keys in from {
            sources.push(Source::open(link, keys).await?);
        }
        let mut copier = Copier {
            link,
            from,
            names: (0..old.shards).map(|shard| old.names(shard)).collect(),
            sources,
            targets,
            pending: targets.iter().map(|_| Vec::new()).collect(),
            bytes: vec![0; targets.len()],
            found: Found::default(),
            kin: Vec::new(),
            groups: Vec::new(),
        };
        copier.settle_in().await?;
        Ok(copier)
    }

    /// Every new shard has every lane, under one number, and the settings of the first.
    async fn settle_in(&mut self) -> Result<(), StoreError> {
        let mut lanes: Vec<((Name, Name), bool)> = Vec::new();
        for gone in [false, true] {
            let all = self.sources.iter().flat_map(|source| &source.config().lanes);
            for lane in all.filter(|lane| lane.gone == gone) {
                let names = (lane.queue.clone(), lane.task.clone());
                if !lanes.iter().any(|(known, _)| *known == names) {
                    lanes.push((names, gone));
                }
            }
        }
        let settings = self
            .sources
            .first()
            .map(|source| source.config().settings.clone());
        for target in self.targets {
            let keys = &target.keys;
            let mut ask = redis::pipe();
            ask.atomic();
            // Sent twice, it is the same list.
            ask.cmd("DEL").arg(keys.lanes());
            for (number, ((queue, task), gone)) in lanes.iter().enumerate() {
                ask.cmd("RPUSH").arg(keys.lanes()).arg(encode_lane(queue, task));
                if *gone {
                    ask.cmd("HSET").arg(keys.gone()).arg(number).arg("swept");
                }
            }
            for (target, setting) in settings.iter().flatten() {
                let (target, setting) = (encode_target(target), encode_setting(setting));
                ask.cmd("HSET").arg(keys.settings()).arg(target).arg(setting);
            }
            ask.cmd("HSET").arg(keys.meta()).arg("config").arg(1);
            self.link.ask("copying lanes and settings", &ask).await?;
        }
        let numbered = lanes.into_iter().zip(0u32..);
        self.found.lanes = numbered.map(|((names, _), number)| (names, number)).collect();
        Ok(())
    }

    /// Copies all jobs.
    pub async fn jobs(&mut self, of: u64, notice: Notice<'_>) -> Result<(), StoreError> {
        let of = usize::try_from(of).unwrap_or(usize::MAX);
        while let Some(shard) = self.next().await? {
            let Some(mut job) = self.sources[shard].take() else {
                break;
            };
            job.head.trail.named.get_or_insert(self.names[shard]);
            let target = self.send(&job, shard);
            self.bytes[target] += job.spec.content.input.as_str().len();
            self.pending[target].push(job);
            if self.pending[target].len() >= TOGETHER || self.bytes[target] >= BYTES {
                tell(notice, "copying jobs", self.count(), of)?;
                self.flush(target).await?;
            }
        }
        for target in 0..self.targets.len() {
            tell(notice, "copying jobs", self.count(), of)?;
            self.flush(target).await?;
        }
        Ok(())
    }

    fn count(&self) -> usize {
        usize::try_from(self.found.jobs).unwrap_or(usize::MAX)
    }

    /// The shard with the oldest job: between shards time decides, within one its own order.
    async fn next(&mut self) -> Result<Option<usize>, StoreError> {
        let mut oldest = None;
        for (shard, source) in self.sources.iter_mut().enumerate() {
            let Some(job) = source.peek().await? else { continue };
            let at = (job.head.enqueued_at, shard);
            oldest = Some(oldest.map_or(at, |oldest| at.min(oldest)));
        }
        Ok(oldest.map(|(_, shard)| shard))
    }

    /// Where a job goes, and what has to be known of it later.
    fn send(&mut self, job: &Moving, from: usize) -> usize {
        let Moving { head, spec, lane, .. } = job;
        let namespace = &self.targets[0].namespace;
        let slot = route::of_job(namespace, head, spec, lane.clone());
        let to = route::of_slot(slot, self.targets.len());
        if head.life.phase == Phase::Running {
            self.found.running.insert(head.id, to);
        }
        let Some(digest) = head.digest else { return to };
        if route::slot_of_digest(&digest) != slot {
            self.found.elsewhere.insert(digest, slot);
        }
        let owner = job.owner.as_ref().and_then(|bytes| Owner::decode(bytes).ok());
        // Its newest owner speaks for all of them; where that is gone, each of them does.
        let speaks = |owner: &Owner| owner.newest.is_none_or(|newest| newest == head.id);
        if owner.is_some_and(|owner| owner.kin && speaks(&owner)) {
            self.kin.push(Several { digest, from, to });
        }
        if let Some(digest) = head.group {
            self.groups.push(Several { digest, from, to });
        }
        to
    }

    async fn flush(&mut self, target: usize) -> Result<(), StoreError> {
        let jobs = std::mem::take(&mut self.pending[target]);
        self.bytes[target] = 0;
        if jobs.is_empty() {
            return Ok(());
        }
        let shard = &self.targets[target];
        let mut tx = Tx::begin(shard, Vec::new(), jobs.len(), 0).await?;
        tx.load_heads(jobs.iter().map(|job| job.head.id)).await?;
        let count = jobs.len();
        for job in jobs {
            let lane = self.found.lanes.get(&job.lane);
            let lane = *lane.ok_or_else(|| StoreError::corrupt("a job in a lane that is not there"))?;
            let accepted = self.found.accepted.entry((target, lane)).or_default();
            *accepted += i64::from(!job.head.marks.deferred);
            let head = Head {
                lane,
                seq: tx.next_seq().await?,
                ..job.head.clone()
            };
            write(&mut tx, head, job).await?;
        }
        commit(tx).await?;
        self.found.jobs += count as u64;
        Ok(())
    }

    /// Copies what names several jobs by their arrival, and gives what was found.
    pub async fn end(mut self, notice: Notice<'_>) -> Result<Found, StoreError> {
        let (kin, groups) = (std::mem::take(&mut self.kin), std::mem::take(&mut self.groups));
        let of = kin.len() + groups.len();
        for (done, key) in kin.iter().enumerate() {
            tell(notice, "copying keys with several jobs", done, of)?;
            self.copy_kin(key).await?;
        }
        for (done, group) in groups.iter().enumerate() {
            tell(notice, "copying keys with several jobs", kin.len() + done, of)?;
            self.copy_group(group).await?;
        }
        Ok(self.found)
    }

    async fn copy_kin(&self, Several { digest, from, to }: &Several) -> Result<(), StoreError> {
        let found = scored(self.link, self.from[*from].kin(digest)).await?;
        let mut tx = Tx::begin(&self.targets[*to], Vec::new(), 0, 0).await?;
        for (member, generation) in found {
            let Some(id) = member.as_slice().try_into().ok().map(Id) else {
                continue;
            };
            let Some(head) = tx.stored(&id).await? else {
                continue;
            };
            // Those that never took the key are known by their arrival, which is another here.
            let generation = match answer::parse(&generation)? {
                generation if generation > 0 => generation,
                _ => -head.seq,
            };
            tx.run("ZADD", tx.names().kin(digest), vec![score(generation), member]);
        }
        commit(tx).await
    }

    async fn copy_group(&self, Several { digest, from, to }: &Several) -> Result<(), StoreError> {
        let (key, field) = Slot::group(&self.from[*from], digest).into_parts();
        let mut ask = redis::pipe();
        ask.cmd("HGET").arg(key).arg(field);
        let Some(bytes) = answer::bytes(self.link.ask("reading", &ask).await?.remove(0))? else {
            return Ok(());
        };
        let mut tx = Tx::begin(&self.targets[*to], Vec::new(), 0, 0).await?;
        let mut members = Vec::new();
        for (_, id) in records::decode_ids(&bytes)? {
            members.extend(tx.stored(&id).await?.map(|head| (head.seq, id)));
        }
        members.sort_unstable();
        if !members.is_empty() {
            tx.set(Slot::group(tx.names(), digest), records::encode_ids(&members));
        }
        commit(tx).await
    }
}

/// Writes a job with everything that goes with it.
async fn write(tx: &mut Tx<'_>, head: Head, job: Moving) -> Result<(), StoreError> {
    let keys = tx.names();
    tx.insert(head.clone(), &job.spec).await?;
    for (part, key) in [
        (job.output, keys.outputs()),
        (job.error, keys.errors()),
        (job.progress, keys.progress()),
    ] {
        if let Some(bytes) = part {
            tx.set(Slot::part(key, &head.id), bytes);
        }
    }
    for line in job.attempts {
        tx.run("RPUSH", keys.attempts(&head.id), vec![line]);
    }
    if let Some((feed, last, lines)) = job.log {
        for line in lines {
            tx.run("RPUSH", keys.feed(&feed), vec![line]);
        }
        tx.add(keys.feeds(), feed, last);
    }
    if let Some(followed) = &head.follows {
        tx.set(follower_slot(keys, followed), head.id.0.to_vec());
    }
    for step in &job.steps {
        tx.put_step(&head.origin(), &records::decode_step(step)?);
    }
    if let Some((digest, owner)) = head.digest.zip(job.owner) {
        tx.set(Slot::owner(keys, &digest), owner);
    }
    Ok(())
}

/// Nobody else writes to a shard that is not announced.
pub async fn commit(tx: Tx<'_>) -> Result<(), StoreError> {
    match tx.commit().await? {
        Written::Done => Ok(()),
        Written::Conflict => Err(StoreError::Refused {
            reason: "somebody else writes to the new shards".to_owned(),
            hint: "let one command change the number of shards, then run it again".to_owned(),
        }),
    }
}
