//! A team of members that act at the same moment.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use semel_core::store::Store;

use super::member::{DONE, GO, PREPARE, READY, Ready};
use super::order::{Answer, Order};
use super::storm::PROCESSES;
use crate::harness::Place;
use crate::kit::World;
use crate::rng::{Rng, seed_from_environment};

/// Where a race takes place: a store, shared by processes if it can be.
pub(crate) struct Arena<'a> {
    world: &'a World,
    /// The store, as seen from here.
    pub(crate) store: Arc<dyn Store>,
    place: Option<Place>,
}

impl<'a> Arena<'a> {
    /// A fresh store. One that says it can be shared has to be.
    pub(crate) fn new(world: &'a World) -> Self {
        let own = world.store();
        if !own.capabilities().shared_by_processes {
            return Arena {
                world,
                store: own,
                place: None,
            };
        }
        let place = world
            .harness()
            .place()
            .expect("a store that several processes can share has a place");
        let store = world.block(async { world.harness().join(&place.location) });
        Arena {
            world,
            store,
            place: Some(place),
        }
    }

    /// Waits for a future.
    pub(crate) fn block<F: Future>(&self, future: F) -> F::Output {
        self.world.block(future)
    }

    /// Where it is, if processes can go there.
    pub(crate) fn location(&self) -> Option<&str> {
        self.place.as_ref().map(|place| place.location.as_str())
    }
}

/// Members that act at the same moment.
pub(crate) struct Team<'a> {
    arena: &'a Arena<'a>,
    processes: Vec<Member>,
    played: usize,
}

struct Member {
    process: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl<'a> Team<'a> {
    /// So many processes, where the store can be shared; otherwise their orders are tasks of this one.
    pub(crate) fn new(arena: &'a Arena<'a>, size: usize) -> Self {
        let processes = match arena.location() {
            Some(location) => (0..size).map(|_| Member::start(location)).collect(),
            None => Vec::new(),
        };
        Team {
            arena,
            processes,
            played: 0,
        }
    }

    /// Whether members are processes.
    pub(crate) fn has_processes(&self) -> bool {
        !self.processes.is_empty()
    }

    /// Every member carries out its orders, all at the same moment; every answer.
    pub(crate) fn play(&mut self, orders: Vec<Vec<Order>>) -> Vec<Answer> {
        if self.processes.is_empty() {
            // Tasks start in the order they were made: mixed, no member is always first.
            let mut all: Vec<Order> = orders.into_iter().flatten().collect();
            Rng::new(all.len() as u64).shuffle(&mut all);
            return self
                .arena
                .block(async { Ready::new(&self.arena.store, all).go().await });
        }
        for (member, orders) in self.processes.iter_mut().zip(&orders) {
            member.prepare(orders);
        }
        self.processes.iter_mut().for_each(|member| member.expect(READY));
        // Another member is told first each time, so that none always wins.
        self.played += 1;
        let size = self.processes.len();
        (0..size).for_each(|at| self.processes[(at + self.played) % size].say(GO));
        self.processes.iter_mut().flat_map(Member::collect).collect()
    }
}

impl Member {
    fn start(location: &str) -> Self {
        let program = std::env::current_exe().expect("a test knows its own executable");
        let mut process = Command::new(program)
            .args(["--child", "race", location])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test executable starts again");
        let orders = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().expect("asked for two lines above"));
        Member {
            process,
            orders,
            answers,
        }
    }

    fn say(&mut self, text: &str) {
        let pipe = self.orders.as_mut().expect("open until the team is dropped");
        writeln!(pipe, "{text}").expect("the member listens");
    }

    fn prepare(&mut self, orders: &[Order]) {
        let mut text: String = orders.iter().map(|order| format!("{order}\n")).collect();
        text.push_str(PREPARE);
        self.say(&text);
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let bytes = self.answers.read_line(&mut line).expect("the member speaks");
        assert!(bytes > 0, "a member of the race died");
        line.trim_end().to_owned()
    }

    fn expect(&mut self, word: &str) {
        assert_eq!(self.line(), word);
    }

    fn collect(&mut self) -> Vec<Answer> {
        let mut answers = Vec::new();
        loop {
            match self.line() {
                line if line == DONE => return answers,
                line => answers.push(line.parse().expect("the member writes answers")),
            }
        }
    }
}

/// Half of the members do one thing, half the other, each to every item in an order of its own.
pub(crate) fn sides(
    items: usize,
    ours: impl Fn(usize) -> Order,
    theirs: impl Fn(usize) -> Order,
) -> Vec<Vec<Order>> {
    let mut rng = Rng::new(seed_from_environment().unwrap_or(1));
    let mut orders = |member: usize| {
        let one = |item| {
            if member.is_multiple_of(2) {
                ours(item)
            } else {
                theirs(item)
            }
        };
        let mut orders: Vec<Order> = (0..items).map(one).collect();
        rng.shuffle(&mut orders);
        orders
    };
    (0..PROCESSES).map(&mut orders).collect()
}

impl Drop for Member {
    fn drop(&mut self) {
        // Hanging up ends the member; one that hangs itself must not outlive the case.
        drop(self.orders.take());
        if std::thread::panicking() {
            let _gone = self.process.kill();
        }
        let _status = self.process.wait();
    }
}
