//! The dashboard in a real Chromium: what an operator does, and what hostile text must not do.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod chromium;
#[path = "../http/described.rs"]
#[allow(dead_code, reason = "shared with the tests of the HTTP API")]
mod described;
mod foreign;
mod operator;
mod pictures;
#[path = "../http/stage.rs"]
#[allow(dead_code, reason = "shared with the tests of the HTTP API")]
mod stage;
#[path = "../http/world.rs"]
mod world;
