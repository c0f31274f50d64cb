//! Jobs that come by themselves: cron patterns in time zones (contract 6.7).
//!
//! Schedules are kept in the store and carried out by the upkeep of every worker. Each tick is submitted once,
//! however many there are.

mod cron;
mod document;
mod tick;
mod time;
mod view;

pub use document::{KIND, Tick, TickOutcome};
pub use view::ScheduleView;

use std::collections::BTreeMap;
use std::time::Duration;

use semel_core::error::{Invalid, StoreError};
use semel_core::ids::{Name, Token};
use semel_core::json::Json;
use semel_core::limits;
use semel_core::store::{Expect, PutOutcome, Store};
use semel_core::submission::Submission;
use semel_core::time::{Millis, Timestamp};
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::error::Error;
use crate::ids;
use crate::schedule::cron::Cron;
use crate::schedule::document::{Kept, Versioned};
use crate::task::Task;

pub(crate) use time::Anchor;

/// A job that comes by itself.
///
/// ```
/// use semel::schedule::{self, Overlap, Schedule};
/// use semel::Task;
///
/// const REPORT: Task<u32> = Task::new("report");
///
/// # #[tokio::main] async fn main() -> Result<(), semel::Error> {
/// let jobs = semel::connect("memory:").await?;
/// let weekly = Schedule::new("weekly report", "30 8 * * MON", REPORT, &7)?
///     .zone("Europe/Berlin")
///     .overlap(Overlap::Skip);
/// schedule::put(&jobs, &weekly).await?;
/// assert!(schedule::get(&jobs, "weekly report").await?.is_some_and(|view| view.next.is_some()));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Its name.
    pub name: Name,
    /// When: five fields (or six, with the second in front), or a nickname such as `@daily`.
    pub cron: String,
    /// In which time zone.
    #[serde(default = "utc")]
    pub zone: String,
    /// What happens when the job of the tick before has not ended.
    #[serde(default)]
    pub overlap: Overlap,
    /// The kind of work.
    pub task: Name,
    /// Where its jobs wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Name>,
    /// What the handler gets, each time.
    pub input: Json,
    /// −100 to 100, larger first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i8>,
    /// How many attempts may end in an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// How long one attempt may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i64>,
    /// Small texts that travel with the jobs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// What happens at a tick when the job of the tick before has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// No job this time; it is recorded.
    #[default]
    Skip,
    /// Another job, beside it.
    Queue,
    /// It is cancelled, and there is another.
    Replace,
}

impl Schedule {
    /// A schedule in UTC that skips a tick while the job before is not done.
    pub fn new<I, O>(
        name: impl AsRef<str>,
        cron: impl Into<String>,
        task: Task<I, O>,
        input: &I,
    ) -> Result<Self, Invalid>
    where
        I: Serialize,
    {
        let settings = task.settings();
        let mut schedule = Schedule::named(name, cron, task.name(), Json::of(input)?)?;
        schedule.queue = settings.queue.map(Name::new).transpose()?;
        schedule.priority = settings.priority;
        schedule.max_attempts = settings.max_attempts;
        schedule.timeout_ms = settings.timeout.map(|timeout| Millis::from(timeout).as_millis());
        Ok(schedule)
    }

    /// As [`Schedule::new`], for a task that is known by name only.
    pub fn named(
        name: impl AsRef<str>,
        cron: impl Into<String>,
        task: impl AsRef<str>,
        input: Json,
    ) -> Result<Self, Invalid> {
        Ok(Schedule {
            name: Name::new(name)?,
            cron: cron.into(),
            zone: utc(),
            overlap: Overlap::default(),
            task: Name::new(task)?,
            queue: None,
            input,
            priority: None,
            max_attempts: None,
            timeout_ms: None,
            headers: BTreeMap::new(),
        })
    }

    /// Sets the time zone, such as `Europe/Berlin`.
    #[must_use]
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = zone.into();
        self
    }

    /// Sets what happens when the job of the tick before has not ended.
    #[must_use]
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// The submission of one tick, without its key.
    fn submission(&self, token: Token) -> Submission {
        let mut submission = Submission::new(token, self.task.clone(), self.input.clone());
        submission.queue = self.queue.clone().unwrap_or_else(limits::default_queue);
        submission.priority = self.priority.unwrap_or(0);
        submission.max_attempts = self.max_attempts.unwrap_or(limits::MAX_ATTEMPTS);
        submission.content.timeout = self.timeout_ms.map(Millis::new);
        submission.content.headers = self.headers.clone();
        submission
    }

    /// Refuses what could never be carried out.
    fn check(&self, now: Timestamp) -> Result<Cron, Invalid> {
        self.submission(ids::fresh_token()).check(now)?;
        Cron::new(&self.cron, &self.zone, now)
    }
}

/// Makes or changes a schedule. One that is there already keeps its last tick; if its pattern or zone changes,
/// ticks before now do not count.
pub async fn put(client: &Client, schedule: &Schedule) -> Result<ScheduleView, Error> {
    let store = &**client.store();
    let now = time::of(store).await?;
    let cron = schedule.check(now)?;
    loop {
        let found = document::one(store, schedule.name.as_str()).await?;
        let expect = match &found {
            Some(found) => Expect::Version(found.version),
            None => Expect::Absent,
        };
        let kept = changed(found, schedule, now);
        if document::write(store, &kept, expect).await?.is_some() {
            return Ok(ScheduleView::at(kept, &cron, now));
        }
    }
}

fn changed(found: Option<Versioned>, schedule: &Schedule, now: Timestamp) -> Kept {
    let fresh = Kept {
        schedule: schedule.clone(),
        since: now,
        last: None,
        pending: None,
        skipped: 0,
    };
    let Some(Versioned { kept, .. }) = found else {
        return fresh;
    };
    let same_time = kept.schedule.cron == schedule.cron && kept.schedule.zone == schedule.zone;
    Kept {
        since: if same_time { kept.since } else { now },
        pending: kept.pending.filter(|_| same_time),
        last: kept.last,
        skipped: kept.skipped,
        ..fresh
    }
}

/// One schedule.
pub async fn get(client: &Client, name: &str) -> Result<Option<ScheduleView>, Error> {
    let store = &**client.store();
    let found = document::one(store, name).await?;
    let now = crate::clock::now();
    Ok(found.map(|found| ScheduleView::of(found, now)))
}

/// All schedules, by name.
pub async fn list(client: &Client) -> Result<Vec<ScheduleView>, Error> {
    let now = crate::clock::now();
    let found = document::all(&**client.store()).await?;
    Ok(found
        .into_iter()
        .map(|found| ScheduleView::of(found, now))
        .collect())
}

/// Removes a schedule; says whether there was one. Jobs it has submitted stay.
pub async fn delete(client: &Client, name: &str) -> Result<bool, Error> {
    let gone = client
        .store()
        .delete_document(&document::kind(), name, None)
        .await?;
    Ok(matches!(gone, PutOutcome::Done { .. }))
}

/// Carries out what is due of all schedules; says when to look again at the latest.
pub(crate) async fn tick_all(store: &dyn Store, anchor: &mut Anchor) -> Result<Option<Duration>, StoreError> {
    let schedules = document::all(store).await?;
    if schedules.is_empty() {
        return Ok(None);
    }
    let now = anchor.now(store).await?;
    let mut next: Option<Timestamp> = None;
    for schedule in schedules {
        let name = schedule.kept.schedule.name.clone();
        match tick::tick(store, schedule, now).await {
            Ok(due) => next = next.into_iter().chain(due).min(),
            // One schedule that cannot be carried out keeps no other from it.
            Err(error) => {
                tracing::warn!(schedule = %name, %error, "a tick could not be carried out; trying again")
            }
        }
    }
    Ok(next.map(|next| next.since(now).into()))
}

fn utc() -> String {
    "UTC".to_owned()
}
