//! The outbox this server relays (contract 5.5).

use axum::Extension;
use axum::extract::State;
use semel_core::time::Timestamp;
use semel_outbox::{ParkedEvent, Status};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::{Reply, ok};
use crate::app::App;
use crate::ask::MaybeSaid;
use crate::outbox::Outbox;
use crate::problem::Problem;
use crate::role::Caller;
use crate::{clock, wire};

/// Parked events in an answer.
pub const SHOWN: usize = 200;

/// How an outbox stands.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Outbox)]
pub struct Standing<'a> {
    /// The database, without a password.
    #[schema(value_type = String)]
    from: &'a str,
    /// Events that are not sent yet.
    pending: i64,
    /// Of those, events that were tried and are to be tried again.
    failing: i64,
    /// Events that were given up until a person has looked at them.
    parked: i64,
    /// How long the oldest pending event has waited.
    lag_ms: i64,
    /// When the oldest pending event was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_at: Option<wire::Moment>,
    /// When an event was sent last.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_sent_at: Option<wire::Moment>,
    /// Sent events before this moment have been pruned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pruned_before: Option<wire::Moment>,
    /// The oldest of the parked events.
    parked_events: Vec<Parked<'a>>,
}

/// An event that was given up.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ParkedEvent)]
struct Parked<'a> {
    #[schema(value_type = String)]
    id: &'a str,
    #[schema(value_type = String)]
    task: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    partition: Option<&'a str>,
    /// How often it was tried.
    attempts: i64,
    /// Why it was given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    error: Option<&'a str>,
}

impl<'a> Standing<'a> {
    fn new(outbox: &'a Outbox, status: &Status, parked: &'a [ParkedEvent]) -> Self {
        let moment = |millis: i64| wire::Moment(Timestamp::from_millis(millis));
        let oldest = clock::now().as_millis() - status.lag_ms;
        Standing {
            from: outbox.shown(),
            pending: status.pending,
            failing: status.failing,
            parked: status.parked,
            lag_ms: status.lag_ms,
            oldest_at: (status.pending > 0).then(|| moment(oldest)),
            last_sent_at: status.last_sent_ms.map(moment),
            pruned_before: status.pruned_before_ms.map(moment),
            parked_events: parked.iter().map(Parked::from).collect(),
        }
    }
}

impl<'a> From<&'a ParkedEvent> for Parked<'a> {
    fn from(event: &'a ParkedEvent) -> Self {
        Parked {
            id: &event.id,
            task: &event.task,
            partition: event.partition.as_deref(),
            attempts: event.attempts,
            error: event.error.as_deref(),
        }
    }
}

/// `GET /v1/outbox`
pub async fn show(State(app): State<App>) -> Reply {
    let outbox = configured(&app)?;
    let (status, parked) = tokio::try_join!(outbox.status(), outbox.parked(SHOWN))?;
    ok(&Standing::new(outbox, &status, &parked))
}

/// Which parked events are tried again.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = OutboxRetry)]
pub struct RetrySaid {
    /// One event; without it, all of them.
    id: Option<String>,
    /// A sentence for whoever reads the audit feed.
    reason: Option<String>,
}

/// How many are tried again.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OutboxRetried)]
pub struct Retried {
    /// Events that are tried again.
    retried: u64,
}

/// `POST /v1/outbox/retry`
pub async fn retry(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    MaybeSaid(said): MaybeSaid<RetrySaid>,
) -> Reply {
    let outbox = configured(&app)?;
    let subject = match &said.id {
        Some(id) => format!("event {id} of the outbox"),
        None => "every parked event of the outbox".to_owned(),
    };
    let operator = app.operator(&caller, said.reason.as_deref());
    // The outbox is no part of the store: what goes wrong with it is none of the store's errors.
    let unparking = async { Ok(outbox.unpark(said.id.as_deref()).await) };
    let retried = operator.on_record("retry_event", &subject, unparking).await??;
    if let (Some(id), 0) = (&said.id, retried) {
        return Err(Problem::not_found(format!("parked event {id} in the outbox")));
    }
    app.look_again().await;
    ok(&Retried { retried })
}

fn configured(app: &App) -> Result<&Outbox, Problem> {
    let none = || Problem::not_found("outbox that this server relays").hint("semel serve --outbox URL");
    app.settings.outbox.as_ref().ok_or_else(none)
}
