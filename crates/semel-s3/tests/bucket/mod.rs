//! A bucket in memory that can misbehave as real ones do: answers get lost, come late or say nothing.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{Error, ObjectStore, PutMode, PutResult, Result};
use semel_conformance::{Harness, Instance, Place};
use semel_core::ids::{JobId, Name};
use semel_core::memory::Naming;
use semel_core::store::Store;
use semel_core::time::{Clock, ManualClock};
use semel_s3::{S3Options, S3Store};
use tokio::runtime::Runtime;

use crate::through::{Through, Way, Write};

/// What can go wrong with a write, out of a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// It is done, and the answer is lost.
    pub lost: u64,
    /// It is done, and the answer is an error of the server.
    pub failed_after: u64,
    /// It is not done, and the answer is an error of the server.
    pub failed_before: u64,
    /// It is done, and the answer is that something else was there: the client had sent it twice.
    pub denied_after: u64,
    /// It is not done, and the answer is that two writes met: 409.
    pub undecided: u64,
    /// It takes a while.
    pub slow: u64,
}

impl Faults {
    /// All of them, each this often out of a thousand.
    pub fn all(n: u64) -> Self {
        Faults {
            lost: n,
            failed_after: n,
            failed_before: n,
            denied_after: n,
            undecided: n,
            slow: n,
        }
    }
}

/// A way on which things go wrong.
#[derive(Debug)]
pub struct Faulty {
    faults: Faults,
    draws: AtomicU64,
    pub made: AtomicU64,
}

impl Faulty {
    pub fn new(inner: Arc<InMemory>, faults: Faults, seed: u64) -> Arc<Through<Self>> {
        let faulty = Faulty {
            faults,
            draws: AtomicU64::new(seed),
            made: AtomicU64::new(0),
        };
        Through::new(inner, faulty)
    }

    /// The next number of a sequence that the seed decides.
    fn draw(&self) -> u64 {
        let mut x = self
            .draws
            .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
            .wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % 1_000
    }
}

fn server_error(what: &str) -> Error {
    Error::Generic {
        store: "faulty",
        source: what.to_owned().into(),
    }
}

fn denied(location: &Path, create: bool) -> Error {
    let (path, source) = (location.to_string(), "injected".into());
    match create {
        true => Error::AlreadyExists { path, source },
        false => Error::Precondition { path, source },
    }
}

#[async_trait]
impl Way for Faulty {
    async fn put(&self, write: Write<'_>) -> Result<PutResult> {
        let draw = self.draw();
        let create = matches!(write.mode, PutMode::Create);
        let conditional = !matches!(write.mode, PutMode::Overwrite);
        let Faults {
            lost,
            failed_after,
            failed_before,
            denied_after,
            undecided,
            slow,
        } = self.faults;
        let mut edge = 0;
        let mut falls = |share: u64| {
            let range: Range<u64> = edge..edge + share;
            edge += share;
            range.contains(&draw)
        };
        let (lost, failed_after, failed_before) = (falls(lost), falls(failed_after), falls(failed_before));
        let (denied_after, undecided, slow) = (falls(denied_after), falls(undecided), falls(slow));
        if lost || failed_after || failed_before || denied_after || undecided || slow {
            self.made.fetch_add(1, Ordering::Relaxed);
        }
        if failed_before {
            return Err(server_error("500 before it was done"));
        }
        if undecided && conditional {
            return Err(denied(write.location, create));
        }
        if slow {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let put = write.done.await?;
        if lost {
            return Err(server_error("the connection was closed"));
        }
        if failed_after {
            return Err(server_error("500 after it was done"));
        }
        if denied_after && conditional {
            return Err(denied(write.location, create));
        }
        Ok(put)
    }

    async fn get(&self) -> Result<()> {
        if self.faults.failed_before > 0 && self.draw() < self.faults.failed_before {
            return Err(server_error("500"));
        }
        Ok(())
    }
}

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime can be made")
});

/// Stores on buckets in memory, with faults or without.
pub struct Memory {
    /// What goes wrong with writes.
    pub faults: Faults,
    /// What decides when.
    pub seed: u64,
}

/// Opens a store from anywhere, also from within another runtime.
pub fn open(bucket: Arc<dyn ObjectStore>, namespace: &Name, clock: Option<Arc<dyn Clock>>) -> Arc<S3Store> {
    let options = S3Options {
        namespace: namespace.clone(),
        ..S3Options::from_url("s3://memory/suite").expect("a valid URL")
    };
    let opening = S3Store::on(bucket, options, clock);
    let opened = std::thread::scope(|scope| scope.spawn(|| RUNTIME.block_on(opening)).join());
    Arc::new(opened.expect("opening does not panic").expect("the store opens"))
}

impl Memory {
    /// A bucket, seen through its faults.
    fn open(&self, bucket: Arc<InMemory>, namespace: &Name, clock: Arc<ManualClock>) -> Arc<dyn Store> {
        let faulty = Faulty::new(bucket, self.faults, self.seed);
        open(faulty, namespace, Some(clock))
    }
}

fn bucket(instance: &Instance) -> Arc<InMemory> {
    let bucket: &Arc<InMemory> = instance.keep.downcast_ref().expect("made by create");
    bucket.clone()
}

impl Harness for Memory {
    fn name(&self) -> &'static str {
        "s3"
    }

    fn create(&self, namespace: &Name, clock: Arc<ManualClock>) -> Instance {
        let bucket = Arc::new(InMemory::new());
        Instance {
            store: self.open(bucket.clone(), namespace, clock),
            keep: Box::new(bucket),
        }
    }

    fn sibling(&self, instance: &Instance, namespace: &Name, clock: Arc<ManualClock>) -> Arc<dyn Store> {
        self.open(bucket(instance), namespace, clock)
    }

    fn reopen(&self, instance: Instance, namespace: &Name, clock: Arc<ManualClock>) -> Instance {
        let bucket = bucket(&instance);
        Instance {
            store: self.open(bucket.clone(), namespace, clock),
            keep: Box::new(bucket),
        }
    }

    /// With a key, the id says which: that is where the job is.
    fn job_id(&self) -> Naming {
        |token, key| match key {
            Some(digest) => JobId::new(format!("{token}.{digest}")).expect("short enough"),
            None => JobId::from(token),
        }
    }

    fn place(&self) -> Option<Place> {
        None
    }

    fn join(&self, location: &str) -> Arc<dyn Store> {
        unreachable!("a bucket in memory has no places, asked for {location}")
    }
}
