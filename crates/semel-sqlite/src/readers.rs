//! Readers beside the writer: a few threads, each with its own connection; every look is one snapshot.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::{Connection, OptionalExtension};
use tokio::sync::oneshot;

use semel_core::error::StoreError;
use semel_core::ids::Name;
use semel_core::time::Clock;

use crate::fail::Fail;
use crate::inspect::Look;

type Task = Box<dyn FnOnce(&Connection) + Send>;

/// The readers' handle. Dropping it stops the threads.
pub struct Readers {
    queue: Option<Sender<Task>>,
    threads: Vec<JoinHandle<()>>,
    namespace: Name,
    clock: Arc<dyn Clock>,
}

impl Readers {
    /// Starts one thread per connection.
    pub fn start(
        connections: Vec<Connection>,
        namespace: Name,
        clock: Arc<dyn Clock>,
    ) -> std::io::Result<Self> {
        let (queue, tasks) = mpsc::channel::<Task>();
        let tasks = Arc::new(Mutex::new(tasks));
        let threads = connections.into_iter().map(|connection| {
            let tasks = tasks.clone();
            std::thread::Builder::new()
                .name("semel-reader".to_owned())
                .spawn(move || serve(&connection, &tasks))
        });
        let threads = threads.collect::<std::io::Result<Vec<_>>>()?;
        Ok(Readers {
            queue: Some(queue),
            threads,
            namespace,
            clock,
        })
    }

    /// Looks at one snapshot.
    pub async fn read<R, F>(&self, doing: &'static str, look: F) -> Result<R, StoreError>
    where
        R: Send + 'static,
        F: FnOnce(&mut Look<'_>) -> Result<R, Fail> + Send + 'static,
    {
        let (namespace, clock) = (self.namespace.clone(), self.clock.clone());
        self.run(doing, move |connection| {
            snapshot(connection, &namespace, &*clock, look)
        })
        .await
    }

    /// Runs something on a reader's connection.
    pub async fn run<R, F>(&self, doing: &'static str, work: F) -> Result<R, StoreError>
    where
        R: Send + 'static,
        F: FnOnce(&Connection) -> Result<R, Fail> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let task: Task = Box::new(move |connection| {
            let _ = reply.send(work(connection).map_err(|fail| fail.into_store(doing)));
        });
        let queue = self
            .queue
            .as_ref()
            .ok_or_else(|| StoreError::unavailable(doing))?;
        queue.send(task).map_err(|_| StoreError::unavailable(doing))?;
        answer.await.map_err(|_| StoreError::unavailable(doing))?
    }
}

fn snapshot<R>(
    connection: &Connection,
    namespace: &Name,
    clock: &dyn Clock,
    look: impl FnOnce(&mut Look<'_>) -> Result<R, Fail>,
) -> Result<R, Fail> {
    connection.prepare_cached("BEGIN")?.execute([])?;
    let result = number(connection, namespace)
        .and_then(|ns| Look::new(connection, namespace, ns, clock.now()))
        .and_then(|mut at| look(&mut at));
    // A look changes nothing, so there is nothing to lose if this fails; the next one says so.
    let _ = connection
        .prepare_cached("COMMIT")
        .and_then(|mut commit| commit.execute([]));
    result
}

/// A namespace nobody has written to has no number: nothing is found in it.
fn number(connection: &Connection, namespace: &Name) -> Result<i64, Fail> {
    let mut find = connection.prepare_cached("SELECT ns FROM namespace WHERE name = ?1")?;
    Ok(find
        .query_row([namespace.as_str()], |row| row.get(0))
        .optional()?
        .unwrap_or(0))
}

fn serve(connection: &Connection, tasks: &Mutex<Receiver<Task>>) {
    loop {
        let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match task {
            Ok(task) => run(connection, task),
            Err(_) => return,
        }
    }
}

/// A panic over damaged data answers its caller with an error and leaves the thread and its connection usable.
fn run(connection: &Connection, task: Task) {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| task(connection)));
    if caught.is_err() && !connection.is_autocommit() {
        let _ = connection.execute_batch("ROLLBACK");
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        drop(self.queue.take());
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
