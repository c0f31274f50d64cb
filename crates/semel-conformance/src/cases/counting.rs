//! Counters, their reset and their history (contract 7.1, 7.2).

use std::collections::BTreeMap;

use semel_core::counters::{Counter, Counts};
use semel_core::dedup::{Dedup, Hold, OnDuplicate, Scope};
use semel_core::ids::JobId;
use semel_core::job::State;
use semel_core::lifecycle::Settle;
use semel_core::store::{Settlement, UpkeepRequest};
use semel_core::submission::{RunAt, Submission};
use semel_core::time::{Millis, Timestamp};
use semel_core::view::Snapshot;

use super::list::cases;
use crate::kit::{World, name, nonzero, of, plain, secs, with, with_input};

cases![
    "7.1" => submissions_are_counted_by_their_answer,
    "7.1" => debounced_and_deferred_submissions_are_counted,
    "7.1" => observed_submissions_and_collisions_are_counted,
    "7.1" => ends_are_counted,
    "7.1" => refused_writes_and_expired_leases_are_counted,
    "7.1" => what_changes_nothing_counts_nothing,
    "7.1" => counters_equal_the_history_after_a_crash_at_any_point,
    "7.1" => counters_are_kept_per_queue_and_task,
    "7.1" => lanes_add_up_to_the_totals,
    "7.1" => a_reset_moves_a_baseline,
    "7.1" => a_reset_covers_every_lane,
    "7.1" => a_reset_covers_what_was_answered_just_before,
    "7.1" => jobs_are_counted_by_state,
    "7.1" => a_job_counts_as_queued_once_it_is_due,
    "7.1" => held_keys_are_counted,
    "7.1" => a_lane_says_since_when_its_oldest_job_waits,
    "7.1" => statistics_say_when_they_were_true,
    "7.2" => the_hit_rate_is_duplicates_among_all_that_was_taken_in,
    "7.2" => upkeep_takes_one_snapshot_a_minute,
    "7.2" => the_history_is_cut_to_the_window_asked_for,
    "7.2" => snapshots_thin_out_to_hours_after_a_day,
    "7.2" => snapshots_are_gone_after_thirty_days,
    "7.2" => snapshots_hold_what_was_ever_counted,
    "7.2" => a_snapshot_counts_its_own_namespace,
];

fn submissions_are_counted_by_their_answer(world: &World) {
    let policy = |answer| Dedup::explicit("k").on_duplicate(answer);
    world.accepted(with(policy(OnDuplicate::UseExisting)));
    (0..3).for_each(|_| drop(world.submit(with(policy(OnDuplicate::UseExisting)))));
    (0..2).for_each(|_| drop(world.submit(with(policy(OnDuplicate::Reject)))));
    world.submit(with_input(policy(OnDuplicate::UseExisting), "1"));
    world.submit(with_input(policy(OnDuplicate::Replace), "2"));
    let expected = [
        ("accepted", 1),
        ("duplicate", 3),
        ("replaced", 1),
        ("rejected", 2),
        ("conflicts", 1),
    ];
    assert_eq!(world.counted(), expected);
    assert_eq!(
        world.exact_stats().totals.duplicates(),
        6,
        "a conflict is no duplicate"
    );
}

fn debounced_and_deferred_submissions_are_counted(world: &World) {
    let debounced = || with(Dedup::explicit("d").debounce(secs(5), None));
    (0..3).for_each(|_| drop(world.submit(debounced())));
    let latest = || with(Dedup::explicit("l").latest());
    world.started(latest());
    (0..2).for_each(|_| drop(world.submit(latest())));
    assert_eq!(
        world.counted(),
        [("accepted", 2), ("debounced", 2), ("deferred", 2)]
    );
    world.crash();
    assert_eq!(world.exact_stats().totals.duplicates(), 4);
}

fn observed_submissions_and_collisions_are_counted(world: &World) {
    (0..3).for_each(|_| drop(world.accepted(with(Dedup::explicit("o").observe()))));
    let hybrid = |input| with_input(Dedup::hybrid(["/id"]).expect("a pointer"), input);
    world.accepted(hybrid(r#"{"id":1,"n":1}"#));
    world.accepted(hybrid(r#"{"id":1,"n":2}"#));
    world.submit(hybrid(r#"{"id":1,"n":2}"#));
    let expected = [
        ("accepted", 5),
        ("duplicate", 1),
        ("observed", 2),
        ("collisions", 1),
    ];
    assert_eq!(world.counted(), expected);
}

fn ends_are_counted(world: &World) {
    world.completed(plain());
    world.completed(plain());
    let letter = world.failed(plain(), "broke");
    let again = world.started(plain());
    retry_soon(world, &again.job.id, again.fence);
    let again = world.claim_one();
    world.settle(&again.job.id, again.fence, Settle::Cancel);
    let waiting = world.accepted(plain());
    world.cancel(&waiting);
    world.retry(&letter);
    let snoozed = world.claim_one();
    world.settle(&letter, snoozed.fence, Settle::Snooze { delay: secs(1) });
    let expected = [
        ("accepted", 5),
        ("completed", 2),
        ("failed", 1),
        ("cancelled", 2),
        ("retried", 2),
    ];
    assert_eq!(world.counted(), expected);
}

fn refused_writes_and_expired_leases_are_counted(world: &World) {
    let id = world.accepted(Submission {
        max_deliveries: 2,
        ..plain()
    });
    let old = world.claim_one();
    world.pass(secs(30));
    let new = world.claim_one();
    world.complete(&old);
    world.extend(&old.job.id, old.fence);
    world.pass(secs(30));
    world.upkeep();
    assert_eq!(world.state(&id), State::Failed);
    world.complete(&new);
    assert_eq!(
        world.counted(),
        [
            ("accepted", 1),
            ("failed", 1),
            ("stale_writes", 3),
            ("expired", 2)
        ]
    );
}

fn what_changes_nothing_counts_nothing(world: &World) {
    let submission = with(Dedup::explicit("k"));
    world.accepted(submission.clone());
    let duplicate = with(Dedup::explicit("k"));
    (0..2).for_each(|_| drop(world.submit(duplicate.clone())));
    world.accepted(submission);
    world
        .block(world.store().explain(with(Dedup::explicit("k"))))
        .expect("the store answers");
    world.submit(Submission {
        priority: 101,
        ..plain()
    });
    let claimed = world.claim_one();
    (0..3).for_each(|_| drop(world.complete(&claimed)));
    world.settle(&JobId::new("nobody").expect("an id"), 1, Settle::HandBack);
    assert_eq!(
        world.counted(),
        [("accepted", 1), ("duplicate", 1), ("completed", 1)]
    );
}

fn counters_equal_the_history_after_a_crash_at_any_point(world: &World) {
    let policy = || with(Dedup::explicit("k"));
    for round in 1..=3 {
        world.accepted(policy());
        world.crash();
        world.submit(policy());
        world.crash();
        let claimed = world.claim_one();
        world.crash();
        retry_soon(world, &claimed.job.id, claimed.fence);
        world.crash();
        world.complete(&claimed);
        world.complete(&world.claim_one());
        world.crash();
        let expected = [
            ("accepted", round),
            ("duplicate", round),
            ("completed", round),
            ("retried", round),
        ];
        assert_eq!(world.counted(), expected);
    }
}

fn counters_are_kept_per_queue_and_task(world: &World) {
    let unique = |queue: &str, task: &str| {
        let policy = Dedup::explicit("k").scope(Scope::Queue);
        Submission {
            queue: name(queue),
            policy: policy.into(),
            ..of(task, "{}")
        }
    };
    world.accepted(unique("mails", "send"));
    world.submit(unique("mails", "send"));
    world.submit(unique("mails", "check"));
    world.completed(Submission {
        priority: 1,
        queue: name("images"),
        ..of("send", "{}")
    });
    let lanes: Vec<_> = world.exact_stats().lanes;
    let seen: Vec<_> = lanes
        .iter()
        .map(|lane| (lane.queue.as_str(), lane.task.as_str(), nonzero(&lane.counts)))
        .collect();
    let expected = [
        ("images", "send", vec![("accepted", 1), ("completed", 1)]),
        ("mails", "check", vec![("conflicts", 1)]),
        ("mails", "send", vec![("accepted", 1), ("duplicate", 1)]),
    ];
    assert_eq!(seen, expected, "a submission counts where it was sent");
}

fn lanes_add_up_to_the_totals(world: &World) {
    for (queue, task) in [("a", "x"), ("a", "y"), ("b", "x")] {
        let submission = || Submission {
            queue: name(queue),
            ..of(task, "{}")
        };
        world.completed(submission());
        world.failed(submission(), "broke");
        let old = world.started(submission());
        world.pass(secs(30));
        world.complete(&world.claim_one());
        world.complete(&old);
    }
    let stats = world.exact_stats();
    let mut sum = Counts::default();
    stats.lanes.iter().for_each(|lane| sum.merge(&lane.counts));
    assert_eq!(sum, stats.totals);
    assert_eq!(
        (sum.get(Counter::Accepted), sum.get(Counter::StaleWrites)),
        (9, 3)
    );
}

fn a_reset_moves_a_baseline(world: &World) {
    world.completed(plain());
    assert_eq!(world.exact_stats().since, None);
    let at = world
        .block(world.store().reset_stats())
        .expect("the store answers");
    assert_eq!(at, world.now());
    assert!(world.counted().is_empty());
    world.pass(secs(5));
    world.accepted(plain());
    world.crash();
    let stats = world.exact_stats();
    assert_eq!(
        (stats.since, nonzero(&stats.totals)),
        (Some(at), vec![("accepted", 1)])
    );
    assert_eq!(nonzero(&stats.raw), [("accepted", 2), ("completed", 1)]);
}

fn a_reset_covers_every_lane(world: &World) {
    world.completed(of("send", "{}"));
    world.completed(of("scale", "{}"));
    world
        .block(world.store().reset_stats())
        .expect("the store answers");
    world.accepted(of("send", "{}"));
    let lanes = world.exact_stats().lanes;
    let counted: Vec<_> = lanes.iter().filter(|lane| !lane.counts.is_zero()).collect();
    assert_eq!((counted.len(), &counted[0].task), (1, &name("send")));
    assert_eq!(nonzero(&counted[0].counts), [("accepted", 1)]);
}

/// The embedded store enters a new job in its counters later than it answers. A reset that came in between took the
/// baseline from what was entered, and the job counted as one of the time after it.
fn a_reset_covers_what_was_answered_just_before(world: &World) {
    world.accepted(plain());
    world
        .block(world.store().reset_stats())
        .expect("the store answers");
    let stats = world.exact_stats();
    assert!(
        stats.totals.is_zero(),
        "after the reset: {:?}",
        nonzero(&stats.totals)
    );
    assert_eq!(nonzero(&stats.raw), [("accepted", 1)]);
}

fn jobs_are_counted_by_state(world: &World) {
    let latest = || with(Dedup::explicit("l").latest());
    world.completed(plain());
    world.failed(plain(), "broke");
    let parked = world.started(plain());
    world.settle(&parked.job.id, parked.fence, Settle::Park { reason: "?".into() });
    world.started(latest());
    world.submit(latest());
    let cancelled = world.accepted(plain());
    world.cancel(&cancelled);
    world.submit_all(vec![plain(), plain()]);
    world.accepted(Submission {
        run_at: RunAt::After(secs(60)),
        ..plain()
    });
    let mut expected: BTreeMap<State, i64> = State::ALL.into_iter().map(|state| (state, 1)).collect();
    expected.insert(State::Queued, 2);
    let stats = world.exact_stats();
    assert_eq!(stats.jobs, expected);
    assert_eq!(stats.lanes[0].jobs, expected);
}

fn a_job_counts_as_queued_once_it_is_due(world: &World) {
    world.accepted(Submission {
        run_at: RunAt::After(secs(60)),
        ..plain()
    });
    assert_eq!(world.exact_stats().jobs, BTreeMap::from([(State::Scheduled, 1)]));
    world.pass(secs(60));
    assert_eq!(world.exact_stats().jobs, BTreeMap::from([(State::Queued, 1)]));
}

fn held_keys_are_counted(world: &World) {
    world.accepted(plain());
    world.accepted(with(
        Dedup::explicit("a").hold(Hold::until_finished().ttl(secs(60))),
    ));
    let b = world.accepted(with(Dedup::explicit("b")));
    assert_eq!(world.exact_stats().active_keys, 2);
    world.cancel(&b);
    assert_eq!(world.exact_stats().active_keys, 1);
    world.pass(secs(60));
    assert_eq!(
        world.exact_stats().active_keys,
        0,
        "a key whose time has passed is free"
    );
}

fn a_lane_says_since_when_its_oldest_job_waits(world: &World) {
    let start = world.now();
    world.accepted(Submission {
        run_at: RunAt::After(secs(10)),
        ..plain()
    });
    assert_eq!(oldest_waiting(world), None, "nothing is due yet");
    world.pass(secs(20));
    world.accepted(plain());
    assert_eq!(oldest_waiting(world), Some(start.plus(secs(10))));
    world.claim_one();
    assert_eq!(oldest_waiting(world), Some(start.plus(secs(20))));
}

fn statistics_say_when_they_were_true(world: &World) {
    world.accepted(plain());
    world.pass(secs(7));
    assert_eq!(world.exact_stats().as_of, world.now());
}

fn the_hit_rate_is_duplicates_among_all_that_was_taken_in(world: &World) {
    assert_eq!(world.exact_stats().totals.hit_ratio(), 0.0);
    let policy = |answer| with(Dedup::explicit("k").on_duplicate(answer));
    world.accepted(policy(OnDuplicate::UseExisting));
    world.submit(policy(OnDuplicate::UseExisting));
    world.submit(policy(OnDuplicate::Reject));
    world.submit(policy(OnDuplicate::Replace));
    world.submit(with_input(Dedup::explicit("k"), "1"));
    assert_eq!(world.exact_stats().totals.hit_ratio(), 0.75);
}

fn upkeep_takes_one_snapshot_a_minute(world: &World) {
    let start = world.now();
    world.accepted(plain());
    assert!(world.upkeep_round(UpkeepRequest::default()).snapshot);
    world.pass(secs(59));
    assert!(!world.upkeep_round(UpkeepRequest::default()).snapshot);
    world.accepted(plain());
    world.pass(secs(1));
    assert!(world.upkeep_round(UpkeepRequest::default()).snapshot);
    let seen: Vec<_> = history(world, Millis::from_days(1))
        .iter()
        .map(accepted_at)
        .collect();
    assert_eq!(seen, [(start, 1), (start.plus(secs(60)), 2)]);
}

fn the_history_is_cut_to_the_window_asked_for(world: &World) {
    let start = world.now();
    for _ in 0..10 {
        world.accepted(plain());
        world.upkeep();
        world.pass(secs(60));
    }
    world.crash();
    let seen: Vec<_> = history(world, Millis::new(150_000))
        .iter()
        .map(accepted_at)
        .collect();
    assert_eq!(seen, [(start.plus(secs(480)), 9), (start.plus(secs(540)), 10)]);
}

fn snapshots_thin_out_to_hours_after_a_day(world: &World) {
    let start = world.now();
    for _ in 0..6 {
        world.accepted(plain());
        world.upkeep();
        world.pass(secs(1_200));
    }
    assert_eq!(history(world, Millis::from_days(1)).len(), 6);
    world.pass(Millis::from_days(1));
    world.upkeep();
    let seen: Vec<_> = history(world, Millis::from_days(2))
        .iter()
        .map(accepted_at)
        .collect();
    let hour = |n: i64| start.plus(secs(n * 3_600));
    assert_eq!(seen, [(hour(0), 1), (hour(1), 4), (hour(26), 6)]);
}

fn snapshots_are_gone_after_thirty_days(world: &World) {
    world.accepted(plain());
    world.upkeep();
    world.pass(Millis::from_days(29));
    world.upkeep();
    assert_eq!(history(world, Millis::from_days(365)).len(), 2);
    world.pass(Millis::from_days(2));
    world.upkeep();
    assert_eq!(
        history(world, Millis::from_days(365)).len(),
        2,
        "the first is gone, a third has come"
    );
}

fn snapshots_hold_what_was_ever_counted(world: &World) {
    world.completed(plain());
    world
        .block(world.store().reset_stats())
        .expect("the store answers");
    world.upkeep();
    let snapshots = history(world, secs(3_600));
    assert_eq!(nonzero(&snapshots[0].counts), [("accepted", 1), ("completed", 1)]);
}

/// One store put what another namespace had just accepted into the snapshot it took, and into no later one: the rate of
/// that window was below zero.
fn a_snapshot_counts_its_own_namespace(world: &World) {
    world.accepted(plain());
    let other = world.sibling("other");
    for _ in 0..3 {
        world
            .block(other.submit(vec![plain()]))
            .expect("the store answers");
    }
    assert!(world.upkeep_round(UpkeepRequest::default()).snapshot);
    let snapshots = history(world, secs(3_600));
    assert_eq!(nonzero(&snapshots[0].counts), [("accepted", 1)]);
}

fn history(world: &World, window: Millis) -> Vec<Snapshot> {
    world
        .block(world.store().history(window))
        .expect("the store answers")
}

fn accepted_at(snapshot: &Snapshot) -> (Timestamp, i64) {
    (snapshot.at, snapshot.counts.get(Counter::Accepted))
}

fn oldest_waiting(world: &World) -> Option<Timestamp> {
    world.exact_stats().lanes[0].oldest_waiting
}

fn retry_soon(world: &World, id: &JobId, fence: i64) {
    let result = Settle::Retry {
        error: "no answer".into(),
        delay: Some(Millis::ZERO),
    };
    let settlement = Settlement {
        id: id.clone(),
        fence,
        result,
    };
    world
        .block(world.store().settle(vec![settlement]))
        .expect("the store answers");
}
