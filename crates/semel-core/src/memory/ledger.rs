//! The ledger of absorbed submissions (contract 2.12), and what is known of each key beside its jobs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::canonical::{self, Limits};
use crate::dedup::Key;
use crate::ids::{Digest, JobId, Token};
use crate::job::Outcome;
use crate::json::Json;
use crate::limits;
use crate::memory::record::Record;
use crate::submission::Prepared;
use crate::time::Timestamp;
use crate::view::LedgerEntry;

/// Absorbed submissions by number and by token, with exact totals per key.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    entries: BTreeMap<i64, Entry>,
    tokens: HashMap<Token, i64>,
    keys: HashMap<Digest, Traces>,
    /// Keys with more entries than are kept.
    crowded: BTreeSet<Digest>,
    last: i64,
}

#[derive(Clone, Debug)]
struct Entry {
    view: LedgerEntry,
    token: Token,
}

/// What is left of a key.
#[derive(Clone, Debug, Default)]
struct Traces {
    jobs: usize,
    entries: BTreeSet<i64>,
    absorbed: i64,
}

/// What became of an absorbed submission.
pub(super) struct Absorbed<'a> {
    pub(super) prepared: &'a Prepared,
    pub(super) outcome: Outcome,
    /// The job that blocked it or took it in.
    pub(super) holder: &'a JobId,
    pub(super) differs: Difference,
    /// Whether the token leads here. Not where it names a job of its own: that one answers for it.
    pub(super) by_token: bool,
}

/// How the input of a submission differs from that of the job it met.
#[derive(Clone, Debug, Default)]
pub(super) struct Difference {
    pub(super) pointers: Vec<String>,
    pub(super) any: bool,
}

impl Difference {
    /// Compares a submission with the job it met, as that job was before.
    pub(super) fn between(met: &Record, key: &Key, input: &Json) -> Self {
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

impl Ledger {
    /// Writes an entry; the caller has made sure that the submission has a key.
    pub(super) fn write(&mut self, absorbed: Absorbed<'_>, now: Timestamp) {
        let Absorbed {
            prepared,
            outcome,
            holder,
            differs,
            by_token,
        } = absorbed;
        let Some((key, policy)) = prepared.key.as_ref().zip(prepared.policy()) else {
            return;
        };
        let submission = &prepared.submission;
        let input = &submission.content.input;
        self.last += 1;
        let view = LedgerEntry {
            n: self.last,
            at: now,
            outcome,
            digest: key.digest,
            holder: holder.clone(),
            task: submission.task.clone(),
            queue: submission.queue.clone(),
            producer: submission.producer.clone(),
            policy: policy.on_duplicate.word().to_owned(),
            differs: differs.pointers,
            input: (differs.any && input.as_str().len() <= limits::LEDGER_INPUT_BYTES).then(|| input.clone()),
        };
        let traces = self.keys.entry(key.digest).or_default();
        traces.absorbed += 1;
        traces.entries.insert(self.last);
        if traces.entries.len() > limits::LEDGER_PER_KEY {
            self.crowded.insert(key.digest);
        }
        if by_token {
            self.tokens.insert(submission.token, self.last);
        }
        self.entries.insert(
            self.last,
            Entry {
                view,
                token: submission.token,
            },
        );
    }

    pub(super) fn by_token(&self, token: Token) -> Option<&LedgerEntry> {
        let n = self.tokens.get(&token)?;
        self.entries.get(n).map(|entry| &entry.view)
    }

    /// Entries before a place, newest first.
    pub(super) fn before(&self, position: Option<i64>) -> impl Iterator<Item = &LedgerEntry> {
        self.entries
            .range(..position.unwrap_or(i64::MAX))
            .rev()
            .map(|(_, entry)| &entry.view)
    }

    /// How many submissions a key has absorbed, ever.
    pub(super) fn absorbed(&self, digest: Digest) -> i64 {
        self.keys.get(&digest).map_or(0, |traces| traces.absorbed)
    }

    /// Keys that have absorbed fewer submissions than the ledger shows; there are none.
    pub(super) fn wrong_totals(&self) -> impl Iterator<Item = Digest> {
        let wrong = |traces: &Traces| (traces.absorbed as u64) < traces.entries.len() as u64;
        self.keys
            .iter()
            .filter(move |(_, traces)| wrong(traces))
            .map(|(digest, _)| *digest)
    }

    pub(super) fn job_came(&mut self, digest: Digest) {
        self.keys.entry(digest).or_default().jobs += 1;
    }

    pub(super) fn job_went(&mut self, digest: Digest) {
        if let Some(traces) = self.keys.get_mut(&digest) {
            traces.jobs = traces.jobs.saturating_sub(1);
            self.forget_if_bare(digest);
        }
    }

    /// Removes entries that are too old or too many, oldest first; says how many.
    pub(super) fn prune(&mut self, written_until: Timestamp, most: usize) -> usize {
        let mut pruned = 0;
        while pruned < most
            && let Some(n) = self.surplus(written_until)
        {
            self.erase(n);
            pruned += 1;
        }
        pruned
    }

    fn surplus(&mut self, written_until: Timestamp) -> Option<i64> {
        let (n, oldest) = self.entries.first_key_value()?;
        if oldest.view.at <= written_until || self.entries.len() > limits::LEDGER_PER_STORE {
            return Some(*n);
        }
        while let Some(digest) = self.crowded.first() {
            let entries = self.keys.get(digest).map(|traces| &traces.entries);
            if let Some(entries) = entries.filter(|entries| entries.len() > limits::LEDGER_PER_KEY) {
                return entries.first().copied();
            }
            self.crowded.pop_first();
        }
        None
    }

    fn erase(&mut self, n: i64) {
        let Some(entry) = self.entries.remove(&n) else {
            return;
        };
        if self.tokens.get(&entry.token) == Some(&n) {
            self.tokens.remove(&entry.token);
        }
        if let Some(traces) = self.keys.get_mut(&entry.view.digest) {
            traces.entries.remove(&n);
            self.forget_if_bare(entry.view.digest);
        }
    }

    /// The total of a key goes when neither a job nor an entry knows the key any more.
    fn forget_if_bare(&mut self, digest: Digest) {
        if self.keys.get(&digest).is_some_and(Traces::is_bare) {
            self.keys.remove(&digest);
        }
    }
}

impl Traces {
    fn is_bare(&self) -> bool {
        self.jobs == 0 && self.entries.is_empty()
    }
}
