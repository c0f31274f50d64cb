//! Looks at every state.

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::World;
use super::clients::{Broken, step};

/// What a search found.
#[derive(Debug)]
pub struct Found {
    pub states: usize,
    pub steps: usize,
    /// What went wrong, and how many states it took to find it.
    pub wrong: Option<String>,
}

/// Sixty-four bits would meet by chance among many million states.
fn mark(world: &World) -> (u64, u64) {
    let mut first = DefaultHasher::new();
    world.hash(&mut first);
    let mut second = DefaultHasher::new();
    (first.finish(), world).hash(&mut second);
    (first.finish(), second.finish())
}

/// Every state that can be reached from a world, or as many as it takes until something is wrong.
pub fn search(start: World, broken: Broken, most: usize) -> Found {
    let mut seen = HashSet::from([mark(&start)]);
    let mut open = VecDeque::from([start]);
    let mut steps = 0;
    while let Some(world) = open.pop_front() {
        for next in steps_from(&world, broken) {
            steps += 1;
            let next = match next.and_then(|next| next.check().map(|()| next)) {
                Ok(next) => next,
                Err(wrong) => {
                    return Found {
                        states: seen.len(),
                        steps,
                        wrong: Some(wrong),
                    };
                }
            };
            if seen.insert(mark(&next)) {
                open.push_back(next);
            }
        }
        assert!(
            seen.len() <= most,
            "more than {most} states: make the scenario smaller"
        );
    }
    Found {
        states: seen.len(),
        steps,
        wrong: None,
    }
}

fn steps_from(world: &World, broken: Broken) -> Vec<Result<World, String>> {
    let mut next = Vec::new();
    for at in 0..world.clients.len() {
        step(world, at, broken, &mut next);
    }
    // Time passes: the oldest lease that has not run out does.
    if world.past < world.made {
        let mut later = world.clone();
        later.past += 1;
        next.push(Ok(later));
    }
    // What was on its way arrives.
    if let Some(write) = world.late {
        let mut arrived = world.clone();
        arrived.late = None;
        next.push(arrived.apply(&write).map(|_| arrived));
    }
    next
}
