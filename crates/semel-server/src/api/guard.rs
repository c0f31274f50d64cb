//! Once-only outside jobs (contract 5.3).

use axum::extract::State;
use semel_core::guard::{GuardAnswer, GuardCall};
use semel_core::ids::Token;
use semel_core::json::Json;
use semel_core::store::{GuardOutcome, GuardRequest};
use semel_core::time::Millis;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::{Reply, ok};
use crate::app::App;
use crate::ask::Said;
use crate::problem::Problem;

/// May I?
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = GuardReserve)]
pub struct ReserveSaid {
    /// 1 to 255 bytes.
    key: String,
    /// How long the reservation, and then its answer, is kept.
    ttl_ms: i64,
    /// A UUID that makes a repeated call the same call.
    #[schema(value_type = Option<String>)]
    token: Option<Token>,
}

/// I did.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = GuardConfirm)]
pub struct ConfirmSaid {
    key: String,
    /// Of the reservation.
    #[schema(value_type = String)]
    token: Token,
    /// What came of it.
    #[schema(value_type = serde_json::Value)]
    output: Json,
}

/// I did not.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = GuardRelease)]
pub struct ReleaseSaid {
    key: String,
    /// Of the reservation.
    #[schema(value_type = String)]
    token: Token,
}

/// How the key stands.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GuardAnswer)]
pub struct Answered {
    /// fresh: do it, then confirm; in_progress: someone is at it; done: it was done; released: it is free again.
    state: &'static str,
    /// Proves the reservation.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// What came of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    output: Option<Json>,
}

/// `POST /v1/guard/reserve`
pub async fn reserve(State(app): State<App>, Said(said): Said<ReserveSaid>) -> Reply {
    let token = said.token.unwrap_or_else(semel::ids::fresh_token);
    let ttl = Millis::new(said.ttl_ms);
    call(&app, said.key, GuardCall::Reserve { token, ttl }, Some(token)).await
}

/// `POST /v1/guard/confirm`
pub async fn confirm(State(app): State<App>, Said(said): Said<ConfirmSaid>) -> Reply {
    let (token, output) = (said.token, said.output);
    call(&app, said.key, GuardCall::Confirm { token, output }, None).await
}

/// `POST /v1/guard/release`
pub async fn release(State(app): State<App>, Said(said): Said<ReleaseSaid>) -> Reply {
    call(&app, said.key, GuardCall::Release { token: said.token }, None).await
}

async fn call(app: &App, key: String, call: GuardCall, token: Option<Token>) -> Reply {
    let confirms = matches!(call, GuardCall::Confirm { .. });
    let mut outcomes = app.client.store().guard(vec![GuardRequest { key, call }]).await?;
    let answer = |state, token: Option<Token>, output| {
        let token = token.map(|token| token.to_string());
        ok(&Answered { state, token, output })
    };
    match outcomes.remove(0) {
        GuardOutcome::Invalid(invalid) => Err(invalid.into()),
        GuardOutcome::Answer(GuardAnswer::Fresh) => answer("fresh", token, None),
        GuardOutcome::Answer(GuardAnswer::InProgress) => answer("in_progress", None, None),
        GuardOutcome::Answer(GuardAnswer::Done(output)) => answer("done", None, Some(output)),
        GuardOutcome::Answer(GuardAnswer::Ok) if confirms => answer("done", None, None),
        GuardOutcome::Answer(GuardAnswer::Ok) => answer("released", None, None),
        GuardOutcome::Answer(GuardAnswer::NotYours) => Err(Problem::new(
            "not_yours",
            "the reservation is not, or no longer, that of this token; nothing was changed",
        )),
    }
}
