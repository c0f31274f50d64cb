//! `semel stats`

use clap::Args;
use semel_core::counters::Counter;
use semel_core::job::State;
use semel_core::store::{Setting, Target};
use semel_core::view::{LaneStats, Stats};

use crate::exit::Exit;
use crate::live::LiveWorkers;
use crate::problem::Problem;
use crate::screen::{
    Column, Page, Table, Tone, bytes, count, elide, paint, percent, plural, relative, state_tone,
};
use crate::session::Session;
use crate::{confirm, target, wire};

/// Arguments of `semel stats`.
#[derive(Debug, Args)]
#[command(
    after_help = "Counters are exact. A reset moves the baseline they are shown from; the raw\ncounters never go back."
)]
pub struct StatsArgs {
    /// Count from now on
    #[arg(long)]
    pub reset: bool,
    /// Do not ask before a reset
    #[arg(long, short = 'y', requires = "reset")]
    pub yes: bool,
}

/// Shows counters (contract 7.1, 7.2).
pub async fn run(args: StatsArgs, session: &Session) -> Result<Exit, Problem> {
    let client = session.existing().await?;
    let store = client.store();
    if args.reset {
        confirm::ask(
            "this counts from now on: all counters are shown as 0 again",
            args.yes,
            session,
        )?;
        session.operator(&client, None).reset_stats().await?;
    }
    let stats = store.stats().await?;
    if session.json() {
        session.screen.print_json(&wire::Stats::from(&stats))?;
        return Ok(Exit::Done);
    }
    let settings = store.settings().await?;
    let groups = store.dead_letter_groups(None).await?;
    let dead_letters: i64 = groups.iter().map(|group| group.jobs).sum();
    let live = LiveWorkers::look(&client).await?;
    let mut page = session.page();
    page.fields(totals(&stats, dead_letters, &page));
    if !stats.lanes.is_empty() {
        page.blank();
        page.table(&table(&stats.lanes, &page));
    }
    page.blank();
    warnings(&stats, dead_letters, &settings, &live, &mut page);
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

fn totals(stats: &Stats, dead_letters: i64, page: &Page) -> Vec<(&'static str, String)> {
    let counts = &stats.totals;
    let of = |counter: Counter| counts.get(counter);
    let since = match stats.since {
        Some(at) => format!("since {}", page.when(at)),
        None => "since the store was made".to_owned(),
    };
    let mut fields = vec![
        ("jobs now", jobs(stats)),
        (
            "submitted",
            format!(
                "{} accepted, {} ({} of all), {}",
                count(of(Counter::Accepted)),
                plural(counts.duplicates(), "duplicate", "duplicates"),
                percent(counts.hit_ratio()),
                plural(of(Counter::Conflicts), "conflict", "conflicts")
            ),
        ),
    ];
    fields.extend(named("duplicates", counts, &DUPLICATES));
    fields.extend(named("also", counts, &[Counter::Observed, Counter::Collisions]));
    fields.push((
        "ended",
        format!(
            "{} completed, {} failed, {} cancelled",
            count(of(Counter::Completed)),
            count(of(Counter::Failed)),
            count(of(Counter::Cancelled))
        ),
    ));
    fields.extend(named(
        "trouble",
        counts,
        &[Counter::Retried, Counter::Expired, Counter::StaleWrites],
    ));
    if dead_letters > 0 {
        fields.push(("dead letters", paint(Tone::Bad, count(dead_letters))));
    }
    if stats.steps_in_doubt > 0 {
        fields.push((
            "in doubt",
            paint(Tone::Warn, plural(stats.steps_in_doubt, "step", "steps")),
        ));
    }
    fields.push(("keys held", count(stats.active_keys)));
    fields.push(("size", bytes(stats.storage_bytes)));
    fields.push(("counted", since));
    fields
}

const DUPLICATES: [Counter; 5] = [
    Counter::Duplicate,
    Counter::Replaced,
    Counter::Debounced,
    Counter::Deferred,
    Counter::Rejected,
];

/// Those that are not zero, if any.
fn named(
    name: &'static str,
    counts: &semel_core::counters::Counts,
    counters: &[Counter],
) -> Option<(&'static str, String)> {
    let said: Vec<String> = counters
        .iter()
        .filter(|counter| counts.get(**counter) != 0)
        .map(|counter| {
            format!(
                "{} {}",
                count(counts.get(*counter)),
                counter.word().replace('_', " ")
            )
        })
        .collect();
    (!said.is_empty()).then(|| (name, said.join(", ")))
}

fn jobs(stats: &Stats) -> String {
    let said: Vec<String> = State::ALL
        .into_iter()
        .filter_map(|state| stats.jobs.get(&state).map(|n| (state, *n)))
        .filter(|(_, n)| *n != 0)
        .map(|(state, n)| paint(state_tone(state), format!("{} {}", count(n), state.word())))
        .collect();
    match said.is_empty() {
        true => "none".to_owned(),
        false => said.join(", "),
    }
}

fn table(lanes: &[LaneStats], page: &Page) -> Table {
    let mut table = Table::new([
        Column::wide("QUEUE"),
        Column::wide("TASK"),
        Column::right("QUEUED"),
        Column::right("RUNNING"),
        Column::right("FAILED"),
        Column::right("DONE"),
        Column::right("DUP"),
        Column::left("OLDEST DUE"),
    ]);
    for lane in lanes {
        let of = |state: State| lane.jobs.get(&state).copied().unwrap_or(0);
        let failed = of(State::Failed);
        let oldest = match (lane.paused, lane.oldest_waiting) {
            (true, _) => paint(Tone::Warn, "paused"),
            (false, Some(at)) => relative(at, page.now()),
            (false, None) => "-".to_owned(),
        };
        table.row([
            Table::cell(elide(lane.queue.as_str(), 24)),
            Table::cell(elide(lane.task.as_str(), 32)),
            count(of(State::Queued)),
            count(of(State::Running)),
            paint(if failed > 0 { Tone::Bad } else { Tone::Plain }, count(failed)),
            count(lane.counts.get(Counter::Completed)),
            percent(lane.counts.hit_ratio()),
            oldest,
        ]);
    }
    table
}

/// What an operator should not overlook.
fn warnings(
    stats: &Stats,
    dead_letters: i64,
    settings: &[(Target, Setting)],
    live: &LiveWorkers,
    page: &mut Page,
) {
    let now = page.now();
    for (target, setting) in settings
        .iter()
        .filter(|(_, setting)| setting.is_paused(now) || setting.is_closed(now))
    {
        page.line(format!(
            "{}: {}",
            target::told(target),
            target::words(setting, now)
        ));
    }
    let waiting = stats.lanes.iter().filter(|lane| lane.oldest_waiting.is_some());
    if let Some(hint) = live.hint(waiting.map(|lane| (&lane.task, &lane.queue))) {
        page.hint(hint);
    }
    if dead_letters > 0 {
        page.hint("semel dead-letters list shows what failed and why");
    }
}
