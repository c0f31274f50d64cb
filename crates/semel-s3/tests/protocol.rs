//! Every state the protocol of a cell can get into, in small scenarios; and that each of its rules is needed.

#![allow(dead_code, reason = "the campaigns use more of it than the tests")]

#[path = "protocol/mod.rs"]
mod protocol;

use protocol::Phase::{Ended, Running};
use protocol::{Broken, Client, Kind, Phase, World, search};

/// What clients do, after what, under how many faults.
struct Scenario {
    name: &'static str,
    /// Jobs that are in the cell at first.
    after: &'static [Phase],
    kinds: Vec<Kind>,
    faults: u8,
}

impl Scenario {
    fn world(&self) -> World {
        let clients = self.kinds.iter().copied().map(Client::new).collect();
        let world = World::new(clients, self.faults);
        match self.after {
            [] => world,
            after => world.after(after),
        }
    }
}

const MOST: usize = 20_000_000;

fn submit(id: u8) -> Kind {
    Kind::Submit { id }
}

fn out(id: u8, by: u8) -> Kind {
    Kind::MoveOut { id, by }
}

fn work(rounds: u8, completes: bool) -> Kind {
    Kind::Work { rounds, completes }
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
const RETRY: Kind = Kind::Retry { id: 0 };
const DELETE: Kind = Kind::Delete { id: 0 };
/// Another job of the key goes: a write of the cell that is about something else.
const DELETE_ANOTHER: Kind = Kind::Delete { id: 1 };
/// Two jobs have had the key, and are done.
const DONE: &[Phase] = &[Ended, Ended];
/// A worker has died with the first; the second is done.
const DIED: &[Phase] = &[Running, Ended];

fn scenario(name: &'static str, after: &'static [Phase], kinds: &[Kind], faults: u8) -> Scenario {
    let kinds = kinds.to_vec();
    Scenario {
        name,
        after,
        kinds,
        faults,
    }
}

/// Those that tests have time for.
fn small() -> Vec<Scenario> {
    vec![
        scenario("two submit", &[], &[submit(0), submit(1)], 2),
        scenario("one submits twice", &[], &[submit(0), submit(0), submit(1)], 1),
        scenario("one works", &[], &[submit(0), work(2, false)], 1),
        scenario("one works, one completes", &[], &[submit(0), WORK, COMPLETE], 0),
        scenario("moved out by two", DONE, &[out(0, 0), out(0, 1), Kind::Tidy], 1),
        scenario("moved out and retried", DONE, &[out(0, 0), RETRY, Kind::Tidy], 1),
        scenario("moved out and deleted", DONE, &[out(0, 0), DELETE, Kind::Tidy], 1),
        scenario(
            "taken back by two, beside another write",
            DIED,
            &[WORK, WORK, DELETE_ANOTHER],
            0,
        ),
    ]
}

/// Those that take longer.
fn large() -> Vec<Scenario> {
    let sent_again = [submit(0), submit(0), submit(1), COMPLETE];
    let moved = [out(0, 0), out(0, 1), RETRY, DELETE, Kind::Tidy];
    vec![
        scenario("submitted again when done", &[], &sent_again, 0),
        scenario(
            "one works under more faults",
            &[],
            &[submit(0), work(2, false)],
            2,
        ),
        scenario(
            "two complete under faults",
            &[],
            &[submit(0), COMPLETE, COMPLETE],
            1,
        ),
        scenario(
            "two complete, one twice",
            &[],
            &[submit(0), work(2, true), COMPLETE],
            0,
        ),
        scenario("two work", &[], &[submit(0), WORK, WORK], 0),
        scenario("moved out by two, retried and deleted", DONE, &moved, 0),
        scenario("moved out by two under faults", DONE, &moved[..3], 2),
        scenario(
            "taken back under faults, beside another write",
            DIED,
            &[COMPLETE, COMPLETE, DELETE_ANOTHER],
            1,
        ),
    ]
}

/// Looks at every state of some scenarios; says how many there are.
fn look(scenarios: Vec<Scenario>) -> String {
    let (mut states, mut steps) = (0, 0);
    let count = scenarios.len();
    for scenario in scenarios {
        let found = search(scenario.world(), Broken::Nothing, MOST);
        let name = scenario.name;
        println!("{name}: {} states, {} steps", found.states, found.steps);
        assert_eq!(found.wrong, None, "{name}: {found:?}");
        states += found.states;
        steps += found.steps;
    }
    format!("{count} scenarios, {states} states, {steps} steps, all of them: not one is wrong")
}

/// Every state of every scenario.
pub fn all() -> String {
    look(small().into_iter().chain(large()).collect())
}

#[test]
fn no_state_is_wrong() {
    println!("{}", look(small()));
}

/// Takes a rule away where it should be missed.
fn take_away(broken: Broken, after: &'static [Phase], kinds: &[Kind], faults: u8) {
    let found = search(scenario("", after, kinds, faults).world(), broken, MOST);
    println!("{broken:?}: {found:?}");
    assert!(found.wrong.is_some(), "{broken:?} is not noticed: {found:?}");
}

/// Rules whose lack takes many states to show.
pub fn larger_rules() {
    let absorbed = [submit(0), submit(1), submit(1), COMPLETE];
    take_away(Broken::TokenNotAsked, &[], &absorbed, 0);
    let sent_again = [submit(0), submit(0), submit(1), COMPLETE];
    take_away(Broken::HolderNotAskedAgain, &[], &sent_again, 0);
}

#[test]
fn each_rule_is_needed() {
    take_away(Broken::HintLater, &[], &[submit(0)], 0);
    take_away(Broken::EntryLater, &[], &[submit(0), WORK], 0);
    take_away(Broken::LateLeaseTrusted, &[], &[submit(0), WORK, WORK], 0);
    take_away(Broken::VisitFromMemory, &[], &[submit(0), COMPLETE, WORK], 0);
    take_away(Broken::HintWithdrawnInDoubt, &[], &[submit(0)], 1);
    take_away(Broken::Unconditional, &[], &[submit(0), WORK, WORK], 0);
    take_away(Broken::NamesShared, DIED, &[WORK, WORK, DELETE_ANOTHER], 0);
    take_away(Broken::CopyOverwritten, DONE, &[out(0, 0), out(0, 1)], 0);
    take_away(Broken::MoveUnannounced, DONE, &[out(0, 0), DELETE], 0);
    take_away(
        Broken::AnyCopyEmptied,
        DONE,
        &[out(0, 0), out(0, 1), Kind::Tidy],
        0,
    );
    take_away(Broken::ForgottenEarly, DONE, &[out(0, 0), DELETE, Kind::Tidy], 0);
}
