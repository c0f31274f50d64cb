//! What is measured of the store.

mod callers;
mod lifecycle;
#[cfg(feature = "redis")]
mod paced;
mod process;
mod submitting;
#[cfg(feature = "redis")]
mod worked;

pub(crate) use callers::Callers;
pub(crate) use lifecycle::{Lifecycle, better_lifecycle};
#[cfg(feature = "redis")]
pub(crate) use paced::{Paced, paced};
pub(crate) use process::Process;
pub(crate) use submitting::{Submitting, What};
#[cfg(feature = "redis")]
pub(crate) use worked::Worked;
