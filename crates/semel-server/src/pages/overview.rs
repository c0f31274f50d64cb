//! Does work flow?

use axum::Extension;
use axum::extract::State;
use maud::{Markup, html};
use semel_core::counters::{Counter, Counts};
use semel_core::job::State as JobState;
use semel_core::store::Target;
use semel_core::time::Millis;

use crate::alerts::{self, Alert, counted};
use crate::api::Reply;
use crate::app::App;
use crate::pages::layout;
use crate::pages::parts::{command, until, when};
use crate::role::Caller;
use crate::sight::View;
use crate::text::{bytes, count, percent, plural};
use crate::when::span;

/// `GET /`
pub async fn page(State(app): State<App>, Extension(caller): Extension<Caller>) -> Reply {
    let view = app.view().await?;
    let watched = alerts::watch(&view, &app.settings.thresholds);
    let guarantees = app.client.store().guarantees().await?;
    let body = html! {
        div id="now" data-live {
            (firing(&watched))
            (held(&view))
            (cards(&view))
        }
        h2 { "The last 24 hours" }
        div id="chart" data-live { (chart(&view)) }
        h2 { "Watched" }
        div id="watched" data-live {
            div.scroll tabindex="0" { table.rows { tbody {
                @for alert in &watched { tr {
                    td { @if alert.firing { span.state.failed { "fires" } } @else { span.state.complete { "fine" } } }
                    td.wide { (alert.message) }
                    td.wide { (command(&alert.command)) }
                } }
            } } }
        }
        h2 { "What this store guarantees" }
        dl { @for line in &guarantees { dt { (line.subject) } dd { (line.statement) } } }
        p.quiet { "Export: " a href="/v1/stats?format=csv" { "counters as CSV" } " · " a href="/v1/stats" { "as JSON" } " · " a href="/v1/stats/history?format=csv" { "history as CSV" } }
    };
    Ok(layout::page(&app, &caller, "/", "Overview", body))
}

fn firing(watched: &[Alert]) -> Markup {
    let firing: Vec<&Alert> = watched.iter().filter(|alert| alert.firing).collect();
    html! {
        @if firing.is_empty() { p.alert.fine { "Work flows: no alert fires." } }
        @for alert in firing { div.alert role="alert" { b { (alert.alert) } ": " (alert.message) " " (command(&alert.command)) } }
    }
}

fn held(view: &View) -> Markup {
    html! {
        @for (target, setting) in &view.settings {
            @if let Some(pause) = setting.paused.as_ref().filter(|_| setting.is_paused(view.now)) {
                div.alert.held { b { (named(target)) " is paused" } " since " (when(pause.since, view.now)) @if let Some(at) = pause.until { ", goes on " (until(at, view.now)) } @if let Some(reason) = &pause.reason { ": " (reason) } " – " a href="/queues" { "resume" } }
            }
            @if setting.is_closed(view.now) { div.alert.held { b { (named(target)) " is closed" } ": submissions are refused" @if let Some(at) = setting.closed_until { ", it opens " (until(at, view.now)) } " – " a href="/queues" { "open" } } }
            @if setting.is_observed(view.now) { div.alert.held { b { (named(target)) " only observes" } ": duplicates are let in and counted" @if let Some(at) = setting.observed_until { ", it enforces again " (until(at, view.now)) } } }
        }
    }
}

/// The name of a target in a sentence.
pub fn named(target: &Target) -> String {
    match target {
        Target::All => "Everything".to_owned(),
        Target::Queue(name) => format!("Queue {name}"),
        Target::Task(name) => format!("Task {name}"),
    }
}

fn cards(view: &View) -> Markup {
    let stats = &view.stats;
    let jobs = |state: JobState| stats.jobs.get(&state).copied().unwrap_or(0);
    let oldest = stats.lanes.iter().filter_map(|lane| lane.oldest_waiting).min();
    let minutes = counted(view, Millis::from_secs(600));
    let hour = counted(view, Millis::from_secs(3_600));
    let day = counted(view, Millis::from_days(1));
    let before = counted(view, Millis::from_secs(7_200)).since(&hour);
    let slots = view.workers.iter().map(|worker| worker.info.slots).sum::<usize>();
    let slots = i64::try_from(slots).unwrap_or(i64::MAX);
    let trend = |now: f64, then: f64| match now - then {
        more if more > 0.005 => "↑",
        less if less < -0.005 => "↓",
        _ => "→",
    };
    html! {
        div.cards {
            a.card href="/jobs?state=queued" { span { "waiting" } b { (count(jobs(JobState::Queued))) } small { (match oldest { Some(at) => format!("oldest {}", span(stats.as_of.since(at))), None => "nothing is due".to_owned() }) } }
            a.card href="/jobs?state=running" { span { "running" } b { (count(jobs(JobState::Running))) } small { (count(jobs(JobState::Scheduled))) " scheduled" } }
            a class={ "card " (if view.workers.is_empty() { "warn" } else { "" }) } href="/workers" { span { "workers" } b { (view.workers.len()) } small { (plural(slots, "slot", "slots")) } }
            a class={ "card " (if hour.get(Counter::Failed) > 0 { "bad" } else { "" }) } href="/dead-letters" { span { "failed, last hour" } b { (count(hour.get(Counter::Failed))) } small { (trend(hour.get(Counter::Failed) as f64, before.get(Counter::Failed) as f64)) " " (count(before.get(Counter::Failed))) " in the hour before" } }
            a.card href="/duplicates" { span { "absorbed, last 10 min" } b { (percent(minutes.hit_ratio())) } small { (trend(minutes.hit_ratio(), day.hit_ratio())) " " (percent(day.hit_ratio())) " in 24 h (" (count(day.duplicates())) ")" } }
            a class={ "card " (if stats.steps_in_doubt > 0 { "bad" } else { "" }) } href="/in-doubt" { span { "in doubt" } b { (count(stats.steps_in_doubt)) } small { (plural(jobs(JobState::Parked), "job parked", "jobs parked")) } }
            a.card href="/keys" { span { "keys held" } b { (count(stats.active_keys)) } small { (plural(stats.totals.get(Counter::Conflicts), "conflict", "conflicts")) } }
            div.card { span { "store" } b { (bytes(stats.storage_bytes)) } small { (count(stats.totals.get(Counter::Completed))) " completed" } }
        }
    }
}

/// Completed, absorbed and failed, in 48 half hours.
fn chart(view: &View) -> Markup {
    const BARS: i64 = 48;
    let step = Millis::from_days(1).as_millis() / BARS;
    let begin = view.stats.as_of.as_millis() - step * BARS;
    let at = |moment: i64| -> Counts {
        let found = view
            .history
            .iter()
            .rev()
            .find(|snapshot| snapshot.at.as_millis() <= moment);
        // Nothing was counted before the first snapshot there ever was.
        found.map_or_else(Counts::default, |snapshot| snapshot.counts)
    };
    let bars: Vec<Counts> = (0..BARS)
        .map(|n| {
            let end = if n + 1 == BARS {
                view.stats.raw
            } else {
                at(begin + step * (n + 1))
            };
            end.since(&at(begin + step * n))
        })
        .collect();
    let most = bars
        .iter()
        .map(|bar| {
            bar.get(Counter::Completed)
                .max(bar.duplicates())
                .max(bar.get(Counter::Failed))
        })
        .max()
        .unwrap_or(0)
        .max(1);
    let height = |n: i64| 60.0 * n as f64 / most as f64;
    html! {
        svg.chart viewBox="0 0 480 64" preserveAspectRatio="none" role="img" aria-label="Completed, absorbed and failed per half hour" {
            @for (n, bar) in bars.iter().enumerate() {
                @let x = n as f64 * 10.0;
                rect.done x=(x) y=(62.0 - height(bar.get(Counter::Completed))) width="4" height=(height(bar.get(Counter::Completed))) {}
                rect.absorbed x=(x + 4.0) y=(62.0 - height(bar.duplicates())) width="3" height=(height(bar.duplicates())) {}
                rect.failed x=(x + 7.0) y=(62.0 - height(bar.get(Counter::Failed))) width="2" height=(height(bar.get(Counter::Failed))) {}
            }
        }
        p.quiet { "Per half hour, the newest on the right: completed (green), absorbed (blue), failed (red); the tallest bar is " (count(most)) "." }
    }
}
