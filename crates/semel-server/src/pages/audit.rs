//! What people did.

use axum::Extension;
use axum::extract::State;
use maud::html;

use crate::api::Reply;
use crate::api::query::{PageQuery, page as part};
use crate::app::App;
use crate::ask::Asked;
use crate::clock;
use crate::pages::layout;
use crate::pages::parts::{self, table, when};
use crate::role::Caller;

/// `GET /audit`
pub async fn page(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Asked(query): Asked<PageQuery>,
) -> Reply {
    let now = clock::now();
    let found = app.client.audit(part(query.cursor, query.limit)).await?;
    let rows = found.items.iter().map(|entry| html! {
        td { (when(entry.at, now)) } td { (entry.actor) } td { (entry.act) } td.wide { (entry.subject) } td.wide { (entry.reason.as_deref().unwrap_or_default()) }
        td.wide { @if let Some(refused) = &entry.refused { span.state.failed { "refused" } " " (refused) } }
    });
    let body = html! {
        div id="audit" data-live {
            (table(&["When", "Who", "Act", "On what", "Why", ""], rows.collect(), "Nobody has done anything yet."))
            (parts::next("/audit", &[], found.next_cursor.as_deref()))
        }
    };
    Ok(layout::page(&app, &caller, "/audit", "Audit", body))
}
