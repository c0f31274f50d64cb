//! The most the server can do for this client: plain writes.

use std::sync::Arc;

use anyhow::{Context, Result};
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _, PutPayload};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::load::input;
use crate::rounds::{Slice, Subject};
use crate::stopwatch::Stopwatch;

/// Plain writes of about what the cell of a job with such an input has.
pub(super) struct Puts {
    bucket: Arc<dyn ObjectStore>,
    handle: Handle,
    place: String,
    callers: usize,
    next: usize,
}

impl Puts {
    /// So many callers that each wait for one answer.
    pub(super) fn new(bucket: Arc<dyn ObjectStore>, handle: Handle, place: String, callers: usize) -> Self {
        Puts {
            bucket,
            handle,
            place,
            callers,
            next: 0,
        }
    }
}

async fn put(bucket: Arc<dyn ObjectStore>, place: String, names: std::ops::Range<usize>) -> Result<()> {
    let body = [input(1, 1), input(1, 2), input(1, 3)].concat();
    for n in names {
        let path = Path::from(format!("{place}/{n}"));
        bucket.put(&path, PutPayload::from(body.clone())).await?;
    }
    Ok(())
}

impl Subject for Puts {
    fn slice(&mut self, jobs: usize) -> Result<Slice> {
        let share = jobs / self.callers;
        let first = self.next;
        self.next += share * self.callers;
        let watch = Stopwatch::start();
        self.handle.block_on(async {
            let mut tasks = JoinSet::new();
            for caller in 0..self.callers {
                let from = first + caller * share;
                tasks.spawn(put(self.bucket.clone(), self.place.clone(), from..from + share));
            }
            while let Some(task) = tasks.join_next().await {
                task.context("a caller panicked")??;
            }
            anyhow::Ok(())
        })?;
        Ok(Slice::new(share * self.callers, watch.elapsed()))
    }
}

/// Removes everything below a prefix.
pub(super) async fn remove(bucket: &Arc<dyn ObjectStore>, prefix: &str) -> Result<()> {
    let names = bucket
        .list(Some(&Path::from(prefix)))
        .map_ok(|found| found.location);
    let removed = bucket.delete_stream(names.boxed());
    let count = removed.try_fold(0u64, async |count, _| Ok(count + 1)).await;
    count.map(|_| ()).with_context(|| format!("removing {prefix}"))
}
