//! What comes by itself.

use axum::Extension;
use axum::extract::State;
use maud::html;

use crate::api::Reply;
use crate::app::App;
use crate::pages::layout;
use crate::pages::parts::{self, command, table, until, when};
use crate::role::Caller;

/// `GET /schedules`
pub async fn page(State(app): State<App>, Extension(caller): Extension<Caller>) -> Reply {
    let view = app.view().await?;
    let rows = view.schedules.iter().map(|one| html! {
        td.wide.name { (one.schedule.name) } td.mono { (one.schedule.cron) br; span.quiet { (one.schedule.zone) } } td data-head="task" { (one.schedule.task) } td data-head="overlap" { (format!("{:?}", one.schedule.overlap).to_lowercase()) }
        td data-head="last tick" { @if let Some(last) = &one.last { (when(last.due, view.now)) " " (format!("{:?}", last.outcome).to_lowercase()) " " @if let Some(job) = &last.job { (parts::job(job.as_str())) } @if let Some(error) = &last.error { " " (error) } } @else { "never" } }
        td data-head="next" { @if let Some(due) = one.overdue { span.state.failed { "overdue" } " " (when(due, view.now)) } @else if let Some(at) = one.next { (until(at, view.now)) } @else { "never again" } }
        td.num data-head="skipped" { (one.skipped) }
    });
    let body = html! {
        div id="schedules" data-live { (table(&["Schedule", "When", "Task", "Overlap", "Last tick", "Next", "#Skipped"], rows.collect(), "No schedules.")) }
        p.quiet { "Workers and servers carry schedules out, each tick once. " (command("semel schedules set NAME --cron '30 8 * * MON' --task TASK")) }
    };
    Ok(layout::page(&app, &caller, "/schedules", "Schedules", body))
}
