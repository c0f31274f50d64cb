//! A bucket as a process sees it that stops before one of its requests, for as long as others like.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::sync::Notify;

/// A bucket that stops once.
#[derive(Debug)]
pub struct Stalled {
    inner: Arc<InMemory>,
    /// Requests until it stops.
    left: AtomicI64,
    stopped: Notify,
    goes_on: Notify,
}

impl Stalled {
    pub fn new(inner: Arc<InMemory>) -> Arc<Self> {
        Arc::new(Stalled {
            inner,
            left: AtomicI64::new(i64::MAX),
            stopped: Notify::new(),
            goes_on: Notify::new(),
        })
    }

    /// After so many requests from now on it stops.
    pub fn stop_after(&self, requests: i64) {
        self.left.store(requests, Ordering::SeqCst);
    }

    /// Does something, and while it has stopped something else. Says whether it stopped at all.
    pub async fn run(&self, work: impl Future<Output = ()>, meanwhile: impl Future<Output = ()>) -> bool {
        tokio::pin!(work);
        tokio::select! {
            biased;
            () = self.stopped.notified() => {}
            () = &mut work => return false,
        }
        // Its other requests go on: only this one hangs.
        meanwhile.await;
        self.goes_on.notify_one();
        work.await;
        true
    }

    async fn request(&self) {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 0 {
            self.stopped.notify_one();
            self.goes_on.notified().await;
        }
    }
}

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a bucket that stops")
    }
}

#[async_trait]
impl ObjectStore for Stalled {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.request().await;
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.request().await;
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }

    /// Deletions and lists are streams without this bucket: they do not stop.
    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
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

/// A copy of all that is in a bucket.
pub async fn copied(bucket: &InMemory) -> Arc<InMemory> {
    let copy = InMemory::new();
    let listed: Vec<ObjectMeta> = bucket.list(None).try_collect().await.expect("a list");
    let mut objects = stream::iter(listed);
    while let Some(one) = objects.next().await {
        let got = bucket.get_opts(&one.location, GetOptions::default()).await;
        let bytes = got.expect("it is there").bytes().await.expect("its bytes");
        copy.put_opts(&one.location, PutPayload::from(bytes), PutOptions::default())
            .await
            .expect("it is written");
    }
    Arc::new(copy)
}
