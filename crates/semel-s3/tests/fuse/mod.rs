//! A bucket that a process has only so many requests left on: then it is as if the process had died, before its last
//! write was done or right after.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::sync::Notify;

/// A bucket as one process sees it, until it dies.
#[derive(Debug)]
pub struct Fused {
    inner: Arc<InMemory>,
    /// Writes and deletions it has left; below zero it is dead.
    left: AtomicI64,
    /// Whether the last one is done.
    done: bool,
    blown: Notify,
}

impl Fused {
    pub fn new(inner: Arc<InMemory>, done: bool) -> Arc<Self> {
        Arc::new(Fused {
            inner,
            left: AtomicI64::new(i64::MAX),
            done,
            blown: Notify::new(),
        })
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

impl fmt::Display for Fused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a bucket with a fuse")
    }
}

#[async_trait]
impl ObjectStore for Fused {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let (done, answered) = self.spend();
        if !done {
            return self.die().await;
        }
        let put = self.inner.put_opts(location, payload, opts).await;
        match answered {
            true => put,
            false => self.die().await,
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if self.is_dead() {
            return self.die().await;
        }
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (done, answered) = self.spend();
        if !answered {
            self.blown.notify_one();
        }
        match (done, answered) {
            (true, true) => self.inner.delete_stream(locations),
            (true, false) => {
                let deleting = self.inner.delete_stream(locations);
                deleting.chain(stream::pending()).boxed()
            }
            _ => stream::pending().boxed(),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
