//! The cases, by part of the contract.

mod admission;
mod answers;
mod bad_input;
mod claims;
mod counting;
mod crash;
mod dead_letters;
mod delivery;
mod doctor;
mod documents;
mod fences;
mod followers;
mod guards;
mod holds;
mod hostile_text;
mod keys;
mod ledger;
mod list;
mod mismatch;
mod model;
mod observing;
mod operating;
mod queues;
mod race;
mod retention;
mod seeing;
mod steps;
mod storms;
mod tokens;

use std::process::ExitCode;

use crate::harness::{Case, Harness};

/// Every case of the suite.
pub fn all() -> Vec<Case> {
    [
        delivery::cases(),
        fences::cases(),
        keys::cases(),
        holds::cases(),
        answers::cases(),
        followers::cases(),
        mismatch::cases(),
        storms::cases(),
        admission::cases(),
        ledger::cases(),
        observing::cases(),
        queues::cases(),
        tokens::cases(),
        claims::cases(),
        steps::cases(),
        guards::cases(),
        operating::cases(),
        dead_letters::cases(),
        counting::cases(),
        seeing::cases(),
        retention::cases(),
        bad_input::cases(),
        hostile_text::cases(),
        documents::cases(),
        doctor::cases(),
        race::cases(),
        crash::cases(),
        model::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Plays one process of a race or crash case.
pub fn play_child(harness: &dyn Harness, arguments: Vec<String>) -> ExitCode {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["race", location] => crate::race::member::play(harness, location),
        ["crash", location, log, seed] => {
            crate::crash::play(harness, location, log, seed.parse().expect("a seed is a number"))
        }
        _ => panic!("no child plays {arguments:?}"),
    }
}
