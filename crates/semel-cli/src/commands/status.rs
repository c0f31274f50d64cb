//! `semel status`: is work flowing?

use semel_core::counters::Counter;
use semel_core::job::State;
use semel_core::time::Millis;
use semel_server::alerts::{self, Alert};
use semel_server::sight::View;
use serde::Serialize;

use crate::commands::serve::thresholds;
use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::{Page, Tone, clean, count, percent, span};
use crate::session::Session;
use crate::wire;

/// What `semel status --json` says.
#[derive(Debug, Serialize)]
struct Status<'a> {
    flowing: bool,
    alerts: Vec<&'a Alert>,
    stats: wire::Stats,
}

/// Looks, and says so with the exit code: 1 while an alert fires.
pub async fn run(session: &Session) -> Result<Exit, Problem> {
    let client = session.existing().await?;
    let view = View::look(&client).await?;
    let watched = alerts::watch(&view, &thresholds(&session.settings.file.alerts)?);
    let firing: Vec<&Alert> = watched.iter().filter(|alert| alert.firing).collect();
    let exit = if firing.is_empty() {
        Exit::Done
    } else {
        Exit::Other
    };
    if session.json() {
        session.screen.print_json(&Status {
            flowing: firing.is_empty(),
            stats: wire::Stats::from(&*view.stats),
            alerts: firing,
        })?;
        return Ok(exit);
    }
    let mut page = session.page();
    verdict(&mut page, firing.len(), watched.len());
    for alert in &firing {
        page.blank();
        page.sentence(Tone::Bad, &format!("{}:", alert.alert), &clean(&alert.message));
        page.hint(clean(&alert.command));
    }
    page.blank();
    numbers(&mut page, &view);
    session.screen.print(&page)?;
    Ok(exit)
}

/// The answer in a line.
pub fn verdict(page: &mut Page, firing: usize, watched: usize) {
    match firing {
        0 => page.sentence(Tone::Good, "Work flows:", "no alert fires."),
        1 => page.sentence(
            Tone::Bad,
            "Somebody is needed:",
            &format!("1 of {watched} alerts fires."),
        ),
        n => page.sentence(
            Tone::Bad,
            "Somebody is needed:",
            &format!("{n} of {watched} alerts fire."),
        ),
    }
}

fn numbers(page: &mut Page, view: &View) {
    let stats = &view.stats;
    let jobs = |state: State| count(stats.jobs.get(&state).copied().unwrap_or(0));
    let oldest = stats.lanes.iter().filter_map(|lane| lane.oldest_waiting).min();
    let hour = alerts::counted(view, Millis::from_secs(3_600));
    page.fields(vec![
        (
            "waiting",
            format!(
                "{} queued, {} scheduled",
                jobs(State::Queued),
                jobs(State::Scheduled)
            ),
        ),
        (
            "oldest",
            oldest.map_or("nothing that is due waits".to_owned(), |at| {
                format!("due for {}", span(stats.as_of.since(at)))
            }),
        ),
        (
            "running",
            format!("{} on {}", jobs(State::Running), workers(view)),
        ),
        (
            "last hour",
            format!(
                "{} completed, {} failed, {} absorbed",
                count(hour.get(Counter::Completed)),
                count(hour.get(Counter::Failed)),
                count(hour.duplicates())
            ),
        ),
        (
            "absorbed",
            format!("{} of all submissions", percent(stats.totals.hit_ratio())),
        ),
        ("keys held", count(stats.active_keys)),
    ]);
}

fn workers(view: &View) -> String {
    crate::screen::plural(
        i64::try_from(view.workers.len()).unwrap_or(i64::MAX),
        "worker",
        "workers",
    )
}
