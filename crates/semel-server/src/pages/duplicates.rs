//! Who is the storm?

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::State;
use maud::html;
use semel_core::store::{LedgerFilter, Page};

use crate::advice;
use crate::api::Reply;
use crate::app::App;
use crate::pages::layout;
use crate::pages::parts::{self, short, table, when};
use crate::role::Caller;
use crate::{clock, wording};

/// `GET /duplicates`
pub async fn page(State(app): State<App>, Extension(caller): Extension<Caller>) -> Reply {
    let now = clock::now();
    let entries = app
        .client
        .store()
        .ledger(LedgerFilter::default(), Page::first(200))
        .await?
        .items;
    let advice = advice::gather(&app.client).await?;
    let mut by: BTreeMap<(String, String), usize> = BTreeMap::new();
    for entry in &entries {
        let producer = entry
            .producer
            .as_ref()
            .map_or_else(|| "(unnamed)".to_owned(), ToString::to_string);
        *by.entry((producer, entry.task.to_string())).or_default() += 1;
    }
    let mut by: Vec<_> = by.into_iter().collect();
    by.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    by.truncate(10);
    let body = html! {
        div id="duplicates" data-live {
            @for one in &advice { div.alert.held { b { (one.kind) ", " (one.subject) } ": " (one.message) } }
            h2 { "Who, among the last " (entries.len()) }
            (table(&["Producer", "Task", "#Absorbed"], by.iter().map(|((producer, task), n)| html! { td { (producer) } td.two { (task) } td.num data-head="absorbed" { (n) } }).collect(), "Nothing was absorbed yet."))
            h2 { "As they came" }
            (table(&["When", "Outcome", "Key", "Task", "Queue", "Producer", "Blocked by", "Differed at"], entries.iter().take(100).map(|entry| html! {
                td { (when(entry.at, now)) } td { span class={ "state " (entry.outcome.word()) } { (entry.outcome.word()) } }
                td data-head="key" { a.mono href={ "/keys/" (entry.digest) } { (short(&entry.digest.to_string())) } } td.two data-head="task" { (entry.task) } td data-head="queue" { (entry.queue) }
                td.two data-head="from" { @if let Some(name) = &entry.producer { (name) } } td data-head="blocked by" { (parts::job(entry.holder.as_str())) } td data-head="differed at" { (wording::differs(&entry.differs)) }
            }).collect(), "Nothing was absorbed yet."))
        }
    };
    Ok(layout::page(&app, &caller, "/duplicates", "Duplicates", body))
}
