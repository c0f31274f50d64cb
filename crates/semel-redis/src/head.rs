//! How a job fares, as stored: small, fixed in front, written at every turn.

use semel_core::dedup::{Hold, HoldKind, Holding, ReleaseOn};
use semel_core::error::StoreError;
use semel_core::ids::{Digest, Name};
use semel_core::job::{Life, Phase, State};
use semel_core::limits;
use semel_core::time::{Millis, Timestamp};

use crate::codec::{Reader, Writer, bits, place};
use crate::keys::Id;
use crate::name::Trail;

const VERSION: u8 = 3;
/// How a head begins of which only the turn is written: the rest is where it was born, in the record of what the job is.
pub const SHORT: u8 = 6;
/// What stands in front of the turn of a head that has its rest.
pub const WHOLE: u8 = VERSION;
/// How the head of a job begins that waits, was never leased, and has its key, if it has one, in a way that neither a
/// lease nor time changes before its end.
pub const FRESH: [u8; 3] = [VERSION, Phase::Waiting as u8, 0];
/// What the record of birth of such a job begins with.
pub const BORN: u8 = 4;
/// What the record of birth of any other begins with.
const BORN_OTHERWISE: u8 = 5;
const HOLDS: [HoldKind; 4] = HoldKind::ALL;
/// How a key is held, in the byte that says it: the kind, and what need not be told.
const PLAIN_HOLD: u8 = 1 << 2;
const EXPIRES_BY_TTL: u8 = 1 << 3;

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
    /// By what its canonical input is told from another, if it has a key.
    pub input: Option<InputMark>,
    /// The first job of its chain, if it is another.
    pub origin: Option<Id>,
    /// While deferred: the job it follows.
    pub follows: Option<Id>,
    /// The job that replays it.
    pub replayed_as: Option<Id>,
    /// Who runs it, or ran it last.
    pub worker: Option<Name>,
    /// What it carries for the case that the number of shards changes.
    pub trail: Trail,
}

/// The first half of the hash of a canonical input: enough to tell inputs apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputMark([u8; 16]);

impl From<Digest> for InputMark {
    fn from(input: Digest) -> Self {
        let (half, _) = input.as_bytes().split_at(16);
        InputMark(half.try_into().expect("half of a digest"))
    }
}

impl InputMark {
    /// The hash as it is compared with another: the other one if they are the same as far as is known, else one that
    /// differs from it.
    pub fn beside(self, other: Digest) -> Digest {
        if self == InputMark::from(other) {
            return other;
        }
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.0);
        Digest::from_bytes(bytes)
    }
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

impl Head {
    /// The first job of its chain.
    pub fn origin(&self) -> Id {
        self.origin.unwrap_or(self.id)
    }

    /// Whether it is a dead letter (contract 6.4).
    pub fn is_dead_letter(&self) -> bool {
        self.life.phase == Phase::Failed && self.replayed_as.is_none() && !self.marks.stub
    }

    /// The bytes: first what a lease and its end change, then what they leave as it is.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.turn();
        self.encode_rest(&mut out);
        out.done()
    }

    /// What a lease and its end change. Of a job that was never leased it is the same three bytes for all, of jobs
    /// that were leased together the same bytes for all of them: [`FRESH`] and [`Head::turn_bytes`].
    fn turn(&self) -> Writer {
        let life = &self.life;
        let mut out = Writer::sized(VERSION, 160);
        let lasting = u8::from(!self.is_lasting()) << 1;
        out.byte(life.phase as u8);
        if self.is_fresh() {
            out.byte(lasting);
            return out;
        }
        let millis = |moment: Option<Timestamp>| moment.map(Timestamp::as_millis);
        out.byte(lasting | 1)
            .byte(life.settled.map_or(0, |state| place(&State::ALL, &state) + 1))
            .byte(self.marks.bits())
            .var(i64::from(self.version))
            .var(i64::from(life.attempt))
            .var(i64::from(life.deliveries))
            .var(life.fence)
            .maybe_var(millis(life.began))
            .maybe_var(millis(life.until))
            .maybe_var(millis(life.started_at))
            .maybe_var(millis(life.finished_at))
            .short_text(self.worker.as_ref().map_or("", Name::as_str));
        out
    }

    /// What a job is born with: its head, to which nothing has happened yet, in front of what it is. It has no other
    /// head until something happens to it. None if the head is longer than any should be.
    pub fn birth(&self, spec: usize) -> Option<Writer> {
        let mut rest = Writer::sized(0, 160);
        self.encode_rest(&mut rest);
        let rest = &rest.done()[1..];
        let kind = if self.is_lasting() { BORN } else { BORN_OTHERWISE };
        let mut out = Writer::sized(kind, 3 + rest.len() + spec);
        out.byte(u8::try_from(rest.len()).ok()?).raw(rest);
        Some(out)
    }

    /// A job from what is kept of it: its head, its record of birth, or both; none if neither tells how it fares.
    pub fn read(id: Id, head: Option<&[u8]>, spec: Option<&[u8]>) -> Result<Option<Self>, StoreError> {
        let Some(bytes) = head.filter(|bytes| is_short(bytes)) else {
            return match (head, spec) {
                (Some(head), _) => Head::decode(id, head).map(Some),
                (None, Some(spec)) => Head::born(id, spec),
                (None, None) => Ok(None),
            };
        };
        let born = spec.map(|spec| Head::born(id, spec)).transpose()?.flatten();
        let born = born.ok_or_else(|| StoreError::corrupt("a job without a birth"))?;
        let (mut from, phase) = Head::begin(bytes)?;
        let mut head = born;
        head.life.phase = phase;
        head.decode_turn(&mut from)?;
        Ok(Some(head))
    }

    /// What is known of a job beside its life, from its head alone.
    pub fn marks_in(id: Id, bytes: &[u8]) -> Result<Marks, StoreError> {
        let (mut from, phase) = Head::begin(bytes)?;
        let mut head = Head::nothing(id, phase);
        head.decode_turn(&mut from)?;
        Ok(head.marks)
    }

    /// The head in a record of birth; none in another record.
    pub fn born(id: Id, bytes: &[u8]) -> Result<Option<Self>, StoreError> {
        if !is_birth(bytes) {
            return Ok(None);
        }
        let mut from = Reader::within(bytes, "the birth of a job");
        from.raw(2)?;
        let mut head = Head::nothing(id, Phase::Waiting);
        head.decode_rest(&mut from)?;
        Ok(Some(head))
    }

    /// See [`Head::turn`]. Whether the rest follows or is where the job was born is said in front of it.
    pub fn turn_bytes(&self) -> Vec<u8> {
        self.turn().done().split_off(1)
    }

    /// A job to which nothing has happened and that has nothing: what a lease makes of its turn it makes of that of
    /// every [`FRESH`] one.
    pub fn fresh() -> Self {
        Head::nothing(Id([0; 16]), Phase::Waiting)
    }

    fn nothing(id: Id, phase: Phase) -> Self {
        Head {
            id,
            version: 0,
            lane: 0,
            seq: 0,
            enqueued_at: Timestamp::default(),
            life: Life {
                phase,
                priority: 0,
                run_at: Timestamp::default(),
                attempt: 0,
                max_attempts: 0,
                deliveries: 0,
                max_deliveries: 0,
                fence: 0,
                settled: None,
                began: None,
                until: None,
                started_at: None,
                finished_at: None,
                holding: None,
            },
            marks: Marks::default(),
            digest: None,
            group: None,
            input: None,
            origin: None,
            follows: None,
            replayed_as: None,
            worker: None,
            trail: Trail::default(),
        }
    }

    /// Whether a later state of it is told by what its head begins with ([`Head::turn_bytes`]).
    pub fn differs_in_turn_only(&self, after: &Head) -> bool {
        let rest = |head: &Head| {
            let mut out = Writer::sized(VERSION, 160);
            head.encode_rest(&mut out);
            out.done()
        };
        self.id == after.id && rest(self) == rest(after)
    }

    /// Whether nothing has happened to it since it was admitted.
    fn is_fresh(&self) -> bool {
        let life = &self.life;
        let untouched = life.attempt == 0 && life.deliveries == 0 && life.fence == 0 && self.version == 0;
        let times = [life.began, life.until, life.started_at, life.finished_at];
        untouched
            && life.settled.is_none()
            && times.iter().all(Option::is_none)
            && self.marks == Marks::default()
            && self.worker.is_none()
    }

    /// See [`is_lasting`].
    pub fn is_lasting(&self) -> bool {
        is_lasting(&self.life)
    }

    /// What is as usual takes no room, moments are told by how far they are from the one in the id.
    fn encode_rest(&self, out: &mut Writer) {
        let life = &self.life;
        let rare = [&self.origin, &self.follows, &self.replayed_as];
        let is_rare = self.group.is_some() || rare.iter().any(|id| id.is_some());
        let apart = self.input.filter(|_| !self.input_is_the_key());
        let there = [
            life.holding.is_some(),
            self.digest.is_some(),
            self.input_is_the_key(),
            apart.is_some(),
            is_rare,
            self.is_usual(),
            !self.trail.is_none(),
        ];
        out.byte(bits(&there));
        if is_rare {
            let [origin, follows, replayed_as] = rare.map(Option::is_some);
            out.byte(bits(&[self.group.is_some(), origin, follows, replayed_as]));
        }
        out.var(i64::from(self.lane))
            .var(self.seq)
            .near(self.enqueued_at, self.id.made_at());
        if !self.is_usual() {
            out.byte(life.priority.to_le_bytes()[0])
                .near(life.run_at, self.enqueued_at)
                .var(i64::from(life.max_attempts))
                .var(i64::from(life.max_deliveries));
        }
        if let Some(holding) = &life.holding {
            self.encode_holding(out, holding);
        }
        for digest in [&self.digest, &self.group].into_iter().flatten() {
            out.raw(digest.as_bytes());
        }
        if let Some(InputMark(mark)) = apart {
            out.raw(&mark);
        }
        for id in rare.into_iter().flatten() {
            out.raw(&id.0);
        }
        if !self.trail.is_none() {
            out.var(self.trail.pack());
        }
    }

    fn encode_holding(&self, out: &mut Writer, holding: &Holding) {
        let hold = holding.hold;
        let plain = self.is_plain(holding);
        let by_ttl = !plain && expires_by_ttl(holding);
        let told = if plain { PLAIN_HOLD } else { 0 } | if by_ttl { EXPIRES_BY_TTL } else { 0 };
        out.byte(place(&HOLDS, &hold.kind) | told | holding_bits(holding) << 4);
        if !plain {
            out.maybe_var(hold.ttl.map(Millis::as_millis))
                .maybe_var(hold.cool_down.map(Millis::as_millis))
                .near(holding.taken_at, self.enqueued_at);
        }
        if !plain && !by_ttl {
            out.maybe_var(holding.expires_at.map(Timestamp::as_millis));
        }
        out.close(holding.generation, micros(self.enqueued_at));
    }

    fn decode_holding(&self, from: &mut Reader<'_>) -> Result<Holding, StoreError> {
        let byte = from.byte()?;
        let (kind, bits) = (HOLDS[usize::from(byte & 3)], byte >> 4);
        let (plain, by_ttl) = (byte & PLAIN_HOLD != 0, byte & EXPIRES_BY_TTL != 0);
        let (mut ttl, mut cool_down, mut taken_at, mut expires_at) = (None, None, self.enqueued_at, None);
        if !plain {
            ttl = from.maybe_var()?.map(Millis::new);
            cool_down = from.maybe_var()?.map(Millis::new);
            taken_at = from.near(self.enqueued_at)?;
            expires_at = match by_ttl {
                true => ttl.map(|ttl| taken_at.plus(ttl)),
                false => from.maybe_var()?.map(Timestamp::from_millis),
            };
        }
        let release_on = ReleaseOn {
            failed: bits & 1 != 0,
            cancelled: bits & 2 != 0,
        };
        Ok(Holding {
            hold: Hold {
                kind,
                ttl,
                cool_down,
                release_on,
            },
            taken_at,
            expires_at,
            generation: from.close(micros(self.enqueued_at))?,
            freed: bits & 4 != 0,
            observed: bits & 8 != 0,
        })
    }

    /// Whether its key is made from its whole input, so that one tells the other.
    fn input_is_the_key(&self) -> bool {
        self.digest
            .is_some_and(|digest| self.input == Some(InputMark::from(digest)))
    }

    fn is_usual(&self) -> bool {
        let life = &self.life;
        life.priority == 0
            && life.run_at == self.enqueued_at
            && life.max_attempts == limits::MAX_ATTEMPTS
            && life.max_deliveries == limits::MAX_DELIVERIES
    }

    /// Whether a key was taken at admission, for no length of time.
    fn is_plain(&self, holding: &Holding) -> bool {
        let Hold { ttl, cool_down, .. } = holding.hold;
        ttl.is_none()
            && cool_down.is_none()
            && holding.expires_at.is_none()
            && holding.taken_at == self.enqueued_at
    }

    /// A head from its bytes.
    fn decode(id: Id, bytes: &[u8]) -> Result<Self, StoreError> {
        let (mut from, phase) = Head::begin(bytes)?;
        let mut head = Head::nothing(id, phase);
        head.decode_turn(&mut from)?;
        head.decode_rest(&mut from)?;
        Ok(head)
    }

    fn begin(bytes: &[u8]) -> Result<(Reader<'_>, Phase), StoreError> {
        let version = if is_short(bytes) { SHORT } else { VERSION };
        let mut from = Reader::new(bytes, version, "the head of a job")?;
        let phase = from.one_of(&Phase::ALL)?;
        Ok((from, phase))
    }

    fn decode_turn(&mut self, from: &mut Reader<'_>) -> Result<(), StoreError> {
        if from.byte()? & 1 == 0 {
            return Ok(());
        }
        let life = &mut self.life;
        life.settled = match from.byte()? {
            0 => None,
            place => State::ALL.get(usize::from(place) - 1).copied(),
        };
        self.marks = Marks::from_bits(from.byte()?);
        self.version = from.small_var()?;
        life.attempt = from.small_var()?;
        life.deliveries = from.small_var()?;
        life.fence = from.var()?;
        life.began = from.maybe_var()?.map(Timestamp::from_millis);
        life.until = from.maybe_var()?.map(Timestamp::from_millis);
        life.started_at = from.maybe_var()?.map(Timestamp::from_millis);
        life.finished_at = from.maybe_var()?.map(Timestamp::from_millis);
        self.worker = match from.short_text()? {
            "" => None,
            name => Some(Name::new(name).map_err(|_| StoreError::corrupt("a worker without a name"))?),
        };
        Ok(())
    }

    fn decode_rest(&mut self, from: &mut Reader<'_>) -> Result<(), StoreError> {
        let there = from.byte()?;
        let is = |bit: u8| there & (1 << bit) != 0;
        let rare = if is(4) { from.byte()? } else { 0 };
        let is_rare = |bit: u8| rare & (1 << bit) != 0;
        self.lane = from.small_var()?;
        self.seq = from.var()?;
        self.enqueued_at = from.near(self.id.made_at())?;
        self.life.run_at = self.enqueued_at;
        self.life.max_attempts = limits::MAX_ATTEMPTS;
        self.life.max_deliveries = limits::MAX_DELIVERIES;
        if !is(5) {
            self.life.priority = i8::from_le_bytes([from.byte()?]);
            self.life.run_at = from.near(self.enqueued_at)?;
            self.life.max_attempts = from.small_var()?;
            self.life.max_deliveries = from.small_var()?;
        }
        if is(0) {
            self.life.holding = Some(self.decode_holding(from)?);
        }
        self.digest = is(1).then(|| from.digest()).transpose()?;
        self.group = is_rare(0).then(|| from.digest()).transpose()?;
        self.input = match is(2) {
            true => self.digest.map(InputMark::from),
            false => is(3).then(|| from.half().map(InputMark)).transpose()?,
        };
        self.origin = is_rare(1).then(|| from.id()).transpose()?;
        self.follows = is_rare(2).then(|| from.id()).transpose()?;
        self.replayed_as = is_rare(3).then(|| from.id()).transpose()?;
        if is(6) {
            self.trail = Trail::unpack(from.var()?)?;
        }
        Ok(())
    }

    /// See [`held`].
    pub fn held(&self) -> Held {
        held(&self.life)
    }
}

/// Whether neither a lease nor time changes what a job has of its key for as long as it has not ended.
pub fn is_lasting(life: &Life) -> bool {
    life.holding.as_ref().is_none_or(|holding| {
        holding.freed
            || match holding.hold.kind {
                HoldKind::UntilStarted => false,
                HoldKind::UntilFinished => holding.expires_at.is_none(),
                HoldKind::Window | HoldKind::Forever => true,
            }
    })
}

/// Until when a job holds its key if nothing is written: where [`Holding::is_held`] changes with time alone.
pub fn held(life: &Life) -> Held {
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

/// A ttl does not pass under a lease that began before it.
fn lapses(life: &Life, expires: Timestamp) -> Timestamp {
    let before = life.began.is_some_and(|began| began < expires);
    match life.until {
        Some(until) if before => expires.max(until),
        _ => expires,
    }
}

/// Whether the rest of a head is where its job was born.
pub fn is_short(bytes: &[u8]) -> bool {
    bytes.first() == Some(&SHORT)
}

/// Whether a record of what a job is begins with its head.
pub fn is_birth(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(&(BORN | BORN_OTHERWISE)))
}

/// What comes after the head in a record of birth.
pub fn after_birth(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(2 + usize::from(*bytes.get(1)?)..)
}

fn micros(moment: Timestamp) -> i64 {
    moment.as_millis().wrapping_mul(1_000)
}

fn expires_by_ttl(holding: &Holding) -> bool {
    let by_ttl = holding.hold.ttl.map(|ttl| holding.taken_at.plus(ttl));
    by_ttl.is_some() && by_ttl == holding.expires_at
}

fn holding_bits(holding: &Holding) -> u8 {
    u8::from(holding.hold.release_on.failed)
        | u8::from(holding.hold.release_on.cancelled) << 1
        | u8::from(holding.freed) << 2
        | u8::from(holding.observed) << 3
}

impl Marks {
    fn bits(self) -> u8 {
        let marks = [
            self.stub,
            self.deferred,
            self.output,
            self.error,
            self.progress,
            self.attempts,
            self.log,
        ];
        bits(&marks)
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
    use crate::name::Named;
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
            input: Some(Digest::from_bytes([2; 32]).into()),
            origin: None,
            follows: Some(Id([4; 16])),
            replayed_as: None,
            worker: Some(Name::new("ada").unwrap()),
            trail: Trail {
                named: Some(Named::Bare),
                slot: Some(7),
            },
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
    fn a_birth_is_read_as_it_was_written() {
        for hold in holds() {
            let born = Head {
                version: 0,
                marks: Marks::default(),
                worker: None,
                ..head(hold)
            };
            let birth = born.birth(0).expect("it is short").done();
            assert_eq!(Head::born(born.id, &birth).unwrap(), Some(born.clone()));
            assert_eq!(after_birth(&birth), Some(&[][..]));
            assert_eq!(birth[0] == BORN, born.is_lasting());
            assert_eq!(born.encode().starts_with(&FRESH), born.is_lasting());
            assert_eq!(Head::born(born.id, &born.encode()).unwrap(), None);
        }
    }

    #[test]
    fn a_short_head_is_read_with_the_birth_of_its_job() {
        for hold in holds() {
            let born = Head {
                version: 0,
                marks: Marks::default(),
                worker: None,
                ..head(hold)
            };
            let birth = born.birth(0).expect("it is short").done();
            let leased = Head {
                life: lifecycle::lease(&born.life, 7, at(1_200), at(1_100)),
                version: 1,
                marks: Marks {
                    output: true,
                    ..Marks::default()
                },
                worker: Some(Name::new("bob").unwrap()),
                ..born.clone()
            };
            if !born.differs_in_turn_only(&leased) {
                continue;
            }
            let short = [&[SHORT], leased.turn_bytes().as_slice()].concat();
            let read = |spec| Head::read(born.id, Some(short.as_slice()), spec);
            assert_eq!(read(Some(birth.as_slice())).unwrap(), Some(leased.clone()));
            assert_eq!(Head::marks_in(born.id, &short).unwrap(), leased.marks);
            assert!(read(None).is_err(), "half of it is not taken for all");
            assert!(read(Some(&born.encode())).is_err());
        }
    }

    /// What the scripts rest on: the turn of one is the turn of all.
    #[test]
    fn of_lasting_heads_a_lease_and_its_end_change_only_the_turn_and_that_of_all_alike() {
        let id = JobId::from(Token::from_bytes([9; 16]));
        let next = |head: &Head, life: Life| Head {
            life,
            version: head.version + 1,
            worker: Some(Name::new("bob").unwrap()),
            ..head.clone()
        };
        let lasting = holds().into_iter().map(|hold| Head {
            version: 0,
            marks: Marks::default(),
            worker: None,
            ..head(hold)
        });
        let mut seen = 0;
        for fresh in lasting.filter(Head::is_lasting) {
            for when in [1_000, 1_499, 1_500, 90_000_000] {
                let lease =
                    |head: &Head| next(head, lifecycle::lease(&head.life, 7, at(when + 200), at(when)));
                let leased = lease(&fresh);
                assert!(fresh.differs_in_turn_only(&leased));
                assert_eq!(leased.turn_bytes(), lease(&Head::fresh()).turn_bytes());
                let end = |head: &Head| {
                    let result = Settle::Complete { output: None };
                    match lifecycle::settle(&head.life, &id, 7, &result, at(when + 300)) {
                        Ok(Settled::Moved { life, .. }) => next(head, *life),
                        other => panic!("{other:?}"),
                    }
                };
                let ended = end(&leased);
                assert!(leased.differs_in_turn_only(&ended));
                assert_eq!(ended.turn_bytes(), end(&lease(&Head::fresh())).turn_bytes());
                seen += 1;
            }
        }
        assert!(seen >= 20, "{seen}");
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
