//! The conformance suite on the in-memory reference store.

use std::process::ExitCode;
use std::sync::Arc;

use semel_conformance::{Harness, Instance, Place, main as run};
use semel_core::ids::Name;
use semel_core::memory::MemoryStore;
use semel_core::store::Store;
use semel_core::time::ManualClock;

struct Memory;

impl Harness for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn create(&self, namespace: &Name, clock: Arc<ManualClock>) -> Instance {
        Instance {
            store: Arc::new(MemoryStore::new(namespace.clone(), clock)),
            keep: Box::new(()),
        }
    }

    fn sibling(&self, _: &Instance, namespace: &Name, clock: Arc<ManualClock>) -> Arc<dyn Store> {
        Arc::new(MemoryStore::new(namespace.clone(), clock))
    }

    fn reopen(&self, instance: Instance, _: &Name, _: Arc<ManualClock>) -> Instance {
        instance
    }

    fn place(&self) -> Option<Place> {
        None
    }

    fn join(&self, location: &str) -> Arc<dyn Store> {
        unreachable!("memory has no places, asked for {location}")
    }
}

fn main() -> ExitCode {
    run(Memory)
}
