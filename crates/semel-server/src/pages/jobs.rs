//! Jobs, and why one stands where it stands.

use axum::Extension;
use axum::extract::State;
use maud::{Markup, html};
use semel_core::job::State as JobState;
use semel_core::store::{LedgerFilter, Page, StepFilter, log_feed};
use semel_core::time::Timestamp;
use semel_core::view::{Job, Listing};

use crate::api::query::JobsQuery;
use crate::api::{Reply, jobs, operations};
use crate::app::App;
use crate::ask::{Asked, Named};
use crate::diagnosis::Case;
use crate::pages::layout;
use crate::pages::parts::{self, act, command, state, table, until, when};
use crate::role::{Caller, Role};
use crate::text::{elide, one_line, operand, percent, pretty_json};
use crate::{clock, redact, wording};

/// Bulk acts on the page.
const ACTS: usize = 10;

/// `GET /jobs`
pub async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Asked(query): Asked<JobsQuery>,
) -> Reply {
    let now = clock::now();
    let found = match query.filter(&app).await {
        Ok(filter) => jobs::page_of(&app, filter, query.page()).await?,
        // A key nobody has is an empty list, not a missing page.
        Err(problem) if problem.code() == "not_found" => Listing {
            items: Vec::new(),
            next_cursor: None,
        },
        Err(problem) => return Err(problem),
    };
    let dead_letters = query.dead_letters == Some(true);
    let kept = [
        ("state", query.state.as_deref()),
        ("queue", query.queue.as_deref()),
        ("task", query.task.as_deref()),
        ("key", query.key.as_deref()),
        ("error", query.error.as_deref()),
        ("since", query.since.as_deref()),
        ("until", query.until.as_deref()),
        ("dead_letters", dead_letters.then_some("true")),
    ];
    let acts = match query.cursor {
        None => operations::all(&app).await?,
        Some(_) => Vec::new(),
    };
    let body = html! {
        form method="get" action="/jobs" role="search" {
            label { "State" select name="state" {
                option value="" { "any" }
                @for one in JobState::ALL { option value=(one.word()) selected[query.state.as_deref() == Some(one.word())] { (one.word()) } }
            } }
            label { "Queue" input type="text" name="queue" value=[query.queue.as_deref()]; }
            label { "Task" input type="text" name="task" value=[query.task.as_deref()]; }
            label { "Key" input type="text" name="key" value=[query.key.as_deref()]; }
            label { "Error contains" input type="text" name="error" value=[query.error.as_deref()]; }
            label { "Since" input type="text" name="since" value=[query.since.as_deref()] placeholder="2027-01-31T08:00:00Z"; }
            label { "Until" input type="text" name="until" value=[query.until.as_deref()] placeholder="2027-01-31T09:00:00Z"; }
            @if dead_letters { label.check { input type="checkbox" name="dead_letters" value="true" checked; "only dead letters" } }
            button type="submit" { "Find" }
        }
        div id="jobs" data-live {
            (table(&["Job", "Task", "Queue", "State", "#Attempt", "Admitted", "Key", "Error"], found.items.iter().map(|job| line(job, now)).collect(), parts::none(found.next_cursor.as_deref(), "No job like that.")))
            (parts::next("/jobs", &kept, found.next_cursor.as_deref()))
        }
        @if caller.may(Role::Operate) {
            h2 { "Act on all of these" }
            form data-call="POST /v1/operations" data-then="/operations/{id}" {
                @for (name, value) in &kept { @if let Some(value) = value.filter(|value| !value.is_empty()) { input type="hidden" name={ "filter." (name) } data-kind=[(*name == "dead_letters").then_some("bool")] value=(value); } }
                input type="hidden" name="filter" data-kind="json" value="{}" disabled[kept.iter().any(|(_, value)| value.is_some_and(|value| !value.is_empty()))];
                label { "What" select name="action" { option { "cancel" } option { "retry" } option { "replay" } option { "release" } option { "delete" } } }
                label { "Reason" input type="text" name="reason" maxlength="1000"; }
                button type="submit" { "Plan" } span.note role="status" {}
            }
            p.quiet { "Nothing is done before you have seen the plan." }
        }
        @if !acts.is_empty() {
            h2 { "Bulk acts" }
            div id="acts" data-live { (table(&["Plan", "#Jobs", "Stands", "Who", "Why"], acts.iter().take(ACTS).map(act_line).collect(), "")) }
        }
    };
    Ok(layout::page(&app, &caller, "/jobs", "Jobs", body))
}

/// A bulk act in a list.
fn act_line(act: &semel::Operation) -> Markup {
    html! {
        td.wide { a href={ "/operations/" (parts::path(&act.id)) } { (act.action.word()) " " span.mono { (parts::short(&act.id)) } } }
        td.num data-head="jobs" { (act.total) } td { (parts::standing(act)) } td { (act.actor) } td.wide { (act.reason.as_deref().unwrap_or_default()) }
    }
}

/// A job in a list.
pub fn line(job: &Job, now: Timestamp) -> Markup {
    html! {
        td { (parts::job(job.id.as_str())) } td.two { (job.task) } td { (job.queue) } td { (state(job.state)) }
        td.num data-head="attempt" { (job.attempt) "/" (job.max_attempts) } td data-head="admitted" { (when(job.enqueued_at, now)) }
        td.two { @if let Some(key) = &job.key { (parts::key(key)) } }
        td.wide { @if let Some(error) = &job.error { (elide(&one_line(&error.message), 120)) } }
    }
}

/// `GET /jobs/{id}`
pub async fn one(State(app): State<App>, Extension(caller): Extension<Caller>, Named(id): Named) -> Reply {
    let now = clock::now();
    let store = app.client.store();
    let job = jobs::find(&app, &id).await?;
    let attempts = store.attempts(&job.id).await?;
    let mut steps = store.list_steps(StepFilter::Origin(job.origin.clone())).await?;
    steps
        .iter_mut()
        .for_each(|step| redact::step(step, &app.settings.redact));
    let logs = store.feed(&log_feed(&job.id), Page::first(200)).await?.items;
    let ledger = LedgerFilter {
        holder: Some(job.id.clone()),
        ..LedgerFilter::default()
    };
    let absorbed = store.ledger(ledger, Page::first(50)).await?.items;
    let view = app.view().await?;
    let case = Case {
        job: &job,
        attempts: &attempts,
        settings: &view.settings,
        workers: view.serving(&job.task, &job.queue),
        now,
    };
    let operates = caller.may(Role::Operate);
    let path = parts::path(job.id.as_str());
    let word = operand(job.id.as_str());
    let body = html! {
        div id="job" data-live {
            p { (state(job.state)) " " b { (job.task) } " in queue " b { (job.queue) } }
            @for reason in case.reasons() { div class={ "alert " (tone(job.state)) } { (reason.says) @if let Some(hint) = reason.hint.as_deref().filter(|_| !(operates && job.state == JobState::Failed)) { @for line in hint.lines() { " " (hinted(line)) } } } }
            @if job.state == JobState::Parked && steps.iter().any(|step| step.in_doubt) { p { a href="/in-doubt" { "Decide about its steps →" } } }
            @if let Some(progress) = job.progress.filter(|_| job.state == JobState::Running) { progress max="1" value=(progress) { (percent(progress)) } }
            dl {
                dt { "Id" } dd.mono { (job.id) }
                dt { "Key" } dd { @match &job.key { Some(key) => { (parts::key(key)) " " (if key.held { "held" } else { "let go" }) ", " (wording::hold(&key.hold)) } None => { "none" } } }
                dt { "Attempt" } dd { (job.attempt) " of " (job.max_attempts) "; " (job.deliveries) " of " (job.max_deliveries) " deliveries lost" }
                dt { "Admitted" } dd { (when(job.enqueued_at, now)) @if let Some(name) = &job.producer { " from " (name) } }
                dt { "Runs at" } dd { (until_or_when(job.run_at, now)) ", priority " (job.priority) }
                @if let Some(at) = job.started_at { dt { "Started" } dd { (when(at, now)) } }
                @if let Some(at) = job.finished_at { dt { "Ended" } dd { (when(at, now)) } }
                @if let Some(worker) = &job.worker { dt { "Worker" } dd { (worker) @if let Some(at) = job.lease_until { (if at > now { ", its lease ends " } else { ", its lease ended " }) (until_or_when(at, now)) } ", fence " (job.fence) } }
                @if job.origin != job.id { dt { "Origin" } dd { (parts::job(job.origin.as_str())) } }
                @if let Some(from) = &job.replayed_from { dt { "Replays" } dd { (parts::job(from.as_str())) } }
                @if let Some(by) = &job.replayed_as { dt { "Replayed as" } dd { (parts::job(by.as_str())) } }
                @if let Some(by) = &job.blocked_by { dt { "Waits for" } dd { (parts::job(by.as_str())) } }
            }
            @if operates {
                @if !job.state.is_terminal() { (act(&format!("POST /v1/jobs/{path}/cancel"), "Cancel", Some("Cancel this job?"), false)) p.quiet { (command(&format!("semel jobs cancel {word}"))) } }
                @if matches!(job.state, JobState::Failed | JobState::Cancelled) && job.replayed_as.is_none() { (act(&format!("POST /v1/jobs/{path}/retry"), "Retry", None, false)) p.quiet { (command(&format!("semel jobs retry {word}"))) } }
                @if job.state == JobState::Failed && job.replayed_as.is_none() { (act(&format!("POST /v1/dead-letters/{path}/replay"), "Replay as a fresh job", None, false)) p.quiet { (command(&format!("semel dead-letters replay {word}"))) } }
            }
            h2 { "Input" } pre { (pretty_json(job.input.as_str())) }
            @if let Some(output) = &job.output { h2 { "Output" } pre { (pretty_json(output.as_str())) } }
            @if !job.headers.is_empty() { h2 { "Headers" } dl { @for (name, value) in &job.headers { dt { (name) } dd { (value) } } } }
            @if let Some(meta) = &job.meta { h2 { "Meta" } pre { (pretty_json(meta.as_str())) } }
            @if let Some(error) = &job.error { h2 { "Error, attempt " (error.attempt) } pre { (error.message) } }
            h2 { "Attempts" }
            (table(&["#Attempt", "Result", "Began", "Ended", "Worker", "#Fence", "Error"], attempts.iter().map(|one| html! {
                td.num data-head="attempt" { (one.end.attempt) } td { (wording::ended(one.end.result)) } td data-head="began" { @if let Some(at) = one.end.began_at { (when(at, now)) } } td data-head="ended" { (when(one.end.ended_at, now)) }
                td data-head="worker" { @if let Some(worker) = &one.worker { (worker) } } td.num data-head="fence" { (one.end.fence) } td.wide { @if let Some(error) = &one.end.error { (elide(&one_line(error), 200)) } }
            }).collect(), "No attempt has ended."))
            h2 { "Steps" }
            (table(&["Step", "State", "Begun", "Ended", "Output"], steps.iter().map(|step| html! {
                td { (step.name) } td { @if step.in_doubt { a href="/in-doubt" { span.state.failed { "in doubt" } } } @else { (format!("{:?}", step.state).to_lowercase()) } } td data-head="begun" { (when(step.begun_at, now)) }
                td data-head="ended" { @if let Some(at) = step.ended_at { (when(at, now)) } } td.mono.wide { @if let Some(output) = &step.output { (elide(output.as_str(), 200)) } }
            }).collect(), "No step was begun."))
            @if !logs.is_empty() { h2 { "Log" } pre { @for entry in logs.iter().rev() { (entry.at) " " (entry.body.read::<String>().unwrap_or_else(|_| entry.body.to_string())) "\n" } } }
            @if !absorbed.is_empty() { h2 { "Absorbed " (absorbed.len()) @if absorbed.len() == 50 { " or more" } }
                (table(&["Outcome", "When", "Producer", "Differed at"], absorbed.iter().map(|entry| html! { td { (entry.outcome.word()) } td { (when(entry.at, now)) } td { @if let Some(name) = &entry.producer { (name) } } td.wide { (wording::differs(&entry.differs)) } }).collect(), ""))
            }
        }
    };
    Ok(layout::page(
        &app,
        &caller,
        "/jobs",
        &format!("Job {}", parts::short(job.id.as_str())),
        body,
    ))
}

/// A command, and what is said about it beside: only the command is to be copied.
fn hinted(line: &str) -> Markup {
    let parts = line.strip_suffix(')').and_then(|line| line.rsplit_once(" ("));
    html! { @match parts { Some((told, about)) => { (command(told)) " (" (about) ")" } None => (command(line)) } }
}

fn until_or_when(at: Timestamp, now: Timestamp) -> Markup {
    if at > now { until(at, now) } else { when(at, now) }
}

/// How much a job's reasons are to worry about.
fn tone(state: JobState) -> &'static str {
    match state {
        JobState::Failed => "",
        JobState::Running | JobState::Complete | JobState::Scheduled => "plain",
        _ => "held",
    }
}
