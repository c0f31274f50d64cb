//! Everything the store holds, behind its one lock, and the few ways in which jobs are written.
//!
//! Every change of a job goes through [`Inner::insert`], [`Inner::amend`], [`Inner::advance`] or
//! [`Inner::remove`]: they keep the indexes right, wake who waits, and let a follower follow.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::admission;
use crate::counters::{Counter, Counts};
use crate::guard::GuardRecord;
use crate::ids::{Digest, JobId, Name, Token};
use crate::job::{Life, Phase};
use crate::lifecycle;
use crate::memory::EXPIRED_PER_CALL;
use crate::memory::claim::Batch;
use crate::memory::documents::{Feed, Shelf};
use crate::memory::index::{Indexes, Places, Spot};
use crate::memory::ledger::Ledger;
use crate::memory::pulse::Pulse;
use crate::memory::record::{Arrival, Lane, Record};
use crate::step::StepRecord;
use crate::store::{Setting, Target, log_feed};
use crate::time::Timestamp;
use crate::view::GuardStats;

/// The one reading of the clock that a call works with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) micros: i64,
    pub(super) now: Timestamp,
}

/// The counters of a lane. They outlive its jobs, and its queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) raw: Counts,
    pub(super) baseline: Counts,
}

/// The state of a store.
#[derive(Clone, Debug)]
pub(super) struct Inner {
    pub(super) namespace: Name,
    pub(super) jobs: BTreeMap<Arrival, Box<Record>>,
    pub(super) ids: HashMap<JobId, Arrival>,
    pub(super) index: Indexes,
    /// How many jobs there are of an origin; its steps go with the last of them.
    pub(super) chains: HashMap<JobId, usize>,
    pub(super) ledger: Ledger,
    /// What a claim was given, so that the same claim is given it again.
    pub(super) claims: HashMap<Token, Batch>,
    pub(super) steps: HashMap<JobId, BTreeMap<Name, StepRecord>>,
    pub(super) guards: HashMap<Digest, GuardRecord>,
    pub(super) guard_stats: GuardStats,
    pub(super) settings: BTreeMap<Target, Setting>,
    pub(super) documents: BTreeMap<(Name, String), Shelf>,
    pub(super) feeds: HashMap<String, Feed>,
    /// Queues that took a submission and were not removed since.
    pub(super) queues: HashSet<Name>,
    pub(super) tasks: HashSet<Name>,
    pub(super) lanes: BTreeMap<Lane, Tally>,
    /// When the counters were reset last.
    pub(super) since: Option<Timestamp>,
    pub(super) snapshots: BTreeMap<Timestamp, Counts>,
    pub(super) last_arrival: Arrival,
    pub(super) last_fence: i64,
    pub(super) last_generation: i64,
    pub(super) pulse: Pulse,
    pub(super) naming: Naming,
}

/// How a job is named by the token of its submission and the key it holds or waits for.
pub type Naming = fn(Token, Option<Digest>) -> JobId;

impl Inner {
    pub(super) fn new(namespace: Name) -> Self {
        Inner {
            namespace,
            jobs: BTreeMap::new(),
            ids: HashMap::new(),
            index: Indexes::default(),
            chains: HashMap::new(),
            ledger: Ledger::default(),
            claims: HashMap::new(),
            steps: HashMap::new(),
            guards: HashMap::new(),
            guard_stats: GuardStats::default(),
            settings: BTreeMap::new(),
            documents: BTreeMap::new(),
            feeds: HashMap::new(),
            queues: HashSet::new(),
            tasks: HashSet::new(),
            lanes: BTreeMap::new(),
            since: None,
            snapshots: BTreeMap::new(),
            last_arrival: 0,
            last_fence: 0,
            last_generation: 0,
            pulse: Pulse::default(),
            naming: |token, _| JobId::from(token),
        }
    }

    /// Shows a reader the store as the next write will find it, with leases that have run out taken
    /// back. The copy this takes is only made when there are such leases, which no write leaves behind.
    pub(super) fn rehearse<T>(&self, moment: Moment, look: impl FnOnce(&Inner) -> T) -> T {
        if self
            .index
            .leases
            .first()
            .is_none_or(|(until, ..)| *until > moment.now)
        {
            return look(self);
        }
        let mut rehearsal = self.clone();
        rehearsal.expire(EXPIRED_PER_CALL, moment);
        look(&rehearsal)
    }

    pub(super) fn find(&self, id: &JobId) -> Option<(Arrival, &Record)> {
        let arrival = *self.ids.get(id)?;
        Some((arrival, self.record(arrival)))
    }

    /// The job that a submission or a replay with this token made.
    pub(super) fn made_by(&self, token: Token) -> Option<(Arrival, &Record)> {
        let plain = JobId::from(token);
        let is_its = |id: &&JobId| {
            let rest = id.as_str().strip_prefix(plain.as_str());
            rest.is_some_and(|rest| rest.starts_with('.'))
        };
        self.find(&plain).or_else(|| {
            // Only where ids are given another form: an ordinary one is found above, or is not there.
            let adds = (self.naming)(token, Some(Digest::from_bytes([0; 32]))) != plain;
            let id = self.ids.keys().filter(|_| adds).find(is_its)?;
            self.find(id)
        })
    }

    /// The job at an arrival that an index gave.
    pub(super) fn record(&self, arrival: Arrival) -> &Record {
        self.jobs
            .get(&arrival)
            .expect("an index only names jobs that are stored")
    }

    /// The job that holds a key: of all its owners only the last can.
    pub(super) fn holder(&self, digest: Digest, now: Timestamp) -> Option<Arrival> {
        self.last_owner(digest)
            .filter(|arrival| self.record(*arrival).life.is_holder(now))
    }

    pub(super) fn last_owner(&self, digest: Digest) -> Option<Arrival> {
        self.index
            .owners
            .get(&digest)?
            .last()
            .map(|(_, arrival)| *arrival)
    }

    pub(super) fn follower(&self, predecessor: &JobId) -> Option<Arrival> {
        self.index.followers.get(predecessor).copied()
    }

    /// The generation the next taken key gets. It counts as given once it is stored.
    pub(super) fn next_generation(&self, moment: Moment) -> i64 {
        moment.micros.max(self.last_generation + 1)
    }

    pub(super) fn count(&mut self, lane: &Lane, counter: Counter) {
        if let Some(tally) = self.lanes.get_mut(lane) {
            return tally.raw.add(counter, 1);
        }
        self.lanes.entry(lane.clone()).or_default().raw.add(counter, 1);
    }

    /// Stores a new job.
    pub(super) fn insert(&mut self, record: Record, moment: Moment) {
        self.last_arrival += 1;
        let arrival = self.last_arrival;
        self.ids.insert(record.spec.id.clone(), arrival);
        *self.chains.entry(record.spec.origin.clone()).or_default() += 1;
        if let Some(digest) = record.digest() {
            self.ledger.job_came(digest);
        }
        self.jobs.insert(arrival, Box::new(record));
        self.amend(arrival, moment, |_| ());
    }

    /// Changes a job and puts it where it now belongs.
    pub(super) fn amend(&mut self, arrival: Arrival, moment: Moment, change: impl FnOnce(&mut Record)) {
        let record = self
            .jobs
            .get_mut(&arrival)
            .expect("an index only names jobs that are stored");
        change(record);
        let after = Places::of(record, arrival, moment.now);
        if record.places == after {
            return;
        }
        let lane = record.lane();
        let before = std::mem::replace(&mut record.places, after.clone());
        let generation = record
            .life
            .holding
            .as_ref()
            .map_or(0, |holding| holding.generation);
        self.last_generation = self.last_generation.max(generation);
        self.index.shift(arrival, &lane, &before, &after, moment.now);
        match after.spot {
            Spot::Ready(_) if before.spot != after.spot => self.pulse.work(lane),
            Spot::Ended(_) if before.spot != after.spot => self.pulse.ends(),
            _ => {}
        }
    }

    /// Gives a job its next life. Where that is an end, its follower takes its turn in the same step.
    pub(super) fn advance(&mut self, arrival: Arrival, life: Life, moment: Moment) {
        let ended = life.phase.is_terminal();
        self.amend(arrival, moment, |record| {
            if life.phase != Phase::Deferred {
                record.follows = None;
            }
            record.life = life;
        });
        if ended {
            let id = self.record(arrival).spec.id.clone();
            self.promote_follower(&id, moment);
        }
    }

    /// Lets go of a key without anybody following.
    pub(super) fn let_go(&mut self, arrival: Arrival, moment: Moment) {
        self.amend(arrival, moment, |record| {
            record.life = lifecycle::let_go(&record.life)
        });
    }

    /// The follower of a job that ended, let go or is gone waits its turn from now on; it takes the
    /// key, unless somebody else has it by now.
    pub(super) fn promote_follower(&mut self, predecessor: &JobId, moment: Moment) {
        let Some(follower) = self.follower(predecessor) else {
            return;
        };
        let record = self.record(follower);
        let mut life = admission::promote(&record.life, moment.now, self.next_generation(moment));
        if record
            .digest()
            .is_some_and(|digest| self.holder(digest, moment.now).is_some())
        {
            life.holding = None;
        }
        self.advance(follower, life, moment);
    }

    /// Removes a job and every trace of it but its counts and its ledger.
    pub(super) fn remove(&mut self, arrival: Arrival, moment: Moment) {
        let id = self.forget(arrival, moment.now);
        self.promote_follower(&id, moment);
    }

    /// [`Inner::remove`] without letting a follower follow.
    pub(super) fn forget(&mut self, arrival: Arrival, now: Timestamp) -> JobId {
        let record = self
            .jobs
            .remove(&arrival)
            .expect("an index only names jobs that are stored");
        self.index
            .shift(arrival, &record.lane(), &record.places, &Places::default(), now);
        if !record.life.phase.is_terminal() {
            self.pulse.ends();
        }
        if let Some(digest) = record.digest() {
            self.ledger.job_went(digest);
        }
        self.leave_chain(&record.spec.origin);
        self.feeds.remove(&log_feed(&record.spec.id));
        self.ids.remove(&record.spec.id);
        record.spec.id
    }

    fn leave_chain(&mut self, origin: &JobId) {
        let Some(jobs) = self.chains.get_mut(origin) else {
            return;
        };
        *jobs -= 1;
        if *jobs == 0 {
            self.chains.remove(origin);
            self.steps.remove(origin);
        }
    }
}
