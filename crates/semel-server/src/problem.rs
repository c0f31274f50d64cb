//! What went wrong, as `application/problem+json` (RFC 9457) with a stable code.

mod codes;

pub use codes::{CODES, Code};

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use semel::Error;
use semel_core::error::{Invalid, StoreError};
use semel_core::store::Target;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::wire;

/// Why a request was not answered with what it asked for.
#[derive(Clone, Debug)]
pub struct Problem {
    code: &'static Code,
    detail: String,
    hint: Option<String>,
    members: Map<String, Value>,
    retry_after: Option<u32>,
}

impl Problem {
    /// A problem of a code that is known.
    pub fn new(code: &str, detail: impl Into<String>) -> Self {
        Problem {
            code: Code::named(code),
            detail: detail.into(),
            hint: None,
            members: Map::new(),
            retry_after: None,
        }
    }

    /// The request makes no sense.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Problem::new("invalid", detail)
    }

    /// There is no such thing.
    pub fn not_found(what: impl std::fmt::Display) -> Self {
        Problem::new("not_found", format!("there is no {what}"))
    }

    /// Adds what to try.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a member for machines.
    #[must_use]
    pub fn member(mut self, name: &str, value: impl Serialize) -> Self {
        if let Ok(value) = serde_json::to_value(value) {
            self.members.insert(name.to_owned(), value);
        }
        self
    }

    /// Takes a member away, where the caller may not see it.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.members.remove(name);
        self
    }

    /// Says when it is worth trying again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// The same under another code.
    #[must_use]
    pub fn coded(mut self, code: &str) -> Self {
        self.code = Code::named(code);
        self
    }

    /// The status of its answer.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Its code.
    pub fn code(&self) -> &'static str {
        self.code.word
    }

    /// What happened, in a sentence.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// What to try.
    pub fn hinted(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The members of its JSON.
    pub fn json(&self, request_id: Option<&str>) -> Map<String, Value> {
        let mut json = Map::new();
        json.insert("type".to_owned(), format!("/problems/{}", self.code.word).into());
        json.insert("title".to_owned(), self.code.title.into());
        json.insert("status".to_owned(), self.code.status.into());
        json.insert("code".to_owned(), self.code.word.into());
        json.insert("detail".to_owned(), self.detail.clone().into());
        if let Some(hint) = &self.hint {
            json.insert("hint".to_owned(), hint.clone().into());
        }
        if let Some(id) = request_id {
            json.insert("request_id".to_owned(), id.into());
        }
        json.extend(self.members.clone());
        json
    }

    /// The answer itself; the door calls this, it knows the request's id.
    pub(crate) fn answer(&self, request_id: &str) -> Response {
        let body = Value::Object(self.json(Some(request_id))).to_string();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.code.status == 401 {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// The door makes the answer of it, once it is out of every handler.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        let hint = invalid.hint.clone();
        let detail = Invalid {
            hint: None,
            ..invalid
        }
        .to_string();
        Problem {
            hint,
            ..Problem::invalid(detail)
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        if let StoreError::Invalid(invalid) = error {
            return invalid.into();
        }
        tracing::warn!(%error, "the store did not answer");
        let (detail, hint) = split_hint(&error.to_string());
        let problem = Problem {
            hint,
            ..Problem::new("store_unavailable", detail)
        };
        problem.retry_after(1)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::Invalid(invalid) => return invalid.into(),
            Error::Store(error) | Error::StoreUnavailable { source: error } => return error.into(),
            Error::Duplicate { .. } => "duplicate_rejected",
            Error::IdempotencyConflict { .. } => "idempotency_conflict",
            Error::Closed { .. } => "closed",
            Error::NotFound { .. } => "not_found",
            Error::NoSubscribers { .. } => "no_subscribers",
            Error::WrongState { state, .. } if state.is_terminal() => "terminal",
            Error::WrongState { .. } => "not_terminal",
            Error::Replayed { .. } => "replayed",
            Error::NotInDoubt { .. } => "not_in_doubt",
            Error::UnderWay { .. } => "under_way",
            _ => "internal",
        };
        let (detail, hint) = split_hint(&error.to_string());
        let mut problem = Problem {
            hint,
            ..Problem::new(code, detail)
        };
        if let Some(holder) = error.holder() {
            problem = problem.member("holder", wire::Holder::from(holder));
        }
        match &error {
            Error::IdempotencyConflict { differs, .. } => problem.member("differs", differs),
            Error::WrongState { state, .. } => problem.member("state", state),
            Error::Replayed { by, .. } => problem.member("replayed_as", by),
            Error::Closed { target } => problem.member("target", told(target)).retry_after(30),
            _ => problem,
        }
    }
}

fn told(target: &Target) -> String {
    match target {
        Target::All => "the store".to_owned(),
        Target::Queue(name) => format!("queue {name}"),
        Target::Task(name) => format!("task {name}"),
    }
}

/// Errors of libraries carry their hint at the end of the sentence.
fn split_hint(told: &str) -> (String, Option<String>) {
    match told.split_once("; hint: ") {
        Some((detail, hint)) => (detail.to_owned(), Some(hint.to_owned())),
        None => (told.to_owned(), None),
    }
}
