//! A durable job queue in which doing work *once* is the centre.
//!
//! [`connect`] gives a [`Client`]; a [`Task`] names a kind of work for producers and workers alike.

mod client;
pub mod clock;
mod connect;
mod error;
pub mod ids;
mod policy;
mod retry;
mod submit;
mod submitted;
mod task;
mod times;
mod wait;

pub use client::Client;
pub use connect::{Connect, Connecting, StoreUrl, connect};
pub use error::Error;
pub use policy::{Dedup, Hold};
pub use retry::Retry;
pub use submit::{Moment, Submit};
pub use submitted::Submitted;
pub use task::Task;
pub use times::{days, hours, millis, mins, secs};
pub use wait::{Output, Wait};

pub use semel_core;
pub use semel_core::dedup::{Mode, OnDuplicate, OnMismatch, Period, ReleaseOn, Scope, Unit};
pub use semel_core::ids::{Digest, JobId, Name, Token};
pub use semel_core::job::{Outcome, State};
pub use semel_core::store::{Explanation, Target};
pub use semel_core::view;
