//! A small service behind the layer that counts how often it was really asked.

#![allow(dead_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post};
use axum::{Extension, Router};
use semel::Client;
use semel_tower::{IdempotencyLayer, NothingDone};
use tokio::sync::Semaphore;
use tower::ServiceExt;

/// A service and the number of times it was reached.
#[derive(Clone)]
pub struct Shop {
    pub app: Router,
    pub runs: Arc<AtomicUsize>,
    /// A slow request ends when it gets a permit.
    pub gate: Arc<Semaphore>,
}

/// What a caller gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got {
    pub status: u16,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
}

impl Got {
    pub fn code(&self) -> String {
        let problem: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        problem["code"].as_str().unwrap().to_owned()
    }

    pub fn is_replayed(&self) -> bool {
        self.headers.iter().any(|(name, _)| name == "idempotent-replayed")
    }

    /// The answer without the mark of a replay.
    pub fn unmarked(mut self) -> Self {
        self.headers.retain(|(name, _)| name != "idempotent-replayed");
        self
    }
}

impl Shop {
    pub async fn open() -> Self {
        Shop::with(|layer| layer).await
    }

    pub async fn with(how: impl FnOnce(IdempotencyLayer) -> IdempotencyLayer) -> Self {
        let jobs = semel::connect("memory:").await.unwrap();
        Shop::on(&jobs, how)
    }

    pub fn on(jobs: &Client, how: impl FnOnce(IdempotencyLayer) -> IdempotencyLayer) -> Self {
        let runs = Arc::new(AtomicUsize::new(0));
        let count = runs.clone();
        let pay = move |body: Bytes| {
            let n = count.fetch_add(1, Ordering::SeqCst) + 1;
            async move {
                let mut headers = HeaderMap::new();
                headers.insert("x-receipt", n.to_string().parse().unwrap());
                headers.append(header::SET_COOKIE, "a=1".parse().unwrap());
                headers.append(header::SET_COOKIE, "b=2".parse().unwrap());
                (
                    StatusCode::CREATED,
                    headers,
                    [&body[..], b" paid \xff\x00"].concat(),
                )
            }
        };
        let gate = Arc::new(Semaphore::new(0));
        let (count, open) = (runs.clone(), gate.clone());
        let slow = move || {
            let n = count.fetch_add(1, Ordering::SeqCst) + 1;
            let open = open.clone();
            async move {
                open.acquire().await.unwrap().forget();
                format!("slow {n}")
            }
        };
        let count = runs.clone();
        let answer = move |request: axum::extract::Request| {
            let n = count.fetch_add(1, Ordering::SeqCst) + 1;
            let path = request.uri().path().to_owned();
            async move { odd(path.rsplit('/').next().unwrap(), n) }
        };
        let app = Router::new()
            .route("/payments", any(pay.clone()))
            .route("/refunds", post(pay))
            .route("/slow", post(slow))
            .route("/odd/{kind}", post(answer))
            .layer(how(IdempotencyLayer::new(jobs)));
        Shop { app, runs, gate }
    }

    pub fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    pub async fn ask(&self, request: Request<Body>) -> Got {
        got(self.app.clone().oneshot(request).await.unwrap()).await
    }

    pub async fn pay(&self, key: &str, body: &str) -> Got {
        self.ask(post_to("/payments", &[("idempotency-key", key)], body))
            .await
    }
}

fn odd(kind: &str, n: usize) -> Response {
    match kind {
        "declined" => (StatusCode::PAYMENT_REQUIRED, format!("declined {n}")).into_response(),
        "broken" => (StatusCode::INTERNAL_SERVER_ERROR, format!("broken {n}")).into_response(),
        "busy" if n == 1 => (StatusCode::TOO_MANY_REQUESTS, "later").into_response(),
        "half-way" if n == 1 => (StatusCode::SERVICE_UNAVAILABLE, "charged, not booked").into_response(),
        "full" if n == 1 => {
            (StatusCode::SERVICE_UNAVAILABLE, Extension(NothingDone), "later").into_response()
        }
        "large" => vec![b'x'; 300_000].into_response(),
        "panic" => panic!("on purpose"),
        _ => format!("fine {n}").into_response(),
    }
}

pub fn post_to(path: &str, headers: &[(&str, &str)], body: &str) -> Request<Body> {
    let mut request = Request::post(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::from(body.to_owned())).unwrap()
}

pub async fn got(response: Response) -> Got {
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap().to_vec();
    let headers = parts
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
        .collect();
    Got {
        status: parts.status.as_u16(),
        headers,
        body,
    }
}
