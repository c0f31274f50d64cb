//! What is measured of the store.

mod callers;
mod lifecycle;
mod process;
mod submitting;

pub(crate) use callers::Callers;
pub(crate) use lifecycle::Lifecycle;
pub(crate) use process::Process;
pub(crate) use submitting::{Submitting, What};
