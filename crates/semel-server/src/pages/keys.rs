//! Who blocked me? And a key's life.

mod life;

use axum::Extension;
use axum::extract::State;
use maud::{Markup, html};
use semel_core::ids::Digest;
use semel_core::time::Timestamp;
use semel_core::view::KeyRow;

use crate::api::Reply;
use crate::api::query::{KeysQuery, PageQuery, page, said};
use crate::app::App;
use crate::ask::{Asked, Named};
use crate::pages::layout;
use crate::pages::parts::{self, command, holder, table, until, when};
use crate::problem::Problem;
use crate::role::{Caller, Role};
use crate::text::{count, flag};
use crate::{clock, wording};

/// `GET /keys`
pub async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Asked(query): Asked<KeysQuery>,
) -> Reply {
    let now = clock::now();
    let store = app.client.store();
    let (rows, cursor) = match said(query.text.as_deref()).and_then(|text| text.parse::<Digest>().ok()) {
        Some(digest) => (store.key(digest).await?.into_iter().collect(), None),
        None => {
            let found = store.keys(query.filter()?, query.page()).await?;
            (found.items, found.next_cursor)
        }
    };
    let all = query.state.as_deref() == Some("all");
    let body = html! {
        form method="get" action="/keys" role="search" {
            label { "Text or digest" input type="search" name="text" value=[query.text.as_deref()] autofocus; }
            label { "Scope" input type="text" name="scope" value=[query.scope.as_deref()] placeholder="task, queue, global"; }
            label { "Task" input type="text" name="task" value=[query.task.as_deref()]; }
            label { "Job" input type="text" name="job" value=[query.job.as_deref()]; }
            label { "Which" select name="state" { option value="held" selected[!all] { "held" } option value="all" selected[all] { "also free" } } }
            button type="submit" { "Find" }
        }
        div id="keys" data-live {
            (table(&["Key", "Scope", "Holder", "Task", "#Absorbed", "Taken", "Free"], rows.iter().map(|row| line(row, now)).collect(), parts::none(cursor.as_deref(), "No key like that. Free ones are found with “also free”.")))
            (parts::next("/keys", &[("text", query.text.as_deref()), ("scope", query.scope.as_deref()), ("task", query.task.as_deref()), ("job", query.job.as_deref()), ("state", query.state.as_deref())], cursor.as_deref()))
        }
        @if !store.capabilities().key_search { p.quiet { "This store has no index of key texts: a search reads keys newest first, a page at a time." } }
    };
    Ok(layout::page(&app, &caller, "/keys", "Keys", body))
}

fn line(row: &KeyRow, now: Timestamp) -> Markup {
    html! {
        td.wide.name { (parts::key(&row.key)) } td.late data-head="scope" { (row.key.scope) } td.nowrap.wide { (holder(&row.holder)) } td.two data-head="task" { (row.holder.task) }
        td.num data-head="absorbed" { (count(row.absorbed)) } td data-head="taken" { (when(row.key.taken_at, now)) } td.free.two data-head="free" { @match (row.key.held && row.free_at.is_none(), row.key.expires_at) { (true, Some(at)) => { span title="Not before its job has ended" { "earliest " (until(at, now)) } } _ => (free(row, now)) } }
    }
}

fn free(row: &KeyRow, now: Timestamp) -> Markup {
    html! {
        @if !row.key.held { "free" }
        @else if let Some(at) = row.free_at { (until(at, now)) }
        @else if let Some(at) = row.key.expires_at { (until(at, now)) ", not before its job has ended" }
        @else { (wording::hold(&row.key.hold)) }
    }
}

/// `GET /keys/{digest}`
pub async fn one(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(digest): Named,
    Asked(query): Asked<PageQuery>,
) -> Reply {
    let digest: Digest = digest.parse()?;
    let now = clock::now();
    let store = app.client.store();
    let row = store
        .key(digest)
        .await?
        .ok_or_else(|| Problem::not_found(format!("key {digest}")))?;
    let life = life::read(&app, &row, page(query.cursor, query.limit)).await?;
    let title = row
        .key
        .text
        .clone()
        .unwrap_or_else(|| format!("Key {}", parts::short(&digest.to_string())));
    let body = html! {
        div id="key" data-live {
            dl {
                dt { "Digest" } dd.mono { (digest) }
                dt { "Held" } dd { @if row.key.held { "yes, by " (holder(&row.holder)) } @else { "no; last by " (holder(&row.holder)) } }
                dt { "Task, queue" } dd { (row.holder.task) ", " (row.queue) }
                dt { "Scope" } dd { (row.key.scope) }
                dt { "Made from" } dd { (wording::made_from(row.key.by)) }
                dt { "Kept" } dd { (wording::hold(&row.key.hold)) }
                dt { "Free" } dd { (free(&row, now)) }
                dt { "Absorbed" } dd { (count(row.absorbed)) }
                dt { "Generation" } dd { (row.key.generation) @if row.key.observed { ", observed only" } }
            }
            @if row.key.held && caller.may(Role::Operate) {
                form data-call={ "POST /v1/keys/" (digest) "/release" } data-confirm={ "Release this key? A second job with it would be let in." } {
                    input type="hidden" name="holder" value=(row.holder.id);
                    label { "Reason, for the record" input type="text" name="reason" required maxlength="1000"; }
                    button.danger type="submit" { "Release" } span.note role="status" {}
                }
            }
            p.quiet { "As a command: " (command(&format!("semel keys show {digest}"))) @if row.key.held { " " (command(&format!("semel keys release {digest} {} --reason TEXT", flag("--holder", row.holder.id.as_str())))) } }
            h2 { "Its life" }
            (life.show(now))
            (parts::next(&format!("/keys/{digest}"), &[], life.next_cursor.as_deref()))
        }
    };
    Ok(layout::page(&app, &caller, "/keys", &title, body))
}
