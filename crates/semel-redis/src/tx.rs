//! One step on a shard: what it has read, what it is about to write, and the moment in which it is written.
//!
//! A step reads fields of hashes, asks core, and gathers writes. [`Tx::commit`] hands both to one script, which
//! writes only if every field that was read is still the same. If not, the step is taken again from the beginning.
//! Within a step what was written is read back. Ranges (zsets, lists) are not compared: what hangs on them is
//! decided by fields.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use redis::Value;

use semel_core::counters::Counter;
use semel_core::error::StoreError;
use semel_core::ids::{Digest, Name};
use semel_core::lifecycle;
use semel_core::time::Timestamp;

use crate::config::{Config, encode_lane};
use crate::head;
use crate::keys::{Id, Keys};
use crate::layout;
use crate::link::answer;
use crate::scripts;
use crate::shard::Shard;

/// Arguments of one command: more than the stack of a script takes would fail in the middle of it.
const ARGUMENTS: usize = 400;

/// A field of a hash.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot {
    key: String,
    field: Vec<u8>,
    /// It changes only together with the head of its job, whose version tells.
    part: bool,
    /// It is the head of the job in whose name it is.
    head: bool,
}

impl Slot {
    /// A field of a hash.
    pub fn new(key: String, field: impl Into<Vec<u8>>) -> Self {
        Slot {
            key,
            field: field.into(),
            part: false,
            head: false,
        }
    }

    /// The hash and the field.
    pub fn into_parts(self) -> (String, Vec<u8>) {
        (self.key, self.field)
    }

    /// A part of a job, which changes only together with its head.
    pub fn part(key: String, id: &Id) -> Self {
        Slot {
            part: true,
            ..Slot::new(key, id.0)
        }
    }

    /// How a job fares.
    pub fn head(keys: &Keys, id: &Id) -> Self {
        Slot {
            head: true,
            ..Slot::new(keys.heads(), id.0)
        }
    }

    /// What a job is.
    pub fn spec(keys: &Keys, id: &Id) -> Self {
        Slot::part(keys.specs(), id)
    }
}

#[derive(Clone, Debug, Default)]
struct Entry {
    /// What the server has, if it was asked.
    read: Option<Option<Vec<u8>>>,
    /// What is to be there.
    written: Option<Option<Vec<u8>>>,
}

struct Command {
    name: &'static str,
    key: usize,
    arguments: Vec<Vec<u8>>,
}

/// What callers that wait may want to know of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// There may be work.
    pub work: bool,
    /// A job may have ended.
    pub ends: bool,
}

/// Numbers that were drawn for a submission before it is decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drawn {
    /// Of its arrival.
    pub seq: Option<i64>,
    /// Of its record in the ledger.
    pub entry: Option<i64>,
}

/// What came of writing a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is written.
    Done,
    /// Somebody else was faster: it has to be taken again.
    Conflict,
}

/// One step on a shard.
pub struct Tx<'s> {
    /// The shard.
    pub shard: &'s Shard,
    /// Lanes and settings.
    pub config: Arc<Config>,
    /// The store's time.
    pub now: Timestamp,
    /// The same, finer.
    pub micros: i64,
    /// What to tell those who wait.
    pub signals: Signals,
    /// Whether a lease has run out.
    pub lease_due: bool,
    /// Whether its answer promises something even if it writes nothing: that something is there.
    pub promises: bool,
    /// What was drawn before for the submission that is next.
    pub reserved: Drawn,
    /// Other jobs of keys, where this step has looked at them or changed them.
    pub kin_left: HashMap<Digest, Vec<(i64, Id)>>,
    config_before: i64,
    slots: HashMap<Slot, Entry>,
    births: HashSet<Slot>,
    keys: Vec<String>,
    key_places: HashMap<String, usize>,
    commands: Vec<Command>,
    forgets: BTreeSet<(usize, Vec<Vec<u8>>)>,
    last_of_key: HashMap<usize, usize>,
    counts: BTreeMap<(String, String), i64>,
    seqs: (i64, i64),
    entries: (i64, i64),
}

impl<'s> Tx<'s> {
    /// Looks at the shard; reads `wanted` along the way, and draws so many arrivals and ledger numbers.
    pub async fn begin(
        shard: &'s Shard,
        wanted: Vec<Slot>,
        seqs: usize,
        entries: usize,
    ) -> Result<Self, StoreError> {
        loop {
            match Self::begin_unless(shard, &wanted, (seqs, entries), |open| open).await? {
                Some(tx) => return Ok(tx),
                None => close(shard).await?,
            }
        }
    }

    /// The same to look only: possible on a server that takes no writes.
    pub async fn begin_looking(shard: &'s Shard) -> Result<Self, StoreError> {
        let mut refused = false;
        loop {
            if let Some(tx) = Self::begin_unless(shard, &[], (0, 0), |open| open && !refused).await? {
                return Ok(tx);
            }
            match close(shard).await {
                Err(StoreError::Full { .. }) => refused = true,
                closed => closed?,
            }
        }
    }

    /// The same; none if what a refused write has left is in the way.
    async fn begin_unless(
        shard: &'s Shard,
        wanted: &[Slot],
        (seqs, entries): (usize, usize),
        is_in_the_way: impl FnOnce(bool) -> bool,
    ) -> Result<Option<Self>, StoreError> {
        let mut ask = redis::pipe();
        let looked = [shard.keys.meta(), shard.keys.leases()];
        let mut begin = scripts::call(&shard.link.scripts.begin, &looked);
        begin.arg(seqs).arg(entries);
        ask.add_command(begin);
        for (key, slots) in grouped(wanted) {
            let read = ask.cmd("HMGET").arg(key);
            for slot in slots {
                read.arg(&slot.field);
            }
        }
        let asked = shard.time.ask();
        let mut answers = shard.link.ask("looking at the store", &ask).await?.into_iter();
        let looked = answer::all_bytes(answers.next().unwrap_or(Value::Nil))?;
        let [seconds, micros, config, soonest, seq, entry, open] = <[Vec<u8>; 7]>::try_from(looked)
            .map_err(|_| StoreError::corrupt("an answer of another length"))?;
        let server = answer::parse(&seconds)? * 1_000_000 + answer::parse(&micros)?;
        let micros = shard.time.seen(asked, server);
        let now = Timestamp::from_millis(micros / 1_000);
        let config = answer::parse(&config)?;
        if config == layout::CLOSED {
            return Err(layout::closed());
        }
        if is_in_the_way(!open.is_empty()) {
            return Ok(None);
        }
        let config = shard.config(config).await?;
        let soonest = if soonest.is_empty() {
            i64::MAX
        } else {
            answer::parse(&soonest)?
        };
        let (seq, entry) = (answer::parse(&seq)?, answer::parse(&entry)?);
        let mut tx = Tx {
            shard,
            config_before: config.version,
            config,
            now,
            micros,
            signals: Signals::default(),
            lease_due: soonest <= now.as_millis(),
            promises: true,
            kin_left: HashMap::new(),
            slots: HashMap::with_capacity(wanted.len() * 2),
            births: HashSet::new(),
            keys: Vec::new(),
            key_places: HashMap::new(),
            commands: Vec::new(),
            forgets: BTreeSet::new(),
            last_of_key: HashMap::new(),
            counts: BTreeMap::new(),
            seqs: (seq - seqs as i64, seq),
            entries: (entry - entries as i64, entry),
            reserved: Drawn::default(),
        };
        if seqs > 0 {
            shard.believe(|belief| belief.arrived(seq));
        }
        tx.learn(wanted, answers)?;
        tx.load_births_of(wanted).await?;
        Ok(Some(tx))
    }

    /// Where only the turn of a head is written, the rest of it is in what the job is.
    async fn load_births_of(&mut self, heads: &[Slot]) -> Result<(), StoreError> {
        let is_short = |slot: &&Slot| {
            let read = self
                .slots
                .get(*slot)
                .and_then(|entry| entry.read.as_ref()?.as_deref());
            slot.head && read.is_some_and(head::is_short)
        };
        let short = heads.iter().filter(is_short);
        let births: Vec<Slot> = short
            .filter_map(|slot| slot.field.as_slice().try_into().ok())
            .map(|id| Slot::spec(&self.shard.keys, &Id(id)))
            .collect();
        self.read_slots(births).await
    }

    fn learn(&mut self, slots: &[Slot], answers: impl Iterator<Item = Value>) -> Result<(), StoreError> {
        for ((_, slots), answer) in grouped(slots).into_iter().zip(answers) {
            for (slot, value) in slots.into_iter().zip(answer::list(answer)?) {
                self.slots.entry(slot.clone()).or_default().read = Some(answer::bytes(value)?);
            }
        }
        Ok(())
    }

    /// The names of the shard.
    pub fn names(&self) -> &'s Keys {
        &self.shard.keys
    }

    /// Reads fields that are not known yet, all at once.
    pub async fn load(&mut self, slots: Vec<Slot>) -> Result<(), StoreError> {
        let heads: Vec<Slot> = slots.iter().filter(|slot| slot.head).cloned().collect();
        self.read_slots(slots).await?;
        self.load_births_of(&heads).await
    }

    /// Reads fields once more, in one instant, unless this step has written them.
    pub async fn read_again(&mut self, slots: &[Slot]) -> Result<(), StoreError> {
        for slot in slots {
            if let Some(entry) = self.slots.get_mut(slot)
                && entry.written.is_none()
            {
                entry.read = None;
            }
        }
        self.read_slots(slots.to_vec()).await
    }

    async fn read_slots(&mut self, slots: Vec<Slot>) -> Result<(), StoreError> {
        let unknown = |slot: &Slot| {
            self.slots
                .get(slot)
                .is_none_or(|entry| entry.read.is_none() && entry.written.is_none())
        };
        let mut slots: Vec<Slot> = slots.into_iter().filter(unknown).collect();
        slots.sort_unstable();
        slots.dedup();
        if slots.is_empty() {
            return Ok(());
        }
        let mut ask = redis::pipe();
        // One instant: a job is never shown with the content of another moment.
        ask.atomic();
        for (key, slots) in grouped(&slots) {
            let read = ask.cmd("HMGET").arg(key);
            for slot in slots {
                read.arg(&slot.field);
            }
        }
        let answers = self.shard.link.ask("reading", &ask).await?;
        self.learn(&slots, answers.into_iter())
    }

    /// What a field is, with what this step has written.
    pub async fn get(&mut self, slot: &Slot) -> Result<Option<&[u8]>, StoreError> {
        if !self.slots.contains_key(slot) {
            self.load(vec![slot.clone()]).await?;
        }
        let entry = self.slots.get(slot);
        let value = entry.and_then(|entry| entry.written.as_ref().or(entry.read.as_ref()));
        Ok(value.and_then(|value| value.as_deref()))
    }

    /// Writes a field.
    pub fn set(&mut self, slot: Slot, value: Vec<u8>) {
        self.slots.entry(slot).or_default().written = Some(Some(value));
    }

    /// Writes a field nobody may have written before: it is compared without having been read.
    pub fn set_new(&mut self, slot: Slot, value: Vec<u8>) {
        self.slots
            .entry(slot.clone())
            .or_default()
            .read
            .get_or_insert(None);
        self.set(slot, value);
    }

    /// A part of a job is compared too: it stands for its head.
    pub fn rests_on(&mut self, slot: Slot) {
        self.births.insert(slot);
    }

    /// Removes a field.
    pub fn unset(&mut self, slot: Slot) {
        self.slots.entry(slot).or_default().written = Some(None);
    }

    /// The members of an index whose moment has come, the oldest first.
    pub async fn due(&self, index: String, most: usize) -> Result<Vec<Vec<u8>>, StoreError> {
        self.up_to(index, self.now.as_millis(), most).await
    }

    /// The members of an index up to a score, the lowest first.
    pub async fn up_to(&self, index: String, score: i64, most: usize) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut ask = redis::pipe();
        ask.cmd("ZRANGEBYSCORE")
            .arg(index)
            .arg("-inf")
            .arg(score)
            .arg("LIMIT")
            .arg(0)
            .arg(most);
        answer::all_bytes(self.look(&ask).await?.remove(0))
    }

    /// Sends commands that only read.
    pub async fn look(&self, ask: &redis::Pipeline) -> Result<Vec<Value>, StoreError> {
        self.shard.link.ask("reading", ask).await
    }

    fn place(&mut self, key: String) -> usize {
        if let Some(place) = self.key_places.get(&key) {
            return *place;
        }
        let place = self.keys.len() + 1;
        self.keys.push(key.clone());
        self.key_places.insert(key, place);
        place
    }

    /// A command on a key. Commands on the same key keep their order; equal ones in a row become one.
    pub fn run(&mut self, name: &'static str, key: String, arguments: Vec<Vec<u8>>) {
        let key = self.place(key);
        if let Some(last) = self.last_of_key.get(&key) {
            let last = &mut self.commands[*last];
            if last.name == name && can_grow(name) {
                if is_a_set(name) && last.arguments.ends_with(&arguments) {
                    return;
                }
                if last.arguments.len() + arguments.len() <= ARGUMENTS {
                    return last.arguments.extend(arguments);
                }
            }
        }
        self.last_of_key.insert(key, self.commands.len());
        self.commands.push(Command { name, key, arguments });
    }

    /// Takes a member out of an index if the collection it stands for is empty by then.
    pub fn forget_if_empty(&mut self, collection: String, index: String, how: &'static str, member: Vec<u8>) {
        let key = self.place(collection);
        let index = self.place(index);
        let arguments = vec![index.to_string().into_bytes(), how.as_bytes().to_vec(), member];
        // Looked at last, when everything else is written; once is enough.
        self.forgets.insert((key, arguments));
    }

    /// Copies a collection over another.
    pub fn copy(&mut self, from: String, to: String) {
        let (from, to) = (self.place(from), self.place(to));
        self.last_of_key.remove(&from);
        self.last_of_key.remove(&to);
        self.commands.push(Command {
            name: "@copy",
            key: from,
            arguments: vec![to.to_string().into_bytes()],
        });
    }

    /// Gives a hash back the name it has lost.
    pub fn restore(&mut self, lost: String, name: String) {
        let name = self.place(name).to_string().into_bytes();
        self.run("@restore", lost, vec![name]);
    }

    /// Takes an entry out of those of a key, where it stays counted if it was there.
    pub fn thin(&mut self, digest: &Digest, n: i64) {
        let keys = self.names();
        let key = keys.ledger_of(digest);
        let totals = self.place(keys.absorbed(digest)).to_string().into_bytes();
        let place = self.place(key.clone());
        let own = [totals, digest.as_bytes().to_vec()];
        if let Some(last) = self.last_of_key.get(&place) {
            let last = &mut self.commands[*last];
            if last.name == "@thin" && last.arguments.len() < ARGUMENTS {
                return last.arguments.push(n.to_string().into_bytes());
            }
        }
        let arguments = own.into_iter().chain([n.to_string().into_bytes()]);
        self.run("@thin", key, arguments.collect());
    }

    /// Adds to a number in a hash.
    pub fn add(&mut self, key: String, field: String, by: i64) {
        *self.counts.entry((key, field)).or_default() += by;
    }

    /// Counts in a lane.
    pub fn count(&mut self, lane: u32, counter: Counter) {
        self.add(
            self.shard.keys.counts(),
            format!("{lane}.c{}", counter as usize),
            1,
        );
    }

    /// The next arrival.
    pub async fn next_seq(&mut self) -> Result<i64, StoreError> {
        if let Some(seq) = self.reserved.seq.take() {
            return Ok(seq);
        }
        if self.seqs.0 == self.seqs.1 {
            self.seqs = self.draw("seq").await?;
        }
        self.seqs.0 += 1;
        Ok(self.seqs.0)
    }

    /// The number of the next ledger entry.
    pub async fn next_entry(&mut self) -> Result<i64, StoreError> {
        if let Some(entry) = self.reserved.entry.take() {
            return Ok(entry);
        }
        if self.entries.0 == self.entries.1 {
            self.entries = self.draw("ledger").await?;
        }
        self.entries.0 += 1;
        Ok(self.entries.0)
    }

    async fn draw(&self, what: &str) -> Result<(i64, i64), StoreError> {
        const MORE: i64 = 16;
        let mut ask = redis::pipe();
        ask.cmd("HINCRBY").arg(self.shard.keys.meta()).arg(what).arg(MORE);
        let last = answer::number(self.look(&ask).await?.remove(0))?;
        Ok((last - MORE, last))
    }

    /// The lane of a task in a queue, made if it is new.
    pub fn lane(&mut self, queue: &Name, task: &Name) -> u32 {
        if let Some(number) = self.config.lane(queue, task) {
            return number;
        }
        self.run("RPUSH", self.shard.keys.lanes(), vec![encode_lane(queue, task)]);
        self.change_config().add(queue.clone(), task.clone(), false)
    }

    /// Lanes and settings, to be changed. Every other step that was decided with the old ones is taken again.
    pub fn change_config(&mut self) -> &mut Config {
        // By the clock, like fences: where the server has lost a version, the next one must not bear its number, or
        // whoever remembers the lost one would take it for the present.
        let next = lifecycle::next_fence(self.config_before, self.micros);
        let config = Arc::make_mut(&mut self.config);
        config.version = next;
        config
    }

    /// Whether there is something to write.
    fn is_idle(&self) -> bool {
        self.commands.is_empty()
            && self.counts.is_empty()
            && self.slots.values().all(|entry| entry.written.is_none())
    }

    /// Writes everything, if everything that was read is still so.
    pub async fn commit(mut self) -> Result<Written, StoreError> {
        // What an answer rests on may not have reached the replicas yet, so it is waited for like a write.
        if self.is_idle() && (self.shard.link.wait.is_none() || !self.promises) {
            let (shard, signals) = (self.shard, self.signals);
            let written = self.verify().await?;
            if written == Written::Done {
                // In other processes they were told by whoever wrote what this step has found.
                shard.wake.signal(signals);
            }
            return Ok(written);
        }
        let changed = self.config.version != self.config_before;
        if changed {
            let version = self.config.version.to_string().into_bytes();
            self.run("HSET", self.shard.keys.meta(), vec![b"config".to_vec(), version]);
        }
        self.gather();
        let (shard, config, signals) = (self.shard, self.config.clone(), self.signals);
        let heads = self.heads_written();
        let (written, lacking) = shard.apply(self.script()).await?;
        if written == Written::Done {
            shard.believe(|belief| heads.iter().for_each(|id| belief.forget(id)));
            if changed {
                shard.remember_config(config);
            }
            shard.wake.signal(signals);
        }
        lacking.map_or(Ok(written), |lacking| Err(lacking.into()))
    }

    /// The heads this step writes.
    fn heads_written(&self) -> Vec<Id> {
        let heads = self
            .slots
            .iter()
            .filter(|(slot, entry)| slot.head && entry.written.is_some());
        heads
            .filter_map(|(slot, _)| slot.field.as_slice().try_into().ok().map(Id))
            .collect()
    }

    /// Fields and numbers become commands, and those who wait are told.
    fn gather(&mut self) {
        let mut written: Vec<(Slot, Option<Vec<u8>>)> = self
            .slots
            .iter()
            .filter_map(|(slot, entry)| entry.written.clone().map(|value| (slot.clone(), value)))
            .collect();
        written
            .sort_by(|(a, x), (b, y)| (&a.key, x.is_some(), &a.field).cmp(&(&b.key, y.is_some(), &b.field)));
        for (slot, value) in written {
            match value {
                Some(value) => self.run("HSET", slot.key, vec![slot.field, value]),
                None => self.run("HDEL", slot.key, vec![slot.field]),
            }
        }
        for ((key, field), by) in std::mem::take(&mut self.counts) {
            if by != 0 {
                self.run(
                    "HINCRBY",
                    key,
                    vec![field.into_bytes(), by.to_string().into_bytes()],
                );
            }
        }
        for (key, arguments) in std::mem::take(&mut self.forgets) {
            self.commands.push(Command {
                name: "@forget",
                key,
                arguments,
            });
        }
        if self.signals != Signals::default() {
            let message = self.shard.wake.message(self.signals);
            self.commands.push(Command {
                name: "@publish",
                key: 0,
                arguments: vec![self.shard.keys.channel().into_bytes(), message.into_bytes()],
            });
        }
    }

    /// An answer that writes nothing may rest on several fields: they must have been so at one instant.
    async fn verify(mut self) -> Result<Written, StoreError> {
        if self.slots.len() < 2 {
            return Ok(Written::Done);
        }
        let compared = self.compared();
        self.shard.check(&self.keys, &compared).await
    }

    /// What was read, as the scripts take it: by hash.
    fn compared(&mut self) -> Vec<Vec<u8>> {
        let mut compared: Vec<(Slot, Option<Vec<u8>>)> = std::mem::take(&mut self.slots)
            .into_iter()
            .filter_map(|(slot, entry)| {
                let compared = !slot.part || self.births.contains(&slot);
                entry.read.filter(|_| compared).map(|read| (slot, read))
            })
            .collect();
        let version = (self.config_before != 0).then(|| self.config_before.to_string().into_bytes());
        compared.push((Slot::new(self.shard.keys.meta(), "config"), version));
        // What a refused write has left may have been taken for jobs.
        compared.push((Slot::new(self.shard.keys.meta(), "admitting"), None));
        compared.sort_unstable_by(|(a, _), (b, _)| a.key.cmp(&b.key));
        let mut arguments = vec![Vec::new()];
        let mut hashes = 0;
        for hash in compared.chunk_by_mut(|(a, _), (b, _)| a.key == b.key) {
            for fields in hash.chunks_mut(ARGUMENTS) {
                hashes += 1;
                let key = self.place(fields[0].0.key.clone());
                arguments.extend([number(key), number(fields.len())]);
                let there = fields
                    .iter()
                    .map(|(_, value)| b'0' + u8::from(value.is_some()))
                    .collect();
                arguments.extend(fields.iter_mut().map(|(slot, _)| std::mem::take(&mut slot.field)));
                arguments.push(there);
                arguments.extend(fields.iter_mut().filter_map(|(_, value)| value.take()));
            }
        }
        arguments[0] = number(hashes);
        arguments
    }

    fn script(mut self) -> (Vec<String>, Vec<Vec<u8>>) {
        let mut arguments = self.compared();
        for Command {
            name,
            key,
            arguments: own,
        } in self.commands
        {
            arguments.extend([number(own.len()), name.as_bytes().to_vec(), number(key)]);
            arguments.extend(own);
        }
        (self.keys, arguments)
    }
}

/// Ends what a refused write has left.
async fn close(shard: &Shard) -> Result<(), StoreError> {
    let mut ask = redis::pipe();
    ask.add_command(scripts::call(&shard.link.scripts.close, &shard.keys.records()));
    let ended = shard.link.ask("ending what a refused write has left", &ask);
    ended.await.map(drop)
}

fn number(number: usize) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// Commands that say what is there: said twice they do no more.
fn is_a_set(name: &str) -> bool {
    matches!(name, "ZADD" | "SADD" | "SREM" | "ZREM")
}

/// Commands that take any number of members or pairs.
fn can_grow(name: &str) -> bool {
    matches!(
        name,
        "HSET" | "HDEL" | "ZADD" | "ZREM" | "SADD" | "SREM" | "RPUSH" | "@take" | "@strike"
    )
}

/// Slots by their hash, in their order.
fn grouped(slots: &[Slot]) -> Vec<(&str, Vec<&Slot>)> {
    let mut groups: Vec<(&str, Vec<&Slot>)> = Vec::new();
    for slot in slots {
        match groups.last_mut() {
            Some((key, group)) if *key == slot.key => group.push(slot),
            _ => groups.push((&slot.key, vec![slot])),
        }
    }
    groups
}
