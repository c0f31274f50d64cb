//! Playing a log against the disk model described at the crate's root.

use std::collections::{BTreeMap, BTreeSet};

use crate::image::Image;
use crate::log::{Entry, Event, Survive};
use crate::rng::Rng;

/// The unit that a disk writes whole or not at all.
const SECTOR: u64 = 512;

/// The disk while a log is played: per file what is certain, and what is not yet.
#[derive(Default)]
pub(crate) struct Disk<'a> {
    files: BTreeMap<String, File<'a>>,
}

impl<'a> Disk<'a> {
    /// A disk on which the files of `base` are certain.
    pub(crate) fn new(base: &BTreeMap<String, Vec<u8>>) -> Self {
        let files = base
            .iter()
            .map(|(name, bytes)| (name.clone(), File::existing(bytes.clone())));
        Self {
            files: files.collect(),
        }
    }

    /// Takes in the next event.
    pub(crate) fn play(&mut self, entry: &'a Entry) {
        match &entry.event {
            Event::Mark(_) => {}
            Event::Sync { file, covers } => self.sync(file, *covers),
            Event::Delete { file, dir_synced } => {
                self.file(file).pending.push(entry);
                if *dir_synced {
                    self.sync_names(entry.seq + 1);
                }
            }
            Event::Create { file } | Event::Write { file, .. } | Event::Truncate { file, .. } => {
                self.file(file).pending.push(entry);
            }
        }
    }

    /// The power goes: decides about everything that is not certain.
    pub(crate) fn cut(self, survive: Survive, seed: u64) -> Image {
        let mut rng = Rng::new(seed);
        // With even odds for every sector hardly any WAL frame (nine sectors) would survive whole;
        // so images range from "almost nothing arrived" to "almost everything did".
        let odds = [4, 16, 28, 31][(rng.next() % 4) as usize];
        let settled = self.files.into_iter().filter_map(|(name, mut file)| {
            match survive {
                Survive::None => {}
                Survive::All => file.settle(u64::MAX),
                Survive::Random => file.gamble(&mut rng, odds),
            }
            file.content.map(|bytes| (name, bytes))
        });
        Image::new(settled.collect())
    }

    fn file(&mut self, name: &str) -> &mut File<'a> {
        self.files.entry(name.to_owned()).or_default()
    }

    fn sync(&mut self, name: &str, covers: u64) {
        let is_new = |e: &&Entry| e.seq < covers && matches!(e.event, Event::Create { .. });
        let file = self.file(name);
        let new = file.pending.iter().any(is_new);
        file.settle(covers);
        if new {
            self.sync_names(covers);
        }
    }

    /// The directory is synced: names, but not contents, become certain.
    fn sync_names(&mut self, covers: u64) {
        for file in self.files.values_mut() {
            file.settle_name(covers);
        }
    }
}

/// One name in the directory, and the file it leads to.
#[derive(Default)]
struct File<'a> {
    /// What is found under the name if the power goes now and nothing pending survives.
    content: Option<Vec<u8>>,
    /// Whether `content` is the file that the events being applied speak of. After a deletion,
    /// or when a creation was lost, it is not, and writes must not land in it.
    linked: bool,
    /// What is not certain yet, in order.
    pending: Vec<&'a Entry>,
}

impl<'a> File<'a> {
    fn existing(bytes: Vec<u8>) -> Self {
        Self {
            content: Some(bytes),
            linked: true,
            pending: Vec::new(),
        }
    }

    /// Makes everything below `covers` certain.
    fn settle(&mut self, covers: u64) {
        for entry in self.take_below(covers) {
            self.apply(&entry.event);
        }
    }

    /// Makes the last naming event below `covers` certain.
    ///
    /// What was pending before it concerned a file that the name no longer leads to.
    fn settle_name(&mut self, covers: u64) {
        let naming = |e: &&Entry| matches!(e.event, Event::Create { .. } | Event::Delete { .. });
        let last = self.pending.iter().rposition(|e| e.seq < covers && naming(e));
        if let Some(last) = last {
            let event = &self.pending[last].event;
            self.apply(event);
            self.pending.drain(..=last);
        }
    }

    fn take_below(&mut self, covers: u64) -> Vec<&'a Entry> {
        let split = self.pending.partition_point(|e| e.seq < covers);
        let rest = self.pending.split_off(split);
        std::mem::replace(&mut self.pending, rest)
    }

    /// Applies one event in full.
    fn apply(&mut self, event: &Event) {
        match event {
            Event::Create { .. } => (self.content, self.linked) = (Some(Vec::new()), true),
            Event::Delete { .. } => (self.content, self.linked) = (None, false),
            Event::Write { offset, data, .. } => self.put(*offset, data),
            Event::Truncate { size, .. } => self.resize(*size),
            Event::Sync { .. } | Event::Mark(_) => {}
        }
    }

    /// Lets each pending change survive with odds of `odds` in 32.
    fn gamble(&mut self, rng: &mut Rng, odds: u64) {
        let mut lost = BTreeSet::new();
        let mut live_len = self.len();
        for entry in self.take_below(u64::MAX) {
            match &entry.event {
                Event::Write { offset, data, .. } => {
                    self.tear(*offset, data, &mut lost, rng, odds);
                    live_len = live_len.max(offset + data.len() as u64);
                }
                Event::Create { .. } => {
                    // Also when the creation is lost: what follows concerns the new file.
                    self.linked = false;
                    (lost, live_len) = (BTreeSet::new(), 0);
                    self.maybe(&entry.event, rng, odds);
                }
                Event::Delete { .. } => {
                    self.maybe(&entry.event, rng, odds);
                    self.linked = false;
                }
                other => {
                    self.maybe(other, rng, odds);
                    if let Event::Truncate { size, .. } = other {
                        live_len = *size;
                    }
                }
            }
        }
        // File systems may store a new length before the data it makes room for.
        if live_len > self.len() && rng.chance(16) {
            self.resize(live_len);
        }
    }

    fn maybe(&mut self, event: &Event, rng: &mut Rng, odds: u64) {
        if rng.chance(odds) {
            self.apply(event);
        }
    }

    /// Writes some of the sectors that the write touches.
    ///
    /// A sector that missed one write misses the later ones too: the disk gets a sector as it was
    /// in the cache at some moment, never a later write without an earlier one.
    fn tear(&mut self, offset: u64, data: &[u8], lost: &mut BTreeSet<u64>, rng: &mut Rng, odds: u64) {
        let mut at = 0;
        while at < data.len() {
            let from = offset + at as u64;
            let room = SECTOR - from % SECTOR;
            let end = data.len().min(at + room as usize);
            let sector = from / SECTOR;
            if lost.contains(&sector) || !rng.chance(odds) {
                lost.insert(sector);
            } else {
                self.put(from, &data[at..end]);
            }
            at = end;
        }
    }

    fn put(&mut self, offset: u64, data: &[u8]) {
        let Some(bytes) = self.bytes() else { return };
        let from = offset as usize;
        let end = from + data.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[from..end].copy_from_slice(data);
    }

    fn resize(&mut self, size: u64) {
        if let Some(bytes) = self.bytes() {
            bytes.resize(size as usize, 0);
        }
    }

    fn len(&self) -> u64 {
        self.content.as_ref().map_or(0, |bytes| bytes.len() as u64)
    }

    fn bytes(&mut self) -> Option<&mut Vec<u8>> {
        if self.linked { self.content.as_mut() } else { None }
    }
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
