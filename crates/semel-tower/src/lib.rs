//! The `Idempotency-Key` header for HTTP services: of equal requests one is carried out, the others get its answer.
//!
//! A [`IdempotencyLayer`] goes around any [`tower_service::Service`] that answers HTTP requests: an axum router, a
//! hyper service. What it keeps is kept in a Semel store, so it holds over processes and restarts.
//!
//! ```
//! use axum::{Router, routing::post};
//! use semel_tower::IdempotencyLayer;
//!
//! # #[tokio::main] async fn main() -> Result<(), semel::Error> {
//! let jobs = semel::connect("memory:").await?;
//! let app: Router = Router::new()
//!     .route("/payments", post(async || "paid"))
//!     .layer(IdempotencyLayer::new(&jobs));
//! # let _ = app; Ok(()) }
//! ```
//!
//! | a `POST` or `PATCH` with a key | gets |
//! |---|---|
//! | that is new | is carried out; its answer is kept, errors too, unless it says that nothing was done |
//! | whose first request was answered | the same answer, byte for byte, with `Idempotent-Replayed: true` |
//! | whose first request is being carried out | 409 `in_progress`, also if this is another request: what it is compared with is kept with the answer |
//! | that came with another method, path or body before | 422 `idempotency_conflict` |
//! | that is none | 400 `invalid` |
//! | while the store is out of reach | 503 `store_unavailable`: refused, not carried out unguarded |
//!
//! That nothing was done is said by 429, by the statuses that [`IdempotencyLayer::undone`] names, and by [`NothingDone`]
//! in the extensions of an answer. A 503 does not say so: it may come from half-way.
//!
//! Keys are apart per credential (the `Authorization` header, or what [`IdempotencyLayer::scope`] says). The path that
//! is compared is the one the layer sees: inside axum's `nest` that is what is left of it, so the layer goes around the
//! outermost router, or its scope names the router it is in. A request
//! goes on to its end when its caller hangs up, so that a repeated call finds the answer. If the process dies in the
//! middle, nobody knows how far it came: the key stays `in_progress` until it lapses.

mod answer;
mod body;
mod key;
mod layer;
mod problem;
mod request;
mod service;

pub use body::LayerBody;
pub use layer::{IdempotencyLayer, NothingDone};
pub use service::Idempotency;
