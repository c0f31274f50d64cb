//! A bucket in memory as a process sees it: what is in between may hold requests up, or spoil them.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// A write on its way: it is done when it is waited for, and never if it is dropped.
pub struct Write<'a> {
    pub location: &'a Path,
    pub mode: PutMode,
    pub done: BoxFuture<'a, Result<PutResult>>,
}

/// What happens to requests on their way.
#[async_trait]
pub trait Way: fmt::Debug + Send + Sync + 'static {
    /// To a write.
    async fn put(&self, write: Write<'_>) -> Result<PutResult>;

    /// Before an object is read.
    async fn get(&self) -> Result<()>;

    /// To deletions, which are done as they are asked for.
    fn delete(&self, deleting: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        deleting
    }
}

/// A bucket behind a way.
#[derive(Debug)]
pub struct Through<W> {
    inner: Arc<InMemory>,
    way: W,
}

impl<W: Way> Through<W> {
    pub fn new(inner: Arc<InMemory>, way: W) -> Arc<Self> {
        Arc::new(Through { inner, way })
    }
}

impl<W> Deref for Through<W> {
    type Target = W;

    fn deref(&self) -> &W {
        &self.way
    }
}

impl<W: Way> fmt::Display for Through<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a bucket behind {:?}", self.way)
    }
}

#[async_trait]
impl<W: Way> ObjectStore for Through<W> {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let write = Write {
            location,
            mode: opts.mode.clone(),
            done: self.inner.put_opts(location, payload, opts).boxed(),
        };
        self.way.put(write).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.way.get().await?;
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.way.delete(self.inner.delete_stream(locations))
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
