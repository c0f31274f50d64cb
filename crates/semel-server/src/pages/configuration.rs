//! How it is set up.

use axum::Extension;
use axum::extract::State;
use maud::html;

use crate::api::Reply;
use crate::app::App;
use crate::pages::lanes::{reasons, words};
use crate::pages::layout;
use crate::pages::overview::named;
use crate::pages::parts::table;
use crate::role::Caller;
use crate::text::{count, percent};
use crate::when::span;

/// `GET /configuration`
pub async fn page(State(app): State<App>, Extension(caller): Extension<Caller>) -> Reply {
    let view = app.view().await?;
    let reasons = reasons(&app, &view).await?;
    let settings = &app.settings;
    let kept = settings.retention;
    let limits = &settings.thresholds;
    let can = app.client.store().capabilities();
    let body = html! {
        h2 { "Clean-up" }
        dl { dt { "Complete jobs are kept" } dd { (span(kept.complete)) } dt { "Failed and cancelled jobs" } dd { (span(kept.failed)) } dt { "The ledger" } dd { (span(kept.ledger)) } }
        h2 { "Alerts fire beyond" }
        dl {
            dt { "error_rate" } dd { (percent(limits.error_rate)) " of the jobs that ended within an hour" } dt { "duplicate_rate" } dd { (percent(limits.duplicate_rate)) " off the day's" } dt { "oldest_waiting" } dd { (span(limits.oldest_waiting)) }
            dt { "lease_expirations" } dd { (limits.lease_expirations) " in ten minutes" } dt { "schedule_missed" } dd { (span(limits.schedule_missed)) } dt { "paused" } dd { (span(limits.paused)) } dt { "clock_skew" } dd { (span(limits.clock_skew)) } dt { "outbox_lag" } dd { (span(limits.outbox_lag)) } dt { "storage" } dd { (percent(limits.storage)) " of what the store can have" } dt { "expired_keys" } dd { (count(limits.expired_keys)) " waiting to be cleaned up" }
        }
        h2 { "The store" }
        dl { dt { "Kind" } dd { (can.name) } dt { "Order" } dd { (if can.strict_order { "strict" } else { "per shard" }) } dt { "Durable" } dd { (if can.durable { "yes" } else { "no: it ends with its process" }) } dt { "Shared by processes" } dd { (if can.shared_by_processes { "yes" } else { "no" }) } dt { "Never shown" } dd { (if settings.redact.is_empty() { "nothing is hidden".to_owned() } else { settings.redact.join(" ") }) } }
        h2 { "Settings" }
        (table(&["Name", "Value", "From"], settings.shown.iter().map(|(name, value, source)| html! { td { (name) } td.wide { (value) } td.wide data-head="from" { (source) } }).collect(), "Everything is at its default."))
        h2 { "Queues and tasks that are not at their default" }
        (table(&["What", "Set"], view.settings.iter().map(|(target, set)| html! { td.wide { (named(target)) } td.wide { (words(target, set, &view, &reasons)) } }).collect(), "Every queue and task is at its default."))
        p.quiet { "They are changed on " a href="/queues" { "their page" } "." }
    };
    Ok(layout::page(
        &app,
        &caller,
        "/configuration",
        "Configuration",
        body,
    ))
}
