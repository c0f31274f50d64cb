//! What pages are made of besides themselves.

use axum::http::{StatusCode, header};
use axum::response::IntoResponse;

/// `GET /assets/style.css`
pub async fn style() -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, "text/css; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, include_str!("assets/style.css"))
}

/// `GET /assets/script.js`
pub async fn script() -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, "text/javascript; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, include_str!("assets/script.js"))
}

/// `GET /favicon.ico`
pub async fn icon() -> impl IntoResponse {
    StatusCode::NO_CONTENT
}
