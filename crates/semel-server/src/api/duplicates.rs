//! Absorbed submissions as they come.

use axum::extract::State;
use semel_core::ids::{Digest, JobId};
use semel_core::store::LedgerFilter;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::api::query::{page, said};
use crate::api::{Reply, ok};
use crate::app::App;
use crate::ask::Asked;
use crate::{redact, wire};

/// Which absorbed submissions.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct DuplicatesQuery {
    /// Of the key with this digest.
    key: Option<String>,
    /// Blocked by this job.
    holder: Option<String>,
    /// The next_cursor of the page before.
    cursor: Option<String>,
    /// At most so many, 1 to 500.
    limit: Option<usize>,
}

/// `GET /v1/duplicates`
pub async fn list(State(app): State<App>, Asked(query): Asked<DuplicatesQuery>) -> Reply {
    let filter = LedgerFilter {
        digest: said(query.key.as_deref()).map(str::parse::<Digest>).transpose()?,
        holder: said(query.holder.as_deref()).map(JobId::new).transpose()?,
    };
    let mut found = app
        .client
        .store()
        .ledger(filter, page(query.cursor, query.limit))
        .await?;
    for entry in &mut found.items {
        redact::entry(entry, &app.settings.redact);
    }
    ok(&wire::List {
        items: found.items.iter().map(wire::LedgerEntry::from).collect(),
        next_cursor: found.next_cursor,
    })
}
