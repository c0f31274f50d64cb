//! Admission: first everything is judged and the answer known, then it is written. `explain` stops in between.

use semel_core::admission::{self, Decision, Holder};
use semel_core::canonical::{self, Limits};
use semel_core::counters::Counter;
use semel_core::dedup::Key;
use semel_core::ids::{Digest, JobId};
use semel_core::job::{Life, Outcome, Spec, State};
use semel_core::json::Json;
use semel_core::limits;
use semel_core::store::{Admitted, Submitted};
use semel_core::submission::{Prepared, Submission};
use semel_core::time::Timestamp;
use semel_core::view::HolderView;

use crate::cell::{Cell, Entry};
use crate::clock::Moment;
use crate::layout;
use crate::record::{Arrival, Lane, Record};
use crate::setup::Setup;

/// A submission that was judged, with all that is needed to answer and to write it.
pub struct Judged {
    pub decision: Decision,
    pub holder: Option<Record>,
    /// The job that a deferred submission goes into, if there is one already.
    pub follower: Option<Record>,
    pub collides_with: Option<JobId>,
    pub differs: Difference,
}

/// How the input of a submission differs from that of the job it met.
#[derive(Clone, Debug, Default)]
pub struct Difference {
    pub pointers: Vec<String>,
    pub any: bool,
}

impl Difference {
    /// Compares a submission with the job it met, as that job was before.
    fn between(met: &Record, key: &Key, input: &Json) -> Self {
        if met
            .spec
            .key
            .as_ref()
            .is_some_and(|theirs| theirs.input == key.input)
        {
            return Difference::default();
        }
        if met.stub {
            // The other input is gone: all that can be said is that the whole of it differs.
            return Difference {
                pointers: vec![String::new()],
                any: true,
            };
        }
        let theirs = canonical::parse(met.spec.content.input.as_str(), Limits::default());
        let ours = canonical::parse(input.as_str(), Limits::default());
        let pointers = match (theirs, ours) {
            (Ok(theirs), Ok(ours)) => canonical::differs(&theirs, &ours, limits::DIFFERS),
            _ => vec![String::new()],
        };
        Difference { pointers, any: true }
    }
}

/// A submission on its way: checked, with its place in the order.
#[derive(Clone)]
pub struct Arrived {
    pub prepared: Prepared,
    pub arrival: Arrival,
    /// Sent again it may have another key: that of another period, or of a queue that is unique by then.
    pub wanders: bool,
}

impl Arrived {
    pub fn submission(&self) -> &Submission {
        &self.prepared.submission
    }

    /// The id of its job, in the cell of its key or in one of its own.
    pub fn id(&self, with_key: bool) -> JobId {
        let key = self.prepared.key.as_ref().filter(|_| with_key);
        layout::job_id(self.submission().token, key.map(|key| key.digest))
    }

    pub fn lane(&self) -> Lane {
        Lane {
            queue: self.submission().queue.clone(),
            task: self.submission().task.clone(),
        }
    }

    fn spec(&self, with_key: bool, now: Timestamp) -> Spec {
        let Prepared { submission, key } = self.prepared.clone();
        let id = self.id(with_key);
        Spec {
            origin: id.clone(),
            id,
            task: submission.task,
            queue: submission.queue,
            content: submission.content,
            enqueued_at: now,
            key,
            producer: submission.producer,
            replayed_from: None,
            would: None,
            collides_with: None,
        }
    }

    /// The entry of an absorbed submission.
    pub fn entry(
        &self,
        outcome: Outcome,
        met: &Record,
        differs: &Difference,
        now: Timestamp,
    ) -> Option<Entry> {
        let (key, policy) = self.prepared.key.as_ref().zip(self.prepared.policy())?;
        let submission = self.submission();
        let input = &submission.content.input;
        Some(Entry {
            token: submission.token,
            arrival: self.arrival,
            at: now,
            outcome,
            digest: key.digest,
            holder: met.spec.id.clone(),
            task: submission.task.clone(),
            queue: submission.queue.clone(),
            producer: submission.producer.clone(),
            policy: policy.on_duplicate.word().to_owned(),
            differs: differs.pointers.clone(),
            input: (differs.any && input.as_str().len() <= limits::LEDGER_INPUT_BYTES).then(|| input.clone()),
            // A new follower is found under its token itself, and with it the token is forgotten.
            by_token: outcome != Outcome::Deferred || met.follows.is_some(),
        })
    }
}

/// Judges a submission against the cell of its key. `collision` is the oldest holder of a hybrid key with the same
/// fields and another input.
pub fn judge(
    cell: &Cell,
    arrived: &Arrived,
    setup: &Setup,
    collision: Option<&JobId>,
    moment: Moment,
) -> Judged {
    let Submission { queue, task, .. } = arrived.submission();
    let holder = arrived
        .prepared
        .key
        .as_ref()
        .and_then(|_| cell.holder(moment.now));
    let decision = admission::admit(
        &arrived.prepared,
        holder.and_then(as_holder).as_ref(),
        setup.is_observed(queue, task, moment.now),
        moment.now,
        cell.next_generation(moment),
    );
    let follower = match &decision {
        Decision::Defer { .. } => holder.and_then(|holder| cell.follower(&holder.spec.id)),
        _ => None,
    };
    let collides_with = match &decision {
        // Without a key of its own it collides with nobody.
        Decision::Accept { life, .. } if life.holding.is_some() => collision.cloned(),
        _ => None,
    };
    let met = follower.or(holder);
    let differs = match (&decision, arrived.prepared.key.as_ref().zip(met)) {
        (Decision::Accept { .. }, _) | (_, None) => Difference::default(),
        (_, Some((key, met))) => Difference::between(met, key, &arrived.submission().content.input),
    };
    Judged {
        decision,
        holder: holder.cloned(),
        follower: follower.cloned(),
        collides_with,
        differs,
    }
}

fn as_holder(record: &Record) -> Option<Holder<'_>> {
    let key = record.spec.key.as_ref()?;
    Some(Holder {
        id: &record.spec.id,
        task: &record.spec.task,
        enqueued_at: record.spec.enqueued_at,
        input: key.input,
        life: &record.life,
    })
}

impl Judged {
    /// What the submission is answered: true once it is written.
    pub fn answer(&self, arrived: &Arrived, now: Timestamp) -> Submitted {
        let fresh = |with_key: bool, state: State| HolderView {
            id: arrived.id(with_key),
            task: arrived.submission().task.clone(),
            state,
            enqueued_at: now,
        };
        let seen = |record: &Option<Record>| record.as_ref().map(|record| record.holder_view(now));
        let digest = arrived.prepared.key.as_ref().map(|key| key.digest);
        let (outcome, job) = match &self.decision {
            Decision::Accept { life, would, .. } => {
                return Submitted::Job(Box::new(Admitted {
                    outcome: Outcome::Accepted,
                    job: fresh(life.holding.is_some(), life.state(now)),
                    key: digest.filter(|_| life.holding.is_some()),
                    would: would.clone(),
                    collides_with: self.collides_with.clone(),
                }));
            }
            Decision::Absorb { outcome } => (*outcome, seen(&self.holder)),
            Decision::Replace { outcome, life } => (
                *outcome,
                seen(&self.holder).map(|holder| HolderView {
                    state: life.state(now),
                    ..holder
                }),
            ),
            Decision::Defer { .. } => (
                Outcome::Deferred,
                seen(&self.follower).or_else(|| Some(fresh(true, State::Deferred))),
            ),
        };
        let (job, digest) = job
            .zip(digest)
            .expect("only a submission whose key is held is absorbed");
        absorbed_answer(outcome, job, digest, &self.differs.pointers)
    }

    /// Writes it into the cell of its job.
    pub fn apply(self, cell: &mut Cell, arrived: &Arrived, setup: &Setup, moment: Moment) {
        let lane = arrived.lane();
        let now = moment.now;
        let era = setup.era(&lane.queue);
        match self.decision {
            Decision::Accept {
                life,
                would,
                takes_over,
            } => {
                cell.count(&lane, Counter::Accepted);
                would.iter().for_each(|_| cell.count(&lane, Counter::Observed));
                self.collides_with
                    .iter()
                    .for_each(|_| cell.count(&lane, Counter::Collisions));
                if let Some(holder) = self.holder.filter(|_| takes_over) {
                    cell.let_go(&holder.spec.id);
                }
                let mut spec = arrived.spec(life.holding.is_some(), now);
                spec.key = spec.key.filter(|_| life.holding.is_some());
                let spec = Spec {
                    would,
                    collides_with: self.collides_with,
                    ..spec
                };
                cell.insert(Record::new(spec, *life, Outcome::Accepted, arrived.arrival, era));
            }
            Decision::Absorb { outcome } => {
                absorb(cell, arrived, outcome, self.holder.as_ref(), &self.differs, now);
            }
            Decision::Replace { outcome, life } => {
                absorb(cell, arrived, outcome, self.holder.as_ref(), &self.differs, now);
                take_over_content(cell, arrived, self.holder.as_ref(), *life);
            }
            Decision::Defer { life } => match self.follower {
                Some(follower) => {
                    absorb(
                        cell,
                        arrived,
                        Outcome::Deferred,
                        Some(&follower),
                        &self.differs,
                        now,
                    );
                    let life = admission::replaced(&arrived.prepared, &follower.life, life.run_at);
                    take_over_content(cell, arrived, Some(&follower), life);
                }
                None => {
                    let holder = self.holder.as_ref();
                    absorb(cell, arrived, Outcome::Deferred, holder, &self.differs, now);
                    let record = Record::new(
                        arrived.spec(true, now),
                        *life,
                        Outcome::Deferred,
                        arrived.arrival,
                        era,
                    );
                    cell.insert(Record {
                        follows: self.holder.map(|holder| holder.spec.id),
                        ..record
                    });
                }
            },
        }
    }
}

/// Counts an absorbed submission and writes it into the ledger.
pub fn absorb(
    cell: &mut Cell,
    arrived: &Arrived,
    outcome: Outcome,
    met: Option<&Record>,
    differs: &Difference,
    now: Timestamp,
) {
    if let Some(counter) = Counter::of_outcome(outcome) {
        cell.count(&arrived.lane(), counter);
    }
    cell.entries
        .extend(met.and_then(|met| arrived.entry(outcome, met, differs, now)));
}

/// Puts the content of a newer submission into a job (contract 2.5, `replace`).
fn take_over_content(cell: &mut Cell, arrived: &Arrived, job: Option<&Record>, life: Life) {
    let Some(job) = job else { return };
    let Prepared { submission, key } = arrived.prepared.clone();
    cell.amend(&job.spec.id, |record| {
        record.life = life;
        record.spec.content = submission.content;
        if let Some((stored, newer)) = record.spec.key.as_mut().zip(key) {
            stored.input = newer.input;
        }
    });
}

/// The answer of a job to the submission it came from, sent again.
pub fn born_answer(record: &Record, now: Timestamp) -> Submitted {
    Submitted::Job(Box::new(Admitted {
        outcome: record.born,
        job: record.holder_view(now),
        key: record.digest(),
        would: record.spec.would.clone(),
        collides_with: record.spec.collides_with.clone(),
    }))
}

/// The answer to an absorbed submission.
pub fn absorbed_answer(outcome: Outcome, job: HolderView, digest: Digest, differs: &[String]) -> Submitted {
    match outcome {
        Outcome::Rejected => Submitted::Rejected { holder: job },
        Outcome::Conflict => Submitted::Conflict {
            holder: job,
            differs: differs.to_vec(),
        },
        outcome => Submitted::Job(Box::new(Admitted {
            outcome,
            job,
            key: Some(digest),
            would: None,
            collides_with: None,
        })),
    }
}
