//! Metrics of the store, made anew for every scrape: nothing that is gone stays behind.

use std::collections::BTreeMap;
use std::fmt::Write;

use semel_core::counters::Counter;
use semel_core::dedup::HoldKind;
use semel_core::store::Target;

use crate::alerts;
use crate::app::App;
use crate::problem::Problem;

/// Series of one metric.
const MOST: usize = 2_000;

/// The metrics of the store as Prometheus reads them.
pub async fn render(app: &App) -> String {
    let mut page = Page::default();
    let (filled, written) = tokio::join!(fill(app, &mut page), app.takes_writes());
    if filled.is_err() {
        page = Page::default();
    }
    let up = f64::from(u8::from(filled.is_ok() && written.is_ok()));
    page.one("semel_store_up", "Whether the store answers and takes writes", up);
    page.0
}

async fn fill(app: &App, page: &mut Page) -> Result<(), Problem> {
    let view = app.view().await?;
    let stats = &view.stats;
    let mut jobs = Metric::new("semel_store_jobs", "Jobs by state");
    for sum in crate::lanes::by_queue(&stats.lanes) {
        for (state, n) in &sum.jobs {
            jobs.add(
                &[("queue", sum.name.as_str()), ("state", state.word())],
                *n as f64,
            );
        }
    }
    page.metric(jobs);
    let mut oldest = Metric::new(
        "semel_store_oldest_waiting_seconds",
        "How long the oldest job that is due has waited",
    );
    for lane in &stats.lanes {
        let waited = lane
            .oldest_waiting
            .map_or(0, |at| stats.as_of.since(at).as_millis());
        let labels = [("queue", lane.queue.as_str()), ("task", lane.task.as_str())];
        oldest.add(&labels, waited as f64 / 1_000.0);
    }
    page.metric(oldest);
    let mut keys = Metric::new(
        "semel_store_keys",
        "Keys held now, by hold; all where the store does not count them apart",
    );
    match stats.keys_by_hold.is_empty() && stats.active_keys > 0 {
        true => keys.add(&[("hold", "all")], stats.active_keys as f64),
        false => {
            for kind in HoldKind::ALL {
                let held = stats.keys_by_hold.get(&kind).copied().unwrap_or(0);
                keys.add(&[("hold", kind.word())], held as f64);
            }
        }
    }
    page.metric(keys);
    page.one(
        "semel_store_expired_keys",
        "Keys whose time has passed and that are still to be cleaned up",
        stats.expired_keys as f64,
    );
    page.one(
        "semel_store_bytes",
        "Bytes the store takes",
        stats.storage_bytes as f64,
    );
    if let Some(limit) = stats.storage_limit {
        page.one(
            "semel_store_limit_bytes",
            "Bytes the store can take",
            limit as f64,
        );
    }
    page.one(
        "semel_store_hit_ratio",
        "Absorbed among all submissions since the last reset",
        stats.totals.hit_ratio(),
    );
    page.one(
        "semel_store_steps_in_doubt",
        "Steps whose effect may have happened",
        stats.steps_in_doubt as f64,
    );
    page.one(
        "semel_store_stale_writes",
        "Writes ever refused because a newer lease existed",
        stats.raw.get(Counter::StaleWrites) as f64,
    );
    if let Some(Ok(outbox)) = &view.outbox {
        page.one(
            "semel_store_outbox_pending",
            "Events of the outbox that are not sent yet",
            outbox.pending as f64,
        );
        page.one(
            "semel_store_outbox_lag_seconds",
            "How long the oldest pending event of the outbox has waited",
            outbox.lag_ms as f64 / 1_000.0,
        );
        page.one(
            "semel_store_outbox_parked",
            "Events of the outbox that were given up",
            outbox.parked as f64,
        );
    }
    let mut workers: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for worker in &view.workers {
        let version = worker.info.version.as_deref().unwrap_or_default();
        let tasks = worker.info.tasks.iter().map(|task| task.as_str());
        let all = worker.info.tasks.is_empty().then_some("*");
        for task in tasks.chain(all) {
            *workers.entry((task, version)).or_default() += 1.0;
        }
    }
    let mut serving = Metric::new(
        "semel_store_workers",
        "Live workers by task and version; * is one that serves all tasks",
    );
    for ((task, version), n) in &workers {
        serving.add(&[("task", task), ("version", version)], *n);
    }
    page.metric(serving);
    let mut dead: BTreeMap<String, f64> = BTreeMap::new();
    for group in app.client.store().dead_letter_groups(None).await? {
        *dead.entry(group.task.to_string()).or_default() += group.jobs as f64;
    }
    let mut letters = Metric::new(
        "semel_store_dead_letters",
        "Jobs that failed and were neither replayed nor dropped",
    );
    for (task, n) in &dead {
        letters.add(&[("task", task)], *n);
    }
    page.metric(letters);
    let mut paused = Metric::new("semel_store_paused", "Whether work is held back");
    for (target, setting) in &view.settings {
        let (kind, name) = match target {
            Target::All => ("all", ""),
            Target::Queue(name) => ("queue", name.as_str()),
            Target::Task(name) => ("task", name.as_str()),
        };
        paused.add(
            &[("kind", kind), ("name", name)],
            f64::from(u8::from(setting.is_paused(view.now))),
        );
    }
    page.metric(paused);
    let mut firing = Metric::new("semel_store_alert_firing", "Whether an alert fires");
    for alert in alerts::watch(&view, &app.settings.thresholds) {
        firing.add(&[("alert", alert.alert)], f64::from(u8::from(alert.firing)));
    }
    page.metric(firing);
    Ok(())
}

/// One metric with its series.
struct Metric {
    name: &'static str,
    help: &'static str,
    lines: Vec<String>,
}

impl Metric {
    fn new(name: &'static str, help: &'static str) -> Self {
        Metric {
            name,
            help,
            lines: Vec::new(),
        }
    }

    fn add(&mut self, labels: &[(&str, &str)], value: f64) {
        if self.lines.len() < MOST {
            let labels: Vec<String> = labels
                .iter()
                .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
                .collect();
            self.lines
                .push(format!("{}{{{}}} {value}", self.name, labels.join(",")));
        }
    }
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn metric(&mut self, metric: Metric) {
        if metric.lines.is_empty() {
            return;
        }
        let _ = writeln!(
            self.0,
            "# HELP {0} {1}\n# TYPE {0} gauge\n{2}",
            metric.name,
            metric.help,
            metric.lines.join("\n")
        );
    }

    fn one(&mut self, name: &'static str, help: &'static str, value: f64) {
        let _ = writeln!(
            self.0,
            "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}"
        );
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
