//! The contract of the HTTP API, on a real listening server. Every answer is held against the OpenAPI document.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod breaking_in;
mod bulk;
mod credentials;
mod described;
mod hostile;
mod jobs;
mod operating;
mod outage;
mod outbox;
mod pages;
mod security;
mod seeing;
mod stage;
mod statuses;
mod working;
#[allow(dead_code, reason = "shared with the tests in a browser")]
mod world;
