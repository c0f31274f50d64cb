//! What the demo says.

use std::path::Path;

use semel::Client;

use crate::commands::demo::scenes::Producers;
use crate::commands::demo::store_file;
use crate::commands::demo::tally::{Row, Tally, effects_so_far};
use crate::commands::demo::troop::Troop;
use crate::problem::Problem;
use crate::screen::{Column, Table, Tone, count, flag, paint, plural};
use crate::session::Session;

/// Kills between two lines of progress.
const EVERY: usize = 4;

/// What is about to happen.
pub fn begin(seconds: u64, dir: &Path, dashboard: Option<&str>, session: &Session) -> Result<(), Problem> {
    if session.json() {
        return match dashboard {
            Some(url) => session.screen.print_json(&serde_json::json!({ "url": url })),
            None => Ok(()),
        };
    }
    let mut page = session.screen.page(&store_file(dir).display().to_string());
    page.say(format!(
        "For {seconds} seconds work is submitted more often than it should be done: a payment button pressed twice, a retry storm, a webhook sent three times, a cron run that overlaps. Three worker processes do it; one of them is killed (kill -9) every 0.6 seconds and replaced."
    ));
    page.blank();
    if let Some(url) = dashboard {
        page.say(format!("Watch it on the dashboard: {url}"));
        page.blank();
    }
    session.screen.print(&page)
}

/// Where to look, now that everything has ended.
pub fn still_up(url: &str, session: &Session) -> Result<(), Problem> {
    if session.json() {
        return Ok(());
    }
    let mut page = session.screen.plain_page();
    page.blank();
    page.say(format!("The dashboard stays up: {url} – Ctrl-C ends it."));
    session.screen.print(&page)
}

/// How it goes, now and then.
pub async fn progress(
    client: &Client,
    producers: &Producers,
    troop: &Troop,
    dir: &Path,
    session: &Session,
) -> Result<(), Problem> {
    if session.json() || !troop.killed().is_multiple_of(EVERY) {
        return Ok(());
    }
    let stats = client.store().stats().await?;
    session.screen.note(format!(
        "  {:>6} submitted {:>6} absorbed {:>5} effects {:>4} workers killed",
        count(producers.submitted().iter().sum()),
        count(stats.totals.duplicates()),
        count(effects_so_far(dir)?),
        troop.killed(),
    ));
    Ok(())
}

/// The table.
pub fn end(tally: &Tally, drained: bool, kept: bool, dir: &Path, session: &Session) -> Result<(), Problem> {
    if session.json() {
        return session.screen.print_json(tally);
    }
    let mut page = session.screen.plain_page();
    page.blank();
    page.table(&table(tally));
    page.blank();
    page.say(format!(
        "{} killed and replaced, {} ran out. After a crash the outside world was asked again {} and recognised the key of the step. Effects are counted in the log that it wrote.",
        plural(i64::try_from(tally.workers_killed).unwrap_or(i64::MAX), "worker was", "workers were"),
        plural(tally.leases_expired, "lease", "leases"),
        plural(tally.asked_again, "time", "times"),
    ));
    page.blank();
    if !drained {
        page.sentence(
            Tone::Bad,
            "not finished:",
            "some jobs had not ended after a minute",
        );
    } else if tally.is_good() {
        page.sentence(Tone::Good, "good:", "everything was done, once.");
    } else {
        page.sentence(
            Tone::Bad,
            "wrong:",
            "something was done twice or lost; please report this.",
        );
    }
    let store = flag("--store", &format!("sqlite:{}", store_file(dir).display()));
    page.hint(if kept {
        format!("semel stats {store}, semel keys list {store}")
    } else {
        "semel demo --keep DIR leaves the store behind, to be looked at with semel stats, jobs and keys"
            .to_owned()
    });
    session.screen.print(&page)
}

fn table(tally: &Tally) -> Table {
    let mut table = Table::new([
        Column::left("scenario"),
        Column::right("submitted"),
        Column::right("accepted"),
        Column::right("absorbed"),
        Column::right("effects"),
        Column::right("twice"),
        Column::right("lost"),
    ]);
    for row in tally.scenarios.iter().chain([&tally.total()]) {
        table.row(cells(row));
    }
    table
}

fn cells(row: &Row) -> [String; 7] {
    let zero = |n: i64| paint(if n == 0 { Tone::Good } else { Tone::Bad }, count(n));
    [
        row.scenario.to_owned(),
        count(row.submitted),
        count(row.accepted),
        count(row.absorbed),
        count(row.effects),
        zero(row.twice),
        zero(row.lost),
    ]
}
