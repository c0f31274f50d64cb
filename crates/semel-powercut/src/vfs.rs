//! The public handle on an installed VFS.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Mutex;

use crate::error::Error;
use crate::recorder::Recorder;
use crate::shim::register;
use crate::state::{Counts, Fault, Shared, lock};
use crate::tapes::Scope;

static INSTALLED: Mutex<BTreeMap<String, &'static Shared>> = Mutex::new(BTreeMap::new());

/// An installed VFS; open connections through it by its [`name`](Vfs::name).
///
/// Counters and faults concern all connections of the VFS, so tests that run in parallel and
/// use these want a name each.
#[derive(Clone)]
pub struct Vfs {
    name: String,
    shared: &'static Shared,
}

/// Registers a recording VFS around the default one, under the given name.
///
/// Idempotent: the same name gives the same VFS, with the same counters, for as long as the
/// process lives. It does not become the default VFS.
pub fn install(name: &str) -> Result<Vfs, Error> {
    let mut installed = lock(&INSTALLED);
    let shared = match installed.get(name) {
        Some(shared) => *shared,
        None => {
            let shared = register(name)?;
            installed.insert(name.to_owned(), shared);
            shared
        }
    };
    Ok(Vfs {
        name: name.to_owned(),
        shared,
    })
}

impl Vfs {
    /// The name to open connections with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What has been written and synced since the installation.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// Starts recording the files in `dir`; or, if it is no directory, those beside it whose
    /// names start with its name (`jobs.db`, `jobs.db-wal`).
    ///
    /// The files found are taken as certain, so start before the first connection is opened. On
    /// unix there is a second reason: reading a file drops the process's POSIX locks on it.
    pub fn record(&self, dir: &Path) -> Result<Recorder, Error> {
        let id = self.shared.start(Scope::new(dir)?)?;
        Ok(Recorder::new(self.shared, id))
    }

    /// Makes the `n`-th following write and all after it fail, until called with `None`.
    ///
    /// `Some(1)` (and `Some(0)`) fails the very next write. A failed write writes nothing, is not
    /// counted and not logged. Reads, syncs and truncations go on working.
    pub fn fail_writes_after(&self, n: Option<u64>, fault: Fault) {
        self.shared.arm(n, fault);
    }
}

impl fmt::Debug for Vfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vfs")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
