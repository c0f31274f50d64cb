//! One shift: everything a worker starts, and how it ends in order.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use semel_core::error::StoreError;
use semel_core::store::Retention;
use tokio::task::JoinSet;

use crate::error::Error;
use crate::upkeep;
use crate::worker::attempt;
use crate::worker::claims::Claimer;
use crate::worker::desk::{Desk, WorkReport};
use crate::worker::lease::Fate;
use crate::worker::registration::register;
use crate::worker::scribe::Scribe;
use crate::worker::stop::Stage;
use crate::worker::watch::watch;

/// Jobs a slot does in a row before it lets others have the thread.
const IN_A_ROW: u32 = 32;

/// How long a handler has to let go when it is dropped, and the store to answer at the end.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// Works until `until`, then stops in order; `at_once` cuts the grace short.
///
/// Dropping this stops everything at once; what was leased is delivered again when the leases expire.
pub(crate) async fn work(
    desk: Arc<Desk>,
    until: impl Future<Output = ()>,
    at_once: impl Future<Output = ()>,
) -> Result<WorkReport, Error> {
    let mut shift = Shift::begin(&desk);
    let broken = tokio::select! {
        () = until => None,
        ended = shift.claimer.join_next() => failure(ended),
    };
    tracing::info!(worker = %desk.settings.id, running = desk.floor.running(), "the worker stops");
    shift.finish(&desk, at_once).await;
    let report = desk.tally.report();
    tracing::info!(worker = %desk.settings.id, ?report, "the worker has stopped");
    match broken {
        Some(error) => Err(error.into()),
        None => Ok(report),
    }
}

/// Everything that runs for a worker; dropping it stops all of it.
struct Shift {
    slots: JoinSet<()>,
    claimer: JoinSet<Result<(), StoreError>>,
    scribe: JoinSet<()>,
    others: JoinSet<()>,
}

impl Shift {
    fn begin(desk: &Arc<Desk>) -> Self {
        let mut shift = Shift {
            slots: JoinSet::new(),
            claimer: JoinSet::new(),
            scribe: JoinSet::new(),
            others: JoinSet::new(),
        };
        for _ in 0..desk.settings.slots {
            shift.slots.spawn(slot(desk.clone()));
        }
        shift.scribe.spawn(Scribe::new(desk.clone()).run());
        shift.claimer.spawn(Claimer::new(desk.clone()).run());
        shift.others.spawn(watch(desk.clone()));
        shift.others.spawn(register(desk.clone()));
        if let Some(retention) = desk.settings.upkeep {
            shift.others.spawn(keep_up(desk.clone(), retention));
        }
        shift
    }

    async fn finish(mut self, desk: &Arc<Desk>, at_once: impl Future<Output = ()>) {
        desk.stop.go_to(Stage::Finishing);
        desk.floor.close();
        let all_home = home(&mut self.slots);
        let finished = tokio::select! {
            () = all_home => true,
            () = tokio::time::sleep(desk.settings.grace) => false,
            () = at_once => false,
        };
        if !finished {
            self.take_away(desk).await;
        }
        let _ = tokio::time::timeout(LAST_WAIT, self.claimer.join_next()).await;
        desk.stop.go_to(Stage::Leaving);
        let last_words = async {
            home(&mut self.scribe).await;
            home(&mut self.others).await;
        };
        if tokio::time::timeout(LAST_WAIT, last_words).await.is_err() {
            tracing::warn!(
                "the store did not answer in time: what was not handed back waits for its leases to expire"
            );
        }
    }

    /// The grace is over: handlers are dropped where they stand.
    async fn take_away(&mut self, desk: &Desk) {
        for lease in desk.leases.all() {
            lease.tell(Fate::Stopped);
        }
        if tokio::time::timeout(LAST_WAIT / 5, home(&mut self.slots))
            .await
            .is_err()
        {
            // A handler that blocks its thread cannot be dropped; its job is handed back all the same.
            let stuck: Vec<_> = desk
                .leases
                .all()
                .into_iter()
                .filter(|lease| lease.is_running())
                .collect();
            tracing::warn!(
                jobs = stuck.len(),
                "handlers do not let go of their thread; their jobs are handed back"
            );
            desk.floor.wrest(stuck);
            self.slots.abort_all();
        }
    }
}

async fn home(tasks: &mut JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}

/// Runs one job after the other.
async fn slot(desk: Arc<Desk>) {
    let mut ended = None;
    let mut in_a_row = 0;
    while let Some(lease) = desk.floor.next(ended.take()).await {
        ended = Some(attempt::run(&desk.handlers, lease, desk.settings.grace).await);
        in_a_row += 1;
        if in_a_row % IN_A_ROW == 0 {
            tokio::task::yield_now().await;
        }
    }
}

async fn keep_up(desk: Arc<Desk>, retention: Retention) {
    tokio::select! {
        () = desk.stop.comes_to(Stage::Finishing) => {}
        () = upkeep::run(&*desk.store, retention) => {}
    }
}

fn failure(ended: Option<Result<Result<(), StoreError>, tokio::task::JoinError>>) -> Option<StoreError> {
    match ended {
        Some(Ok(Err(error))) => Some(error),
        Some(Err(error)) => Some(StoreError::Unavailable {
            doing: "taking on work".to_owned(),
            source: Some(Box::new(error)),
        }),
        _ => None,
    }
}
