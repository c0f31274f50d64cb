//! The most the server can do for this client: plain `SET`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use redis::Value;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use semel_redis::Raw;

use crate::load::input;
use crate::rig::Rig;
use crate::rounds::{Slice, Subject};
use crate::stopwatch::Stopwatch;
use crate::subjects::{self, Paced};

/// Names that are written, one after the other: enough that none is still at hand from the last time. A multiple of
/// every batch.
pub(super) const NAMES: u64 = 200_000;
/// Different payloads.
const PAYLOADS: u64 = 1_024;

/// How writes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// One caller that waits for each answer.
    OneByOne,
    /// So many callers that each do.
    AtOnce(usize),
    /// One caller that waits for the answers to so many at a time.
    Pipelined(usize),
}

impl Way {
    /// Writes come in multiples of this.
    pub(super) fn batch(self) -> usize {
        match self {
            Way::OneByOne => 1,
            Way::AtOnce(callers) => callers,
            Way::Pipelined(size) => size,
        }
    }
}

/// Plain writes of the same payload as the store's jobs.
pub(super) struct Sets {
    raw: Arc<Raw>,
    handle: Handle,
    way: Way,
    names: Names,
}

#[derive(Clone)]
struct Names {
    run: String,
    payloads: Arc<[String]>,
    next: Arc<AtomicU64>,
}

/// What all names of the writes match.
pub(super) fn pattern(run: &str) -> String {
    format!("semel:{{{run}:set:*")
}

impl Sets {
    pub(super) fn new(raw: Arc<Raw>, handle: Handle, run: &str, way: Way, seed: u64) -> Self {
        let names = Names {
            run: run.to_owned(),
            payloads: (0..PAYLOADS).map(|n| input(seed, n)).collect(),
            next: Arc::default(),
        };
        Sets {
            raw,
            handle,
            way,
            names,
        }
    }
}

impl Names {
    /// So many writes. They share a slot, so that they can go together to one node of a cluster.
    fn writes(&self, count: usize) -> redis::Pipeline {
        let first = self.next.fetch_add(count as u64, Ordering::Relaxed);
        let mut writes = redis::Pipeline::with_capacity(count);
        for n in first..first + count as u64 {
            let name = format!("semel:{{{}:set:{}}}:{}", self.run, first % NAMES, n - first);
            let payload = &self.payloads[(n % PAYLOADS) as usize];
            writes.cmd("SET").arg(name).arg(payload);
        }
        writes
    }
}

async fn send(raw: &Raw, names: &Names, count: usize, each: usize) -> Result<()> {
    for _ in 0..count / each {
        let answers = raw.ask(&names.writes(each)).await?;
        ensure!(
            answers.len() == each && answers.iter().all(|answer| *answer == Value::Okay),
            "the server does not answer OK to SET"
        );
    }
    Ok(())
}

/// How long plain writes take, one in a call, at a rate.
pub(super) fn paced(sets: &Sets, rig: &Rig, per_second: f64, count: usize) -> Result<Paced> {
    let writes = (0..count).map(|_| sets.names.writes(1)).collect();
    let raw = sets.raw.clone();
    subjects::paced(rig, writes, per_second, move |write: redis::Pipeline| {
        let raw = raw.clone();
        async move { Ok(raw.ask(&write).await.map(drop)?) }
    })
}

impl Subject for Sets {
    fn slice(&mut self, jobs: usize) -> Result<Slice> {
        let (raw, names) = (self.raw.clone(), self.names.clone());
        let watch = Stopwatch::start();
        self.handle.block_on(async {
            match self.way {
                Way::OneByOne => send(&raw, &names, jobs, 1).await,
                Way::Pipelined(size) => send(&raw, &names, jobs, size).await,
                Way::AtOnce(callers) => {
                    let mut tasks = JoinSet::new();
                    for _ in 0..callers {
                        let (raw, names) = (raw.clone(), names.clone());
                        tasks.spawn(async move { send(&raw, &names, jobs / callers, 1).await });
                    }
                    while let Some(task) = tasks.join_next().await {
                        task.context("a caller panicked")??;
                    }
                    Ok(())
                }
            }
        })?;
        Ok(Slice::new(jobs, watch.elapsed()))
    }
}
