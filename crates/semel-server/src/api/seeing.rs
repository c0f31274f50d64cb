//! Workers, guarantees, the audit feed, alerts, advice, and whether the server is well.

use axum::extract::State;
use semel::AuditEntry;
use serde::Serialize;
use utoipa::ToSchema;

use crate::advice::{self, Advice};
use crate::alerts::{self, Alert};
use crate::api::query::{PageQuery, page};
use crate::api::{Reply, ok};
use crate::app::App;
use crate::ask::Asked;
use crate::problem::Problem;
use crate::wire;

/// `GET /v1/workers`
pub async fn workers(State(app): State<App>) -> Reply {
    let view = app.view().await?;
    ok(&wire::List::whole(view.workers.iter().map(wire::Worker::from)))
}

/// `GET /v1/guarantees`
pub async fn guarantees(State(app): State<App>) -> Reply {
    let store = app.client.store();
    ok(&wire::GuaranteeSheet {
        items: store.guarantees().await?,
        capabilities: store.capabilities().into(),
    })
}

/// One entry of the audit feed.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuditRow<'a> {
    n: i64,
    at: wire::Moment,
    #[schema(value_type = String)]
    actor: &'a str,
    #[schema(value_type = String)]
    act: &'a str,
    #[schema(value_type = String)]
    subject: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    reason: Option<&'a str>,
    /// Why it was not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    refused: Option<&'a str>,
}

impl<'a> From<&'a AuditEntry> for AuditRow<'a> {
    fn from(entry: &'a AuditEntry) -> Self {
        AuditRow {
            n: entry.n,
            at: entry.at.into(),
            actor: &entry.actor,
            act: &entry.act,
            subject: &entry.subject,
            reason: entry.reason.as_deref(),
            refused: entry.refused.as_deref(),
        }
    }
}

/// `GET /v1/audit`
pub async fn audit(State(app): State<App>, Asked(query): Asked<PageQuery>) -> Reply {
    let found = app.client.audit(page(query.cursor, query.limit)).await?;
    ok(&wire::List {
        items: found.items.iter().map(AuditRow::from).collect(),
        next_cursor: found.next_cursor,
    })
}

/// Alerts that fire, and what is watched.
#[derive(Debug, Serialize, ToSchema)]
pub struct Alerts {
    /// Those that fire.
    pub items: Vec<Alert>,
    /// Everything that is watched on this store, firing or not.
    pub watched: Vec<Alert>,
}

/// `GET /v1/alerts`
pub async fn alerts(State(app): State<App>) -> Reply {
    let view = app.view().await?;
    let watched = alerts::watch(&view, &app.settings.thresholds);
    ok(&Alerts {
        items: watched.iter().filter(|alert| alert.firing).cloned().collect(),
        watched,
    })
}

/// `GET /v1/advice`
pub async fn advice(State(app): State<App>) -> Reply {
    let found: Vec<Advice> = advice::gather(&app.client).await?;
    ok(&wire::List::whole(found))
}

/// How the server is.
#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// ok.
    status: &'static str,
    /// Of this server.
    version: &'static str,
}

const WELL: Health = Health {
    status: "ok",
    version: env!("CARGO_PKG_VERSION"),
};

/// `GET /healthz`
pub async fn healthz() -> Reply {
    ok(&WELL)
}

/// `GET /readyz`
pub async fn readyz(State(app): State<App>) -> Reply {
    if app.is_stopping() {
        return Err(Problem::new("busy", "the server is stopping").retry_after(5));
    }
    app.takes_writes().await?;
    ok(&WELL)
}
