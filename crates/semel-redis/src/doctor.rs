//! The invariants that can be checked on live data (contract 9.5), and what mends them.
//!
//! The heads of jobs are the truth; everything else is an index over them or a sum of them. Others go on writing
//! meanwhile, so a finding counts only if a second look finds the same.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use semel_core::dedup::HoldKind;
use semel_core::error::StoreError;
use semel_core::ids::Digest;
use semel_core::job::Phase;
use semel_core::store::Finding;

use crate::claim::{batch_of, parse_place};
use crate::head::{Head, Held};
use crate::inspect::Source;
use crate::jobs::{self, is_rare, ready_member, score};
use crate::keys::{Id, Keys, LAPSE_SPAN};
use crate::link::answer;
use crate::pack;
use crate::shard::Shard;
use crate::tx::{Slot, Tx, Written};

/// A command that mends something.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mend {
    name: &'static str,
    key: String,
    arguments: Vec<Vec<u8>>,
}

/// Something that is wrong, and what mends it. `about` tells it from others of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wrong {
    invariant: &'static str,
    what: &'static str,
    about: String,
    mends: Vec<Mend>,
}

/// Runs every check; `repair` mends what can be mended.
pub async fn examine(shard: &Shard, repair: bool) -> Result<Vec<Finding>, StoreError> {
    // Without their records all jobs seem to be gone, and what leads to them would be cleared away.
    let nameless = Finding {
        invariant: "I2",
        what: "all records of jobs have lost their name".to_owned(),
        repaired: repair,
    };
    match (is_nameless(shard).await?, repair) {
        (true, false) => Ok(vec![nameless]),
        (true, true) => {
            restore(shard).await?;
            let mut findings = examine_records(shard, repair).await?;
            findings.insert(0, nameless);
            Ok(findings)
        }
        (false, _) => examine_records(shard, repair).await,
    }
}

/// Whether a transaction that admits jobs was carried out in part (`lua/submit.lua`), which no server does that carries
/// out transactions at all.
async fn is_nameless(shard: &Shard) -> Result<bool, StoreError> {
    let tx = Tx::begin(shard, Vec::new(), 0, 0).await?;
    let mut ask = redis::pipe();
    ask.cmd("HEXISTS").arg(tx.names().incoming()).arg("");
    Ok(answer::number(tx.look(&ask).await?.remove(0))? == 1)
}

async fn restore(shard: &Shard) -> Result<(), StoreError> {
    loop {
        let mut tx = Tx::begin(shard, Vec::new(), 0, 0).await?;
        tx.restore(tx.names().incoming(), tx.names().specs());
        if tx.commit().await? == Written::Done {
            return Ok(());
        }
    }
}

async fn examine_records(shard: &Shard, repair: bool) -> Result<Vec<Finding>, StoreError> {
    let mut wrongs = look(shard).await?;
    if !wrongs.is_empty() {
        let again = look(shard).await?;
        wrongs.retain(|wrong| again.contains(wrong));
    }
    if repair && wrongs.iter().any(|wrong| !wrong.mends.is_empty()) {
        mend(shard, &wrongs).await?;
        let left = look(shard).await?;
        return Ok(findings(&wrongs, |wrong| {
            !wrong.mends.is_empty()
                && !left
                    .iter()
                    .any(|one| one.about == wrong.about && one.what == wrong.what)
        }));
    }
    Ok(findings(&wrongs, |_| false))
}

fn misplaced(about: String, mends: Vec<Mend>) -> Wrong {
    Wrong {
        invariant: "I8",
        what: "places in the order of dispatch without a job that waits there",
        about,
        mends,
    }
}

/// One line per kind, with how many there are and one of them.
fn findings(wrongs: &[Wrong], repaired: impl Fn(&Wrong) -> bool) -> Vec<Finding> {
    let mut kinds: BTreeMap<(&'static str, &'static str), Vec<&Wrong>> = BTreeMap::new();
    for wrong in wrongs {
        kinds
            .entry((wrong.invariant, wrong.what))
            .or_default()
            .push(wrong);
    }
    let line = |((invariant, what), wrongs): ((&'static str, &'static str), Vec<&Wrong>)| Finding {
        invariant,
        what: format!("{} {what}, such as {}", wrongs.len(), wrongs[0].about),
        repaired: wrongs.iter().all(|wrong| repaired(wrong)),
    };
    kinds.into_iter().map(line).collect()
}

async fn mend(shard: &Shard, wrongs: &[Wrong]) -> Result<(), StoreError> {
    loop {
        let mut tx = Tx::begin(shard, Vec::new(), 0, 0).await?;
        for Mend { name, key, arguments } in wrongs.iter().flat_map(|wrong| wrong.mends.clone()) {
            tx.run(name, key, arguments);
        }
        if tx.commit().await? == Written::Done {
            return Ok(());
        }
    }
}

async fn look(shard: &Shard) -> Result<Vec<Wrong>, StoreError> {
    let mut tx = Tx::begin(shard, Vec::new(), 0, 0).await?;
    let mut wrongs = Vec::new();
    let heads = tx.all_heads(&mut wrongs).await?;
    let live: Vec<Head> = heads
        .iter()
        .filter(|head| tx.config.live(head.lane).is_some())
        .cloned()
        .collect();
    let void: BTreeSet<Id> = heads
        .iter()
        .filter(|head| tx.config.live(head.lane).is_none())
        .map(|head| head.id)
        .collect();
    let checked = tx.check_places(&live, &void, &mut wrongs).await;
    unless_damaged(checked, &mut wrongs)?;
    let checked = tx.check_leases(&live, &void, &mut wrongs).await;
    unless_damaged(checked, &mut wrongs)?;
    let checked = tx.check_owners(&live, &mut wrongs).await;
    unless_damaged(checked, &mut wrongs)?;
    let checked = tx.check_numbers(&heads, &mut wrongs).await;
    unless_damaged(checked, &mut wrongs)?;
    let checked = tx.check_followers(&live, &mut wrongs).await;
    unless_damaged(checked, &mut wrongs)?;
    tx.check_ledger(&mut wrongs).await?;
    Ok(wrongs)
}

/// A record that cannot be read is something that is wrong, and no reason not to tell the rest.
fn unless_damaged(checked: Result<(), StoreError>, wrongs: &mut Vec<Wrong>) -> Result<(), StoreError> {
    match checked {
        Err(StoreError::Corrupt { what }) => {
            wrongs.push(plain("I30", "records that cannot be read", what));
            Ok(())
        }
        checked => checked,
    }
}

impl Tx<'_> {
    async fn all_heads(&mut self, wrongs: &mut Vec<Wrong>) -> Result<Vec<Head>, StoreError> {
        let (mut heads, mut before) = (Vec::new(), i64::MAX);
        loop {
            let found = self.older(&Source::All, before).await?;
            let Some((lowest, _)) = found.last().copied() else {
                return Ok(heads);
            };
            self.load_heads(found.iter().map(|(_, id)| *id)).await?;
            for (seq, id) in found {
                match self.readable(&id).await {
                    Err(StoreError::Corrupt { what }) => {
                        let about = format!("{}: {what}", self.about(&id));
                        wrongs.push(plain("I30", "damaged jobs", about));
                    }
                    found => heads.extend(found?.filter(|head| head.seq == seq)),
                }
            }
            before = lowest;
        }
    }

    /// A job of which what was looked at can be read: its head, and what it is where both are one record.
    async fn readable(&mut self, id: &Id) -> Result<Option<Head>, StoreError> {
        let found = self.stored(id).await?;
        let keys = self.names();
        if self.get(&Slot::head(keys, id)).await?.is_none()
            && self.get(&Slot::spec(keys, id)).await?.is_some()
        {
            self.spec(id).await?;
            if found.is_none() {
                return Err(StoreError::corrupt("a job without a head"));
            }
        }
        Ok(found)
    }

    /// Whether a job is gone; one that is damaged is there.
    async fn is_gone(&mut self, id: &Id) -> Result<bool, StoreError> {
        match self.stored(id).await {
            Err(StoreError::Corrupt { .. }) => Ok(false),
            found => Ok(found?.is_none()),
        }
    }

    fn about(&self, id: &Id) -> String {
        self.names().job_id(id).to_string()
    }

    /// Whatever waits has its place in the order of dispatch, and nothing else has one.
    async fn check_places(
        &mut self,
        live: &[Head],
        void: &BTreeSet<Id>,
        wrongs: &mut Vec<Wrong>,
    ) -> Result<(), StoreError> {
        let keys = self.names();
        let mut expected: HashMap<(u32, i8, Vec<u8>), i64> = HashMap::new();
        for head in live.iter().filter(|head| head.life.phase == Phase::Waiting) {
            let place = (head.lane, head.life.priority, ready_member(head));
            expected.insert(place, head.life.run_at.as_millis());
        }
        let mut ask = redis::pipe();
        ask.cmd("SMEMBERS").arg(keys.places());
        let listed = answer::all_bytes(self.look(&ask).await?.remove(0))?;
        let mut places: BTreeSet<(u32, i8)> = listed.iter().filter_map(|place| parse_place(place)).collect();
        let listed = places.clone();
        places.extend(expected.keys().map(|(lane, priority, _)| (*lane, *priority)));
        for (lane, priority) in places {
            let ready = keys.ready(lane, priority);
            let mut ask = redis::pipe();
            ask.cmd("ZRANGE").arg(&ready).arg(0).arg(-1).arg("WITHSCORES");
            for (member, run_at) in answer::pairs(self.look(&ask).await?.remove(0))? {
                let Some(jobs) = pack::jobs_in(&member) else {
                    let about = format!("{member:?}");
                    let gone = mend_with("ZREM", &ready, vec![member]);
                    wrongs.push(misplaced(about, vec![gone]));
                    continue;
                };
                for (seq, id) in jobs {
                    let member = jobs::member(seq, &id).to_vec();
                    let found = expected.remove(&(lane, priority, member.clone()));
                    let fits = found == Some(answer::parse(&run_at)?) && listed.contains(&(lane, priority));
                    if fits || void.contains(&id) {
                        continue;
                    }
                    let place = format!("{lane}:{priority}").into_bytes();
                    let mut mends = vec![mend_with("@take", &ready, vec![run_at.clone(), member.clone()])];
                    if let Some(run_at) = found {
                        mends.push(mend_with("@place", &ready, vec![score(run_at), member]));
                        mends.push(mend_with("SADD", &keys.places(), vec![place]));
                    }
                    wrongs.push(misplaced(self.about(&id), mends));
                }
            }
        }
        for ((lane, priority, member), run_at) in expected {
            let place = format!("{lane}:{priority}").into_bytes();
            wrongs.push(Wrong {
                invariant: "I11",
                what: "waiting jobs without a place in the order of dispatch",
                about: crate::claim::job_of(&member)
                    .map(|id| self.about(&id))
                    .unwrap_or_default(),
                mends: vec![
                    mend_with("@place", &keys.ready(lane, priority), vec![score(run_at), member]),
                    mend_with("SADD", &keys.places(), vec![place]),
                ],
            });
        }
        Ok(())
    }

    /// Every lease is watched, and every end is where retention finds it.
    async fn check_leases(
        &mut self,
        live: &[Head],
        void: &BTreeSet<Id>,
        wrongs: &mut Vec<Wrong>,
    ) -> Result<(), StoreError> {
        let keys = self.names();
        let mut together: BTreeSet<Id> = BTreeSet::new();
        let mut running: HashMap<Id, i64> = HashMap::new();
        for head in live.iter().filter(|head| head.life.phase == Phase::Running) {
            running.insert(head.id, head.life.until.map_or(0, |until| until.as_millis()));
        }
        let mut ask = redis::pipe();
        ask.cmd("ZRANGE")
            .arg(keys.leases())
            .arg(0)
            .arg(-1)
            .arg("WITHSCORES");
        let (mut alone, mut members) = (Vec::new(), Vec::new());
        let mut ends = HashMap::new();
        for (member, until) in answer::pairs(self.look(&ask).await?.remove(0))? {
            match batch_of(&member) {
                Some(_) => {
                    ends.insert(member.clone(), answer::parse(&until)?);
                    members.push(member);
                }
                None => alone.push((member, until)),
            }
        }
        for (member, ids) in self.watched(&members).await? {
            let end = member.as_ref().and_then(|member| ends.get(member)).copied();
            // Of those that are watched together some may have ended, and some be watched by themselves since.
            for id in ids.iter().filter(|id| running.get(*id).copied() == end) {
                together.insert(*id);
            }
        }
        for (id, until) in alone {
            let Ok(id) = id.try_into().map(Id) else { continue };
            let (found, expected) = (answer::parse(&until)?, running.remove(&id));
            if expected == Some(found) || void.contains(&id) {
                continue;
            }
            let member = id.0.to_vec();
            let mends = match expected {
                Some(until) => mend_with("ZADD", &keys.leases(), vec![score(until), member]),
                None => mend_with("ZREM", &keys.leases(), vec![member]),
            };
            wrongs.push(Wrong {
                invariant: "I11",
                what: "watched leases of jobs that run otherwise or not at all",
                about: self.about(&id),
                mends: vec![mends],
            });
        }
        for (id, until) in running.into_iter().filter(|(id, _)| !together.contains(id)) {
            wrongs.push(Wrong {
                invariant: "I11",
                what: "running jobs whose lease nobody watches",
                about: self.about(&id),
                mends: vec![mend_with(
                    "ZADD",
                    &keys.leases(),
                    vec![score(until), id.0.to_vec()],
                )],
            });
        }
        Ok(())
    }

    /// At no instant do two jobs hold one key; a held key leads to its job; no `until_finished` key outlives its job.
    async fn check_owners(&mut self, live: &[Head], wrongs: &mut Vec<Wrong>) -> Result<(), StoreError> {
        let keys = self.names();
        let mut holders: HashMap<Digest, Vec<&Head>> = HashMap::new();
        for head in live.iter().filter(|head| head.life.is_holder(self.now)) {
            let holding = head.life.holding.as_ref().map(|holding| holding.hold);
            if let Some(digest) = head.digest {
                holders.entry(digest).or_default().push(head);
            }
            let freed_at_end =
                holding.is_some_and(|hold| hold.kind == HoldKind::UntilFinished && hold.cool_down.is_none());
            if freed_at_end && head.life.phase.is_terminal() {
                wrongs.push(plain(
                    "I12",
                    "jobs that have ended and hold their key",
                    self.about(&head.id),
                ));
            }
        }
        let slots = holders.keys().map(|digest| Slot::owner(keys, digest)).collect();
        self.load(slots).await?;
        for (digest, mut heads) in holders {
            let owner = self.owner_in_full(&digest).await?;
            // Where the clock was set back, the time of a key seems not to be over of which somebody took the next.
            let last = owner.map_or(0, |owner| owner.generation);
            let taken = |head: &Head| head.life.holding.as_ref().map_or(0, |holding| holding.generation);
            heads.retain(|head| !head.life.phase.is_terminal() || taken(head) >= last);
            let Some((head, others)) = heads.split_first() else {
                continue;
            };
            if !others.is_empty() {
                wrongs.push(plain("I1", "keys held by more than one job", digest.to_string()));
                continue;
            }
            if owner.and_then(|owner| owner.newest) != Some(head.id) {
                let mended = crate::records::Owner {
                    newest: Some(head.id),
                    generation: head.life.holding.as_ref().map_or(0, |holding| holding.generation),
                    kin: owner.is_some_and(|owner| owner.kin),
                };
                let arguments = vec![Keys::owned(&digest).to_vec(), mended.encode()];
                wrongs.push(Wrong {
                    invariant: "I13",
                    what: "jobs that hold a key which does not lead to them",
                    about: self.about(&head.id),
                    mends: vec![mend_with("HSET", &keys.owners(&digest), arguments)],
                });
            }
        }
        let owned: Vec<&Head> = live.iter().filter(|head| head.digest.is_some()).collect();
        for head in owned {
            let Some(digest) = head.digest else { continue };
            let newest = self.owner(&digest).await?.and_then(|owner| owner.newest);
            if let Some(newest) = newest
                && self.is_gone(&newest).await?
            {
                let about = digest.to_string();
                let gone = mend_with("HDEL", &keys.owners(&digest), vec![Keys::owned(&digest).to_vec()]);
                wrongs.push(Wrong {
                    invariant: "I13",
                    what: "keys whose newest owner is gone",
                    about,
                    mends: vec![gone],
                });
            }
        }
        Ok(())
    }

    /// The numbers of jobs and keys are what can be counted; no fewer submissions were counted than can be seen.
    async fn check_numbers(&mut self, heads: &[Head], wrongs: &mut Vec<Wrong>) -> Result<(), StoreError> {
        let keys = self.names();
        let mut expected: BTreeMap<(String, String), i64> = BTreeMap::new();
        let mut born: HashMap<u32, i64> = HashMap::new();
        let span = self.now.as_millis() / LAPSE_SPAN;
        for head in heads {
            let mut add = |key: String, field: String| *expected.entry((key, field)).or_default() += 1;
            if !head.marks.stub {
                add(
                    keys.counts(),
                    format!("{}.p{}", head.lane, head.life.phase as usize),
                );
            }
            match head.held() {
                Held::Always => add(keys.counts(), format!("{}.h", head.lane)),
                Held::Until(at) if at.as_millis() / LAPSE_SPAN >= span => {
                    add(
                        keys.lapses(),
                        format!("{}:{}", head.lane, at.as_millis() / LAPSE_SPAN),
                    );
                }
                _ => {}
            }
            *born.entry(head.lane).or_default() += i64::from(!head.marks.deferred);
        }
        let mut ask = redis::pipe();
        ask.atomic()
            .cmd("HGETALL")
            .arg(keys.counts())
            .cmd("HGETALL")
            .arg(keys.lapses());
        let mut answers = self.look(&ask).await?.into_iter();
        let (numbers, _) = crate::stats::read_numbers(answers.next().unwrap_or(redis::Value::Nil))?;
        let mut found: BTreeMap<(String, String), i64> = BTreeMap::new();
        for (lane, own) in &numbers {
            for phase in Phase::ALL {
                found.insert(
                    (keys.counts(), format!("{lane}.p{}", phase as usize)),
                    own.phases[phase as usize],
                );
            }
            found.insert((keys.counts(), format!("{lane}.h")), own.held);
            let accepted = own.counts.get(semel_core::counters::Counter::Accepted);
            if accepted < born.get(lane).copied().unwrap_or(0) {
                wrongs.push(plain(
                    "I25",
                    "lanes with more jobs than they accepted",
                    lane.to_string(),
                ));
            }
        }
        for (field, count) in answer::pairs(answers.next().unwrap_or(redis::Value::Nil))? {
            let field = String::from_utf8_lossy(&field).into_owned();
            let later = field.split_once(':').and_then(|(_, at)| at.parse::<i64>().ok());
            if later.is_some_and(|at| at >= span) {
                found.insert((keys.lapses(), field), answer::parse(&count)?);
            }
        }
        let all: BTreeSet<(String, String)> = expected.keys().chain(found.keys()).cloned().collect();
        for (key, field) in all {
            let at = (key.clone(), field.clone());
            let (is, should) = (
                found.get(&at).copied().unwrap_or(0),
                expected.get(&at).copied().unwrap_or(0),
            );
            if is != should {
                let arguments = vec![field.clone().into_bytes(), score(should - is)];
                wrongs.push(Wrong {
                    invariant: "I25",
                    what: "numbers of jobs or keys that are wrong",
                    about: format!("{field} is {is}, not {should}"),
                    mends: vec![mend_with("HINCRBY", &key, arguments)],
                });
            }
        }
        self.check_rare(heads, wrongs).await
    }

    async fn check_rare(&mut self, heads: &[Head], wrongs: &mut Vec<Wrong>) -> Result<(), StoreError> {
        let keys = self.names();
        for phase in Phase::ALL.into_iter().filter(|phase| is_rare(*phase)) {
            let key = keys.rare(phase as usize);
            let of_phase = heads
                .iter()
                .filter(|head| head.life.phase == phase && !head.marks.stub);
            let mut expected: HashMap<Vec<u8>, i64> =
                of_phase.map(|head| (head.id.0.to_vec(), head.seq)).collect();
            let mut ask = redis::pipe();
            ask.cmd("ZRANGE").arg(&key).arg(0).arg(-1);
            for member in answer::all_bytes(self.look(&ask).await?.remove(0))? {
                if expected.remove(&member).is_none() {
                    wrongs.push(Wrong {
                        invariant: "I8",
                        what: "listed jobs that are in another phase or gone",
                        about: crate::keys::hex(&member),
                        mends: vec![mend_with("ZREM", &key, vec![member])],
                    });
                }
            }
            for (member, seq) in expected {
                wrongs.push(Wrong {
                    invariant: "I8",
                    what: "jobs missing in the list of their phase",
                    about: crate::keys::hex(&member),
                    mends: vec![mend_with("ZADD", &key, vec![score(seq), member])],
                });
            }
        }
        Ok(())
    }

    /// What is in the ledger can be read. Nothing is mended: it goes with those beside it, when they are too old.
    async fn check_ledger(&mut self, wrongs: &mut Vec<Wrong>) -> Result<(), StoreError> {
        let mut ask = redis::pipe();
        ask.cmd("ZRANGE").arg(self.names().ledger_pages()).arg(0).arg(-1);
        for page in answer::all_bytes(self.look(&ask).await?.remove(0))? {
            let page = answer::parse(&page)?;
            for field in self.entries_on(page).await?.damaged {
                let about = format!("{} of page {page}", String::from_utf8_lossy(&field));
                wrongs.push(plain("I30", "damaged entries of the ledger", about));
            }
        }
        Ok(())
    }

    /// Whoever follows, follows a job that is there and has not ended.
    async fn check_followers(&mut self, live: &[Head], wrongs: &mut Vec<Wrong>) -> Result<(), StoreError> {
        for head in live.iter().filter(|head| head.life.phase == Phase::Deferred) {
            let followed = match head.follows {
                Some(followed) => match self.head(&followed).await {
                    // It is told of by itself.
                    Err(StoreError::Corrupt { .. }) => continue,
                    followed => followed?,
                },
                None => None,
            };
            if followed.is_none_or(|followed| followed.life.phase.is_terminal()) {
                wrongs.push(plain(
                    "I13",
                    "followers whose predecessor has ended or is gone",
                    self.about(&head.id),
                ));
            }
        }
        Ok(())
    }
}

fn mend_with(name: &'static str, key: &str, arguments: Vec<Vec<u8>>) -> Mend {
    Mend {
        name,
        key: key.to_owned(),
        arguments,
    }
}

fn plain(invariant: &'static str, what: &'static str, about: String) -> Wrong {
    Wrong {
        invariant,
        what,
        about,
        mends: Vec::new(),
    }
}
