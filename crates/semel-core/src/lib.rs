//! The rules of Semel, without anything that runs them.
//!
//! Core has the types, the deduplication policy, the canonical form, admission and lifecycle as pure
//! functions, the store traits and the in-memory reference store. It does no I/O, reads no clock,
//! makes no ids and knows no runtime: stores and front ends bring those.
//!
//! One job's way: a [`submission::Submission`] gets its [`dedup::Key`], [`admission::admit`] judges it
//! against the holder, [`lifecycle`] moves it from lease to lease to its end, [`view`] shows it.

pub mod admission;
pub mod backoff;
pub mod canonical;
pub mod counters;
pub mod dedup;
pub mod error;
pub mod guard;
pub mod ids;
pub mod job;
pub mod json;
pub mod lifecycle;
pub mod limits;
pub mod memory;
pub mod step;
pub mod store;
pub mod submission;
pub mod time;
pub mod view;
