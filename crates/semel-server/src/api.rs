//! The routes under `/v1`: one file per noun.

pub mod claims;
pub mod dead_letters;
pub mod duplicates;
pub mod events;
pub mod guard;
pub mod jobs;
pub mod keys;
pub mod lanes;
pub mod login;
pub mod operations;
pub mod outbox;
pub mod query;
pub mod schedules;
pub mod seeing;
pub mod stats;
pub mod steps;
pub mod submit;
pub mod tokens;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::problem::Problem;

/// What a handler gives.
pub type Reply = Result<Response, Problem>;

/// Why somebody does what they do, for the record.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Why {
    /// A sentence for whoever reads the audit feed.
    pub reason: Option<String>,
}

/// JSON with a status.
pub fn json(status: StatusCode, value: &impl Serialize) -> Reply {
    let text = serde_json::to_vec(value)
        .map_err(|error| Problem::new("internal", format!("the answer cannot be written: {error}")))?;
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// JSON with 200.
pub fn ok(value: &impl Serialize) -> Reply {
    json(StatusCode::OK, value)
}
