//! The log of what happened to the files of one recording, in order.

use std::collections::BTreeMap;
use std::fmt;

use crate::image::Image;
use crate::replay::Disk;

/// What happens to the changes that were not yet certain when the power went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survive {
    /// Every change that was not certain is lost: the strictest test of what was acknowledged.
    None,
    /// An arbitrary part survives, at sector granularity, chosen by the seed.
    Random,
    /// Everything survives: what `kill -9` leaves behind.
    All,
}

/// One thing that happened to a recorded file (named relative to the recorded directory).
#[derive(Clone)]
pub(crate) enum Event {
    /// The file did not exist and was created, empty.
    Create { file: String },
    /// Bytes were written.
    Write {
        file: String,
        offset: u64,
        data: Vec<u8>,
    },
    /// The length was set.
    Truncate { file: String, size: u64 },
    /// A sync returned; it covers the entries whose sequence number is below `covers`.
    Sync { file: String, covers: u64 },
    /// The name was removed, and the directory synced or not.
    Delete { file: String, dir_synced: bool },
    /// The test's own mark.
    Mark(u64),
}

/// An event with its place among everything the VFS recorded.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) seq: u64,
    pub(crate) event: Event,
}

/// A finished recording: the files as they were at its start, and every event since.
///
/// A *cut* is a number of events: cut `n` means that the power went after the first `n` events
/// and before the next. Cuts beyond the end mean the end.
#[derive(Clone, Default)]
pub struct Log {
    pub(crate) base: BTreeMap<String, Vec<u8>>,
    pub(crate) entries: Vec<Entry>,
}

impl Log {
    /// The number of events, marks included; the largest meaningful cut.
    pub fn events(&self) -> usize {
        self.entries.len()
    }

    /// The marks set before the cut, in order: what the image must be able to show.
    pub fn marks_before(&self, cut: usize) -> Vec<u64> {
        self.before(cut)
            .iter()
            .filter_map(|entry| match entry.event {
                Event::Mark(n) => Some(n),
                _ => None,
            })
            .collect()
    }

    /// The files a power cut at `cut` could have left behind.
    ///
    /// The result depends on the log and the arguments only; `seed` matters for
    /// [`Survive::Random`] alone. What a returned sync covered is always in the image.
    pub fn image(&self, cut: usize, seed: u64, survive: Survive) -> Image {
        let mut disk = Disk::new(&self.base);
        for entry in self.before(cut) {
            disk.play(entry);
        }
        disk.cut(survive, seed)
    }

    fn before(&self, cut: usize) -> &[Entry] {
        &self.entries[..cut.min(self.entries.len())]
    }
}

/// One line per event, without the data: to see what led to a bad image.
impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, entry) in self.entries.iter().enumerate() {
            writeln!(f, "{index} {:?}", entry.event)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Create { file } => write!(f, "create {file}"),
            Event::Write { file, offset, data } => {
                write!(f, "write {file} at {offset}, {} bytes", data.len())
            }
            Event::Truncate { file, size } => write!(f, "truncate {file} to {size}"),
            Event::Sync { file, covers } => write!(f, "sync {file} up to #{covers}"),
            Event::Delete { file, dir_synced } => {
                write!(f, "delete {file}, directory synced: {dir_synced}")
            }
            Event::Mark(n) => write!(f, "mark {n}"),
        }
    }
}
