//! The suite that every store passes unchanged.
//!
//! A store's test is one call: [`main`] with a [`Harness`]. It becomes one test per case, named
//! `<clause>::<sentence>`, run by the usual test runner. What may differ between stores is what
//! [`Capabilities`](semel_core::store::Capabilities) says; there is no other way to skip a case.

pub mod campaign;
pub mod cases;
mod crash;
mod harness;
pub mod kit;
pub mod model;
mod race;
mod rng;

pub use harness::{Case, Harness, Instance, Place, main, run};
