//! Learning of other processes' commits: a thread that looks now and then, and only while somebody waits.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

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
    pub fn start(connection: Connection, wake: Arc<Wake>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let thread = std::thread::Builder::new()
            .name("semel-watch".to_owned())
            .spawn(move || serve(&connection, &theirs, &wake))?;
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

fn serve(connection: &Connection, shared: &Shared, wake: &Wake) {
    let mut seen = None;
    loop {
        let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.waiting == 0 && !state.stop {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.stop {
            return;
        }
        drop(state);
        let version = connection
            .pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0))
            .ok();
        if version != seen {
            seen = version;
            wake.signal(Signals {
                work: true,
                ends: true,
            });
        }
        let state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.stop {
            drop(shared.changed.wait_timeout(state, EVERY));
        }
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
