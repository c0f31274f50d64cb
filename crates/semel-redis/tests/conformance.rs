//! The conformance suite on the Redis store, each case on a server of its own; then on a cluster of three masters.

#[path = "server/mod.rs"]
pub mod server;

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use semel_conformance::{Case, Harness, Instance, Place, main as run};
use semel_core::ids::Name;
use semel_core::store::Store;
use semel_core::time::{Clock, ManualClock};
use semel_redis::{RedisOptions, RedisStore};
use server::Server;
use server::cluster::{Lent, end_all};
use server::watched;
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

/// Stores on a cluster of three masters, over so many shards.
pub struct OnCluster(usize);

impl OnCluster {
    fn url(&self, keep: &(dyn std::any::Any + Send + Sync)) -> String {
        let cluster: &Lent = keep.downcast_ref().expect("made by create");
        format!("{}?shards={}", cluster.url(), self.0)
    }
}

impl Harness for OnCluster {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn create(&self, namespace: &Name, clock: Arc<ManualClock>) -> Instance {
        let cluster = Lent::take();
        Instance {
            store: open(&self.url(&cluster), namespace, Some(clock)),
            keep: Box::new(cluster),
        }
    }

    fn sibling(&self, instance: &Instance, namespace: &Name, clock: Arc<ManualClock>) -> Arc<dyn Store> {
        open(&self.url(&*instance.keep), namespace, Some(clock))
    }

    fn reopen(&self, instance: Instance, namespace: &Name, clock: Arc<ManualClock>) -> Instance {
        let Instance { store, keep } = instance;
        drop(store);
        Instance {
            store: open(&self.url(&*keep), namespace, Some(clock)),
            keep,
        }
    }

    fn place(&self) -> Option<Place> {
        let cluster = Lent::take();
        Some(Place {
            location: self.url(&cluster),
            keep: Box::new(cluster),
        })
    }

    fn join(&self, location: &str) -> Arc<dyn Store> {
        Redis.join(location)
    }
}

/// Shards on the cluster: each master has several.
const CLUSTER_SHARDS: usize = 8;
/// Cases that rest on what holds per shard: the order of everything, and the bounds on queues and tasks. They are run
/// on the cluster with one shard.
const ONE_SHARD: [&str; 3] = [
    MODEL,
    "the_number_of_queues_is_bounded",
    "the_number_of_tasks_is_bounded",
];

/// The longest case by far on a cluster, which answers each call later; `cargo xtask faults redis` runs it there.
const MODEL: &str = "random_operations_agree_with_the_reference";

/// Runs the suite on the cluster, every case once but the model; if it is `also_alone`, then all of it again with one
/// shard.
pub fn on_cluster(also_alone: bool, arguments: &[String]) -> ExitCode {
    let per_shard = |case: &Case| ONE_SHARD.contains(&case.name);
    let all = semel_conformance::cases::all();
    let alone = all.iter().filter(|case| per_shard(case)).count();
    assert_eq!(alone, ONE_SHARD.len(), "a case has another name");
    let spread = all.len() - alone;
    println!(
        "\nOn a cluster of three masters, {CLUSTER_SHARDS} shards: {spread} of {} cases",
        all.len()
    );
    let first = semel_conformance::run(OnCluster(CLUSTER_SHARDS), |_, case| !per_shard(case), arguments);
    let rest = if also_alone { all.len() } else { alone - 1 };
    println!(
        "\nOn a cluster of three masters, one shard: {rest} of {} cases",
        all.len()
    );
    if !also_alone {
        println!("{MODEL} runs on one server here, on a cluster with `cargo xtask faults redis`");
    }
    let chosen = |case: &Case| also_alone || (per_shard(case) && case.name != MODEL);
    let second = semel_conformance::run(OnCluster(1), move |_, case| chosen(case), arguments);
    end_all();
    if first == ExitCode::SUCCESS { second } else { first }
}

/// Stores behind Sentinel, where the replica takes over from time to time.
pub struct Watched(AtomicUsize);

/// Cases from one failover to the next.
const FAILOVERS: usize = 40;

impl Harness for Watched {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn create(&self, namespace: &Name, clock: Arc<ManualClock>) -> Instance {
        let watched = watched::watched();
        let rig = watched.as_ref().expect("it is started");
        rig.flush();
        let store = open(&rig.url(), namespace, Some(clock));
        // The store has found the master, and has to find another.
        if self.0.fetch_add(1, Ordering::SeqCst).is_multiple_of(FAILOVERS) {
            rig.fail_over();
        }
        Instance {
            store,
            keep: Box::new(rig.url()),
        }
    }

    fn sibling(&self, instance: &Instance, namespace: &Name, clock: Arc<ManualClock>) -> Arc<dyn Store> {
        let url: &String = instance.keep.downcast_ref().expect("made by create");
        open(url, namespace, Some(clock))
    }

    fn reopen(&self, instance: Instance, namespace: &Name, clock: Arc<ManualClock>) -> Instance {
        let Instance { store, keep } = instance;
        drop(store);
        let url: &String = keep.downcast_ref().expect("made by create");
        Instance {
            store: open(url, namespace, Some(clock)),
            keep,
        }
    }

    fn place(&self) -> Option<Place> {
        let watched = watched::watched();
        let rig = watched.as_ref().expect("it is started");
        rig.flush();
        Some(Place {
            location: rig.url(),
            keep: Box::new(()),
        })
    }

    fn join(&self, location: &str) -> Arc<dyn Store> {
        Redis.join(location)
    }
}

/// Runs the suite through failovers: one case after another, each call answered when the replica has it.
#[allow(dead_code)] // the campaigns call it
pub fn through_failovers() -> ExitCode {
    let cases = semel_conformance::cases::all().len();
    println!(
        "\nThrough Sentinel, with a failover every {FAILOVERS} cases and wait=1: {cases} of {cases} cases"
    );
    let alone = ["--test-threads".to_owned(), "1".to_owned()];
    let ended = semel_conformance::run(Watched(AtomicUsize::new(0)), |_, _| true, &alone);
    watched::end();
    ended
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let alone = run(Redis);
    // A process that a case has started plays its part and no more.
    if arguments.first().is_some_and(|first| first == "--child") {
        return alone;
    }
    let cluster = on_cluster(false, &arguments);
    if alone == ExitCode::SUCCESS {
        cluster
    } else {
        alone
    }
}
