//! What is committed in another database and is to become jobs.

use axum::Extension;
use axum::extract::State;
use maud::{Markup, html};
use semel_core::time::{Millis, Timestamp};
use semel_outbox::{ParkedEvent, Status};

use crate::api::Reply;
use crate::api::outbox::SHOWN;
use crate::app::App;
use crate::clock;
use crate::pages::layout;
use crate::pages::parts::{act, command, table, when};
use crate::role::{Caller, Role};
use crate::text::count;
use crate::when::span;

/// `GET /outbox`
pub async fn page(State(app): State<App>, Extension(caller): Extension<Caller>) -> Reply {
    let body = match &app.settings.outbox {
        None => html! {
            p.none { "This server relays no outbox." }
            p.quiet { "It does so with " (command("semel serve --outbox postgres://USER@HOST/DATABASE")) " or " (command("--outbox sqlite:FILE")) "." }
        },
        Some(outbox) => {
            let (status, parked) = tokio::try_join!(outbox.status(), outbox.parked(SHOWN))?;
            html! {
                p { "Events that were written in transactions of " code { (outbox.shown()) } ". This server submits them as jobs, each once." }
                div id="outbox" data-live { (standing(&status)) (given_up(&parked, status.parked, caller.may(Role::Operate))) }
            }
        }
    };
    Ok(layout::page(&app, &caller, "/outbox", "Outbox", body))
}

fn standing(status: &Status) -> Markup {
    let now = clock::now();
    let moment = |millis: i64| when(Timestamp::from_millis(millis), now);
    html! {
        dl {
            dt { "Pending" } dd { (count(status.pending)) @if status.pending > 0 { ", the oldest for " (span(Millis::new(status.lag_ms))) } }
            dt { "To be tried again" } dd { (count(status.failing)) }
            dt { "Parked" } dd { (count(status.parked)) }
            dt { "Last sent" } dd { @if let Some(at) = status.last_sent_ms { (moment(at)) } @else { "never" } }
            @if let Some(at) = status.pruned_before_ms { dt { "Pruned" } dd { "what was sent before " (moment(at)) } }
        }
    }
}

fn given_up(parked: &[ParkedEvent], all: i64, operates: bool) -> Markup {
    let rows = parked.iter().map(|event| html! {
        td.mono.wide { (event.id) } td data-head="task" { (event.task) } td data-head="partition" { (event.partition.as_deref().unwrap_or_default()) } td.num data-head="tried" { (event.attempts) } td.wide { (event.error.as_deref().unwrap_or_default()) }
        td.wide { @if operates {
            form.act data-call="POST /v1/outbox/retry" {
                input type="hidden" name="id" value=(event.id);
                input type="text" name="reason" placeholder="reason" aria-label={ "Reason: try " (event.id) " again" } maxlength="1000";
                button type="submit" { "Try again" } span.note role="status" {}
            }
        } }
    });
    html! {
        h2 { "Parked" }
        p.quiet { "No try helped, or no try could: later events of the same partition went past these. Mend the cause, then have them tried again." }
        (table(&["Event", "Task", "Partition", "#Tried", "Why", ""], rows.collect(), "No event is parked."))
        @if operates && all > 1 { (act("POST /v1/outbox/retry", "Try all again", Some("Try every parked event again?"), false)) }
    }
}
