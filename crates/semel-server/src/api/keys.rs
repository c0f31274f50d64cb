//! Keys: who has them, whom they absorbed, releasing them by hand.

use axum::Extension;
use axum::extract::State;
use semel_core::ids::{Digest, JobId};
use semel_core::store::LedgerFilter;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::api::query::{KeysQuery, PageQuery, page, said};
use crate::api::{Reply, ok};
use crate::app::App;
use crate::ask::{Asked, Named, Said};
use crate::problem::Problem;
use crate::role::Caller;
use crate::{redact, wire};

/// `GET /v1/keys`
pub async fn list(State(app): State<App>, Asked(query): Asked<KeysQuery>) -> Reply {
    // A whole digest finds its key, held or not.
    if let Some(digest) = said(query.text.as_deref()).and_then(|text| text.parse::<Digest>().ok()) {
        let row = app.client.store().key(digest).await?;
        return ok(&wire::List::whole(row.iter().map(wire::KeyRow::from)));
    }
    let found = app.client.store().keys(query.filter()?, query.page()).await?;
    ok(&wire::List {
        items: found.items.iter().map(wire::KeyRow::from).collect(),
        next_cursor: found.next_cursor,
    })
}

/// `GET /v1/keys/{digest}`
pub async fn show(State(app): State<App>, Named(digest): Named, Asked(query): Asked<PageQuery>) -> Reply {
    let digest: Digest = digest.parse()?;
    let store = app.client.store();
    let row = store.key(digest).await?;
    let row = row.ok_or_else(|| Problem::not_found(format!("key {digest}")))?;
    let filter = LedgerFilter {
        digest: Some(digest),
        ..LedgerFilter::default()
    };
    let mut ledger = store.ledger(filter, page(query.cursor, query.limit)).await?;
    for entry in &mut ledger.items {
        redact::entry(entry, &app.settings.redact);
    }
    ok(&wire::KeyPage {
        row: wire::KeyRow::from(&row),
        ledger: ledger.items.iter().map(wire::LedgerEntry::from).collect(),
        next_cursor: ledger.next_cursor,
    })
}

/// Which holder is meant, and why.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Release)]
pub struct ReleaseSaid {
    /// The job that is meant.
    #[schema(value_type = String)]
    holder: JobId,
    /// Why: it is on record.
    reason: String,
}

/// `POST /v1/keys/{digest}/release`
pub async fn release(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(digest): Named,
    Said(said): Said<ReleaseSaid>,
) -> Reply {
    let digest: Digest = digest.parse()?;
    let operator = app.operator(&caller, Some(&said.reason));
    let acted = operator.release(digest, &said.holder).await.map_err(|error| {
        let changed = matches!(error, semel::Error::Duplicate { .. });
        let problem = Problem::from(error);
        if changed {
            problem.coded("holder_changed")
        } else {
            problem
        }
    })?;
    app.look_again().await;
    ok(&wire::Acted::new(&said.holder, &acted))
}
