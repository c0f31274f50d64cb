//! Learning of other processes' commits: a thread that looks now and then, and only while somebody waits.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use rusqlite::Connection;

use crate::tx::Signals;
use crate::wake::Wake;

/// How often the thread looks.
const EVERY: Duration = Duration::from_millis(15);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: usize,
    stop: bool,
}

/// The watching thread's handle. Dropping it stops the thread.
pub struct Watcher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Starts the thread with a connection of its own.
    pub fn start(connection: Connection, log: PathBuf, wake: Arc<Wake>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        // Read here and not by the thread: what is committed once this returns has to be noticed.
        let seen = version(&connection).ok();
        let thread = std::thread::Builder::new()
            .name("semel-watch".to_owned())
            .spawn(move || serve(&connection, seen, &log, &theirs, &wake))?;
        Ok(Watcher {
            shared,
            thread: Some(thread),
        })
    }

    /// Looks until the guard is dropped.
    pub fn watch(&self) -> Watching<'_> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .waiting += 1;
        self.shared.changed.notify_one();
        Watching(&self.shared)
    }
}

/// While this lives somebody waits.
pub struct Watching<'a>(&'a Shared);

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.0
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .waiting -= 1;
    }
}

fn serve(connection: &Connection, mut seen: Option<i64>, log: &Path, shared: &Shared, wake: &Wake) {
    let mut outside = Outside::of(log);
    loop {
        let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.waiting == 0 && !state.stop {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.stop {
            return;
        }
        drop(state);
        if outside.may_have_changed() {
            let version = version(connection).ok();
            if version != seen {
                seen = version;
                wake.signal(Signals {
                    work: true,
                    ends: true,
                });
            }
        }
        let state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.stop {
            drop(shared.changed.wait_timeout(state, EVERY));
        }
    }
}

/// Changes with each commit of another connection.
fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("PRAGMA data_version")?
        .query_row([], |row| row.get(0))
}

/// The log as a file: looking at it costs a tenth of asking SQLite.
struct Outside<'p> {
    log: &'p Path,
    seen: Option<(SystemTime, u64)>,
    /// Looks until SQLite need not be asked any more.
    asking: u32,
    looks: u32,
}

impl<'p> Outside<'p> {
    /// Two commits within one tick of the file system's clock look like one, so SQLite is asked a few times more.
    const AFTERWARDS: u32 = 3;
    /// And now and then in any case.
    const ANYWAY: u32 = 64;

    fn of(log: &'p Path) -> Self {
        Outside {
            log,
            seen: None,
            asking: Self::AFTERWARDS,
            looks: 0,
        }
    }

    fn may_have_changed(&mut self) -> bool {
        let found = std::fs::metadata(self.log).ok();
        let found = found.and_then(|file| Some((file.modified().ok()?, file.len())));
        if found.is_none() || found != self.seen {
            self.seen = found;
            self.asking = Self::AFTERWARDS;
        }
        self.looks = (self.looks + 1) % Self::ANYWAY;
        let asks = self.asking > 0;
        self.asking = self.asking.saturating_sub(1);
        asks || self.looks == 0
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .stop = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
