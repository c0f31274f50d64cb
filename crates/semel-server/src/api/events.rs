//! Events, and who is subscribed to them.

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use semel::{Delivered, Subscriber};
use semel_core::dedup::Hold;
use semel_core::json::Json;
use semel_core::limits;
use semel_core::time::Millis;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::{Reply, Why, ok};
use crate::app::App;
use crate::ask::{MaybeSaid, Named, NamedTwice, Said};
use crate::problem::Problem;
use crate::role::{Caller, Role};
use crate::{clock, metrics, wire};

/// Something that happened.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = EventRequest)]
pub struct EventSaid {
    /// What the handlers get.
    #[schema(value_type = serde_json::Value)]
    input: Json,
    /// Tells every subscriber once, however often it is sent.
    idempotency_key: Option<String>,
    /// How long that key is kept; 30 days by default.
    idempotency_ttl_ms: Option<u64>,
    /// An event nobody subscribed to is fine.
    allow_none: Option<bool>,
}

/// What became of an event, per subscriber.
#[derive(Debug, Serialize, ToSchema)]
pub struct Deliveries<'a> {
    #[schema(value_type = Vec<wire::DeliveryShape<'static>>)]
    results: Vec<wire::Delivery<'a>>,
}

/// `POST /v1/events/{name}`
pub async fn send(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
    Said(said): Said<EventSaid>,
) -> Reply {
    let client = match caller.token {
        Some(_) => app.client.named(caller.name.as_str())?,
        None => app.client.clone(),
    };
    let event = client.event(name);
    let is_keyed = said.idempotency_key.is_some();
    let mut sending = match said.idempotency_key {
        Some(key) => event.send_idempotent(key, &said.input),
        None if said.idempotency_ttl_ms.is_some() => {
            return Err(Problem::invalid(
                "idempotency_ttl_ms without idempotency_key: allowed is both",
            ));
        }
        None => event.send(&said.input),
    };
    let ttl = is_keyed.then(|| match said.idempotency_ttl_ms {
        Some(ttl) => Duration::from_millis(ttl).into(),
        None => Hold::DEFAULT_WINDOW,
    });
    if let Some(ttl) = said.idempotency_ttl_ms {
        sending = sending.ttl(Duration::from_millis(ttl));
    }
    if said.allow_none.unwrap_or(false) {
        sending = sending.allow_none();
    }
    let begun = clock::instant();
    let delivered = sending.await.inspect_err(|error| {
        if let semel::Error::Store(_) | semel::Error::StoreUnavailable { .. } = error {
            metrics::unanswered("submit");
        }
    })?;
    count(&delivered, ttl, begun.elapsed());
    let results = delivered.iter().map(|one| wire::Delivery {
        task: &one.task,
        answer: one
            .submitted
            .as_ref()
            .ok()
            .map(|submitted| wire::Answer::admitted(submitted.admitted())),
        error: one.submitted.as_ref().err().map(|error| told(error, &caller)),
    });
    ok(&Deliveries {
        results: results.collect(),
    })
}

/// A job per subscriber is a submission each.
fn count(delivered: &[Delivered], ttl: Option<Millis>, took: Duration) {
    let default = limits::default_queue();
    for one in delivered {
        let queue = one.queue.as_deref().unwrap_or(default.as_str());
        metrics::submitted(queue, one.task.as_str(), one.submitted.as_ref(), took);
        if let Ok(submitted) = &one.submitted {
            metrics::key_ttl(submitted, ttl);
        }
    }
}

/// Where inputs differ is for those who may read.
fn told(error: &semel::Error, caller: &Caller) -> String {
    match error {
        semel::Error::IdempotencyConflict { .. } if !caller.may(Role::Read) => {
            "the key was used for something else".to_owned()
        }
        error => error.to_string(),
    }
}

/// A task that has a job for each event of a name.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Subscriber)]
pub struct SubscriberRow<'a> {
    #[schema(value_type = String)]
    event: &'a str,
    #[schema(value_type = String)]
    task: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    queue: Option<&'a str>,
}

impl<'a> From<&'a Subscriber> for SubscriberRow<'a> {
    fn from(subscriber: &'a Subscriber) -> Self {
        SubscriberRow {
            event: &subscriber.event,
            task: subscriber.task.as_str(),
            queue: subscriber.queue.as_deref(),
        }
    }
}

/// `GET /v1/events`
pub async fn list(State(app): State<App>) -> Reply {
    let found = app.client.subscribers().await?;
    ok(&wire::List::whole(found.iter().map(SubscriberRow::from)))
}

/// `GET /v1/events/{name}/subscribers`
pub async fn subscribers(State(app): State<App>, Named(name): Named) -> Reply {
    let found = app.client.event(name).subscribers().await?;
    ok(&wire::List::whole(found.iter().map(SubscriberRow::from)))
}

/// `GET /v1/events/{name}/subscribers/{task}`
pub async fn subscriber(State(app): State<App>, NamedTwice(name, task): NamedTwice) -> Reply {
    let found = app.client.event(&name).subscribers().await?;
    match found.iter().find(|subscriber| subscriber.task.as_str() == task) {
        Some(subscriber) => ok(&SubscriberRow::from(subscriber)),
        None => Err(Problem::not_found(format!("subscriber {task} of event {name}"))),
    }
}

/// Where its jobs wait, and why.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SubscribeRequest)]
pub struct SubscribeSaid {
    /// Where its jobs wait.
    queue: Option<String>,
    /// Why.
    reason: Option<String>,
}

/// `PUT /v1/events/{name}/subscribers/{task}`
pub async fn subscribe(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    NamedTwice(name, task): NamedTwice,
    MaybeSaid(said): MaybeSaid<SubscribeSaid>,
) -> Reply {
    let event = app.client.event(&name);
    let operator = app.operator(&caller, said.reason.as_deref());
    let subscribing = event.subscribe_named(&task, said.queue.as_deref());
    operator
        .on_record("subscribe", &format!("task {task} to event {name}"), subscribing)
        .await?;
    subscriber(State(app), NamedTwice(name, task)).await
}

/// `DELETE /v1/events/{name}/subscribers/{task}`
pub async fn unsubscribe(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    NamedTwice(name, task): NamedTwice,
    MaybeSaid(why): MaybeSaid<Why>,
) -> Reply {
    let event = app.client.event(&name);
    let operator = app.operator(&caller, why.reason.as_deref());
    let subject = format!("task {task} from event {name}");
    match operator
        .on_record("unsubscribe", &subject, event.unsubscribe(&task))
        .await?
    {
        true => Ok(StatusCode::NO_CONTENT.into_response()),
        false => Err(Problem::not_found(format!("subscriber {task} of event {name}"))),
    }
}
