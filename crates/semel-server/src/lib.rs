//! The server of Semel: the HTTP API, metrics and the dashboard in one router.
//!
//! A request comes in through the [`door`], which knows who sent it and whether it may; a handler in [`api`] or
//! [`pages`] reads it strictly, asks the store through [`semel::Client`], where concurrent requests become batches,
//! and renders the view structs of core: as JSON by [`wire`], as HTML by [`pages`]. All routes are in one [`table`],
//! from which the router, the roles and the OpenAPI document are made.

pub mod advice;
pub mod alerts;
pub mod api;
mod app;
mod ask;
mod clock;
pub mod diagnosis;
mod door;
mod ids;
pub mod lanes;
mod leases;
mod metrics;
pub mod openapi;
mod outbox;
mod pages;
mod problem;
mod pulse;
pub mod redact;
pub mod role;
mod room;
pub mod route;
mod serve;
mod sessions;
pub mod sight;
mod stream;
pub mod table;
pub mod text;
pub mod tokens;
mod turns;
pub mod when;
pub mod wire;
pub mod wording;

pub use app::{App, Settings};
pub use outbox::Outbox;
pub use problem::{CODES, Code, Problem};
pub use serve::{Server, connect, load_tls};
