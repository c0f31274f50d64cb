//! Jobs that come by themselves.

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use semel::schedule::{self, Overlap, Schedule};
use semel_core::ids::Name;
use semel_core::json::Json;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::api::{Reply, Why, ok};
use crate::app::App;
use crate::ask::{MaybeSaid, Named, Said};
use crate::problem::Problem;
use crate::redact;
use crate::role::Caller;
use crate::wire::{self, words};

/// A schedule, as it is to be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ScheduleRequest)]
pub struct ScheduleSaid {
    /// Five fields (or six, with the second in front), or a nickname such as @daily.
    cron: String,
    /// A zone of the IANA database; UTC where none is named.
    zone: Option<String>,
    #[schema(value_type = Option<words::Overlap>)]
    overlap: Option<Overlap>,
    #[schema(value_type = String)]
    task: Name,
    #[schema(value_type = Option<String>)]
    queue: Option<Name>,
    #[schema(value_type = serde_json::Value)]
    input: Json,
    priority: Option<i8>,
    max_attempts: Option<u32>,
    timeout_ms: Option<i64>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Why.
    reason: Option<String>,
}

/// `GET /v1/schedules`
pub async fn list(State(app): State<App>) -> Reply {
    let mut found = schedule::list(&app.client).await?;
    for one in &mut found {
        redact::schedule(one, &app.settings.redact);
    }
    ok(&wire::List::whole(found.iter().map(wire::Schedule::from)))
}

/// `GET /v1/schedules/{name}`
pub async fn show(State(app): State<App>, Named(name): Named) -> Reply {
    match schedule::get(&app.client, &name).await? {
        Some(mut found) => {
            redact::schedule(&mut found, &app.settings.redact);
            ok(&wire::Schedule::from(&found))
        }
        None => Err(Problem::not_found(format!("schedule {name}"))),
    }
}

/// `PUT /v1/schedules/{name}`
pub async fn set(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
    Said(said): Said<ScheduleSaid>,
) -> Reply {
    let schedule = Schedule {
        name: Name::new(&name)?,
        cron: said.cron,
        zone: said.zone.unwrap_or_else(|| "UTC".to_owned()),
        overlap: said.overlap.unwrap_or_default(),
        task: said.task,
        queue: said.queue,
        input: said.input,
        priority: said.priority,
        max_attempts: said.max_attempts,
        timeout_ms: said.timeout_ms,
        headers: said.headers,
    };
    let operator = app.operator(&caller, said.reason.as_deref());
    let putting = schedule::put(&app.client, &schedule);
    let mut view = operator
        .on_record("set_schedule", &format!("schedule {name}"), putting)
        .await?;
    app.look_again().await;
    redact::schedule(&mut view, &app.settings.redact);
    ok(&wire::Schedule::from(&view))
}

/// `DELETE /v1/schedules/{name}`
pub async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
    MaybeSaid(why): MaybeSaid<Why>,
) -> Reply {
    let operator = app.operator(&caller, why.reason.as_deref());
    let deleting = schedule::delete(&app.client, &name);
    let there = operator
        .on_record("delete_schedule", &format!("schedule {name}"), deleting)
        .await?;
    app.look_again().await;
    match there {
        true => Ok(StatusCode::NO_CONTENT.into_response()),
        false => Err(Problem::not_found(format!("schedule {name}"))),
    }
}
