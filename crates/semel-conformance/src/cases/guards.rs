//! Once-only outside jobs (contract 5.3).

use semel_core::dedup::Dedup;
use semel_core::guard::{GuardAnswer, GuardCall};
use semel_core::json::Json;
use semel_core::limits;
use semel_core::store::{GuardOutcome, GuardRequest, Store};
use semel_core::time::Millis;
use semel_core::view::GuardStats;

use super::list::cases;
use crate::kit::{World, json, said, secs, token, with};

cases![
    "5.3" => the_first_to_reserve_may_go_ahead_and_the_others_wait,
    "5.3" => a_confirmed_output_is_given_to_everyone_who_asks,
    "5.3" => a_reservation_sent_twice_is_one_reservation,
    "5.3" => a_confirmation_sent_twice_keeps_the_first_output,
    "5.3" => a_released_key_is_fresh_for_the_next,
    "5.3" => only_the_owner_confirms,
    "5.3" => only_the_owner_releases,
    "5.3" => a_confirmed_key_cannot_be_released,
    "5.3" => a_reservation_lapses_to_the_millisecond,
    "5.3" => an_output_is_kept_for_its_ttl_from_the_confirmation_on,
    "5.3" => a_short_ttl_leaves_the_long_ones_alone,
    "5.3" => a_late_owner_does_not_touch_its_successor,
    "5.3" => a_lapsed_reservation_cannot_be_confirmed,
    "5.3" => reservations_and_outputs_survive_a_crash,
    "5.3" => guards_are_counted_by_their_answer,
    "5.3" => the_calls_of_a_batch_see_those_before_them,
    "5.3" => guarded_keys_and_keys_of_jobs_never_meet,
    "5.3" => guards_of_another_namespace_are_others,
    "5.3" => the_bounds_of_a_guard_are_said,
];

const TTL: Millis = Millis::from_secs(60);

/// Check, run, then set let two workers run at once: here the key is reserved first.
fn the_first_to_reserve_may_go_ahead_and_the_others_wait(world: &World) {
    assert_eq!(world.reserve("k", token(), TTL), GuardAnswer::Fresh);
    assert_eq!(world.reserve("k", token(), TTL), GuardAnswer::InProgress);
    assert_eq!(world.reserve("K", token(), TTL), GuardAnswer::Fresh);
    assert_eq!(
        world.reserve(" k ", token(), TTL),
        GuardAnswer::InProgress,
        "texts are trimmed"
    );
}

fn a_confirmed_output_is_given_to_everyone_who_asks(world: &World) {
    let mine = token();
    world.reserve("k", mine, TTL);
    assert_eq!(world.confirm_guard("k", mine, r#"{"id":1}"#), GuardAnswer::Ok);
    for asker in [mine, token(), token()] {
        assert_eq!(
            world.reserve("k", asker, TTL),
            GuardAnswer::Done(json(r#"{"id":1}"#))
        );
    }
}

/// A reply was lost and the caller asked again: its own reservation must not look like somebody else's.
fn a_reservation_sent_twice_is_one_reservation(world: &World) {
    let mine = token();
    assert_eq!(world.reserve("k", mine, TTL), GuardAnswer::Fresh);
    world.pass(secs(30));
    assert_eq!(world.reserve("k", mine, TTL), GuardAnswer::Fresh);
    assert_eq!(world.exact_stats().guard.fresh, 1);
    world.pass(secs(30));
    assert_eq!(
        world.reserve("k", token(), TTL),
        GuardAnswer::Fresh,
        "asking again does not prolong it"
    );
}

fn a_confirmation_sent_twice_keeps_the_first_output(world: &World) {
    let mine = token();
    world.reserve("k", mine, TTL);
    assert_eq!(world.confirm_guard("k", mine, "1"), GuardAnswer::Ok);
    assert_eq!(world.confirm_guard("k", mine, "2"), GuardAnswer::Ok);
    assert_eq!(world.reserve("k", token(), TTL), GuardAnswer::Done(json("1")));
}

/// A key that was set before the work and never cleared on failure made every failed call a duplicate for a day.
fn a_released_key_is_fresh_for_the_next(world: &World) {
    let (mine, yours) = (token(), token());
    world.reserve("k", mine, TTL);
    assert_eq!(world.release_guard("k", mine), GuardAnswer::Ok);
    assert_eq!(world.reserve("k", yours, TTL), GuardAnswer::Fresh);
    assert_eq!(world.release_guard("k", mine), GuardAnswer::NotYours);
}

fn only_the_owner_confirms(world: &World) {
    let mine = token();
    world.reserve("k", mine, TTL);
    assert_eq!(world.confirm_guard("k", token(), "2"), GuardAnswer::NotYours);
    assert_eq!(world.reserve("k", token(), TTL), GuardAnswer::InProgress);
    assert_eq!(
        world.confirm_guard("never reserved", mine, "2"),
        GuardAnswer::NotYours
    );
    assert_eq!(world.reserve("never reserved", token(), TTL), GuardAnswer::Fresh);
}

fn only_the_owner_releases(world: &World) {
    world.reserve("k", token(), TTL);
    assert_eq!(world.release_guard("k", token()), GuardAnswer::NotYours);
    assert_eq!(world.reserve("k", token(), TTL), GuardAnswer::InProgress);
}

fn a_confirmed_key_cannot_be_released(world: &World) {
    let mine = token();
    world.reserve("k", mine, TTL);
    world.confirm_guard("k", mine, "1");
    assert_eq!(world.release_guard("k", mine), GuardAnswer::NotYours);
    assert_eq!(world.reserve("k", token(), TTL), GuardAnswer::Done(json("1")));
}

/// Times to live under a second were an error: here they count in milliseconds.
fn a_reservation_lapses_to_the_millisecond(world: &World) {
    world.reserve("k", token(), Millis::new(250));
    world.pass(Millis::new(249));
    assert_eq!(world.reserve("k", token(), TTL), GuardAnswer::InProgress);
    world.pass(Millis::new(1));
    assert_eq!(world.reserve("k", token(), TTL), GuardAnswer::Fresh);
}

fn an_output_is_kept_for_its_ttl_from_the_confirmation_on(world: &World) {
    let mine = token();
    world.reserve("k", mine, TTL);
    world.pass(secs(59));
    world.confirm_guard("k", mine, "1");
    world.pass(Millis::new(59_999));
    world.upkeep();
    assert_eq!(world.reserve("k", token(), TTL), GuardAnswer::Done(json("1")));
    world.pass(Millis::new(1));
    assert_eq!(world.reserve("k", token(), TTL), GuardAnswer::Fresh);
}

/// All keys once shared one expiry: a key of one second erased everybody's keys of a day.
fn a_short_ttl_leaves_the_long_ones_alone(world: &World) {
    let day = Millis::from_days(1);
    world.reserve("long", token(), day);
    world.reserve("short", token(), secs(1));
    world.pass(secs(2));
    world.upkeep();
    assert_eq!(world.reserve("short", token(), secs(1)), GuardAnswer::Fresh);
    assert_eq!(world.reserve("long", token(), secs(1)), GuardAnswer::InProgress);
    world.pass(secs(3_600));
    world.upkeep();
    assert_eq!(world.reserve("long", token(), secs(1)), GuardAnswer::InProgress);
}

fn a_late_owner_does_not_touch_its_successor(world: &World) {
    let (late, successor) = (token(), token());
    world.reserve("k", late, TTL);
    world.pass(TTL);
    assert_eq!(world.reserve("k", successor, TTL), GuardAnswer::Fresh);
    assert_eq!(world.release_guard("k", late), GuardAnswer::NotYours);
    assert_eq!(world.confirm_guard("k", late, "1"), GuardAnswer::NotYours);
    assert_eq!(world.confirm_guard("k", successor, "2"), GuardAnswer::Ok);
    assert_eq!(world.reserve("k", late, TTL), GuardAnswer::Done(json("2")));
}

fn a_lapsed_reservation_cannot_be_confirmed(world: &World) {
    let mine = token();
    world.reserve("k", mine, TTL);
    world.pass(TTL);
    assert_eq!(world.confirm_guard("k", mine, "1"), GuardAnswer::NotYours);
    assert_eq!(world.reserve("k", token(), TTL), GuardAnswer::Fresh);
}

fn reservations_and_outputs_survive_a_crash(world: &World) {
    let (reserved, confirmed) = (token(), token());
    world.reserve("reserved", reserved, TTL);
    world.reserve("confirmed", confirmed, TTL);
    world.confirm_guard("confirmed", confirmed, "1");
    world.crash();
    assert_eq!(
        world.reserve("confirmed", token(), TTL),
        GuardAnswer::Done(json("1"))
    );
    assert_eq!(world.reserve("reserved", token(), TTL), GuardAnswer::InProgress);
    assert_eq!(world.confirm_guard("reserved", reserved, "2"), GuardAnswer::Ok);
}

fn guards_are_counted_by_their_answer(world: &World) {
    let mine = token();
    world.reserve("k", mine, TTL);
    (0..3).for_each(|_| drop(world.reserve("k", token(), TTL)));
    world.confirm_guard("k", mine, "1");
    world.crash();
    (0..2).for_each(|_| drop(world.reserve("k", token(), TTL)));
    world.reserve("other", token(), TTL);
    assert_eq!(
        world.exact_stats().guard,
        GuardStats {
            fresh: 2,
            in_progress: 3,
            done: 2
        }
    );
}

fn the_calls_of_a_batch_see_those_before_them(world: &World) {
    let (mine, yours) = (token(), token());
    let call = |call| GuardRequest {
        key: "k".into(),
        call,
    };
    let batch = vec![
        call(GuardCall::Reserve {
            token: mine,
            ttl: TTL,
        }),
        call(GuardCall::Reserve {
            token: yours,
            ttl: TTL,
        }),
        call(GuardCall::Confirm {
            token: mine,
            output: json("1"),
        }),
        call(GuardCall::Reserve {
            token: yours,
            ttl: TTL,
        }),
    ];
    let answers = world
        .block(world.store().guard(batch))
        .expect("the store answers");
    use GuardAnswer::{Done, Fresh, InProgress, Ok};
    let expected = [Fresh, InProgress, Ok, Done(json("1"))].map(GuardOutcome::Answer);
    assert_eq!(answers, expected);
}

fn guarded_keys_and_keys_of_jobs_never_meet(world: &World) {
    assert_eq!(world.reserve("k", token(), TTL), GuardAnswer::Fresh);
    world.accepted(with(Dedup::explicit("k")));
    world.accepted(with(Dedup::explicit("other")));
    assert_eq!(world.reserve("other", token(), TTL), GuardAnswer::Fresh);
    assert_eq!(world.exact_stats().active_keys, 2);
}

fn guards_of_another_namespace_are_others(world: &World) {
    let mine = token();
    world.reserve("k", mine, TTL);
    let elsewhere = world.sibling("elsewhere");
    assert_eq!(
        reserve_in(world, &*elsewhere),
        GuardOutcome::Answer(GuardAnswer::Fresh)
    );
    world.confirm_guard("k", mine, "1");
    assert_eq!(
        reserve_in(world, &*elsewhere),
        GuardOutcome::Answer(GuardAnswer::InProgress)
    );
}

fn the_bounds_of_a_guard_are_said(world: &World) {
    let reserve = |ttl| GuardCall::Reserve { token: token(), ttl };
    let huge = Json::trusted(format!("\"{}\"", "x".repeat(limits::OUTPUT_BYTES)));
    let past = Millis::new(limits::LONGEST.as_millis() + 1);
    let mine = token();
    world.reserve("mine", mine, TTL);
    let wrong = [
        ("", reserve(TTL)),
        ("  ", reserve(TTL)),
        ("a\nb", reserve(TTL)),
        (&"x".repeat(256), reserve(TTL)),
        ("k", reserve(Millis::ZERO)),
        ("k", reserve(past)),
        (
            "mine",
            GuardCall::Confirm {
                token: mine,
                output: huge,
            },
        ),
    ];
    for (key, call) in wrong {
        match world.guard(key, call) {
            GuardOutcome::Invalid(invalid) => drop(said(invalid)),
            other => panic!("expected a refusal of {key:?}, got {other:?}"),
        }
    }
    assert_eq!(world.exact_stats().guard.fresh, 1);
    assert_eq!(world.confirm_guard("mine", mine, "1"), GuardAnswer::Ok);
}

fn reserve_in(world: &World, store: &dyn Store) -> GuardOutcome {
    let call = GuardCall::Reserve {
        token: token(),
        ttl: TTL,
    };
    world
        .block(store.guard(vec![GuardRequest {
            key: "k".into(),
            call,
        }]))
        .expect("the store answers")
        .remove(0)
}
