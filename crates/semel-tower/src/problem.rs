//! Refusals, as RFC 9457 has them.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};

/// Why a request was not carried out.
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    retry_after: Option<u32>,
}

impl Problem {
    /// The request makes no sense.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::BAD_REQUEST, "invalid", detail)
    }

    /// The first request is being carried out.
    pub fn in_progress() -> Self {
        let detail = "a request with this Idempotency-Key is being carried out; try again later";
        Problem {
            retry_after: Some(1),
            ..Problem::new(StatusCode::CONFLICT, "in_progress", detail)
        }
    }

    /// The key belongs to another request.
    pub fn conflict() -> Self {
        let detail =
            "this Idempotency-Key came with another request before; use another key for another request";
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency_conflict", detail)
    }

    /// The request was carried out, but its answer was too large.
    pub fn answer_not_kept() -> Self {
        let detail = "the request was carried out; its answer was too large to be kept";
        Problem::new(StatusCode::CONFLICT, "answer_not_kept", detail)
    }

    /// The body is too large.
    pub fn too_large(bytes: usize) -> Self {
        let detail = format!("the body of a request with an Idempotency-Key may have at most {bytes} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    }

    /// The handler panicked.
    pub fn panicked() -> Self {
        let detail = "the request ended in an internal error and may have been carried out in part";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "other", detail)
    }

    /// Whether it was done before cannot be found out now.
    pub fn unavailable() -> Self {
        let detail = "whether this request was carried out before cannot be found out now; nothing was done";
        Problem {
            retry_after: Some(1),
            ..Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", detail)
        }
    }

    fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Problem {
            status,
            code,
            detail: detail.into(),
            retry_after: None,
        }
    }

    /// As it is sent.
    pub fn into_response(self) -> Response<Bytes> {
        let body = serde_json::json!({
            "title": self.status.canonical_reason(),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
        });
        let mut response = Response::new(Bytes::from(body.to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
