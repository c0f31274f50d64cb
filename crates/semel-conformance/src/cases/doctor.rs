//! What a store says about itself (contract 9.1, 9.4, 9.5).

use semel_core::dedup::{Dedup, Hold};
use semel_core::ids::JobId;
use semel_core::job::State;
use semel_core::lifecycle::Settle;
use semel_core::step::Resolution;
use semel_core::store::{ClaimRequest, Finding, KeyFilter, SettingChange, UpkeepRequest};
use semel_core::submission::Submission;
use semel_core::time::Millis;

use super::list::cases;
use crate::kit::{World, claim_request, name, of, queue, secs, with, with_input};

cases![
    "9.1" => a_store_is_called_what_its_capabilities_say,
    "9.4" => every_line_of_the_guarantee_sheet_says_how_it_was_found_out,
    "9.5" => the_doctor_finds_nothing_in_an_empty_store,
    "9.5" => the_doctor_finds_nothing_after_a_busy_day,
    "9.5" => the_doctor_finds_nothing_after_a_busy_month,
    "9.5" => the_doctor_mends_nothing_that_is_whole,
];

fn a_store_is_called_what_its_capabilities_say(world: &World) {
    assert_eq!(world.store().capabilities().name, world.harness().name());
}

fn every_line_of_the_guarantee_sheet_says_how_it_was_found_out(world: &World) {
    let sheet = world
        .block(world.store().guarantees())
        .expect("the store answers");
    assert!(!sheet.is_empty());
    for line in sheet {
        let said = !line.subject.is_empty() && !line.statement.is_empty() && !line.probed.is_empty();
        assert!(said, "{line:?}");
    }
}

fn the_doctor_finds_nothing_in_an_empty_store(world: &World) {
    assert_eq!(findings(world, false), vec![]);
}

fn the_doctor_finds_nothing_after_a_busy_day(world: &World) {
    busy_day(world);
    assert_eq!(findings(world, false), vec![]);
    world.crash();
    assert_eq!(findings(world, false), vec![]);
}

fn the_doctor_finds_nothing_after_a_busy_month(world: &World) {
    for _ in 0..5 {
        busy_day(world);
        world.pass(Millis::from_days(7));
        world.upkeep();
        assert_eq!(findings(world, false), vec![]);
    }
}

fn the_doctor_mends_nothing_that_is_whole(world: &World) {
    busy_day(world);
    let before = world.exact_stats();
    assert_eq!(findings(world, true), vec![]);
    let after = world.exact_stats();
    assert_eq!(
        (after.raw, after.jobs, after.active_keys),
        (before.raw, before.jobs, before.active_keys)
    );
}

fn findings(world: &World, repair: bool) -> Vec<Finding> {
    world
        .block(world.store().doctor(repair))
        .expect("the store answers")
}

/// Everything that can happen to jobs and keys, once.
fn busy_day(world: &World) {
    submit_in_every_way(world);
    run_in_every_way(world);
    operate_in_every_way(world);
}

fn submit_in_every_way(world: &World) {
    let keyed = |hold| Dedup::explicit("keyed").hold(hold);
    let holds = [
        Hold::until_started(),
        Hold::until_finished(),
        Hold::window(Millis::from_days(1)),
    ];
    for (n, hold) in holds.into_iter().enumerate() {
        world.submit_all(vec![
            with(keyed(hold)),
            with(Dedup::exclusive("keyed")),
            with_input(keyed(hold), "1"),
        ]);
        world.submit(with(Dedup::explicit("keyed").observe()));
        world.submit(with(Dedup::explicit("noise").debounce(secs(5), Some(secs(9)))));
        let input = format!(r#"{{"id":1,"n":{n}}}"#);
        world.submit(with_input(Dedup::hybrid(["/id"]).expect("a pointer"), &input));
        world.pass(secs(1));
    }
    world.submit(with(Dedup::idempotency_key("call")));
    world.submit(Submission {
        queue: name("doomed"),
        ..with(Dedup::explicit("doomed").latest())
    });
}

/// Each result comes about; whoever is still running loses its lease.
fn run_in_every_way(world: &World) {
    let mut claims = world.claim(1_000).into_iter();
    let results = [
        Settle::Complete { output: None },
        Settle::Retry {
            error: "no answer".into(),
            delay: None,
        },
        Settle::Fail {
            error: "broke".into(),
        },
        Settle::Snooze { delay: secs(5) },
        Settle::HandBack,
        Settle::Cancel,
    ];
    for (claimed, result) in claims.by_ref().zip(results) {
        world.settle(&claimed.job.id, claimed.fence, result);
        world.complete(&claimed);
    }
    world.submit(Submission {
        queue: name("doomed"),
        ..with(Dedup::explicit("doomed").latest())
    });
    world.pass(secs(31));
    for claimed in world.claim(2) {
        world.begin(&claimed, "charge");
        world.settle(
            &claimed.job.id,
            claimed.fence,
            Settle::Park {
                reason: "was it paid?".into(),
            },
        );
        world.resolve(&claimed.job.origin, "charge", Resolution::DidNot);
    }
}

fn operate_in_every_way(world: &World) {
    let letters: Vec<_> = (0..3).map(|_| dead_letter(world)).collect();
    world.retry(&letters[0]);
    world.replay(&letters[1]);
    world.replay(&letters[1]);
    world.delete(&letters[2]);
    world.set(
        queue("default"),
        SettingChange::Pause {
            lasting: Some(secs(1)),
            reason: None,
        },
    );
    let queued = world.accepted(of("other", "{}"));
    world.cancel(&queued);
    for row in world.keys(KeyFilter::default()).into_iter().take(2) {
        world.release(row.key.digest, &row.holder.id);
    }
    world
        .block(world.store().remove_queue(&name("doomed")))
        .expect("the store answers");
    world.upkeep_round(UpkeepRequest::default());
}

/// A job that fails, together with whatever else of its task is due.
fn dead_letter(world: &World) -> JobId {
    let id = world.accepted(of("mortal", "{}"));
    let request = ClaimRequest {
        tasks: vec![name("mortal")],
        ..claim_request(1_000)
    };
    let claims = world
        .block(world.store().claim(request))
        .expect("the store answers");
    claims
        .iter()
        .for_each(|claimed| drop(world.fail(claimed, "broke")));
    assert_eq!(world.state(&id), State::Failed);
    id
}
