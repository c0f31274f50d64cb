//! The directory of a spool: segments, locks, and nothing that knows a store. Everything here blocks.
//!
//! * `NUMBER.open`: the segment that is appended to, a record per line.
//! * `NUMBER-COUNT-SINCE.jobs`: a sealed one, with how many records it has, and since when the first waits.
//! * `append.lock`, `drain.lock`: held while appending and while draining.
//! * `refused`: a byte for each submission that found the spool full.
//! * `set_aside.txt`: what the store will never take.
//! * `spool.json`: the store all this is meant for.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use semel_core::error::Invalid;
use semel_core::time::Timestamp;

use crate::error::Error;
use crate::spool::record::Record;
use crate::spool::segment::{Open, Segment, Segments, read_text};
use crate::spool::{Bounds, SpoolStatus};

/// Records in a segment, so that each is one call to the store.
const SEGMENT_RECORDS: u64 = 1_000;
/// Bytes in a segment.
const SEGMENT_BYTES: u64 = 8 * 1024 * 1024;
/// How often the lock of another process is tried for, 5 ms apart.
const LOCK_TRIES: u32 = 1_000;
/// The layout that is described above.
const VERSION: u32 = 1;

/// A spool on disk.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// It is on disk, and stays there.
    Yes,
    /// There is no room for it beside so many.
    Full(u64),
}

#[derive(Serialize, Deserialize)]
struct Identity {
    version: u32,
    store: String,
}

impl Directory {
    /// Opens the spool of a store, making it where there is none; that of another store is refused.
    pub(super) fn of_store(path: &Path, store: &str) -> Result<Self, Error> {
        let failed = |source| Error::Spool {
            doing: format!("opening {}", path.display()),
            source,
        };
        fs::create_dir_all(path).map_err(failed)?;
        let directory = Directory {
            path: path.to_owned(),
        };
        let identity = directory.identity(store).map_err(failed)?;
        if identity.version != VERSION {
            let what = format!("spool of layout {} in {}", identity.version, path.display());
            return Err(Invalid::new(what, format!("layout {VERSION}")).into());
        }
        if identity.store != store {
            let what = format!("spool in {} for {store}", path.display());
            return Err(Invalid::new(what, "a directory of its own for each store")
                .found(format!("it is the spool of {}", identity.store))
                .hint("name another directory")
                .into());
        }
        Ok(directory)
    }

    /// Opens a spool that is there, whatever its store.
    pub(super) fn existing(path: &Path) -> Result<Self, Error> {
        match path.join("spool.json").exists() {
            true => Ok(Directory {
                path: path.to_owned(),
            }),
            false => Err(Error::NotFound {
                what: format!("spool in {}", path.display()),
            }),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn identity(&self, store: &str) -> io::Result<Identity> {
        let _lock = self.lock("append.lock")?;
        let file = self.path.join("spool.json");
        match fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::other),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let identity = Identity {
                    version: VERSION,
                    store: store.to_owned(),
                };
                self.write_whole(&file, &serde_json::to_vec(&identity)?)?;
                Ok(identity)
            }
            Err(error) => Err(error),
        }
    }

    /// Appends records, as far as there is room; durable when this returns. Also gives the number of their segment.
    pub(super) fn append(&self, records: &[Record], bounds: Bounds) -> io::Result<(Vec<Kept>, u64)> {
        let _lock = self.lock("append.lock")?;
        let segments = Segments::list(&self.path)?;
        let (mut entries, mut bytes) = segments.sealed.iter().fold((0, 0), |(entries, bytes), segment| {
            (entries + segment.records, bytes + segment.bytes)
        });
        let mut open = self.open_segment(&segments)?;
        entries += open.records;
        bytes += open.bytes;
        let mut lines = String::new();
        let mut kept = Vec::with_capacity(records.len());
        for record in records {
            let line = record.line();
            if entries >= bounds.entries || bytes + line.len() as u64 > bounds.bytes {
                kept.push(Kept::Full(entries));
                continue;
            }
            entries += 1;
            bytes += line.len() as u64;
            lines.push_str(&line);
            kept.push(Kept::Yes);
        }
        if !lines.is_empty() {
            self.write_lines(&mut open, &lines)?;
        }
        self.count_refused(kept.iter().filter(|kept| **kept != Kept::Yes).count())?;
        Ok((kept, open.number))
    }

    /// Whether everything up to a segment is gone.
    pub(super) fn is_past(&self, number: u64) -> io::Result<bool> {
        let segments = Segments::list(&self.path)?;
        let sealed = segments.sealed.iter().map(|segment| segment.number);
        let open = segments.open.iter().map(|(number, _)| *number);
        Ok(sealed.chain(open).all(|found| found > number))
    }

    /// The number of the newest segment; 0 if there is none.
    pub(super) fn newest(&self) -> io::Result<u64> {
        Ok(Segments::list(&self.path)?.newest())
    }

    /// What was cut off in the middle by a power cut is a line of its own, which reading notices.
    fn write_lines(&self, open: &mut Open, lines: &str) -> io::Result<()> {
        let before = open.bytes;
        let separator = if open.is_torn { "\n" } else { "" };
        let written = open
            .file
            .write_all(format!("{separator}{lines}").as_bytes())
            .and_then(|()| open.file.sync_data());
        if written.is_err() {
            // The caller is told that nothing was kept: as far as possible, nothing is.
            let _ = open.file.set_len(before).and_then(|()| open.file.sync_data());
            return written;
        }
        if before == 0 {
            self.sync()?;
        }
        Ok(())
    }

    fn open_segment(&self, segments: &Segments) -> io::Result<Open> {
        for (number, path) in &segments.open {
            let open = Open::at(path, *number)?;
            if open.records < SEGMENT_RECORDS && open.bytes < SEGMENT_BYTES {
                return Ok(open);
            }
            self.seal_one(*number, path)?;
        }
        let number = segments.next();
        Open::at(&self.path.join(format!("{number:016}.open")), number)
    }

    /// Seals what is open, and gives everything that is sealed, oldest first.
    pub(super) fn seal(&self) -> io::Result<Vec<Segment>> {
        let _lock = self.lock("append.lock")?;
        for (number, path) in &Segments::list(&self.path)?.open {
            self.seal_one(*number, path)?;
        }
        Ok(Segments::list(&self.path)?.sealed)
    }

    fn seal_one(&self, number: u64, path: &Path) -> io::Result<()> {
        let text = read_text(path)?;
        let records = text.lines().filter(|line| !line.is_empty()).count();
        if records == 0 {
            return fs::remove_file(path);
        }
        let since = text.lines().find_map(Record::read).map_or(0, |record| record.at);
        let name = format!("{number:016}-{records}-{since}.jobs");
        fs::rename(path, self.path.join(name))
    }

    /// The records of a sealed segment; a line that is damaged as the text it is.
    pub(super) fn read(&self, segment: &Segment) -> io::Result<Vec<Result<Record, String>>> {
        let text = read_text(&segment.path)?;
        let lines = text.lines().filter(|line| !line.is_empty());
        Ok(lines
            .map(|line| Record::read(line).ok_or_else(|| line.to_owned()))
            .collect())
    }

    /// Takes a segment off. Records that have to wait on go to the end of the line, out of the way of the others.
    pub(super) fn finish(&self, segment: &Segment, left: &[Record]) -> io::Result<()> {
        if let Some(first) = left.first() {
            let _lock = self.lock("append.lock")?;
            let number = Segments::list(&self.path)?.next();
            let name = format!("{number:016}-{}-{}.jobs", left.len(), first.at);
            let lines: String = left.iter().map(Record::line).collect();
            self.write_whole(&self.path.join(name), lines.as_bytes())?;
        }
        // Until here a crash repeats some that were sent, which changes nothing.
        fs::remove_file(&segment.path)?;
        self.sync()
    }

    /// Puts aside, for a person to look at, what the store will never take.
    pub(super) fn set_aside(&self, lines: &[(String, String)]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let path = self.path.join("set_aside.txt");
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        let text: String = lines
            .iter()
            .map(|(line, why)| format!("{}\t{}\n", one_line(why), one_line(line)))
            .collect();
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        self.sync()
    }

    /// The right to drain, if nobody has it. The system takes it back when this process ends, in whatever way.
    pub(super) fn drain_lock(&self) -> io::Result<Option<File>> {
        let file = self.lock_file("drain.lock")?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// How full it is.
    pub(super) fn status(&self) -> io::Result<SpoolStatus> {
        let segments = Segments::list(&self.path)?;
        let mut status = SpoolStatus {
            refused: fs::metadata(self.path.join("refused")).map_or(0, |file| file.len()),
            set_aside: lines_in(&self.path.join("set_aside.txt"))?,
            ..SpoolStatus::default()
        };
        let mut since = Vec::new();
        for segment in &segments.sealed {
            status.entries += segment.records;
            status.bytes += segment.bytes;
            since.push(segment.since);
        }
        for (_, path) in &segments.open {
            let text = read_text(path)?;
            status.entries += text.lines().filter(|line| !line.is_empty()).count() as u64;
            status.bytes += text.len() as u64;
            since.extend(text.lines().find_map(Record::read).map(|record| record.at));
        }
        status.oldest = since.into_iter().min().map(Timestamp::from_millis);
        Ok(status)
    }

    fn count_refused(&self, refused: usize) -> io::Result<()> {
        if refused == 0 {
            return Ok(());
        }
        let path = self.path.join("refused");
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(&vec![b'.'; refused])
    }

    /// A lock that others hold for a moment at a time; one who holds it for seconds hangs.
    fn lock(&self, name: &str) -> io::Result<File> {
        let file = self.lock_file(name)?;
        for _ in 0..LOCK_TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        let what = format!("another process holds {name} for seconds");
        Err(io::Error::new(ErrorKind::TimedOut, what))
    }

    fn lock_file(&self, name: &str) -> io::Result<File> {
        let path = self.path.join(name);
        OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
    }

    /// Writes a file so that it is there whole or not at all, whatever happens.
    fn write_whole(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let beside = path.with_extension(format!("{}.tmp", std::process::id()));
        let mut file = File::create(&beside)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        fs::rename(&beside, path)?;
        self.sync()
    }

    /// Makes names durable: of what was made, renamed and removed.
    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

/// Runs what blocks on a thread that may.
pub(super) async fn apart<T: Send + 'static>(
    doing: &str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|ended| Err(io::Error::other(ended)))
        .map_err(|source| Error::Spool {
            doing: doing.to_owned(),
            source,
        })
}

fn lines_in(path: &Path) -> io::Result<u64> {
    match fs::read(path) {
        Ok(bytes) => Ok(bytes.iter().filter(|byte| **byte == b'\n').count() as u64),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

fn one_line(text: &str) -> String {
    text.replace(|one: char| one.is_control(), " ")
}
