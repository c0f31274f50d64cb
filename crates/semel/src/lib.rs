//! A durable job queue in which doing work *once* is the centre.
//!
//! [`connect`] gives a [`Client`]; a [`Task`] names a kind of work for producers and workers alike.

mod client;
mod connect;
mod error;
pub mod ids;
mod task;
mod times;

pub use client::Client;
pub use connect::{Connect, connect};
pub use error::Error;
pub use task::Task;
pub use times::{days, hours, millis, mins, secs};
