//! Answers that get lost, come late or say nothing: a short piece of the campaigns of `cargo xtask faults s3`.

#[path = "bucket/mod.rs"]
mod bucket;
#[path = "campaigns/mod.rs"]
mod campaigns;
#[path = "kit/mod.rs"]
mod kit;
#[path = "through/mod.rs"]
mod through;

use bucket::{Faults, Memory};

#[test]
fn no_fault_makes_two_jobs_of_one_key_or_leaves_a_key_without_a_job() {
    let report = campaigns::submissions(1_000, 40, 7);
    println!("{report}");
    assert!(report.faults > 100, "the faults happened: {report}");
}

#[test]
fn of_many_who_race_for_a_key_one_gets_it_whatever_goes_wrong() {
    println!("{}", campaigns::races(32, 20, 20, 3));
}

#[test]
fn random_operations_agree_with_the_reference_whatever_goes_wrong() {
    let harness = Memory {
        faults: Faults::all(3),
        seed: 11,
    };
    let report = semel_conformance::model::run(&harness, 5, 4_000);
    assert!(report.transitions >= 4_000);
}
