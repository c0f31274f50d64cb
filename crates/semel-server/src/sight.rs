//! What was seen of a store within the last second, by everybody who asked: a page that many watch costs one look.
//!
//! A store with millions of keys takes longer to look at than a page may take. Then the last look is shown, which
//! carries its time, and the next one is taken beside.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use semel::schedule::{self, ScheduleView};
use semel::workers::{self, WorkerView};
use semel_core::error::StoreError;
use semel_core::ids::Name;
use semel_core::store::{Setting, Store, Target};
use semel_core::time::{Millis, Timestamp};
use semel_core::view::{Snapshot, Stats};
use semel_outbox::Status;
use tokio::sync::Notify;

use crate::app::App;
use crate::clock;
use crate::problem::Problem;

/// How old an answer may be.
const FRESH: Duration = Duration::from_secs(1);
/// Nobody waits for looks that take longer than this, twice in a row.
const COSTLY: Duration = Duration::from_millis(100);
/// How often a store that is costly to look at is looked at in any case.
const IN_ANY_CASE: Duration = Duration::from_secs(10);
/// Nobody is shown what is older than this.
const STALE: Duration = Duration::from_secs(60);
/// How far back the history is looked at.
const DAY: Millis = Millis::from_days(1);
/// How far back it is looked for what was counted before.
const MONTH: Millis = Millis::from_days(30);

/// What was seen.
#[derive(Debug, Default)]
pub struct Sight {
    seen: Mutex<Seen>,
    /// One looks at a time; the others wait for that.
    looking: tokio::sync::Mutex<()>,
    wanted: Notify,
}

#[derive(Debug, Default)]
struct Seen {
    last: Option<(Instant, Arc<View>)>,
    /// How long the last two looks took.
    took: [Duration; 2],
}

/// Everything alerts and the overview are made from.
#[derive(Clone, Debug)]
pub struct View {
    /// When it was gathered, by this host's clock.
    pub now: Timestamp,
    /// Counters and sizes.
    pub stats: Arc<Stats>,
    /// Snapshots of the last day and the newest one before it, if there is any, oldest first.
    pub history: Vec<Snapshot>,
    /// Settings that are not at their default.
    pub settings: Vec<(Target, Setting)>,
    /// Live workers.
    pub workers: Vec<WorkerView>,
    serving: Arc<Serving>,
    /// Schedules.
    pub schedules: Vec<ScheduleView>,
    /// How the outbox stands, if there is one, or why that is not known.
    pub outbox: Option<Result<Status, String>>,
}

impl View {
    /// How many live workers serve a task in a queue.
    pub fn serving(&self, task: &Name, queue: &Name) -> usize {
        let serves = |worker: &&Served| worker.0.as_ref().is_none_or(|queues| queues.contains(queue));
        self.serving.of(task).filter(serves).count()
    }

    /// How many live workers serve a task, in whatever queue.
    pub fn serving_task(&self, task: &Name) -> usize {
        self.serving.of(task).count()
    }

    /// Looks at a store now.
    pub async fn look(client: &semel::Client) -> Result<View, semel::Error> {
        let store = client.store();
        let stats = Arc::new(store.stats().await?);
        let workers = workers::list(client).await?;
        Ok(View {
            now: clock::now(),
            history: history(store, stats.as_of).await?,
            stats,
            settings: store.settings().await?,
            serving: Arc::new(Serving::of_all(&workers)),
            workers,
            schedules: schedule::list(client).await?,
            outbox: None,
        })
    }
}

/// Which workers serve which task. Asked for each of thousands of lanes, it must not go through all that all workers name.
#[derive(Debug, Default)]
struct Serving {
    of_all: Vec<Served>,
    of_some: HashMap<Name, Vec<Served>>,
}

/// The queues of a worker; `None`: all.
#[derive(Clone, Debug)]
struct Served(Option<Arc<HashSet<Name>>>);

impl Serving {
    fn of_all(workers: &[WorkerView]) -> Self {
        let mut serving = Serving::default();
        for worker in workers {
            let queues = &worker.info.queues;
            let queues = (!queues.is_empty()).then(|| Arc::new(queues.iter().cloned().collect()));
            if worker.info.tasks.is_empty() {
                serving.of_all.push(Served(queues.clone()));
            }
            let tasks: HashSet<&Name> = worker.info.tasks.iter().collect();
            for task in tasks {
                let those = serving.of_some.entry(task.clone()).or_default();
                those.push(Served(queues.clone()));
            }
        }
        serving
    }

    fn of(&self, task: &Name) -> impl Iterator<Item = &Served> {
        self.of_all
            .iter()
            .chain(self.of_some.get(task).into_iter().flatten())
    }
}

/// A day and what was before it. A store that was busy within the hour before needs no second look.
async fn history(store: &Arc<dyn Store>, now: Timestamp) -> Result<Vec<Snapshot>, StoreError> {
    let begin = Timestamp::from_millis(now.as_millis() - DAY.as_millis());
    let mut found = store.history(Millis::from_secs(25 * 3_600)).await?;
    if found.first().is_none_or(|first| first.at > begin) {
        found = store.history(MONTH).await?;
    }
    let before = found.partition_point(|snapshot| snapshot.at <= begin);
    Ok(found.split_off(before.saturating_sub(1)))
}

impl Sight {
    fn younger_than(&self, age: Duration) -> Option<Arc<View>> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, view) = seen.last.as_ref()?;
        (clock::instant().duration_since(*at) < age).then(|| view.clone())
    }

    fn is_costly(&self) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.took.iter().all(|took| *took > COSTLY)
    }

    /// How long to leave a store alone that is costly to look at: looking takes at most a third of a processor.
    fn rest(&self) -> Duration {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        (seen.took[1] * 2).min(IN_ANY_CASE)
    }

    fn keep(&self, begun: Instant, view: &Arc<View>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::instant();
        seen.took = [seen.took[1], now.duration_since(begun)];
        seen.last = Some((now, view.clone()));
    }
}

impl App {
    /// Counters and sizes, as old as [`App::view`].
    pub async fn stats(&self) -> Result<Arc<Stats>, Problem> {
        Ok(self.view().await?.stats.clone())
    }

    /// Everything, at most a second old; where looking is costly, the last look while the next is taken.
    pub async fn view(&self) -> Result<Arc<View>, Problem> {
        if let Some(fresh) = self.sight.younger_than(FRESH) {
            return Ok(fresh);
        }
        if self.sight.is_costly()
            && let Some(last) = self.sight.younger_than(STALE)
        {
            self.sight.wanted.notify_one();
            return Ok(last);
        }
        self.look().await
    }

    async fn look(&self) -> Result<Arc<View>, Problem> {
        let _turn = self.sight.looking.lock().await;
        if let Some(fresh) = self.sight.younger_than(FRESH) {
            return Ok(fresh);
        }
        let begun = clock::instant();
        let (view, outbox) = tokio::join!(View::look(&self.client), self.outbox_status());
        let view = Arc::new(View { outbox, ..view? });
        self.sight.keep(begun, &view);
        Ok(view)
    }

    async fn outbox_status(&self) -> Option<Result<Status, String>> {
        let outbox = self.settings.outbox.as_ref()?;
        Some(
            outbox
                .status()
                .await
                .map_err(|problem| problem.detail().to_owned()),
        )
    }

    /// Forgets what was seen: whoever changed something sees it changed.
    pub async fn look_again(&self) {
        // A look that is under way may have begun before the change.
        let _turn = self.sight.looking.lock().await;
        self.sight
            .seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .last = None;
    }
}

/// Looks for those who do not wait.
pub async fn look_ahead(app: App) {
    loop {
        tokio::select! {
            () = app.sight.wanted.notified() => {}
            () = tokio::time::sleep(IN_ANY_CASE) => {}
            () = app.stopping() => return,
        }
        if app.sight.is_costly() {
            // Whoever asks once this is stale is told what is wrong.
            let _ = app.look().await;
            tokio::select! {
                () = tokio::time::sleep(app.sight.rest()) => {}
                () = app.stopping() => return,
            }
        }
    }
}
