//! What a row of the ledger holds: entries one after another, each as short as the one before it allows.

use semel_core::ids::Digest;
use semel_core::job::Outcome;

use crate::rows;

/// An absorbed submission, as it stands in its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed<'a> {
    /// Its number.
    pub n: i64,
    /// Its token.
    pub token: [u8; 16],
    /// What it was answered.
    pub outcome: Outcome,
    /// Its key.
    pub digest: Digest,
    /// The job it was answered with.
    pub holder: [u8; 16],
    /// What it asked for.
    pub words: Words<'a>,
    /// Where its input differed, as JSON.
    pub differs: Option<&'a str>,
    /// Its input, if that differed.
    pub input: Option<&'a str>,
    /// A job was made for it: its token leads there, and nowhere once that job is gone.
    pub made_a_job: bool,
}

/// What most entries of a row have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words<'a> {
    /// Its queue.
    pub queue: &'a str,
    /// Its task.
    pub task: &'a str,
    /// Who submitted it.
    pub producer: Option<&'a str>,
    /// What it asked for on a duplicate.
    pub policy: &'a str,
}

/// The first byte of an entry: three bits for the outcome, then flags.
const OUTCOME: u8 = 7;
const SAME_WORDS: u8 = 8;
const SAME_KEY: u8 = 16;
const DIFFERS: u8 = 32;
const INPUT: u8 = 64;
const MADE_A_JOB: u8 = 128;

/// A row that is being filled.
#[derive(Default)]
pub struct Packer {
    first: i64,
    last: i64,
    bytes: Vec<u8>,
    words: Vec<u8>,
    said: Vec<u8>,
    key: Option<(Digest, [u8; 16])>,
}

impl Packer {
    /// Appends an entry; its number is higher than those before.
    pub fn push(&mut self, entry: &Packed<'_>) {
        if self.bytes.is_empty() {
            (self.first, self.last) = (entry.n, entry.n);
        }
        self.said.clear();
        push_words(&mut self.said, &entry.words);
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let same_words = !self.bytes.is_empty() && self.said == self.words;
        let same_key = self.key == Some((entry.digest, entry.holder));
        self.bytes.push(
            rows::outcome_number(entry.outcome) as u8
                | flag(same_words, SAME_WORDS)
                | flag(same_key, SAME_KEY)
                | flag(entry.differs.is_some(), DIFFERS)
                | flag(entry.input.is_some(), INPUT)
                | flag(entry.made_a_job, MADE_A_JOB),
        );
        rows::push_number(&mut self.bytes, entry.n - self.last);
        self.last = entry.n;
        self.bytes.extend_from_slice(&entry.token);
        if !same_key {
            self.bytes.extend_from_slice(entry.digest.as_bytes());
            self.bytes.extend_from_slice(&entry.holder);
            self.key = Some((entry.digest, entry.holder));
        }
        if !same_words {
            self.bytes.extend_from_slice(&self.said);
            std::mem::swap(&mut self.words, &mut self.said);
        }
        for text in [entry.differs, entry.input].into_iter().flatten() {
            push_text(&mut self.bytes, text);
        }
    }

    /// How long it is.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The number of its first entry and its bytes; none if it has no entry.
    pub fn row(&self) -> Option<(i64, &[u8])> {
        (!self.bytes.is_empty()).then_some((self.first, &self.bytes[..]))
    }

    /// The number of its last entry.
    pub fn last(&self) -> i64 {
        self.last
    }

    /// Begins another row.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.key = None;
    }
}

/// The entries of a row, and whether that was all of it: a damaged row ends early.
pub fn unpack(first: i64, bytes: &[u8]) -> (Vec<Packed<'_>>, bool) {
    let mut entries = Vec::with_capacity(bytes.len() / 64);
    let (mut rest, mut last) = (bytes, first);
    while !rest.is_empty() {
        let Some(entry) = take(&mut rest, last, entries.last()) else {
            return (entries, false);
        };
        last = entry.n;
        entries.push(entry);
    }
    (entries, true)
}

fn take<'a>(bytes: &mut &'a [u8], last: i64, before: Option<&Packed<'a>>) -> Option<Packed<'a>> {
    let flags = take_array::<1>(bytes)?[0];
    let n = last.checked_add(rows::take_number(bytes)?)?;
    let token = take_array(bytes)?;
    let (digest, holder) = if flags & SAME_KEY != 0 {
        before.map(|before| (before.digest, before.holder))?
    } else {
        (Digest::from_bytes(take_array(bytes)?), take_array(bytes)?)
    };
    let words = if flags & SAME_WORDS != 0 {
        before?.words
    } else {
        take_words(bytes)?
    };
    Some(Packed {
        n,
        token,
        outcome: *rows::OUTCOMES.get(usize::from(flags & OUTCOME))?,
        digest,
        holder,
        words,
        differs: optional(bytes, flags & DIFFERS != 0)?,
        input: optional(bytes, flags & INPUT != 0)?,
        made_a_job: flags & MADE_A_JOB != 0,
    })
}

fn push_words(bytes: &mut Vec<u8>, words: &Words<'_>) {
    push_text(bytes, words.queue);
    push_text(bytes, words.task);
    push_text(bytes, words.policy);
    bytes.push(u8::from(words.producer.is_some()));
    if let Some(producer) = words.producer {
        push_text(bytes, producer);
    }
}

fn take_words<'a>(bytes: &mut &'a [u8]) -> Option<Words<'a>> {
    let (queue, task, policy) = (take_text(bytes)?, take_text(bytes)?, take_text(bytes)?);
    let has_producer = take_array::<1>(bytes)?[0] != 0;
    let producer = optional(bytes, has_producer)?;
    Some(Words {
        queue,
        task,
        producer,
        policy,
    })
}

fn push_text(bytes: &mut Vec<u8>, text: &str) {
    rows::push_number(bytes, text.len() as i64);
    bytes.extend_from_slice(text.as_bytes());
}

fn take_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let length = usize::try_from(rows::take_number(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    std::str::from_utf8(text).ok()
}

/// A text where there is one: the outer option says whether it could be read.
fn optional<'a>(bytes: &mut &'a [u8], there: bool) -> Option<Option<&'a str>> {
    if there {
        take_text(bytes).map(Some)
    } else {
        Some(None)
    }
}

fn take_array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*array)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: Words<'static> = Words {
        queue: "q",
        task: "t",
        producer: None,
        policy: "use_existing",
    };

    fn entry(n: i64, key: u8, words: Words<'static>) -> Packed<'static> {
        Packed {
            n,
            token: [n as u8; 16],
            outcome: Outcome::Duplicate,
            digest: Digest::from_bytes([key; 32]),
            holder: [key; 16],
            words,
            differs: None,
            input: None,
            made_a_job: false,
        }
    }

    fn entries() -> Vec<Packed<'static>> {
        let named = Words {
            producer: Some("p"),
            policy: "",
            ..WORDS
        };
        let other = Packed {
            outcome: Outcome::Conflict,
            differs: Some(r#"["/a"]"#),
            input: Some("{}"),
            ..entry(9, 2, named)
        };
        vec![
            entry(5, 1, WORDS),
            entry(6, 1, WORDS),
            entry(8, 2, WORDS),
            other,
            Packed {
                outcome: Outcome::Deferred,
                made_a_job: true,
                ..entry(900, 1, named)
            },
        ]
    }

    fn packed(entries: &[Packed<'_>]) -> Packer {
        let mut packer = Packer::default();
        entries.iter().for_each(|entry| packer.push(entry));
        packer
    }

    #[test]
    fn entries_come_back_as_they_were() {
        let packer = packed(&entries());
        let (first, bytes) = packer.row().expect("a row");
        assert_eq!((first, packer.last()), (5, 900));
        assert_eq!(unpack(first, bytes), (entries(), true));
    }

    #[test]
    fn a_row_begun_anew_knows_nothing_of_the_one_before() {
        let mut packer = packed(&entries());
        packer.clear();
        assert!(packer.row().is_none());
        packer.push(&entry(901, 1, WORDS));
        let (first, bytes) = packer.row().expect("a row");
        assert_eq!(unpack(first, bytes), (vec![entry(901, 1, WORDS)], true));
    }

    #[test]
    fn a_damaged_row_ends_where_it_is_damaged() {
        let packer = packed(&entries());
        let (first, bytes) = packer.row().expect("a row");
        for length in 0..bytes.len() {
            let (found, whole) = unpack(first, &bytes[..length]);
            assert_eq!(found, entries()[..found.len()]);
            assert!(!whole || found.len() < entries().len());
        }
    }
}
