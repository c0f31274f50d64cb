//! Business data and jobs in step: an outbox and an inbox in the user's own database.
//!
//! **Outbox** (contract 5.5): an event is written in the transaction that changes the business data, so either both
//! are there or neither. A [`Relay`] submits each committed event as a job, with the event's id as key, and marks it
//! only after the store has answered. Dying anywhere on the way means doing it again, and that gives the same job.
//!
//! **Inbox** (contract 5.4): the effect of a job on the user's database, the record that it was done, and the fence of
//! the job commit together: exactly once.
//!
//! Both for SQLite ([`sqlite`], by rusqlite) and for Postgres ([`postgres`], by tokio-postgres). The tables are plain
//! SQL, [`sqlite::MIGRATION`] and [`postgres::MIGRATION`], so that a program in any language can insert an event.

mod clock;
mod error;
mod event;
mod inbox;
mod open;
#[cfg(feature = "postgres")]
pub mod postgres;
mod relay;
mod source;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use error::Error;
pub use event::Event;
pub use inbox::Delivery;
pub use open::{Plain, open};
pub use relay::{Boundary, Relay, Round};
pub use source::{Audit, Claim, Fate, ParkedEvent, Pending, Pruned, Source, Status};

/// The guide's code is run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/exactly-once.md")]
struct Guide;
