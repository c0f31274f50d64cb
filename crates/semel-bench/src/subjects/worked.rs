//! A worker as applications run it, with a handler that does nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use semel::{Job, JobResult, Task, Worker};
use tokio::sync::Notify;

use crate::load::{Kind, TASK};
use crate::rig::Rig;
use crate::rounds::{Slice, Subject};
use crate::stopwatch::Stopwatch;

/// Jobs at once.
const CONCURRENCY: usize = 1_000;

/// Runs a worker until it has done what was submitted before.
pub(crate) struct Worked {
    rig: Rig,
    kind: Kind,
}

impl Worked {
    /// A worker on such jobs.
    pub(crate) fn new(rig: Rig, kind: Kind) -> Self {
        Worked { rig, kind }
    }
}

/// Counts jobs, and says when all are done.
#[derive(Clone)]
struct Count {
    left: Arc<AtomicUsize>,
    bell: Arc<Notify>,
}

async fn nothing(_job: Job<serde_json::Value>, count: Count) -> JobResult {
    if count.left.fetch_sub(1, Ordering::Relaxed) == 1 {
        count.bell.notify_one();
    }
    Ok(())
}

impl Subject for Worked {
    fn slice(&mut self, jobs: usize) -> Result<Slice> {
        self.rig.fill(self.kind, jobs, 0)?;
        let store = self.rig.store.clone();
        let count = Count {
            left: Arc::new(AtomicUsize::new(jobs)),
            bell: Arc::default(),
        };
        self.rig.block_on(async move {
            let client = semel::connect_to(store).await?;
            let bell = count.bell.clone();
            let task: Task<serde_json::Value> = Task::new(TASK);
            let worker = Worker::new(&client, count)
                .task(task, nothing)
                .concurrency(CONCURRENCY);
            let watch = Stopwatch::start();
            // It stops once the last handler has run, and returns once the last settlement was answered.
            let report = worker.run_until(async move { bell.notified().await }).await?;
            let elapsed = watch.elapsed();
            ensure!(
                report.completed == jobs as u64,
                "{jobs} jobs were waiting: {report:?}"
            );
            Ok(Slice::new(jobs, elapsed))
        })
    }
}
