//! The conformance suite on a real S3 server, with races and kills of several processes. Each case has a bucket
//! of its own.

#[path = "server/mod.rs"]
pub mod server;

use std::process::ExitCode;
use std::sync::{Arc, LazyLock, OnceLock};

use semel_conformance::{Harness, Instance, Place, main as run};
use semel_core::ids::{JobId, Name};
use semel_core::memory::Naming;
use semel_core::store::Store;
use semel_core::time::{Clock, ManualClock};
use semel_s3::{S3Options, S3Store};
use server::{Kind, Server, fresh_bucket, options};
use tokio::runtime::Runtime;

/// Keeps connections alive: cases bring runtimes of their own, which come and go.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime can be made")
});

/// The server of this run.
pub static ENDPOINT: OnceLock<String> = OnceLock::new();

/// Stores on one private server.
pub struct S3;

/// Opens a store from anywhere, also from within another runtime.
pub fn open(url: &str, namespace: &Name, clock: Option<Arc<dyn Clock>>) -> Arc<dyn Store> {
    let options = S3Options {
        namespace: namespace.clone(),
        ..options(url)
    };
    let connect = async {
        match clock {
            Some(clock) => S3Store::open_with_clock(options, clock).await,
            None => S3Store::open(options).await,
        }
    };
    let opened = std::thread::scope(|scope| scope.spawn(|| RUNTIME.block_on(connect)).join());
    Arc::new(opened.expect("opening does not panic").expect("the store opens"))
}

fn url(instance: &Instance) -> &String {
    instance.keep.downcast_ref().expect("made by create")
}

fn fresh() -> String {
    fresh_bucket(ENDPOINT.get().expect("a server was started"))
}

impl Harness for S3 {
    fn name(&self) -> &'static str {
        "s3"
    }

    fn create(&self, namespace: &Name, clock: Arc<ManualClock>) -> Instance {
        let url = fresh();
        Instance {
            store: open(&url, namespace, Some(clock)),
            keep: Box::new(url),
        }
    }

    fn sibling(&self, instance: &Instance, namespace: &Name, clock: Arc<ManualClock>) -> Arc<dyn Store> {
        open(url(instance), namespace, Some(clock))
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

    /// With a key, the id says which: that is where the job is.
    fn job_id(&self) -> Naming {
        |token, key| match key {
            Some(digest) => JobId::new(format!("{token}.{digest}")).expect("short enough"),
            None => JobId::from(token),
        }
    }

    fn place(&self) -> Option<Place> {
        Some(Place {
            location: fresh(),
            keep: Box::new(()),
        })
    }

    fn join(&self, location: &str) -> Arc<dyn Store> {
        open(location, &Name::new("default").expect("a valid name"), None)
    }
}

/// The suite with a server of its own; a child of a race or a kill uses that of its parent.
pub fn with_server(kind: Kind, run: impl FnOnce() -> ExitCode) -> ExitCode {
    let is_child = std::env::args().nth(1).is_some_and(|first| first == "--child");
    let is_list = std::env::args().any(|argument| argument == "--list");
    let server = (!is_child && !is_list).then(|| Server::start(kind));
    if let Some(server) = &server {
        ENDPOINT.set(server.endpoint()).expect("set once");
    }
    let code = run();
    drop(server);
    code
}

/// Clauses whose cases ask nothing of the server that others do not ask: `cargo test` runs all of them in memory, and
/// here only what depends on who else writes, on time, and on dying. `SEMEL_S3_SUITE=whole` runs everything.
const ONLY_IN_MEMORY: [&str; 23] = [
    "1.1::", "1.3::", "1.4::", "1.6::", "2.1::", "2.2::", "2.3::", "2.4::", "2.5::", "2.6::", "2.12::",
    "2.13::", "2.14::", "2.15::", "2.17::", "5.1::", "5.3::", "6.", "7.2::", "7.3::", "8.", "9.1::", "9.2::",
];

/// The part of the suite that the server matters to, as a run of this same executable.
fn selected() -> Option<ExitCode> {
    let whole = std::env::var("SEMEL_S3_SUITE").is_ok_and(|word| word == "whole");
    // Whoever asks for something in particular gets that.
    if whole || std::env::args().len() > 1 {
        return None;
    }
    println!("on a server: all but {ONLY_IN_MEMORY:?}, which run in memory; SEMEL_S3_SUITE=whole runs all");
    let program = std::env::current_exe().expect("a test knows its own executable");
    let skipped = ONLY_IN_MEMORY.iter().flat_map(|clause| ["--skip", clause]);
    let status = std::process::Command::new(program)
        .args(skipped)
        .status()
        .expect("the test executable starts again");
    Some(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn main() -> ExitCode {
    if let Some(code) = selected() {
        return code;
    }
    let kind = match std::env::var("SEMEL_S3_SERVER").as_deref() {
        Ok("moto") => Kind::Moto,
        _ => Kind::Ministack,
    };
    with_server(kind, || run(S3))
}
