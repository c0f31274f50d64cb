//! What was seen of a store within the last second, by everybody who asked: a page that many watch costs one look.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use semel::schedule::{self, ScheduleView};
use semel::workers::{self, WorkerView};
use semel_core::ids::Name;
use semel_core::store::{Setting, Target};
use semel_core::time::{Millis, Timestamp};
use semel_core::view::{Snapshot, Stats};
use semel_outbox::Status;
use tokio::sync::Mutex;

use crate::app::App;
use crate::clock;
use crate::problem::Problem;

/// How old an answer may be.
const FRESH: Duration = Duration::from_secs(1);
/// How far back the history is looked at.
const DAY: Millis = Millis::from_days(1);

/// What was seen, each part by itself.
#[derive(Debug, Default)]
pub struct Sight {
    stats: Kept<Stats>,
    view: Kept<View>,
}

/// Everything alerts and the overview are made from.
#[derive(Clone, Debug)]
pub struct View {
    /// When it was gathered, by this host's clock.
    pub now: Timestamp,
    /// Counters and sizes.
    pub stats: Stats,
    /// Snapshots of the last day, oldest first.
    pub history: Vec<Snapshot>,
    /// Settings that are not at their default.
    pub settings: Vec<(Target, Setting)>,
    /// Live workers.
    pub workers: Vec<WorkerView>,
    /// Schedules.
    pub schedules: Vec<ScheduleView>,
    /// How the outbox stands, if there is one, or why that is not known.
    pub outbox: Option<Result<Status, String>>,
}

impl View {
    /// How many live workers serve a task in a queue.
    pub fn serving(&self, task: &Name, queue: &Name) -> usize {
        let serves = |worker: &&WorkerView| worker.serves(task.as_str(), queue.as_str());
        self.workers.iter().filter(serves).count()
    }

    /// Looks at a store now.
    pub async fn look(client: &semel::Client) -> Result<View, semel::Error> {
        let store = client.store();
        Ok(View {
            now: clock::now(),
            stats: store.stats().await?,
            history: store.history(DAY).await?,
            settings: store.settings().await?,
            workers: workers::list(client).await?,
            schedules: schedule::list(client).await?,
            outbox: None,
        })
    }
}

impl App {
    /// Counters and sizes, at most a second old.
    pub async fn stats(&self) -> Result<Arc<Stats>, Problem> {
        let look = async { Ok(self.client.store().stats().await?) };
        self.sight.stats.get(look).await
    }

    /// Everything, at most a second old.
    pub async fn view(&self) -> Result<Arc<View>, Problem> {
        let look = async {
            let (view, outbox) = tokio::join!(View::look(&self.client), self.outbox_status());
            Ok(View { outbox, ..view? })
        };
        self.sight.view.get(look).await
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
        self.sight.stats.forget().await;
        self.sight.view.forget().await;
    }
}

/// A value that is made again once it is old; one at a time makes it, the others wait for that.
#[derive(Debug)]
struct Kept<T>(Mutex<Option<(Instant, Arc<T>)>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Kept(Mutex::new(None))
    }
}

impl<T> Kept<T> {
    async fn get(&self, make: impl Future<Output = Result<T, Problem>>) -> Result<Arc<T>, Problem> {
        let mut kept = self.0.lock().await;
        if let Some((made_at, value)) = &*kept
            && clock::instant().duration_since(*made_at) < FRESH
        {
            return Ok(value.clone());
        }
        let value = Arc::new(make.await?);
        *kept = Some((clock::instant(), value.clone()));
        Ok(value)
    }

    async fn forget(&self) {
        *self.0.lock().await = None;
    }
}
