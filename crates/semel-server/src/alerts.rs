//! What needs somebody, from live data (contract 7.4). Each alert carries the command that helps.

mod outbox;
mod room;

use std::collections::BTreeSet;

use semel_core::counters::{Counter, Counts};
use semel_core::job::State;
use semel_core::store::Target;
use semel_core::time::{Millis, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use crate::sight::View;
use crate::text::{count, flag, operand, percent, plural};
use crate::when::span;

/// When alerts fire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// The share of failed among ended jobs of the last hour.
    pub error_rate: f64,
    /// How far the share of absorbed submissions of ten minutes may be from that of the day.
    pub duplicate_rate: f64,
    /// How long the oldest job that is due may wait.
    pub oldest_waiting: Millis,
    /// Leases that may expire in ten minutes.
    pub lease_expirations: i64,
    /// How late a schedule may be.
    pub schedule_missed: Millis,
    /// How long something may be paused.
    pub paused: Millis,
    /// How long the oldest event of the outbox may wait.
    pub outbox_lag: Millis,
    /// How far this host's clock may be from the store's.
    pub clock_skew: Millis,
    /// The share of what it can have that the store may take.
    pub storage: f64,
    /// Keys whose time has passed that may wait to be cleaned up.
    pub expired_keys: i64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds {
            error_rate: 0.05,
            duplicate_rate: 0.3,
            oldest_waiting: Millis::from_secs(300),
            lease_expirations: 10,
            schedule_missed: Millis::from_secs(60),
            paused: Millis::from_secs(3_600),
            outbox_lag: Millis::from_secs(300),
            clock_skew: Millis::from_secs(5),
            storage: 0.8,
            expired_keys: 1_000,
        }
    }
}

/// Fewer ended jobs or submissions say nothing about a rate.
const ENOUGH: i64 = 20;

/// Names that are said before the others are counted.
const NAMED: usize = 5;

/// Says why a rate beyond its threshold does not fire.
fn too_few(seen: i64, what: &str, is_beyond: bool) -> String {
    match is_beyond && seen < ENOUGH {
        true => format!("; fewer than {ENOUGH} {what} say nothing yet"),
        false => String::new(),
    }
}

/// Something that is watched, and whether it needs somebody.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Alert {
    /// Its name.
    pub alert: &'static str,
    /// Whether it fires.
    pub firing: bool,
    /// How it stands, in a sentence.
    pub message: String,
    /// What was measured.
    pub value: f64,
    /// What it is measured against.
    pub threshold: f64,
    /// The command that helps.
    pub command: String,
}

/// Everything that is watched, in the order of how much it matters.
pub fn watch(view: &View, limits: &Thresholds) -> Vec<Alert> {
    let mut watched = vec![
        steps_in_doubt(view),
        no_worker(view),
        oldest_waiting(view, limits),
        error_rate(view, limits),
        lease_expirations(view, limits),
        schedule_missed(view, limits),
        paused(view, limits),
        duplicate_rate(view, limits),
        clock_skew(view, limits),
        room::expired_keys(view, limits),
    ];
    watched.extend(room::storage(view, limits));
    watched.extend(outbox::watch(view, limits));
    watched
}

/// What was counted within a window up to now.
pub fn counted(view: &View, window: Millis) -> Counts {
    let begin = Timestamp::from_millis(view.stats.as_of.as_millis() - window.as_millis());
    match view.history.iter().rev().find(|snapshot| snapshot.at <= begin) {
        Some(before) => view.stats.raw.since(&before.counts),
        // The store is younger than the window: everything it counted is within.
        None => view.stats.raw,
    }
}

fn steps_in_doubt(view: &View) -> Alert {
    let n = view.stats.steps_in_doubt;
    Alert {
        alert: "steps_in_doubt",
        firing: n > 0,
        message: match n {
            0 => "No step is in doubt".to_owned(),
            n => format!(
                "{}: the effect may have happened, somebody has to find out",
                plural(n, "step is in doubt", "steps are in doubt")
            ),
        },
        value: n as f64,
        threshold: 0.0,
        command: "semel steps list".to_owned(),
    }
}

fn no_worker(view: &View) -> Alert {
    let pauses = view
        .settings
        .iter()
        .filter(|(_, setting)| setting.is_paused(view.now));
    let pauses: BTreeSet<&Target> = pauses.map(|(target, _)| target).collect();
    let paused = |target: Target| pauses.contains(&target);
    let waiting = view.stats.lanes.iter().filter(|lane| {
        lane.jobs.get(&State::Queued).copied().unwrap_or(0) > 0
            && view.serving(&lane.task, &lane.queue) == 0
            && !paused(Target::Queue(lane.queue.clone()))
            && !paused(Target::Task(lane.task.clone()))
            && !paused(Target::All)
    });
    let waiting: Vec<_> = waiting.collect();
    let tasks: BTreeSet<&str> = waiting.iter().map(|lane| lane.task.as_str()).collect();
    let jobs: i64 = waiting
        .iter()
        .filter_map(|lane| lane.jobs.get(&State::Queued))
        .sum();
    let first = tasks.first().copied().unwrap_or("TASK");
    Alert {
        alert: "no_worker",
        firing: jobs > 0,
        message: match jobs {
            0 => "Every task that waits has a live worker".to_owned(),
            jobs => format!(
                "{} (task {}) and no live worker serves them",
                plural(jobs, "job waits", "jobs wait"),
                some_of(&tasks)
            ),
        },
        value: jobs as f64,
        threshold: 0.0,
        command: format!("semel work {} --exec 'CMD'", flag("--task", first)),
    }
}

/// A few names, and how many more there are: there may be thousands.
fn some_of(names: &BTreeSet<&str>) -> String {
    let some: Vec<&str> = names.iter().copied().take(NAMED).collect();
    match names.len().saturating_sub(NAMED) {
        0 => some.join(", "),
        more => format!("{} and {more} more", some.join(", ")),
    }
}

fn oldest_waiting(view: &View, limits: &Thresholds) -> Alert {
    let lanes = view.stats.lanes.iter().filter(|lane| !lane.paused);
    let oldest = lanes
        .filter_map(|lane| lane.oldest_waiting.map(|at| (at, lane)))
        .min_by_key(|(at, _)| *at);
    let waited = oldest.map_or(Millis::ZERO, |(at, _)| view.stats.as_of.since(at));
    Alert {
        alert: "oldest_waiting",
        firing: waited > limits.oldest_waiting,
        message: match oldest {
            None => "Nothing that is due waits".to_owned(),
            Some((_, lane)) => format!(
                "The oldest job that is due has waited {} (task {}, queue {})",
                span(waited),
                lane.task,
                lane.queue
            ),
        },
        value: waited.as_millis() as f64 / 1_000.0,
        threshold: limits.oldest_waiting.as_millis() as f64 / 1_000.0,
        command: match oldest {
            Some((_, lane)) => format!(
                "semel jobs list --state queued {}",
                flag("--task", lane.task.as_str())
            ),
            None => "semel jobs list --state queued".to_owned(),
        },
    }
}

fn error_rate(view: &View, limits: &Thresholds) -> Alert {
    let counts = counted(view, Millis::from_secs(3_600));
    let failed = counts.get(Counter::Failed);
    let ended = failed + counts.get(Counter::Completed);
    let rate = if ended == 0 {
        0.0
    } else {
        failed as f64 / ended as f64
    };
    Alert {
        alert: "error_rate",
        firing: ended >= ENOUGH && rate > limits.error_rate,
        message: format!(
            "{} of {} failed within the last hour ({}){}",
            count(failed),
            plural(ended, "job that ended", "jobs that ended"),
            percent(rate),
            too_few(ended, "jobs", rate > limits.error_rate)
        ),
        value: rate,
        threshold: limits.error_rate,
        command: "semel dead-letters list".to_owned(),
    }
}

fn lease_expirations(view: &View, limits: &Thresholds) -> Alert {
    let expired = counted(view, Millis::from_secs(600)).get(Counter::Expired);
    Alert {
        alert: "lease_expirations",
        firing: expired > limits.lease_expirations,
        message: format!(
            "{} within the last ten minutes",
            plural(expired, "lease expired", "leases expired")
        ),
        value: expired as f64,
        threshold: limits.lease_expirations as f64,
        command: "semel workers list".to_owned(),
    }
}

fn schedule_missed(view: &View, limits: &Thresholds) -> Alert {
    let late = view
        .schedules
        .iter()
        .filter_map(|one| one.overdue.map(|due| (view.now.since(due), &one.schedule.name)));
    let latest = late.max_by_key(|(late, _)| *late);
    let by = latest.map_or(Millis::ZERO, |(late, _)| late);
    Alert {
        alert: "schedule_missed",
        firing: by > limits.schedule_missed,
        message: match latest {
            None => "Every schedule is on time".to_owned(),
            Some((late, name)) => format!(
                "Schedule {name} is {} late: workers and servers carry schedules out",
                span(late)
            ),
        },
        value: by.as_millis() as f64 / 1_000.0,
        threshold: limits.schedule_missed.as_millis() as f64 / 1_000.0,
        command: "semel schedules list".to_owned(),
    }
}

fn paused(view: &View, limits: &Thresholds) -> Alert {
    let pauses = view
        .settings
        .iter()
        .filter(|(_, setting)| setting.is_paused(view.now));
    let longest = pauses
        .filter_map(|(target, setting)| {
            setting
                .paused
                .as_ref()
                .map(|pause| (view.now.since(pause.since), target))
        })
        .max_by_key(|(length, _)| *length);
    let length = longest.map_or(Millis::ZERO, |(length, _)| length);
    let (message, command) = match longest {
        None => ("Nothing is paused".to_owned(), "semel queues list".to_owned()),
        Some((length, target)) => {
            let (what, command) = match target {
                Target::All => ("Everything".to_owned(), "semel queues resume --all".to_owned()),
                Target::Queue(name) => (
                    format!("Queue {name}"),
                    format!("semel queues resume {}", operand(name.as_str())),
                ),
                Target::Task(name) => (
                    format!("Task {name}"),
                    format!("semel tasks resume {}", operand(name.as_str())),
                ),
            };
            (format!("{what} has been paused for {}", span(length)), command)
        }
    };
    Alert {
        alert: "paused",
        firing: length > limits.paused,
        message,
        value: length.as_millis() as f64 / 1_000.0,
        threshold: limits.paused.as_millis() as f64 / 1_000.0,
        command,
    }
}

fn duplicate_rate(view: &View, limits: &Thresholds) -> Alert {
    let recent = counted(view, Millis::from_secs(600));
    let day = counted(view, Millis::from_days(1)).since(&recent);
    let all = |counts: &Counts| counts.get(Counter::Accepted) + counts.duplicates();
    let off = recent.hit_ratio() - day.hit_ratio();
    let known = all(&recent) >= ENOUGH && all(&day) >= ENOUGH;
    Alert {
        alert: "duplicate_rate",
        firing: known && off.abs() > limits.duplicate_rate,
        message: format!(
            "{} of submissions were absorbed within ten minutes, {} within the day before{}",
            percent(recent.hit_ratio()),
            percent(day.hit_ratio()),
            too_few(
                all(&recent).min(all(&day)),
                "submissions",
                off.abs() > limits.duplicate_rate
            )
        ),
        value: off,
        threshold: limits.duplicate_rate,
        command: "semel stats".to_owned(),
    }
}

fn clock_skew(view: &View, limits: &Thresholds) -> Alert {
    let (host, store) = (view.now.as_millis(), view.stats.as_of.as_millis());
    let skew = Millis::new((host - store).abs());
    Alert {
        alert: "clock_skew",
        firing: skew > limits.clock_skew,
        message: format!("This host's clock and the store's differ by {}", span(skew)),
        value: skew.as_millis() as f64 / 1_000.0,
        threshold: limits.clock_skew.as_millis() as f64 / 1_000.0,
        command: "timedatectl status".to_owned(),
    }
}
