//! What is guarded, and how.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{Method, StatusCode};
use semel::{Client, Guard};
use tower_layer::Layer;

use crate::request::credential;
use crate::service::Idempotency;

/// Puts the `Idempotency-Key` header in front of a service.
#[derive(Clone)]
pub struct IdempotencyLayer {
    pub(crate) guard: Guard,
    pub(crate) rules: Rules,
}

/// In the extensions of an answer: certainly nothing was done, so the key is given back and the request may be tried
/// again with it, whatever the status is.
///
/// ```
/// use axum::Extension;
/// use axum::http::StatusCode;
/// use axum::response::{IntoResponse, Response};
/// use semel_tower::NothingDone;
///
/// async fn pay() -> Response {
///     // Refused at the door, before anything was begun.
///     (StatusCode::SERVICE_UNAVAILABLE, Extension(NothingDone), "full").into_response()
/// }
/// # #[tokio::main] async fn main() { assert!(pay().await.extensions().get::<NothingDone>().is_some()); }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NothingDone;

/// How requests are guarded.
#[derive(Clone)]
pub(crate) struct Rules {
    pub(crate) keep: Duration,
    pub(crate) required: bool,
    pub(crate) methods: Arc<[Method]>,
    pub(crate) request_bytes: usize,
    pub(crate) answer_bytes: usize,
    pub(crate) scope: Arc<dyn Fn(&Parts) -> String + Send + Sync>,
    pub(crate) undone: Arc<dyn Fn(StatusCode) -> bool + Send + Sync>,
}

impl IdempotencyLayer {
    /// Guards `POST` and `PATCH` requests that carry a key; answers are kept for a day.
    pub fn new(client: &Client) -> Self {
        let rules = Rules {
            keep: Duration::from_secs(24 * 3_600),
            required: false,
            methods: [Method::POST, Method::PATCH].into(),
            request_bytes: 1024 * 1024,
            answer_bytes: 160 * 1024,
            scope: Arc::new(credential),
            undone: Arc::new(|status| status == StatusCode::TOO_MANY_REQUESTS),
        };
        IdempotencyLayer {
            guard: client.guard(),
            rules,
        }
    }

    /// How long an answer is kept, and a request that is never answered counts as in progress. Longer than a request
    /// ever takes: one that is still running then is carried out a second time when it is repeated.
    #[must_use]
    pub fn keep(mut self, length: Duration) -> Self {
        self.rules.keep = length;
        self
    }

    /// Refuses requests without a key.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.rules.required = true;
        self
    }

    /// Which methods are guarded.
    #[must_use]
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.rules.methods = methods.into_iter().collect();
        self
    }

    /// The largest body of a guarded request; a larger one is refused with 413. One megabyte, if nothing is said.
    #[must_use]
    pub fn request_bytes(mut self, bytes: usize) -> Self {
        self.rules.request_bytes = bytes;
        self
    }

    /// The largest body of an answer that is kept, 160 KiB if nothing is said. The first caller gets a larger one whole;
    /// who repeats the call is told that it was carried out, with 409 `answer_not_kept`.
    #[must_use]
    pub fn answer_bytes(mut self, bytes: usize) -> Self {
        self.rules.answer_bytes = bytes;
        self
    }

    /// Whose key it is. Without this it is the `Authorization` header; a service that knows its callers by something
    /// else, such as a cookie, has to say so, or all its callers share one space of keys.
    #[must_use]
    pub fn scope(mut self, scope: impl Fn(&Parts) -> String + Send + Sync + 'static) -> Self {
        self.rules.scope = Arc::new(scope);
        self
    }

    /// Which answers say that certainly nothing was done, so that the request may be tried again: 429, if nothing else is
    /// said. Every other answer is kept, errors too: a 503 may come from half-way. A handler says it of a single answer
    /// with [`NothingDone`].
    #[must_use]
    pub fn undone(mut self, undone: impl Fn(StatusCode) -> bool + Send + Sync + 'static) -> Self {
        self.rules.undone = Arc::new(undone);
        self
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = Idempotency<S>;

    fn layer(&self, inner: S) -> Idempotency<S> {
        Idempotency {
            inner,
            guard: self.guard.clone(),
            rules: self.rules.clone(),
        }
    }
}

impl fmt::Debug for IdempotencyLayer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("IdempotencyLayer")
            .field("keep", &self.rules.keep)
            .field("required", &self.rules.required)
            .field("methods", &self.rules.methods)
            .finish_non_exhaustive()
    }
}
