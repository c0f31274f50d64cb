//! `kill -9` under load: a process is killed from outside at a random moment, the place is opened again, and
//! what the process had written down before tells what has to be there.
//!
//! The load writes a line before each call and one after it, into a file that a kill cannot take away.
//! A call with the first line only is *unknown*: it is made once more with the same token, as every caller
//! may (contract 3.5), and from then on has one definite answer. After that the counters have to equal the
//! history to the last digit (I25), and each job has to be what its answers say.

mod check;
mod history;
mod load;
mod log;
mod report;
mod resolve;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use semel_core::store::Store;

use crate::kit::World;
use crate::rng::Rng;
use history::History;
pub(crate) use load::play;
pub(crate) use report::Report;

/// Rounds between two looks at every job ever.
const FULL_CHECK: u64 = 25;

/// Kills a process under load so many times. Panics where an invariant does not hold.
pub(crate) fn run(world: &World, kills: u64, seed: u64) -> Report {
    let place = world
        .harness()
        .place()
        .expect("a durable store has a place that can be opened again");
    let logs = tempfile::tempdir().expect("a directory for the logs");
    let mut rng = Rng::new(seed);
    let mut history = History::default();
    let mut report = Report::default();
    for round in 0..kills {
        let log = logs.path().join(format!("{round}.log"));
        let settled = kill_one(&place.location, &log, &mut rng);
        let calls = log::read(&log);
        report.killed(&calls, settled);
        let store = world.block(async { world.harness().join(&place.location) });
        let everything = round + 1 == kills || (round + 1).is_multiple_of(FULL_CHECK);
        world.block(after_a_kill(
            &store,
            calls,
            &mut history,
            &mut report,
            everything,
            &mut rng,
        ));
        // Bounded, whatever the number of kills.
        std::fs::remove_file(&log).ok();
    }
    report.finished(&history);
    report
}

/// Starts the load, waits a random moment, kills it. Says whether it was let run until it answered something.
fn kill_one(location: &str, log: &Path, rng: &mut Rng) -> bool {
    let mut child = start(location, log, rng.next());
    // Now and then while the store is still being opened, which no call survives but every file must.
    let settled = !rng.once_in(10);
    if settled {
        wait_for_answers(&mut child, log);
    }
    let longest = if rng.once_in(3) { 200_000 } else { 40_000 };
    std::thread::sleep(Duration::from_micros(rng.next() % longest));
    child.kill().expect("the load runs until it is killed");
    let status = child.wait().expect("the load can be waited for");
    assert!(status.code().is_none(), "the load ended by itself: {status}");
    settled
}

fn start(location: &str, log: &Path, seed: u64) -> Child {
    let program = std::env::current_exe().expect("a test knows its own executable");
    Command::new(program)
        .args(["--child", "crash", location])
        .arg(log)
        .arg(seed.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("the test executable starts again")
}

fn wait_for_answers(child: &mut Child, log: &Path) {
    for _ in 0..60_000 {
        if log::has_answers(log) {
            return;
        }
        assert!(
            child.try_wait().ok().flatten().is_none(),
            "the load ended before it had answered anything"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("the load has not answered anything for a minute");
}

async fn after_a_kill(
    store: &Arc<dyn Store>,
    calls: Vec<log::Call>,
    history: &mut History,
    report: &mut Report,
    everything: bool,
    rng: &mut Rng,
) {
    // Before anything is repeated: what the kill left is whole.
    check::nothing_to_repair(&**store).await;
    let (answered, unknown): (Vec<_>, Vec<_>) = calls.into_iter().partition(|call| call.answer.is_some());
    answered.iter().for_each(|call| history.learn(call));
    check::found(&**store, history).await;
    for call in unknown {
        let call = resolve::repeat(&**store, call, report).await;
        history.learn(&call);
    }
    resolve::finish_leases(&**store, history, rng).await;
    check::round(&**store, history, everything).await;
}
