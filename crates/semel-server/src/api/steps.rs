//! Steps in doubt, and deciding about them (contract 5.2).

use axum::Extension;
use axum::extract::State;
use semel_core::error::Invalid;
use semel_core::ids::JobId;
use semel_core::json::Json;
use semel_core::step::Resolution;
use semel_core::store::StepFilter;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::api::query::said;
use crate::api::{Reply, ok};
use crate::app::App;
use crate::ask::{Asked, NamedTwice, Said};
use crate::role::Caller;
use crate::{redact, wire};

/// Which steps.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct StepsQuery {
    /// in_doubt, which is also the default.
    state: Option<String>,
}

/// `GET /v1/steps`
pub async fn list(State(app): State<App>, Asked(query): Asked<StepsQuery>) -> Reply {
    match said(query.state.as_deref()) {
        None | Some("in_doubt") => {}
        Some(other) => return Err(Invalid::new("state of steps", "in_doubt").found(other).into()),
    }
    let mut found = app.client.store().list_steps(StepFilter::InDoubt).await?;
    for step in &mut found {
        redact::step(step, &app.settings.redact);
    }
    ok(&wire::List::whole(found.iter().map(wire::StepRow::from)))
}

/// What is decided.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Resolve)]
pub struct ResolveSaid {
    /// Whether the effect happened.
    happened: bool,
    /// What it gave, if it happened.
    #[schema(value_type = Option<serde_json::Value>)]
    output: Option<Json>,
    /// How this is known: it is on record.
    reason: String,
}

/// `POST /v1/steps/{origin}/{step}/resolve`
pub async fn resolve(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    NamedTwice(origin, step): NamedTwice,
    Said(said): Said<ResolveSaid>,
) -> Reply {
    let origin = JobId::new(origin)?;
    let resolution = match (said.happened, said.output) {
        (true, output) => Resolution::Happened {
            output: output.unwrap_or_else(Json::null),
        },
        (false, None) => Resolution::DidNot,
        (false, Some(_)) => {
            return Err(Invalid::new("output of a step that did not happen", "none").into());
        }
    };
    let operator = app.operator(&caller, Some(&said.reason));
    let acted = operator.resolve(&origin, &step, resolution).await?;
    app.look_again().await;
    ok(&wire::Acted::new(&origin, &acted))
}
