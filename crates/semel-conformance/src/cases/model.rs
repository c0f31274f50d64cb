//! The store against the in-memory reference.

use super::list::cases;
use crate::kit::World;
use crate::model::{self, Report, cells};
use crate::rng::seed_from_environment;

cases![
    "9.2" => random_operations_agree_with_the_reference,
];

/// Transitions per seed: a campaign makes a million of them.
const TRANSITIONS: u64 = 10_000;
/// Visits of each legal cell that make the run mean something.
const LEAST: u64 = 20;

fn random_operations_agree_with_the_reference(world: &World) {
    let seeds = seed_from_environment().map_or(vec![1, 2], |seed| vec![seed, seed + 1]);
    let mut report = Report::default();
    for seed in &seeds {
        report.merge(model::run(&**world.harness(), *seed, TRANSITIONS));
    }
    println!("model, seeds {seeds:?}: {report}");
    let neglected = cells::neglected(&report.visits, LEAST);
    assert!(
        neglected.is_empty(),
        "visited less than {LEAST} times: {neglected:?}"
    );
}
