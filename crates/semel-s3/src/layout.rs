//! Every name an object can have, in one place. All of them are below the store's prefix and a directory for the
//! namespace; text of users appears only as hexadecimal digests or hexadecimal bytes, so it never becomes a path.
//!
//! | name | content | role |
//! |---|---|---|
//! | `idempotency/{hh}/{key digest}.json` | everything about one key: its jobs, their steps, what was absorbed into them | truth |
//! | `tasks/{hh}/{token}.json` | a job without a key; a job that left the cell of its key; or what became of a submission | truth |
//! | `guards/{hh}/{digest}.json` | a guarded key | truth |
//! | `ready/{lane}/{priority}/{run_at}-{arrival}-{token}.{placement}.{cell}` | nothing: the name says that a job may be waiting | hint |
//! | `leases/{until}-{token}.json` | the jobs of one claim or one round of heartbeats | hint |
//! | `claims/{hh}/{token}.json` | what a claim went for, so that the same claim is given it again | truth |
//! | `groups/{fields digest}/{key digest}` | nothing: a hybrid key with these fields | hint |
//! | `documents/{kind}/{name}.json` | a small versioned document | truth |
//! | `feeds/{digest}/…` | the newest entries of a feed, and full pages of older ones | truth |
//! | `control/settings.json`, `control/sums.json`, `control/handles.json` | pauses and removals; counters of what is gone; how many handles there were | truth |
//! | `control/upkeep.json` | whose turn it is to keep house | hint |
//! | `names/queues/…`, `names/tasks/…` | nothing: queues and tasks in use | hint |
//! | `history/{minute}.json` | the counters of a minute | truth |

use semel_core::ids::{Digest, JobId, Name, Token};
use semel_core::job::Life;
use semel_core::time::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::record::{Arrival, Record};

/// The version of this layout. A store of another one is refused.
pub const FORMAT: u32 = 1;

/// Pauses, removals, closed intakes.
pub const SETTINGS: &str = "control/settings.json";
/// Counters of what is gone, and the baseline of a reset.
pub const SUMS: &str = "control/sums.json";
/// How many handles there were.
pub const HANDLES: &str = "control/handles.json";
/// Whose turn it is to keep house.
pub const UPKEEP: &str = "control/upkeep.json";
/// Where a probe writes.
pub const PROBE: &str = "control/probe";
/// Jobs without keys, pointers, absorbed submissions.
pub const TASKS: &str = "tasks";
/// Keys.
pub const KEYS: &str = "idempotency";
/// Guarded keys.
pub const GUARDS: &str = "guards";
/// Jobs that may be waiting.
pub const READY: &str = "ready";
/// Jobs that may be running.
pub const LEASES: &str = "leases";
/// What claims went for.
pub const CLAIMS: &str = "claims";
/// Snapshots of the counters.
pub const HISTORY: &str = "history";
/// Documents.
pub const DOCUMENTS: &str = "documents";
/// Feeds.
pub const FEEDS: &str = "feeds";

/// The first 128 bits of a digest of some text: enough to tell names apart that one operator chooses.
pub fn short(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The cell of a key.
pub fn key_cell(digest: Digest) -> String {
    let digest = digest.to_string();
    format!("{KEYS}/{}/{digest}.json", &digest[..2])
}

/// The key of a cell.
pub fn digest_of(name: &str) -> Option<Digest> {
    let file = name.strip_prefix(KEYS)?.rsplit('/').next()?;
    file.strip_suffix(".json")?.parse().ok()
}

/// The object of a token: the cell of a job without a key, a job that left the cell of its key, a pointer, or an
/// absorbed submission.
pub fn task(token: &str) -> String {
    // A token begins with the time: its end spreads.
    format!("{TASKS}/{}/{token}.json", &token[token.len() - 2..])
}

/// The id of a job: the token of its submission and, where the job is in the cell of a key, the key. So an id leads to
/// its job, and nothing has to be written for that.
pub fn job_id(token: Token, key: Option<Digest>) -> JobId {
    match key {
        Some(digest) => {
            JobId::new(format!("{token}.{digest}")).expect("an id of a hundred digits is printable")
        }
        None => JobId::from(token),
    }
}

/// The token and the key of an id, if a job can have this id at all.
pub fn parts_of(id: &JobId) -> Option<(Token, Option<Digest>)> {
    let (token, digest) = match id.as_str().split_once('.') {
        Some((token, digest)) => (token, Some(digest.parse().ok()?)),
        None => (id.as_str(), None),
    };
    let token: Token = token.parse().ok()?;
    (job_id(token, digest) == *id).then_some((token, digest))
}

/// The object of the token of a job, if a job can have this id at all.
pub fn task_of(id: &JobId) -> Option<String> {
    parts_of(id).map(|(token, _)| task(&token.to_string()))
}

/// Whether a submission with this token made the job.
pub fn is_made_by(id: &JobId, token: Token) -> bool {
    parts_of(id).is_some_and(|(made_by, _)| made_by == token)
}

/// A guarded key.
pub fn guard(digest: Digest) -> String {
    let digest = digest.to_string();
    format!("{GUARDS}/{}/{digest}.json", &digest[..2])
}

/// What a claim went for.
pub fn claim(token: Token) -> String {
    let token = token.to_string();
    format!("{CLAIMS}/{}/{token}.json", &token[token.len() - 2..])
}

/// The token of an object that is named after one.
pub fn token_of(name: &str) -> Option<Token> {
    name.rsplit('/').next()?.strip_suffix(".json")?.parse().ok()
}

/// Hybrid keys with the same fields.
pub fn group(fields: Digest) -> String {
    format!("groups/{fields}")
}

/// The entry of a hybrid key among those with the same fields.
pub fn in_group(fields: Digest, digest: Digest) -> String {
    format!("groups/{fields}/{digest}")
}

/// A queue in use.
pub fn queue(name: &Name) -> String {
    format!("names/queues/{}", hex(name.as_str().as_bytes()))
}

/// A task in use.
pub fn kind_of_work(name: &Name) -> String {
    format!("names/tasks/{}", hex(name.as_str().as_bytes()))
}

/// The text that the last part of a name spells in hexadecimal.
pub fn text_of(name: &str) -> Option<Name> {
    let digits = name.rsplit('/').next()?;
    let pairs = (0..digits.len() / 2).map(|at| u8::from_str_radix(digits.get(at * 2..at * 2 + 2)?, 16).ok());
    let bytes: Option<Vec<u8>> = pairs.collect();
    Name::new(String::from_utf8(bytes?).ok()?).ok()
}

/// A snapshot of the counters.
pub fn snapshot(minute: Timestamp) -> String {
    format!("{HISTORY}/{:015}.json", minute.as_millis())
}

/// The minute of a snapshot.
pub fn snapshot_at(name: &str) -> Option<Timestamp> {
    let file = name.rsplit('/').next()?.strip_suffix(".json")?;
    file.parse().ok().map(Timestamp::from_millis)
}

/// The documents of a kind.
pub fn documents(kind: &Name) -> String {
    format!("{DOCUMENTS}/{}", hex(kind.as_str().as_bytes()))
}

/// The bytes of a document's name that its object shows.
const SHOWN: usize = 200;

/// A document.
pub fn document(kind: &Name, name: &str) -> String {
    let directory = documents(kind);
    match name.len() <= SHOWN {
        true => format!("{directory}/{}.json", hex(name.as_bytes())),
        false => format!(
            "{directory}/{}-{}.json",
            hex(&name.as_bytes()[..SHOWN]),
            short(name)
        ),
    }
}

/// The directory of a feed.
pub fn feed(name: &str) -> String {
    format!("{FEEDS}/{}", short(name))
}

/// The newest entries of a feed.
pub fn feed_head(name: &str) -> String {
    format!("{}/head.json", feed(name))
}

/// A full page of a feed.
pub fn feed_page(name: &str, first: i64, nonce: u64) -> String {
    format!("{}/{first:019}-{nonce:016x}.json", feed(name))
}

/// The directory of waiting jobs of one task in one queue.
pub fn lane(queue: &Name, task: &Name) -> String {
    format!("{}.{}", short(queue.as_str()), short(task.as_str()))
}

/// A lease entry. Entries sort by the moment they are about.
pub fn lease(until: Timestamp, token: &str) -> String {
    format!("{LEASES}/{:015}-{token}.json", until.as_millis().max(0))
}

/// The moment a lease entry is about.
pub fn lease_until(name: &str) -> Option<Timestamp> {
    let (_, file) = name.split_once('/')?;
    let (until, _) = file.split_once('-')?;
    until.parse().ok().map(Timestamp::from_millis)
}

/// The place of a waiting job in the index.
pub fn hint(cell: &str, record: &Record) -> String {
    let Life { priority, run_at, .. } = &record.life;
    format!(
        "{READY}/{}/{:03}/{:015}-{}-{}.{}.{}",
        lane(&record.spec.queue, &record.spec.task),
        100 - i32::from(*priority),
        run_at.as_millis().max(0),
        record.arrival,
        token_text(&record.spec.id),
        record.placement,
        cell_word(cell),
    )
}

/// Bits of a placement that are drawn.
const DRAWN: u32 = 24;

/// The next place of a job in the index. Part of it is drawn: two who write the same job at the same time, or one who
/// tries twice, advertise it under different names, so that whoever has lost can take back his own and nobody else's.
pub fn next_placement(placement: u64, drawn: u64) -> u64 {
    (nth_place(placement) + 1) << DRAWN | (drawn & ((1 << DRAWN) - 1))
}

/// How many places a job has had in the index.
pub fn nth_place(placement: u64) -> u64 {
    placement >> DRAWN
}

/// The token of an id, as it is written.
fn token_text(id: &JobId) -> &str {
    id.as_str()
        .split_once('.')
        .map_or(id.as_str(), |(token, _)| token)
}

/// A cell as part of the name of a hint.
fn cell_word(cell: &str) -> String {
    let file = cell.rsplit('/').next().unwrap_or(cell);
    let file = file.strip_suffix(".json").unwrap_or(file);
    let kind = if cell.starts_with(KEYS) { 'k' } else { 't' };
    format!("{kind}{file}")
}

/// A hint, taken apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hint {
    /// Smaller is better.
    pub band: u16,
    /// Not before.
    pub run_at: Timestamp,
    /// What breaks ties.
    pub arrival: Arrival,
    /// The job.
    pub id: JobId,
    /// Which of its places in the index, and which try at it.
    pub placement: u64,
    /// Where the job is.
    pub cell: String,
    /// The whole name.
    pub name: String,
    /// When it was written, in seconds, as the server says.
    pub written: i64,
}

impl Hint {
    /// Reads the name of a hint.
    pub fn parse(name: &str) -> Option<Hint> {
        let mut parts = name.split('/').skip(2);
        let (band, file) = (parts.next()?, parts.next()?);
        let (run_at, rest) = file.split_once('-')?;
        let (arrival, rest) = rest.split_once('-')?;
        let mut words = rest.split('.');
        let (token, placement, cell) = (words.next()?, words.next()?, words.next()?);
        let (kind, file) = cell.split_at_checked(1)?;
        let digest: Option<Digest> = match kind {
            "k" => Some(file.parse().ok()?),
            _ => None,
        };
        let cell = match digest {
            Some(digest) => key_cell(digest),
            None => task(&file.parse::<Token>().ok()?.to_string()),
        };
        Some(Hint {
            band: band.parse().ok()?,
            run_at: Timestamp::from_millis(run_at.parse().ok()?),
            arrival: Arrival::parse(arrival)?,
            id: job_id(token.parse().ok()?, digest),
            placement: placement.parse().ok()?,
            cell,
            name: name.to_owned(),
            written: 0,
        })
    }
}

/// A name after every name of a band: those begin with digits.
pub fn after_band(lane: &str, band: u16) -> String {
    format!("{READY}/{lane}/{band:03}/z")
}
