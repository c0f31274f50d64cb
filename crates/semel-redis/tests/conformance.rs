//! The conformance suite on the Redis store, each case on a server of its own.

#[path = "server/mod.rs"]
pub mod server;

use std::process::ExitCode;
use std::sync::{Arc, LazyLock};

use semel_conformance::{Harness, Instance, Place, main as run};
use semel_core::ids::Name;
use semel_core::store::Store;
use semel_core::time::{Clock, ManualClock};
use semel_redis::{RedisOptions, RedisStore};
use server::Server;
use tokio::runtime::Runtime;

/// Keeps connections alive: cases bring runtimes of their own, which come and go.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime can be made")
});

/// Stores on a private server each.
pub struct Redis;

/// Opens a store from anywhere, also from within another runtime.
fn open(url: &str, namespace: &Name, clock: Option<Arc<dyn Clock>>) -> Arc<dyn Store> {
    let mut options = RedisOptions {
        namespace: namespace.clone(),
        ..RedisOptions::from_url(url).expect("a valid URL")
    };
    if let Ok(shards) = std::env::var("SEMEL_REDIS_SHARDS") {
        options.shards = shards.parse().expect("a number of shards");
    }
    let connect = async {
        match clock {
            Some(clock) => RedisStore::open_with_clock(options, clock).await,
            None => RedisStore::open(options).await,
        }
    };
    let opened = std::thread::scope(|scope| scope.spawn(|| RUNTIME.block_on(connect)).join());
    Arc::new(opened.expect("opening does not panic").expect("the store opens"))
}

fn server(instance: &Instance) -> &Server {
    instance.keep.downcast_ref().expect("made by create")
}

impl Harness for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn create(&self, namespace: &Name, clock: Arc<ManualClock>) -> Instance {
        let server = Server::start();
        Instance {
            store: open(&server.url(), namespace, Some(clock)),
            keep: Box::new(server),
        }
    }

    fn sibling(&self, instance: &Instance, namespace: &Name, clock: Arc<ManualClock>) -> Arc<dyn Store> {
        open(&server(instance).url(), namespace, Some(clock))
    }

    fn reopen(&self, instance: Instance, namespace: &Name, clock: Arc<ManualClock>) -> Instance {
        let Instance { store, keep } = instance;
        drop(store);
        let url = keep.downcast_ref::<Server>().expect("made by create").url();
        Instance {
            store: open(&url, namespace, Some(clock)),
            keep,
        }
    }

    fn place(&self) -> Option<Place> {
        let server = Server::start();
        Some(Place {
            location: server.url(),
            keep: Box::new(server),
        })
    }

    fn join(&self, location: &str) -> Arc<dyn Store> {
        open(location, &Name::new("default").expect("a valid name"), None)
    }
}

fn main() -> ExitCode {
    run(Redis)
}
