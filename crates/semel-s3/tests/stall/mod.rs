//! A bucket as a process sees it that stops before one of its requests, for as long as others like.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use futures_util::stream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::memory::InMemory;
use object_store::{GetOptions, ObjectMeta, ObjectStore as _, PutOptions, PutPayload, PutResult, Result};
use tokio::sync::Notify;

use crate::through::{Through, Way, Write};

/// A way that stops once. Deletions and lists are streams: they do not stop.
#[derive(Debug)]
pub struct Stalled {
    /// Requests until it stops.
    left: AtomicI64,
    stopped: Notify,
    goes_on: Notify,
}

impl Stalled {
    pub fn new(inner: Arc<InMemory>) -> Arc<Through<Self>> {
        let stalled = Stalled {
            left: AtomicI64::new(i64::MAX),
            stopped: Notify::new(),
            goes_on: Notify::new(),
        };
        Through::new(inner, stalled)
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

#[async_trait]
impl Way for Stalled {
    async fn put(&self, write: Write<'_>) -> Result<PutResult> {
        self.request().await;
        write.done.await
    }

    async fn get(&self) -> Result<()> {
        self.request().await;
        Ok(())
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
