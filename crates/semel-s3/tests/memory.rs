//! The conformance suite on a bucket in memory: quick, and every case of one process.

use std::process::ExitCode;
use std::sync::{Arc, LazyLock};

use object_store::memory::InMemory;
use semel_conformance::{Harness, Instance, Place, main as run};
use semel_core::ids::Name;
use semel_core::store::Store;
use semel_core::time::ManualClock;
use semel_s3::{S3Options, S3Store};
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime can be made")
});

struct Memory;

/// Opens a store from anywhere, also from within another runtime.
fn open(bucket: Arc<InMemory>, namespace: &Name, clock: Arc<ManualClock>) -> Arc<dyn Store> {
    let options = S3Options {
        namespace: namespace.clone(),
        ..S3Options::from_url("s3://memory/suite").expect("a valid URL")
    };
    let opening = S3Store::on(bucket, options, Some(clock));
    let opened = std::thread::scope(|scope| scope.spawn(|| RUNTIME.block_on(opening)).join());
    Arc::new(opened.expect("opening does not panic").expect("the store opens"))
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
            store: open(bucket.clone(), namespace, clock),
            keep: Box::new(bucket),
        }
    }

    fn sibling(&self, instance: &Instance, namespace: &Name, clock: Arc<ManualClock>) -> Arc<dyn Store> {
        open(bucket(instance), namespace, clock)
    }

    fn reopen(&self, instance: Instance, namespace: &Name, clock: Arc<ManualClock>) -> Instance {
        let bucket = bucket(&instance);
        Instance {
            store: open(bucket.clone(), namespace, clock),
            keep: Box::new(bucket),
        }
    }

    fn place(&self) -> Option<Place> {
        None
    }

    fn join(&self, location: &str) -> Arc<dyn Store> {
        unreachable!("a bucket in memory has no places, asked for {location}")
    }
}

fn main() -> ExitCode {
    run(Memory)
}
