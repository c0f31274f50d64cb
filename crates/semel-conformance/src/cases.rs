//! The cases, by part of the contract.

mod list;
mod example;

use std::process::ExitCode;

use crate::harness::{Case, Harness};

/// Every case of the suite.
pub fn all() -> Vec<Case> {
    [example::cases()].into_iter().flatten().collect()
}

/// Plays one process of a race or crash case.
pub fn play_child(_harness: &dyn Harness, _arguments: Vec<String>) -> ExitCode {
    ExitCode::FAILURE
}
