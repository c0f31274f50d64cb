//! How a job fares, as stored: small, fixed in front, written at every turn.

use semel_core::dedup::{Hold, HoldKind, Holding, ReleaseOn};
use semel_core::error::StoreError;
use semel_core::ids::{Digest, Name};
use semel_core::job::{Life, Phase, State};
use semel_core::time::{Millis, Timestamp};

use crate::codec::{NONE, Reader, Writer, place};
use crate::keys::Id;

const VERSION: u8 = 1;
const HOLDS: [HoldKind; 4] = HoldKind::ALL;

/// What is known of a job beside its life, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Marks {
    /// Its content is gone; it stays because it holds a key.
    pub stub: bool,
    /// It was born as a follower.
    pub deferred: bool,
    /// It has an output.
    pub output: bool,
    /// It has an error.
    pub error: bool,
    /// It has said how far it is.
    pub progress: bool,
    /// Deliveries of it are recorded.
    pub attempts: bool,
    /// It has log lines.
    pub log: bool,
}

/// Everything about a job but its content.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// The job.
    pub id: Id,
    /// Grows with each write.
    pub version: u32,
    /// Its queue and task, by number.
    pub lane: u32,
    /// Its arrival.
    pub seq: i64,
    /// When it was admitted.
    pub enqueued_at: Timestamp,
    /// How it fares.
    pub life: Life,
    /// What else there is.
    pub marks: Marks,
    /// Its key.
    pub digest: Option<Digest>,
    /// For hybrid keys: the digest of the fields.
    pub group: Option<Digest>,
    /// Its canonical input, hashed, if it has a key.
    pub input: Option<Digest>,
    /// The first job of its chain, if it is another.
    pub origin: Option<Id>,
    /// While deferred: the job it follows.
    pub follows: Option<Id>,
    /// The job that replays it.
    pub replayed_as: Option<Id>,
    /// Who runs it, or ran it last.
    pub worker: Option<Name>,
}

/// Until when a job holds its key if nothing is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// It does not.
    No,
    /// Until this moment.
    Until(Timestamp),
    /// Until something is written.
    Always,
}

/// Whether the head in these bytes is that of a job that runs.
pub fn is_running(bytes: &[u8]) -> bool {
    bytes.get(1) == Some(&(Phase::Running as u8))
}

impl Head {
    /// The first job of its chain.
    pub fn origin(&self) -> Id {
        self.origin.unwrap_or(self.id)
    }

    /// Whether it is a dead letter (contract 6.4).
    pub fn is_dead_letter(&self) -> bool {
        self.life.phase == Phase::Failed && self.replayed_as.is_none() && !self.marks.stub
    }

    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let life = &self.life;
        let holding = life.holding.as_ref();
        let hold = holding.map(|holding| holding.hold);
        let mut out = Writer::new(VERSION);
        out.byte(life.phase as u8)
            .byte(life.priority.to_le_bytes()[0])
            .byte(life.settled.map_or(0, |state| place(&State::ALL, &state) + 1))
            .byte(hold.map_or(0, |hold| place(&HOLDS, &hold.kind) + 1))
            .byte(holding_bits(holding))
            .byte(self.marks.bits())
            .small(self.version)
            .small(self.lane)
            .small(life.attempt)
            .small(life.max_attempts)
            .small(life.deliveries)
            .small(life.max_deliveries)
            .long(self.seq)
            .time(self.enqueued_at)
            .time(life.run_at)
            .long(life.fence)
            .maybe_time(life.began)
            .maybe_time(life.until)
            .maybe_time(life.started_at)
            .maybe_time(life.finished_at)
            .long(hold.and_then(|hold| hold.ttl).map_or(NONE, Millis::as_millis))
            .long(
                hold.and_then(|hold| hold.cool_down)
                    .map_or(NONE, Millis::as_millis),
            )
            .maybe_time(holding.map(|holding| holding.taken_at))
            .maybe_time(holding.and_then(|holding| holding.expires_at))
            .long(holding.map_or(NONE, |holding| holding.generation));
        out.maybe_digest(self.digest.as_ref())
            .maybe_digest(self.group.as_ref())
            .maybe_digest(self.input.as_ref())
            .maybe_id(self.origin.as_ref())
            .maybe_id(self.follows.as_ref())
            .maybe_id(self.replayed_as.as_ref())
            .maybe_text(self.worker.as_ref().map(Name::as_str));
        out.done()
    }

    /// A head from its bytes.
    pub fn decode(id: Id, bytes: &[u8]) -> Result<Self, StoreError> {
        let mut from = Reader::new(bytes, VERSION, "the head of a job")?;
        let phase = from.one_of(&Phase::ALL)?;
        let priority = i8::from_le_bytes([from.byte()?]);
        let settled = match from.byte()? {
            0 => None,
            place => State::ALL.get(usize::from(place) - 1).copied(),
        };
        let kind = match from.byte()? {
            0 => None,
            place => HOLDS.get(usize::from(place) - 1).copied(),
        };
        let bits = from.byte()?;
        let marks = Marks::from_bits(from.byte()?);
        let (version, lane) = (from.small()?, from.small()?);
        let (attempt, max_attempts) = (from.small()?, from.small()?);
        let (deliveries, max_deliveries) = (from.small()?, from.small()?);
        let (seq, enqueued_at) = (from.long()?, from.time()?);
        let mut life = Life {
            phase,
            priority,
            run_at: from.time()?,
            attempt,
            max_attempts,
            deliveries,
            max_deliveries,
            fence: from.long()?,
            settled,
            began: from.maybe_time()?,
            until: from.maybe_time()?,
            started_at: from.maybe_time()?,
            finished_at: from.maybe_time()?,
            holding: None,
        };
        let (ttl, cool_down) = (
            from.maybe_long()?.map(Millis::new),
            from.maybe_long()?.map(Millis::new),
        );
        let (taken_at, expires_at, generation) = (from.time()?, from.maybe_time()?, from.long()?);
        life.holding = kind.map(|kind| Holding {
            hold: Hold {
                kind,
                ttl,
                cool_down,
                release_on: ReleaseOn {
                    failed: bits & 1 != 0,
                    cancelled: bits & 2 != 0,
                },
            },
            taken_at,
            expires_at,
            generation,
            freed: bits & 4 != 0,
            observed: bits & 8 != 0,
        });
        Ok(Head {
            id,
            version,
            lane,
            seq,
            enqueued_at,
            life,
            marks,
            digest: from.maybe_digest()?,
            group: from.maybe_digest()?,
            input: from.maybe_digest()?,
            origin: from.maybe_id()?,
            follows: from.maybe_id()?,
            replayed_as: from.maybe_id()?,
            worker: from.maybe_name()?,
        })
    }

    /// Until when it holds its key if nothing is written: where [`Holding::is_held`] changes with time alone.
    pub fn held(&self) -> Held {
        let life = &self.life;
        let Some(holding) = life.holding.as_ref().filter(|holding| !holding.freed) else {
            return Held::No;
        };
        let ended = life.phase.is_terminal();
        let released = holding.hold.release_on;
        let early = (released.failed && life.phase == Phase::Failed)
            || (released.cancelled && life.phase == Phase::Cancelled);
        let until = |moment: Option<Timestamp>| moment.map_or(Held::No, Held::Until);
        match holding.hold.kind {
            HoldKind::UntilStarted if ended => Held::No,
            HoldKind::UntilFinished if ended => {
                let cooled = life.finished_at.zip(holding.hold.cool_down);
                until(cooled.map(|(at, more)| at.plus(more)))
            }
            HoldKind::UntilStarted | HoldKind::UntilFinished => match holding.expires_at {
                Some(expires) if life.phase != Phase::Parked => Held::Until(lapses(life, expires)),
                _ => Held::Always,
            },
            HoldKind::Window | HoldKind::Forever if ended && early => Held::No,
            HoldKind::Window if ended => until(holding.expires_at),
            HoldKind::Window | HoldKind::Forever => Held::Always,
        }
    }
}

/// A ttl does not pass under a lease that began before it.
fn lapses(life: &Life, expires: Timestamp) -> Timestamp {
    let before = life.began.is_some_and(|began| began < expires);
    match life.until {
        Some(until) if before => expires.max(until),
        _ => expires,
    }
}

fn holding_bits(holding: Option<&Holding>) -> u8 {
    let Some(holding) = holding else { return 0 };
    u8::from(holding.hold.release_on.failed)
        | u8::from(holding.hold.release_on.cancelled) << 1
        | u8::from(holding.freed) << 2
        | u8::from(holding.observed) << 3
}

impl Marks {
    fn bits(self) -> u8 {
        let bits = [
            self.stub,
            self.deferred,
            self.output,
            self.error,
            self.progress,
            self.attempts,
            self.log,
        ];
        bits.iter()
            .enumerate()
            .fold(0, |sum, (at, bit)| sum | u8::from(*bit) << at)
    }

    fn from_bits(bits: u8) -> Self {
        let bit = |at: u8| bits & (1 << at) != 0;
        Marks {
            stub: bit(0),
            deferred: bit(1),
            output: bit(2),
            error: bit(3),
            progress: bit(4),
            attempts: bit(5),
            log: bit(6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::ids::{JobId, Token};
    use semel_core::lifecycle::{self, Settle, Settled};

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn head(hold: Hold) -> Head {
        Head {
            id: Id([9; 16]),
            version: 3,
            lane: 7,
            seq: 11,
            enqueued_at: at(1_000),
            life: Life {
                phase: Phase::Waiting,
                priority: -100,
                run_at: at(1_000),
                attempt: 0,
                max_attempts: 5,
                deliveries: 0,
                max_deliveries: 5,
                fence: 0,
                settled: None,
                began: None,
                until: None,
                started_at: None,
                finished_at: None,
                holding: Some(Holding::take(hold, at(1_000), 5, false)),
            },
            marks: Marks {
                error: true,
                ..Marks::default()
            },
            digest: Some(Digest::from_bytes([1; 32])),
            group: None,
            input: Some(Digest::from_bytes([2; 32])),
            origin: None,
            follows: Some(Id([4; 16])),
            replayed_as: None,
            worker: Some(Name::new("ada").unwrap()),
        }
    }

    fn holds() -> Vec<Hold> {
        let ttl = Millis::new(500);
        let on_failed = ReleaseOn {
            failed: true,
            cancelled: false,
        };
        vec![
            Hold::until_started(),
            Hold::until_started().ttl(ttl),
            Hold::until_finished(),
            Hold::until_finished().ttl(ttl),
            Hold::until_finished().ttl(ttl).cool_down(Millis::new(300)),
            Hold::window(ttl),
            Hold::window(ttl).release_on(on_failed),
            Hold::forever(),
            Hold::forever().release_on(on_failed),
        ]
    }

    /// Every life a job can come to in a few turns.
    fn lives(first: &Life) -> Vec<Life> {
        let id = JobId::from(Token::from_bytes([9; 16]));
        let mut lives = vec![first.clone()];
        for when in [1_100, 1_499, 1_500, 1_600] {
            let running = lifecycle::lease(first, 1, at(when + 200), at(when));
            let settle = |result: &Settle| match lifecycle::settle(&running, &id, 1, result, at(when + 50)) {
                Ok(Settled::Moved { life, .. }) => *life,
                other => panic!("{other:?}"),
            };
            lives.push(settle(&Settle::Complete { output: None }));
            lives.push(settle(&Settle::Fail { error: "no".into() }));
            lives.push(settle(&Settle::Park { reason: "?".into() }));
            lives.push(settle(&Settle::HandBack));
            lives.push(lifecycle::expire(&running, at(when + 200), 1).0);
            lives.push(lifecycle::cancel(first, at(when), 1).unwrap());
            lives.push(running);
        }
        lives
    }

    #[test]
    fn a_head_is_read_as_it_was_written() {
        for hold in holds() {
            for life in lives(&head(hold).life) {
                let head = Head { life, ..head(hold) };
                assert_eq!(Head::decode(head.id, &head.encode()).unwrap(), head);
            }
        }
    }

    #[test]
    fn what_lapses_by_itself_lapses_when_core_says_so() {
        for hold in holds() {
            for life in lives(&head(hold).life) {
                let head = Head { life, ..head(hold) };
                // A life is asked about from the moment on in which it was written.
                let from = [head.life.finished_at, head.life.began]
                    .into_iter()
                    .flatten()
                    .max();
                for now in (from.map_or(1_000, Timestamp::as_millis)..3_000).map(at) {
                    let held = match head.held() {
                        Held::No => false,
                        Held::Until(moment) => now < moment,
                        Held::Always => true,
                    };
                    assert_eq!(held, head.life.is_holder(now), "{now:?} {head:?}");
                }
            }
        }
    }
}
