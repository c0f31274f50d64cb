//! Every state the protocol of a cell can get into, in small scenarios; and that each of its rules is needed.

#![allow(dead_code, reason = "the campaigns use more of it than the tests")]

#[path = "protocol/mod.rs"]
mod protocol;

use protocol::{AGAIN, Broken, Client, Kind, World, search};

fn world(kinds: &[Kind], faults: u8) -> World {
    World::new(kinds.iter().copied().map(Client::new).collect(), faults)
}

const MOST: usize = 3_000_000;

fn submit(id: u8) -> Kind {
    Kind::Submit { id, placement: 0 }
}

fn again(id: u8) -> Kind {
    Kind::Submit { id, placement: AGAIN }
}

/// A worker that does all a worker can do.
const WORK: Kind = Kind::Work {
    rounds: 1,
    completes: false,
};
/// One that completes whatever it gets.
const COMPLETE: Kind = Kind::Work {
    rounds: 1,
    completes: true,
};

/// Scenarios, each with the faults it can have: small ones first.
fn scenarios() -> Vec<(&'static str, Vec<Kind>, u8)> {
    let work = |rounds, completes| Kind::Work { rounds, completes };
    let moves = [submit(0), submit(1), COMPLETE, out(0, 0)];
    let moved = |more: &[Kind]| [&moves, more].concat();
    vec![
        ("two submit", vec![submit(0), submit(1)], 2),
        ("one submits twice", vec![submit(0), again(0), submit(1)], 1),
        ("one works", vec![submit(0), work(2, false)], 1),
        ("one works, one completes", vec![submit(0), WORK, COMPLETE], 0),
        // The small ones end here.
        (
            "submitted again when done",
            vec![submit(0), again(0), submit(1), COMPLETE],
            0,
        ),
        ("one works under more faults", vec![submit(0), work(2, false)], 2),
        (
            "two complete under faults",
            vec![submit(0), COMPLETE, COMPLETE],
            1,
        ),
        (
            "two complete, one twice",
            vec![submit(0), work(2, true), COMPLETE],
            0,
        ),
        ("two work", vec![submit(0), WORK, WORK], 0),
        ("moved out and retried", moved(&[Kind::Retry { id: 0 }]), 0),
        (
            "moved out and deleted",
            moved(&[Kind::Delete { id: 0 }, Kind::Tidy]),
            0,
        ),
        ("moved out by two", moved(&[out(0, 1), Kind::Tidy]), 0),
    ]
}

/// Those that tests have time for.
const SMALL: usize = 4;

fn out(id: u8, by: u8) -> Kind {
    Kind::MoveOut { id, by }
}

/// Looks at every state of some scenarios; says how many there are.
fn look(scenarios: Vec<(&'static str, Vec<Kind>, u8)>) -> String {
    let (mut states, mut steps) = (0, 0);
    let count = scenarios.len();
    for (name, kinds, faults) in scenarios {
        let found = search(world(&kinds, faults), Broken::Nothing, MOST);
        println!("{name}: {} states, {} steps", found.states, found.steps);
        assert_eq!(found.wrong, None, "{name}: {found:?}");
        states += found.states;
        steps += found.steps;
    }
    format!("{count} scenarios, {states} states, {steps} steps: not one is wrong")
}

/// Every state of every scenario.
pub fn all() -> String {
    look(scenarios())
}

#[test]
fn no_state_is_wrong() {
    println!("{}", look(scenarios().into_iter().take(SMALL).collect()));
}

/// Takes rules away, each where it should be missed.
fn take_away(rules: Vec<(Broken, Vec<Kind>, u8)>) {
    for (broken, kinds, faults) in rules {
        let found = search(world(&kinds, faults), broken, MOST);
        println!("{broken:?}: {found:?}");
        assert!(found.wrong.is_some(), "{broken:?} is not noticed: {found:?}");
    }
}

/// Rules whose lack takes many states to show.
pub fn larger_rules() {
    let moves = [submit(0), submit(1), COMPLETE, out(0, 0)];
    let moved = |more: &[Kind]| [&moves, more].concat();
    take_away(vec![
        (
            Broken::TokenNotAsked,
            vec![submit(0), submit(1), again(1), COMPLETE],
            0,
        ),
        (
            Broken::HolderNotAskedAgain,
            vec![submit(0), again(0), submit(1), COMPLETE],
            0,
        ),
        (Broken::MoveUnannounced, moved(&[Kind::Delete { id: 0 }]), 0),
        (Broken::AnyCopyEmptied, moved(&[out(0, 1), Kind::Tidy]), 0),
        (
            Broken::ForgottenEarly,
            moved(&[Kind::Delete { id: 0 }, Kind::Tidy]),
            0,
        ),
    ]);
}

#[test]
fn each_rule_is_needed() {
    take_away(vec![
        (Broken::HintLater, vec![submit(0)], 0),
        (Broken::EntryLater, vec![submit(0), WORK], 0),
        (Broken::LateLeaseTrusted, vec![submit(0), WORK, WORK], 0),
        (Broken::VisitFromMemory, vec![submit(0), COMPLETE, WORK], 0),
        (Broken::HintWithdrawnInDoubt, vec![submit(0)], 1),
    ]);
}
