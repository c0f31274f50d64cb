//! Reading requests, strictly: JSON only, bounded, unknown members refused.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::problem::Problem;
use crate::role::Caller;
use crate::room::Held;

/// Bytes of a body.
pub const BODY_BYTES: usize = 1024 * 1024;
/// Bytes of the body of a batch.
pub const BATCH_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of a body that anybody may send who reaches the server.
const OPEN_BYTES: usize = 4 * 1024;
/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(30);

/// A JSON body.
#[derive(Debug)]
pub struct Said<T>(pub T);

/// A JSON body of many items.
#[derive(Debug)]
pub struct SaidMuch<T>(pub T);

/// A JSON body that may be left out where nothing in it is needed.
#[derive(Debug)]
pub struct MaybeSaid<T>(pub T);

/// The query string.
#[derive(Debug)]
pub struct Asked<T>(pub T);

/// One part of the path.
#[derive(Debug)]
pub struct Named(pub String);

/// Two parts of the path.
#[derive(Debug)]
pub struct NamedTwice(pub String, pub String);

impl<T: DeserializeOwned> FromRequest<App> for Said<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        check_type(request.headers())?;
        parse(&read(request, app, BODY_BYTES).await?).map(Said)
    }
}

impl<T: DeserializeOwned> FromRequest<App> for SaidMuch<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        check_type(request.headers())?;
        parse(&read(request, app, BATCH_BYTES).await?).map(SaidMuch)
    }
}

impl<T: DeserializeOwned + Default> FromRequest<App> for MaybeSaid<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let headers = request.headers().clone();
        let body = read(request, app, BODY_BYTES).await?;
        if body.is_empty() && !headers.contains_key(header::CONTENT_TYPE) {
            return Ok(MaybeSaid(T::default()));
        }
        check_type(&headers)?;
        parse(&body).map(MaybeSaid)
    }
}

impl<T: DeserializeOwned> FromRequestParts<App> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        let Query(asked) = Query::try_from_uri(&parts.uri)
            .map_err(|error| Problem::invalid(format!("the query string is not understood: {error}")))?;
        Ok(Asked(asked))
    }
}

impl FromRequestParts<App> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let Path(name) = Path::<String>::from_request_parts(parts, app)
            .await
            .map_err(bad_path)?;
        Ok(Named(name))
    }
}

impl FromRequestParts<App> for NamedTwice {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let path = Path::<(String, String)>::from_request_parts(parts, app).await;
        let Path((first, second)) = path.map_err(bad_path)?;
        Ok(NamedTwice(first, second))
    }
}

fn bad_path(error: impl std::fmt::Display) -> Problem {
    Problem::invalid(format!("the path is not understood: {error}"))
}

/// Only JSON, and nothing that would have to be unpacked first.
fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let packed = headers.get(header::CONTENT_ENCODING);
    if packed.is_some_and(|encoding| encoding != "identity") {
        return Err(Problem::new("not_json", "the body is compressed").hint("send it as it is"));
    }
    let said = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = said
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    match essence.eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => Err(Problem::new(
            "not_json",
            "the body has to be application/json, and say so in Content-Type",
        )),
    }
}

/// Reads a body up to a bound: what comes after is never kept.
async fn read(request: Request, app: &App, most: usize) -> Result<Bytes, Problem> {
    // A stranger can say who it is, and that is short.
    let is_known = request.extensions().get::<Caller>().is_some();
    let most = if is_known { most } else { OPEN_BYTES };
    let told: Option<usize> = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse().ok());
    if told.is_some_and(|length| length > most) {
        return Err(too_large(most));
    }
    let held = request.extensions().get::<Held>().cloned().unwrap_or_default();
    let body = request.into_body();
    let collected = tokio::time::timeout(BODY_TIME, collect(body, app, &held, most));
    collected.await.unwrap_or_else(|_| {
        Err(Problem::new(
            "timeout",
            format!("the body did not arrive within {} s", BODY_TIME.as_secs()),
        ))
    })
}

async fn collect(mut body: Body, app: &App, held: &Held, most: usize) -> Result<Bytes, Problem> {
    let mut whole = Bytes::new();
    let mut pieces = BytesMut::new();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::invalid("the body ended before it was whole"))?;
        let Ok(piece) = frame.into_data() else { continue };
        length += piece.len();
        if length > most {
            return Err(too_large(most));
        }
        held.grow(&app.room, length, piece.len())?;
        // Most bodies are one piece, which need not be copied.
        if whole.is_empty() && pieces.is_empty() {
            whole = piece;
            continue;
        }
        pieces.extend_from_slice(&std::mem::take(&mut whole));
        pieces.extend_from_slice(&piece);
    }
    Ok(if pieces.is_empty() { whole } else { pieces.freeze() })
}

fn too_large(most: usize) -> Problem {
    Problem::new("too_large", format!("the body has more than {most} bytes"))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| {
        let what = match error.classify() {
            serde_json::error::Category::Data => "the body is not what is expected here",
            _ => "the body is no JSON",
        };
        Problem::invalid(format!("{what}: {error}")).hint("/openapi.json says what is allowed")
    })
}
