//! `kill -9` under load.

use super::list::cases;
use crate::crash;
use crate::kit::World;
use crate::rng::{number_from_environment, seed_from_environment};

cases![
    "1.2" => what_was_answered_survives_kill_9_of_a_process_under_load,
];

fn what_was_answered_survives_kill_9_of_a_process_under_load(world: &World) {
    if !world.store().capabilities().durable {
        // Said by the store itself, and true: opened again, it is another store.
        assert!(
            world.harness().place().is_none(),
            "a store that forgets has no place to come back to"
        );
        return;
    }
    let kills = number_from_environment("SEMEL_KILLS").unwrap_or(12);
    let seed = seed_from_environment().unwrap_or(1);
    let report = crash::run(world, kills, seed);
    println!("crash, seed {seed}: {report}");
    assert!(
        report.percent_interrupting() >= 80,
        "too few kills interrupt a call: {report}"
    );
}
