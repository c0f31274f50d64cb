//! Who works?

use axum::Extension;
use axum::extract::State;
use maud::html;

use crate::api::Reply;
use crate::app::App;
use crate::pages::layout;
use crate::pages::parts::{command, table, when};
use crate::role::Caller;

/// `GET /workers`
pub async fn page(State(app): State<App>, Extension(caller): Extension<Caller>) -> Reply {
    let view = app.view().await?;
    let names = |names: &[semel_core::ids::Name]| match names {
        [] => "all".to_owned(),
        names => names
            .iter()
            .map(|name| name.as_str())
            .collect::<Vec<_>>()
            .join(", "),
    };
    let rows = view.workers.iter().map(|worker| {
        let info = &worker.info;
        html! {
            td.wide { (info.name.as_deref().unwrap_or(&worker.id)) br; span.quiet { (info.host) @if info.pid != 0 { ", pid " (info.pid) } } }
            td data-head="tasks" { (names(&info.tasks)) } td data-head="queues" { (names(&info.queues)) }
            td.num data-head="busy" { @if info.pid == 0 { span title="It claims over HTTP: how much it has in hand only it knows" { "at most " (info.slots) } } @else { (info.running) "/" (info.slots) } } td data-head="started" { @if let Some(at) = info.started_at { (when(at, view.now)) } } td data-head="heard" { (when(worker.heartbeat_at, view.now)) } td data-head="version" { (info.version.as_deref().unwrap_or_default()) }
        }
    });
    let body = html! {
        div id="workers" data-live {
            (table(&["Worker", "Tasks", "Queues", "#Busy", "Started", "Heard", "Version"], rows.collect(), "No worker was heard of in the last half minute."))
            @if view.workers.is_empty() { p { (command("semel work --task NAME --exec 'CMD'")) } }
        }
    };
    Ok(layout::page(&app, &caller, "/workers", "Workers", body))
}
