//! A bucket that a process has only so many requests left on: then it is as if the process had died, before its last
//! write was done or right after.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{PutResult, Result};
use tokio::sync::Notify;

use crate::through::{Through, Way, Write};

/// The way of one process to its bucket, until it dies.
#[derive(Debug)]
pub struct Fused {
    /// Writes and deletions it has left; below zero it is dead.
    left: AtomicI64,
    /// Whether the last one is done.
    done: bool,
    blown: Notify,
}

impl Fused {
    pub fn new(inner: Arc<InMemory>, done: bool) -> Arc<Through<Self>> {
        let fused = Fused {
            left: AtomicI64::new(i64::MAX),
            done,
            blown: Notify::new(),
        };
        Through::new(inner, fused)
    }

    /// From now on it has so many left.
    pub fn leave(&self, writes: i64) {
        self.left.store(writes, Ordering::SeqCst);
    }

    /// Does something until it is over or the process is dead. Nothing: it died.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.blown.notified() => None,
            done = work => Some(done),
        }
    }

    /// Counts a write: whether it is done, and whether its answer comes.
    fn spend(&self) -> (bool, bool) {
        let left = self.left.fetch_sub(1, Ordering::SeqCst);
        match left {
            1.. => (true, true),
            0 => (self.done, false),
            _ => (false, false),
        }
    }

    async fn die<T>(&self) -> T {
        self.blown.notify_one();
        std::future::pending().await
    }

    fn is_dead(&self) -> bool {
        self.left.load(Ordering::SeqCst) < 0
    }
}

#[async_trait]
impl Way for Fused {
    async fn put(&self, write: Write<'_>) -> Result<PutResult> {
        let (done, answered) = self.spend();
        if !done {
            return self.die().await;
        }
        let put = write.done.await;
        match answered {
            true => put,
            false => self.die().await,
        }
    }

    async fn get(&self) -> Result<()> {
        match self.is_dead() {
            true => self.die().await,
            false => Ok(()),
        }
    }

    fn delete(&self, deleting: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (done, answered) = self.spend();
        if !answered {
            self.blown.notify_one();
        }
        match (done, answered) {
            (true, true) => deleting,
            (true, false) => deleting.chain(stream::pending()).boxed(),
            _ => stream::pending().boxed(),
        }
    }
}
