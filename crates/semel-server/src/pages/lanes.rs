//! Queues and tasks, with their levers.

use std::cmp::Reverse;
use std::collections::HashSet;

use axum::Extension;
use axum::extract::State;
use maud::{Markup, html};
use semel::SettingReasons;
use semel_core::counters::Counter;
use semel_core::job::State as JobState;
use semel_core::store::{Setting, Target};
use serde::Deserialize;

use crate::api::Reply;
use crate::api::lanes::{queue_sums, setting, task_sums};
use crate::app::App;
use crate::ask::Asked;
use crate::lanes::Sum;
use crate::pages::layout;
use crate::pages::parts::{path, table, until, when};
use crate::problem::Problem;
use crate::role::{Caller, Role};
use crate::sight::View;
use crate::text::{count, percent};
use crate::when::span;

/// Queues, and tasks, on the page: there may be thousands.
const SHOWN: usize = 200;

/// Which queues and tasks.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LanesQuery {
    /// Whose name contains this text.
    name: Option<String>,
}

/// `GET /queues`
pub async fn page(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Asked(query): Asked<LanesQuery>,
) -> Reply {
    let view = app.view().await?;
    let name = query.name.as_deref().unwrap_or_default().trim();
    let reasons = reasons(&app, &view).await?;
    let operates = caller.may(Role::Operate);
    let heads = [
        "Name",
        "#Waiting",
        "Oldest",
        "#Running",
        "#Completed",
        "#Failed",
        "#Absorbed",
        "Set",
        "Levers",
    ];
    let set: HashSet<&Target> = view.settings.iter().map(|(target, _)| target).collect();
    let is_set = |sum: &Sum| set.contains(&Target::Queue(sum.name.clone()));
    let (queues, more_queues) = busiest(queue_sums(&view), name, is_set);
    let is_set = |sum: &Sum| set.contains(&Target::Task(sum.name.clone()));
    let (tasks, more_tasks) = busiest(task_sums(&view), name, is_set);
    let is_long = !name.is_empty() || more_queues + more_tasks > 0;
    let queues = queues.into_iter().map(|sum| {
        line(
            &view,
            &reasons,
            &sum,
            "queues",
            Target::Queue(sum.name.clone()),
            operates,
        )
    });
    let tasks = tasks.into_iter().map(|sum| {
        line(
            &view,
            &reasons,
            &sum,
            "tasks",
            Target::Task(sum.name.clone()),
            operates,
        )
    });
    let all = setting(&view, &Target::All);
    let body = html! {
        @if is_long {
            form method="get" action="/queues" role="search" {
                label { "Name contains" input type="text" name="name" value=(name); }
                button type="submit" { "Find" }
            }
        }
        div id="lanes" data-live {
            @if operates { p { (levers("", &all, &view, "everything")) } }
            h2 { "Queues" } (table(&heads, queues.collect(), "No queue has been seen yet.")) (others(more_queues))
            h2 { "Tasks" } (table(&heads, tasks.collect(), "No task has been seen yet.")) (others(more_tasks))
        }
    };
    Ok(layout::page(&app, &caller, "/queues", "Queues and tasks", body))
}

/// Those whose name contains a text, at most [`SHOWN`]: what somebody has set, then those with most to do; and how many
/// others there are.
fn busiest(mut sums: Vec<Sum>, name: &str, is_set: impl Fn(&Sum) -> bool) -> (Vec<Sum>, usize) {
    sums.retain(|sum| sum.name.as_str().contains(name));
    let more = sums.len().saturating_sub(SHOWN);
    if more > 0 {
        sums.sort_by_cached_key(|sum| Reverse((is_set(sum), sum.open(), sum.counts.get(Counter::Accepted))));
        sums.truncate(SHOWN);
        sums.sort_by(|a, b| a.name.cmp(&b.name));
    }
    (sums, more)
}

fn others(more: usize) -> Markup {
    html! { @if more > 0 { p.quiet { "Those with most to do are shown; " (count(i64::try_from(more).unwrap_or(i64::MAX))) " more can be found by name." } } }
}

fn line(
    view: &View,
    reasons: &SettingReasons,
    sum: &Sum,
    kind: &str,
    target: Target,
    operates: bool,
) -> Markup {
    let set = setting(view, &target);
    let filter = if kind == "queues" { "queue" } else { "task" };
    let jobs = format!("/jobs?{filter}={}", path(sum.name.as_str()));
    html! {
        td.wide.name { a href=(jobs) { (sum.name) } @if kind == "tasks" && sum.in_state(JobState::Queued) > 0 && view.serving_task(&sum.name) == 0 { " " span.state.failed { "no worker" } } }
        td.num data-head="waiting" { (count(sum.in_state(JobState::Queued))) }
        td.nowrap data-head="oldest" { (sum.oldest_waiting.map(|at| span(view.stats.as_of.since(at))).unwrap_or_else(|| "–".to_owned())) }
        td.num data-head="running" { (count(sum.in_state(JobState::Running))) }
        td.num data-head="completed" { (count(sum.counts.get(Counter::Completed))) }
        td.num data-head="failed" { (count(sum.counts.get(Counter::Failed))) }
        td.num data-head="absorbed" { (count(sum.counts.duplicates())) " (" (percent(sum.counts.hit_ratio())) ")" }
        td.wide { (words(&target, &set, view, reasons)) }
        td.wide { @if operates { (levers(&format!("/{kind}/{}", path(sum.name.as_str())), &set, view, sum.name.as_str())) } }
    }
}

/// Why things are set as they are; where everything is at its default there is nothing to read.
pub async fn reasons(app: &App, view: &View) -> Result<SettingReasons, Problem> {
    let is_told = |set: &Setting| set.closed || set.unique || set.is_observed(view.now);
    match view.settings.iter().any(|(_, set)| is_told(set)) {
        true => Ok(app.client.setting_reasons().await?),
        false => Ok(SettingReasons::default()),
    }
}

/// What is set, in words.
pub fn words(target: &Target, set: &Setting, view: &View, reasons: &SettingReasons) -> Markup {
    let why = |act: &str| html! { @if let Some(reason) = reasons.why(act, target) { " – " (reason) } };
    html! {
        @if let Some(pause) = set.paused.as_ref().filter(|_| set.is_paused(view.now)) {
            span.state.parked { "paused" } " " (when(pause.since, view.now)) @if let Some(at) = pause.until { ", goes on " (until(at, view.now)) } @if let Some(reason) = &pause.reason { " – " (reason) }
        }
        @if set.is_closed(view.now) { " " span.state.failed { "closed" } @if let Some(at) = set.closed_until { " opens " (until(at, view.now)) } (why("close")) }
        @if set.is_observed(view.now) { " " span.state.parked { "observes" } @if let Some(at) = set.observed_until { " enforces " (until(at, view.now)) } (why("observe")) }
        @if set.unique { " " span.state { "unique" } (why("unique")) }
    }
}

fn levers(base: &str, set: &Setting, view: &View, name: &str) -> Markup {
    html! {
        @if set.is_paused(view.now) {
            form.act data-call={ "POST /v1" (base) "/resume" } { (reason("Resume", name)) button type="submit" aria-label={ "Resume " (name) } { "Resume" @if base.is_empty() { " everything" } } span.note role="status" {} }
        } @else {
            form.act data-call={ "POST /v1" (base) "/pause" } data-confirm=[base.is_empty().then_some("Hold all work back?")] {
                input type="number" name="for_ms" data-kind="minutes" min="1" placeholder="min" aria-label={ "Minutes to pause " (name) };
                input type="text" name="reason" placeholder="reason" aria-label={ "Reason to pause " (name) } maxlength="1000";
                button type="submit" aria-label={ "Pause " (name) } { "Pause" @if base.is_empty() { " everything" } } span.note role="status" {}
            }
        }
        @if !base.is_empty() {
            details { summary { "more" }
                @if set.is_closed(view.now) { (turn(base, name, "intake", "open", "Open intake")) } @else { (turn_for(base, name, "intake", "closed", "Close intake")) }
                @if set.is_observed(view.now) { (turn(base, name, "mode", "enforce", "Enforce policies")) } @else { (turn_for(base, name, "mode", "observe", "Only observe")) }
                @if base.starts_with("/queues") { form.act data-call={ "PATCH /v1" (base) "#unique" } { input type="hidden" name="unique" data-kind="bool" value=(if set.unique { "false" } else { "true" }); (reason("Uniqueness", name)) button type="submit" { (if set.unique { "Not unique" } else { "Declare unique" }) } span.note role="status" {} } }
            }
        }
    }
}

/// Sets something of a queue or task.
fn turn(base: &str, name: &str, member: &str, value: &str, label: &str) -> Markup {
    html! {
        form.act data-call={ "PATCH /v1" (base) "#" (value) } { input type="hidden" name=(member) value=(value); (reason(label, name)) button type="submit" aria-label={ (label) ": " (name) } { (label) } span.note role="status" {} }
    }
}

/// Sets something, for a while if a number of minutes is given.
fn turn_for(base: &str, name: &str, member: &str, value: &str, label: &str) -> Markup {
    html! {
        form.act data-call={ "PATCH /v1" (base) "#" (value) } {
            input type="hidden" name=(member) value=(value);
            input type="number" name="for_ms" data-kind="minutes" min="1" placeholder="min" aria-label={ (label) ", minutes: " (name) };
            (reason(label, name))
            button type="submit" aria-label={ (label) ": " (name) } { (label) } span.note role="status" {}
        }
    }
}

/// Every lever takes a reason: whoever looks next wants to know.
fn reason(label: &str, name: &str) -> Markup {
    html! { input type="text" name="reason" placeholder="reason" aria-label={ (label) ", reason: " (name) } maxlength="1000"; }
}
