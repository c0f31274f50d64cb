//! `kill -9` under load. Each case kills at other moments; after every kill all of it is checked.

use super::list::cases;
use crate::crash;
use crate::kit::World;
use crate::rng::{number_from_environment, seed_from_environment};

cases![
    "1.2" => what_was_answered_survives_kill_9_of_a_process_under_load,
    "2.9" => no_kill_parts_a_key_from_its_job_and_its_place,
    "7.1" => counters_equal_the_history_after_kill_9,
];

fn what_was_answered_survives_kill_9_of_a_process_under_load(world: &World) {
    kill(world, 1);
}

/// Elsewhere the key was written before the job: a process that died in between left a key that blocked for good.
fn no_kill_parts_a_key_from_its_job_and_its_place(world: &World) {
    kill(world, 2);
}

fn counters_equal_the_history_after_kill_9(world: &World) {
    kill(world, 3);
}

fn kill(world: &World, seed: u64) {
    if !world.store().capabilities().durable {
        // Said by the store itself, and true: opened again, it is another store.
        assert!(
            world.harness().place().is_none(),
            "a store that forgets has no place to come back to"
        );
        return;
    }
    let kills = number_from_environment("SEMEL_KILLS").unwrap_or(12);
    let seed = seed_from_environment().unwrap_or(seed);
    let report = crash::run(world, kills, seed);
    println!("crash, seed {seed}: {report}");
    assert!(
        report.percent_interrupting() >= 80,
        "too few kills interrupt a call: {report}"
    );
}
