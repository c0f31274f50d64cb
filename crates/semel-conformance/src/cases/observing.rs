//! Observing and explaining: what would happen (contract 2.13, 2.14).

use semel_core::counters::Counter;
use semel_core::dedup::{Dedup, Hold, KeyBy, Mode, OnDuplicate};
use semel_core::job::{Outcome, State, Would};
use semel_core::store::{SettingChange, Submitted, Target};
use semel_core::submission::Submission;
use semel_core::time::Millis;

use super::list::cases;
use crate::kit::{World, keyed, latest, numbered, plain, queue, secs, task, with};

cases![
    "2.13" => observing_takes_a_free_key_and_marks_it,
    "2.13" => observing_admits_what_would_have_been_a_duplicate,
    "2.13" => an_observer_meets_an_observer,
    "2.13" => observing_says_what_the_policy_would_have_answered,
    "2.13" => observing_never_changes_the_holder,
    "2.13" => an_observed_key_is_taken_over_by_an_enforced_submission,
    "2.13" => an_observer_that_ends_does_not_free_the_key_taken_over,
    "2.13" => an_operator_can_let_a_queue_a_task_or_everything_observe,
    "2.13" => observing_can_end_by_itself,
    "2.14" => explaining_predicts_every_answer_and_writes_nothing,
    "2.14" => explaining_knows_that_a_lease_ran_out,
    "2.14" => explaining_shows_the_key_and_who_holds_it,
    "2.14" => explaining_says_when_the_key_will_be_free,
    "2.14" => explaining_tells_a_refusal_and_a_closed_intake,
];

fn observing() -> Submission {
    with(Dedup::explicit("k").observe())
}

fn observing_takes_a_free_key_and_marks_it(world: &World) {
    let admitted = world.admitted(observing());
    assert_eq!((admitted.outcome, admitted.would), (Outcome::Accepted, None));
    let key = world.job(&admitted.job.id).key.expect("a key");
    assert!(key.held && key.observed);
    assert_eq!(
        (world.count(Counter::Accepted), world.count(Counter::Observed)),
        (1, 0)
    );
}

fn observing_admits_what_would_have_been_a_duplicate(world: &World) {
    let holder = world.accepted(keyed());
    let admitted = world.admitted(observing());
    let would = Some(Would {
        outcome: Outcome::Duplicate,
        holder: holder.clone(),
    });
    assert_eq!((admitted.outcome, &admitted.would), (Outcome::Accepted, &would));
    let job = world.job(&admitted.job.id);
    assert_eq!((job.would, job.key), (would, None));
    let counts = world.counts();
    assert_eq!(
        (
            counts.get(Counter::Accepted),
            counts.get(Counter::Observed),
            counts.duplicates()
        ),
        (2, 1, 0)
    );
    assert_eq!(
        (world.picture().ledger, world.holder(world.digest(&holder))),
        (Vec::new(), Some(holder))
    );
}

fn an_observer_meets_an_observer(world: &World) {
    let first = world.accepted(observing());
    let second = world.admitted(observing());
    assert_eq!(
        second.would,
        Some(Would {
            outcome: Outcome::Duplicate,
            holder: first.clone()
        })
    );
    assert_eq!(world.holder(world.digest(&first)), Some(first));
}

fn observing_says_what_the_policy_would_have_answered(world: &World) {
    let holder = world.accepted(latest(1));
    let would = |submission: Submission| {
        world
            .admitted(submission)
            .would
            .map(|would| (would.outcome, would.holder))
    };
    let observe = |on| Dedup::explicit("k").on_duplicate(on).observe();
    let says = |outcome| Some((outcome, holder.clone()));
    assert_eq!(
        would(numbered(observe(OnDuplicate::Reject), 1)),
        says(Outcome::Rejected)
    );
    assert_eq!(
        would(numbered(observe(OnDuplicate::UseExisting), 2)),
        says(Outcome::Conflict)
    );
    assert_eq!(
        would(numbered(observe(OnDuplicate::Replace), 2)),
        says(Outcome::Replaced)
    );
    assert_eq!(
        would(numbered(
            Dedup::explicit("k").debounce(secs(1), None).observe(),
            2
        )),
        says(Outcome::Debounced)
    );
    let claims = world.claim(10);
    assert!(claims.iter().any(|claimed| claimed.job.id == holder));
    assert_eq!(
        would(numbered(observe(OnDuplicate::Latest), 2)),
        says(Outcome::Deferred)
    );
    assert_eq!(world.count(Counter::Observed), 5);
}

fn observing_never_changes_the_holder(world: &World) {
    let id = world.accepted(latest(1));
    let before = world.job(&id);
    for on in [
        OnDuplicate::UseExisting,
        OnDuplicate::Replace,
        OnDuplicate::Latest,
    ] {
        world.accepted(numbered(Dedup::explicit("k").on_duplicate(on).observe(), 2));
    }
    assert_eq!(world.job(&id), before);
    assert_eq!(world.key(world.digest(&id)).absorbed, 0);
    for claimed in world.claim(10).iter().filter(|claimed| claimed.job.id != id) {
        world.complete(claimed);
    }
    assert_eq!(
        (world.count(Counter::Completed), world.holder(world.digest(&id))),
        (3, Some(id))
    );
}

fn an_observed_key_is_taken_over_by_an_enforced_submission(world: &World) {
    let observer = world.accepted(observing());
    let enforced = world.accepted(keyed());
    assert_ne!(enforced, observer);
    assert!(!world.holds(&observer));
    let key = world.key(world.digest(&enforced));
    assert_eq!((key.holder.id, key.key.observed), (enforced.clone(), false));
    assert_eq!(world.duplicate(keyed()), enforced);
    assert_eq!(world.stats().active_keys, 1);
}

fn an_observer_that_ends_does_not_free_the_key_taken_over(world: &World) {
    let observer = world.start(observing());
    let enforced = world.accepted(keyed());
    world.complete(&observer);
    world.crash();
    assert_eq!(world.duplicate(keyed()), enforced);
}

fn an_operator_can_let_a_queue_a_task_or_everything_observe(world: &World) {
    let holder = world.accepted(keyed());
    for target in [queue("default"), task("work"), Target::All] {
        world.set(target.clone(), SettingChange::Mode { mode: Mode::Observe });
        let admitted = world.admitted(keyed());
        assert_eq!(admitted.outcome, Outcome::Accepted, "{target:?}");
        assert_eq!(
            admitted.would.map(|would| would.holder),
            Some(holder.clone()),
            "{target:?}"
        );
        world.set(target, SettingChange::Mode { mode: Mode::Enforce });
        assert_eq!(world.duplicate(keyed()), holder);
    }
}

fn observing_can_end_by_itself(world: &World) {
    let holder = world.accepted(keyed());
    for target in [queue("default"), task("work"), Target::All] {
        let set = world.set(target.clone(), SettingChange::ObserveFor { length: secs(60) });
        assert_eq!(set.observed_until, Some(world.now().plus(secs(60))), "{target:?}");
        world.crash();
        world.pass(Millis::new(59_999));
        assert_eq!(world.admitted(keyed()).outcome, Outcome::Accepted, "{target:?}");
        world.pass(Millis::new(1));
        assert_eq!(world.duplicate(keyed()), holder, "{target:?}");
    }
}

/// Explains, then submits: the answers are equal, and explaining has changed nothing.
fn assert_predicted(world: &World, submission: Submission, outcome: Outcome) {
    let before = world.picture();
    let told = world.explain(submission.clone()).submitted;
    assert_eq!(world.picture(), before, "explaining writes nothing");
    assert_eq!(told, world.submit(submission));
    assert_eq!(told.outcome(), Some(outcome));
}

fn explaining_predicts_every_answer_and_writes_nothing(world: &World) {
    assert_predicted(world, plain(), Outcome::Accepted);
    assert_predicted(world, latest(1), Outcome::Accepted);
    assert_predicted(world, numbered(Dedup::explicit("k"), 1), Outcome::Duplicate);
    assert_predicted(world, numbered(Dedup::exclusive("k"), 1), Outcome::Rejected);
    assert_predicted(world, numbered(Dedup::explicit("k"), 2), Outcome::Conflict);
    assert_predicted(
        world,
        numbered(Dedup::explicit("k").observe(), 1),
        Outcome::Accepted,
    );
    assert_predicted(world, latest(2), Outcome::Replaced);
    assert_eq!(world.claim(10).len(), 3);
    assert_predicted(world, latest(3), Outcome::Deferred);
    assert_predicted(world, latest(4), Outcome::Deferred);
    let debounced = |n| numbered(Dedup::explicit("d").debounce(secs(5), None), n);
    assert_predicted(world, debounced(1), Outcome::Accepted);
    assert_predicted(world, debounced(2), Outcome::Debounced);
    // Nor is anything built upon what was only explained.
    world.crash();
    assert_eq!((world.count(Counter::Accepted), world.jobs().len()), (4, 5));
}

fn explaining_knows_that_a_lease_ran_out(world: &World) {
    world.start(keyed());
    world.start(with(
        Dedup::explicit("lapses").hold(Hold::until_finished().ttl(secs(10))),
    ));
    world.start(Submission {
        max_deliveries: 1,
        ..with(Dedup::explicit("dies"))
    });
    world.pass(secs(30));
    for text in ["k", "lapses", "dies"] {
        let told = world.explain(with(Dedup::explicit(text))).submitted.outcome();
        let expected = if text == "k" {
            Outcome::Duplicate
        } else {
            Outcome::Accepted
        };
        assert_eq!((text, told), (text, Some(expected)));
    }
    world.duplicate(keyed());
    world.accepted(with(Dedup::explicit("lapses")));
    world.accepted(with(Dedup::explicit("dies")));
}

fn explaining_shows_the_key_and_who_holds_it(world: &World) {
    let free = world.explain(keyed());
    let key = free.key.expect("a key");
    assert_eq!(
        (key.text.as_deref(), key.by, &*key.scope),
        (Some("k"), KeyBy::Explicit, "task")
    );
    assert_eq!((free.holder, free.admissible_at), (None, Some(world.now())));
    let id = world.accepted(keyed());
    assert_eq!(world.digest(&id), key.digest);
    let held = world.explain(keyed());
    let (holder, view) = held.holder.expect("a holder");
    assert_eq!((holder.id, holder.state), (id, State::Queued));
    assert_eq!((view.digest, view.held), (key.digest, true));
    assert_eq!(world.explain(plain()).key, None);
}

fn explaining_says_when_the_key_will_be_free(world: &World) {
    let held = |text: &str, hold| with(Dedup::explicit(text).hold(hold));
    let start = world.now();
    let free_at = |text: &str| world.explain(with(Dedup::explicit(text))).admissible_at;
    world.accepted(held("waits", Hold::until_finished()));
    assert_eq!(free_at("waits"), None, "when the holder ends");
    world.accepted(held("lapses", Hold::until_finished().ttl(secs(90))));
    assert_eq!(free_at("lapses"), Some(start.plus(secs(90))));
    assert_eq!(world.claim(10).len(), 2);
    assert_eq!(free_at("lapses"), None, "never under a lease that began before");
    let window = world.accepted(held("window", Hold::window(secs(600))));
    assert_eq!(free_at("window"), None, "never before its job has ended");
    world.pass(secs(10));
    world.cancel(&window);
    assert_eq!(free_at("window"), Some(start.plus(secs(600))));
    let cooling = world.accepted(held("cools", Hold::until_finished().cool_down(secs(60))));
    world.cancel(&cooling);
    assert_eq!(free_at("cools"), Some(world.now().plus(secs(60))));
}

fn explaining_tells_a_refusal_and_a_closed_intake(world: &World) {
    let before = world.picture();
    let invalid = world.explain(with(Dedup::explicit(""))).submitted;
    assert!(matches!(invalid, Submitted::Invalid(_)), "{invalid:?}");
    world.intake(queue("default"), false);
    assert_eq!(
        world.explain(keyed()).submitted,
        Submitted::Closed {
            target: queue("default")
        }
    );
    assert_eq!(world.picture(), before);
}
