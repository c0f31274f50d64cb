//! The running recordings and the files each of them listens to.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::log::{Entry, Event, Log};

/// The files one recording listens to: those directly in `root` whose names start with `stem`.
pub(crate) struct Scope {
    root: PathBuf,
    stem: String,
}

impl Scope {
    /// All files in `path` if it is a directory; otherwise the files beside it whose names start
    /// with its name (`jobs.db` and so `jobs.db-wal`).
    pub(crate) fn new(path: &Path) -> Result<Self, Error> {
        if path.is_dir() {
            return Ok(Self {
                root: canonical(path)?,
                stem: String::new(),
            });
        }
        let parent = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let stem = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        Ok(Self {
            root: canonical(parent)?,
            stem,
        })
    }

    /// The name under which a path is logged, if it is listened to.
    fn name_of(&self, path: &Path) -> Option<String> {
        if path.parent() != Some(self.root.as_path()) {
            return None;
        }
        let name = path.file_name()?.to_str()?;
        (name.starts_with(&self.stem) && !name.ends_with("-shm")).then(|| name.to_owned())
    }

    /// The files as they are now.
    fn snapshot(&self) -> Result<BTreeMap<String, Vec<u8>>, Error> {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(&self.root).map_err(|e| unreadable(&self.root, e))? {
            let path = entry.map_err(|e| unreadable(&self.root, e))?.path();
            if let Some(name) = self.name_of(&path).filter(|_| path.is_file()) {
                files.insert(name, fs::read(&path).map_err(|e| unreadable(&path, e))?);
            }
        }
        Ok(files)
    }
}

/// SQLite hands the VFS paths with symbolic links resolved; the scope must look the same.
fn canonical(path: &Path) -> Result<PathBuf, Error> {
    fs::canonicalize(path).map_err(|e| unreadable(path, e))
}

fn unreadable(path: &Path, source: std::io::Error) -> Error {
    Error::Snapshot {
        path: path.to_owned(),
        source,
    }
}

struct Tape {
    id: u64,
    scope: Scope,
    log: Log,
}

/// All running recordings of a VFS, with one sequence of numbers for their events.
#[derive(Default)]
pub(crate) struct Tapes {
    next_seq: u64,
    next_id: u64,
    list: Vec<Tape>,
}

impl Tapes {
    pub(crate) fn start(&mut self, scope: Scope) -> Result<u64, Error> {
        let log = Log {
            base: scope.snapshot()?,
            entries: Vec::new(),
        };
        let id = self.next_id;
        self.next_id += 1;
        self.list.push(Tape { id, scope, log });
        Ok(id)
    }

    /// Ends a recording; an unknown number gives an empty log.
    pub(crate) fn stop(&mut self, id: u64) -> Log {
        match self.list.iter().position(|tape| tape.id == id) {
            Some(index) => self.list.swap_remove(index).log,
            None => Log::default(),
        }
    }

    pub(crate) fn any(&self) -> bool {
        !self.list.is_empty()
    }

    /// The number the next event will get; all events logged so far are below it.
    pub(crate) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Appends an event about `path` to every recording that listens to it.
    pub(crate) fn append(&mut self, path: &Path, event: impl Fn(String) -> Event) {
        let seq = self.take_seq();
        for tape in &mut self.list {
            if let Some(name) = tape.scope.name_of(path) {
                tape.log.entries.push(Entry {
                    seq,
                    event: event(name),
                });
            }
        }
    }

    pub(crate) fn mark(&mut self, id: u64, n: u64) {
        let seq = self.take_seq();
        if let Some(tape) = self.list.iter_mut().find(|tape| tape.id == id) {
            tape.log.entries.push(Entry {
                seq,
                event: Event::Mark(n),
            });
        }
    }

    pub(crate) fn len(&self, id: u64) -> usize {
        let tape = self.list.iter().find(|tape| tape.id == id);
        tape.map_or(0, |tape| tape.log.entries.len())
    }

    fn take_seq(&mut self) -> u64 {
        self.next_seq += 1;
        self.next_seq - 1
    }
}
