//! Every name in Redis, and how jobs are found by their id.
//!
//! All keys of a shard carry the hash tag `{<namespace>/<shards>/<shard>}`, so that one script touches one slot.
//! Nothing a client sends becomes part of a name but the namespace, escaped, and digests in hex.

use std::fmt::Write as _;

use sha2::Digest as _;

use semel_core::ids::{Digest, JobId, Name, Token};
use semel_core::time::Timestamp;

use crate::name::{Layout, Named, Trail};

/// A job within its shard: the sixteen bytes of the token it was submitted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub [u8; 16]);

impl From<Token> for Id {
    fn from(token: Token) -> Self {
        Id(*token.as_bytes())
    }
}

impl Id {
    /// When the token was made, in the producer's opinion. Whatever it says, a moment beside it takes few bytes only if
    /// it is close.
    pub fn made_at(&self) -> Timestamp {
        let millis = self.0[..6]
            .iter()
            .fold(0, |sum, byte| sum << 8 | i64::from(*byte));
        Timestamp::from_millis(millis)
    }
}

/// Jobs in one chunk of the order of arrival: few enough for Redis to pack them into one node, and for a byte to tell
/// them apart.
const CHUNK: i64 = 256;
/// Ledger entries in one hash.
pub const PAGE: i64 = 256;
/// The length of time whose lapsing keys are counted together.
pub const LAPSE_SPAN: i64 = 3_600_000;
/// Hashes that the owners of keys are spread over, in all shards together. With few, each is long, and a new key costs
/// what its length does; with many, their names take more room than the owners.
const OWNER_HASHES: usize = 1 << 14;
/// But at least so many in a shard.
const OWNER_HASHES_OF_A_SHARD: usize = 1 << 8;

/// The names of one shard.
#[derive(Clone, Debug)]
pub struct Keys {
    prefix: String,
    layout: Layout,
    shard: usize,
    /// Which bits of a digest say where its owner is.
    owners: u16,
}

impl Keys {
    /// The names of a shard of a namespace.
    pub fn new(namespace: &Name, layout: impl Into<Layout>, shard: usize) -> Self {
        let layout = layout.into();
        let (namespace, tag) = (escaped(namespace.as_str()), layout.tag());
        Keys {
            prefix: format!("semel:{{{namespace}/{tag}/{shard}}}:"),
            layout,
            shard,
            owners: owners_of(layout.shards),
        }
    }

    /// What all names of a layout match, in the notation of `SCAN`.
    pub fn of_layout(namespace: &Name, layout: Layout) -> String {
        let (namespace, tag) = (escaped(namespace.as_str()), layout.tag());
        format!("semel:{{{namespace}/{tag}/*}}:*")
    }

    /// Where a namespace keeps the number of shards it was made with.
    pub fn layout(namespace: &Name) -> String {
        format!("semel:{{{}}}:layout", escaped(namespace.as_str()))
    }

    /// What all names of the shard begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    fn name(&self, rest: &str) -> String {
        let mut name = String::with_capacity(self.prefix.len() + rest.len());
        name.push_str(&self.prefix);
        name.push_str(rest);
        name
    }

    /// The id of a job as anyone sees it: where there are several shards it says which one.
    pub fn job_id(&self, id: &Id) -> JobId {
        self.id_of(&Trail::default(), id)
    }

    /// The id of a job with this trail, or of one it is related to: all of them are named alike.
    pub fn id_of(&self, trail: &Trail, id: &Id) -> JobId {
        self.named(trail).name(id)
    }

    /// How a job with this trail is named.
    pub fn named(&self, trail: &Trail) -> Named {
        trail.named.unwrap_or_else(|| self.layout.names(self.shard))
    }

    /// Numbers of the shard: `config`, `seq`, `ledger`, `entries`, `document`, `since`, `sweep`; `packed_to`, the moment of
    /// the last pack in an order of dispatch; `admitting`, how many jobs are in `left_out`.
    pub fn meta(&self) -> String {
        self.name("meta")
    }

    /// What one handle has applied last.
    pub fn applied(&self, handle: &str) -> String {
        self.name(&format!("applied:{handle}"))
    }

    /// Two names that nothing is ever kept under.
    pub fn probes(&self) -> [String; 2] {
        [self.name("probe"), self.name("probe_copy")]
    }

    /// The channel on which changes are told.
    pub fn channel(&self) -> String {
        self.name("changes")
    }

    /// Counters and numbers of jobs: `<lane>.c<counter>`, `<lane>.p<phase>`, `<lane>.h` keys held, `<lane>.b` accepted and
    /// waiting, `<lane>.k` the same and a key held, `g.…` guards. What several say is to be added up. They are beside the
    /// other numbers, so that one write draws a number of arrival and counts a job.
    pub fn counts(&self) -> String {
        self.meta()
    }

    /// The counters as they were at the last reset.
    pub fn baseline(&self) -> String {
        self.name("baseline")
    }

    /// Counters by minute.
    pub fn snapshots(&self) -> String {
        self.name("snapshots")
    }

    /// Keys that lapse by themselves, counted by lane and span.
    pub fn lapses(&self) -> String {
        self.name("lapses")
    }

    /// The same of one span, by lane and moment.
    pub fn lapse(&self, span: i64) -> String {
        self.name(&format!("lapse:{span}"))
    }

    /// The list of lanes; the place of a lane is its number.
    pub fn lanes(&self) -> String {
        self.name("lanes")
    }

    /// Lanes whose queue was removed: number to state of the sweep.
    pub fn gone(&self) -> String {
        self.name("gone")
    }

    /// Settings by target.
    pub fn settings(&self) -> String {
        self.name("settings")
    }

    /// Which lanes and priorities have waiting jobs.
    pub fn places(&self) -> String {
        self.name("places")
    }

    /// Waiting jobs of a lane and a priority, by run_at, then arrival; `pack.rs` says what a member is.
    pub fn ready(&self, lane: u32, priority: i8) -> String {
        self.name(&format!("ready:{lane}:{priority}"))
    }

    /// Running jobs by the end of their lease.
    pub fn leases(&self) -> String {
        self.name("leases")
    }

    /// What each claim was given, by token.
    pub fn claims(&self) -> String {
        self.name("claims")
    }

    /// Claims by when they may be forgotten.
    pub fn claims_due(&self) -> String {
        self.name("claims_due")
    }

    /// Jobs that ended, by when: complete, or failed and cancelled.
    pub fn ended(&self, complete: bool) -> String {
        self.name(if complete {
            "ended:complete"
        } else {
            "ended:failed"
        })
    }

    /// Jobs that were completed in the common way, those that ended together with their moment in front: a list, which
    /// costs a sixth of a sorted set. Those that are gone or ended otherwise since stay in it until their time has come.
    pub fn completed(&self) -> String {
        self.name("completed")
    }

    /// Jobs kept for their key only, by when it is free.
    pub fn stubs(&self) -> String {
        self.name("stubs")
    }

    /// Jobs in a phase that few jobs are in, by arrival.
    pub fn rare(&self, phase: usize) -> String {
        self.name(&format!("phase:{phase}"))
    }

    /// A list of jobs by arrival, each with its place in the chunk in front, in one byte. Of those that came together
    /// there is one entry, as in a pack: for each two bytes of its number, and its id.
    pub fn order(&self, chunk: i64) -> String {
        self.name(&format!("order:{chunk}"))
    }

    /// The chunk of an arrival.
    pub fn chunk(seq: i64) -> i64 {
        seq / CHUNK
    }

    /// The arrival at a place of a chunk.
    pub fn arrival(chunk: i64, place: u8) -> i64 {
        chunk * CHUNK + i64::from(place)
    }

    /// Chunks that have jobs.
    pub fn chunks(&self) -> String {
        self.name("chunks")
    }

    /// How jobs fare.
    pub fn heads(&self) -> String {
        self.name("heads")
    }

    /// What jobs are. There always is an empty field, too: while jobs are admitted it matters that there is this hash.
    pub fn specs(&self) -> String {
        self.name("specs")
    }

    /// The same while new ones are written (`lua/submit.lua`): nothing is kept under this name.
    pub fn incoming(&self) -> String {
        self.name("incoming")
    }

    /// Those of the new ones that are not to be: within a transaction only, unless its end is refused.
    pub fn left_out(&self) -> String {
        self.name("left_out")
    }

    /// All that new records are written with: `meta`, `specs`, `incoming`, `left_out`.
    pub fn records(&self) -> [String; 4] {
        [self.meta(), self.specs(), self.incoming(), self.left_out()]
    }

    /// What jobs gave.
    pub fn outputs(&self) -> String {
        self.name("outputs")
    }

    /// What went wrong last.
    pub fn errors(&self) -> String {
        self.name("errors")
    }

    /// How far jobs are.
    pub fn progress(&self) -> String {
        self.name("progress")
    }

    /// Deliveries of a job that ended, but for the one that completed it.
    pub fn attempts(&self, id: &Id) -> String {
        self.name(&format!("attempts:{}", hex(&id.0)))
    }

    /// Newest owners of keys: small hashes, which Redis packs tightly for as long as one has no more than 512, which is
    /// eight million keys in all.
    pub fn owners(&self, digest: &Digest) -> String {
        let [first, second, ..] = *digest.as_bytes();
        let [high, low] = (u16::from_be_bytes([first, second]) & self.owners).to_be_bytes();
        let mut name = String::with_capacity(self.prefix.len() + 8);
        name.push_str(&self.prefix);
        name.push_str("key:");
        push_hex(&mut name, high);
        push_hex(&mut name, low);
        name
    }

    /// What a key is called among them: half of its digest, which is as good as all of it.
    pub fn owned(digest: &Digest) -> [u8; 16] {
        let (half, _) = digest.as_bytes().split_at(16);
        half.try_into().expect("half of a digest")
    }

    /// Other jobs of a key: by generation; those that never took it by their negated arrival.
    pub fn kin(&self, digest: &Digest) -> String {
        self.name(&format!("kin:{digest}"))
    }

    /// Holders of hybrid keys by their fields.
    pub fn groups(&self, digest: &Digest) -> String {
        self.name(&format!("group:{}", hex(&digest.as_bytes()[..2])))
    }

    /// Followers by the job they follow.
    pub fn followers(&self) -> String {
        self.name("followers")
    }

    /// Ledger entries by the token of the submission.
    pub fn tokens(&self) -> String {
        self.name("tokens")
    }

    /// A page of the ledger.
    pub fn ledger(&self, page: i64) -> String {
        self.name(&format!("ledger:{page}"))
    }

    /// Entries of one key, oldest first.
    pub fn ledger_of(&self, digest: &Digest) -> String {
        self.name(&format!("ledger_of:{digest}"))
    }

    /// The page of an entry.
    pub fn page(n: i64) -> i64 {
        n / PAGE
    }

    /// Pages that have entries.
    pub fn ledger_pages(&self) -> String {
        self.name("ledger_pages")
    }

    /// Keys with new entries, to be thinned out.
    pub fn touched(&self) -> String {
        self.name("touched")
    }

    /// How many submissions keys have absorbed of which nothing is in the ledger any more.
    pub fn absorbed(&self, digest: &Digest) -> String {
        self.name(&format!("absorbed:{}", hex(&digest.as_bytes()[..2])))
    }

    /// The steps of a chain.
    pub fn steps(&self, origin: &Id) -> String {
        self.name(&format!("steps:{}", hex(&origin.0)))
    }

    /// Steps that were begun and not ended, by when.
    pub fn begun(&self) -> String {
        self.name("begun")
    }

    /// Replays of a chain by arrival.
    pub fn chain(&self, origin: &Id) -> String {
        self.name(&format!("chain:{}", hex(&origin.0)))
    }

    /// Guarded keys.
    pub fn guards(&self, digest: &Digest) -> String {
        self.name(&format!("guard:{}", hex(&digest.as_bytes()[..2])))
    }

    /// Guarded keys by when they lapse.
    pub fn guards_due(&self) -> String {
        self.name("guards_due")
    }

    /// Documents of a kind.
    pub fn documents(&self, kind: &Name) -> String {
        self.name(&format!("documents:{}", digest_of(kind.as_str())))
    }

    /// Names of the documents of a kind, in order.
    pub fn document_names(&self, kind: &Name) -> String {
        self.name(&format!("document_names:{}", digest_of(kind.as_str())))
    }

    /// Documents by when they disappear.
    pub fn documents_due(&self) -> String {
        self.name("documents_due")
    }

    /// The last number of each feed.
    pub fn feeds(&self) -> String {
        self.name("feeds")
    }

    /// The entries of a feed.
    pub fn feed(&self, feed: &str) -> String {
        self.name(&format!("feed:{}", digest_of(feed)))
    }
}

/// What all names of a namespace match, whatever its number of shards, in the notation of `SCAN`.
pub fn patterns(namespace: &Name) -> [String; 2] {
    let namespace = escaped(namespace.as_str());
    [
        format!("semel:{{{namespace}}}:*"),
        format!("semel:{{{namespace}/*}}:*"),
    ]
}

/// The bits of a digest that name the hash of its owner.
fn owners_of(shards: usize) -> u16 {
    let hashes = OWNER_HASHES / shards.clamp(1, OWNER_HASHES).next_power_of_two();
    let last = hashes.max(OWNER_HASHES_OF_A_SHARD) - 1;
    u16::try_from(last).expect("fewer hashes than two bytes can name")
}

/// What the names under which owners of keys are kept match.
pub fn owners_pattern(namespace: &Name) -> String {
    format!("semel:{{{}/*}}:key:*", escaped(namespace.as_str()))
}

/// Bytes as hex digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            push_hex(&mut text, *byte);
            text
        })
}

fn push_hex(text: &mut String, byte: u8) {
    for half in [byte >> 4, byte & 15] {
        text.push(char::from_digit(u32::from(half), 16).expect("a hex digit"));
    }
}

fn digest_of(text: &str) -> String {
    hex(&sha2::Sha256::digest(text.as_bytes()))
}

/// Letters, digits, `-` and `_` as they are, everything else as `%` and hex: no brace gets into a hash tag.
fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut name, byte| {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            name.push(char::from(byte));
        } else {
            let _ = write!(name, "%{byte:02x}");
        }
        name
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_cannot_break_out_of_its_hash_tag() {
        let keys = Keys::new(&Name::new("a}b{c d").unwrap(), 1, 0);
        assert_eq!(keys.meta(), "semel:{a%7db%7bc%20d/1/0}:meta");
    }

    #[test]
    fn owners_are_spread_over_as_many_hashes_whatever_the_number_of_shards() {
        assert_eq!(
            [1, 2, 3, 64, 1_000].map(owners_of),
            [0x3fff, 0x1fff, 0xfff, 0xff, 0xff]
        );
        let digest = Digest::from_bytes([0xab; 32]);
        let name = Name::new("app").unwrap();
        assert_eq!(Keys::new(&name, 1, 0).owners(&digest), "semel:{app/1/0}:key:2bab");
        assert_eq!(
            Keys::new(&name, 64, 7).owners(&digest),
            "semel:{app/64/7}:key:00ab"
        );
    }
}
