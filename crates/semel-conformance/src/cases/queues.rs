//! Queues: unique ones, and removed ones (contract 2.15, 2.16).

use semel_core::counters::Counter;
use semel_core::dedup::{Dedup, Hold, KeyBy};
use semel_core::job::State;
use semel_core::store::{ActOutcome, SettingChange, Target, WriteOutcome};
use semel_core::submission::{Policy, Submission};

use super::list::cases;
use crate::kit::{World, into_queue, keyed, of, plain, queue, secs, with};

cases![
    "2.15" => a_unique_queue_holds_equal_inputs_until_they_start,
    "2.15" => a_unique_queue_tells_tasks_and_queues_apart,
    "2.15" => a_submission_to_a_unique_queue_may_bring_its_own_policy_or_opt_out,
    "2.15" => all_queues_can_be_declared_unique,
    "2.15" => a_queue_need_not_be_empty_to_become_unique,
    "2.15" => a_queue_that_is_no_longer_unique_admits_everything,
    "2.15" => a_handler_learns_when_its_job_was_enqueued,
    "2.16" => a_removed_queue_is_gone_for_every_reader_at_once,
    "2.16" => a_removed_job_writes_no_more,
    "2.16" => a_removed_queue_frees_its_keys,
    "2.16" => a_removed_queue_leaves_other_queues_alone,
    "2.16" => totals_outlive_a_removed_queue,
    "2.16" => a_removed_queue_can_be_used_again,
    "2.16" => a_removal_survives_a_crash,
];

fn unique(target: Target, unique: bool) -> (Target, SettingChange) {
    (target, SettingChange::Unique { unique })
}

fn declare(world: &World, (target, change): (Target, SettingChange)) {
    world.set(target, change);
}

fn a_unique_queue_holds_equal_inputs_until_they_start(world: &World) {
    declare(world, unique(queue("default"), true));
    let id = world.accepted(of("work", r#"{"a":1,"b":2}"#));
    assert_eq!(world.duplicate(of("work", r#"{"b":2.0,"a":1}"#)), id);
    world.accepted(of("work", r#"{"a":2}"#));
    let key = world.job(&id).key.expect("a key");
    assert_eq!(
        (key.by, key.scope.as_str(), key.hold),
        (KeyBy::Input, "queue", Hold::until_started())
    );
    assert_eq!(world.claim(10).len(), 2);
    assert_ne!(world.accepted(of("work", r#"{"a":1,"b":2}"#)), id);
}

fn a_unique_queue_tells_tasks_and_queues_apart(world: &World) {
    declare(world, unique(queue("default"), true));
    world.accepted(of("work", "{}"));
    world.accepted(of("other", "{}"));
    world.accepted(into_queue("elsewhere", of("work", "{}")));
    world.accepted(into_queue("elsewhere", of("work", "{}")));
    assert_eq!(world.stats().active_keys, 2);
}

fn a_submission_to_a_unique_queue_may_bring_its_own_policy_or_opt_out(world: &World) {
    declare(world, unique(queue("default"), true));
    let id = world.accepted(plain());
    let out = world.accepted(Submission {
        policy: Policy::None,
        ..plain()
    });
    assert_eq!(world.job(&out).key, None);
    world.accepted(keyed());
    assert_eq!(world.duplicate(plain()), id);
    assert_eq!(
        (world.count(Counter::Accepted), world.count(Counter::Duplicate)),
        (3, 1)
    );
}

fn all_queues_can_be_declared_unique(world: &World) {
    declare(world, unique(Target::All, true));
    let here = world.accepted(plain());
    let there = world.accepted(into_queue("elsewhere", plain()));
    world.crash();
    assert_eq!(world.duplicate(plain()), here);
    assert_eq!(world.duplicate(into_queue("elsewhere", plain())), there);
}

fn a_queue_need_not_be_empty_to_become_unique(world: &World) {
    let old = [world.accepted(plain()), world.accepted(plain())];
    declare(world, unique(queue("default"), true));
    let first = world.accepted(plain());
    assert_eq!(world.duplicate(plain()), first);
    assert!(old.iter().all(|id| world.job(id).key.is_none()));
    assert_eq!(world.claim(10).len(), 3);
}

fn a_queue_that_is_no_longer_unique_admits_everything(world: &World) {
    declare(world, unique(queue("default"), true));
    world.accepted(plain());
    declare(world, unique(queue("default"), false));
    world.accepted(plain());
    world.accepted(plain());
    assert_eq!(
        (world.count(Counter::Accepted), world.count(Counter::Duplicate)),
        (3, 0)
    );
}

fn a_handler_learns_when_its_job_was_enqueued(world: &World) {
    declare(world, unique(queue("default"), true));
    let enqueued = world.now();
    world.accepted(plain());
    world.pass(secs(100));
    world.duplicate(plain());
    assert_eq!(world.claim_one().job.enqueued_at, enqueued);
}

fn doomed(submission: Submission) -> Submission {
    into_queue("doomed", submission)
}

fn a_removed_queue_is_gone_for_every_reader_at_once(world: &World) {
    let running = world.start(doomed(keyed()));
    let digest = world.digest(&running.job.id);
    let waiting = world.accepted(doomed(plain()));
    let ended = world.accepted(doomed(plain()));
    world.cancel(&ended);
    assert_eq!(world.remove_queue("doomed"), 3);
    for id in [&running.job.id, &waiting, &ended] {
        assert_eq!(world.find(id), None);
    }
    assert_eq!(world.jobs(), []);
    assert_eq!((world.holder(digest), world.picture().keys), (None, Vec::new()));
    assert!(world.stats().jobs.is_empty());
    world.expire();
    assert_eq!(world.claim(10), []);
}

fn a_removed_job_writes_no_more(world: &World) {
    let claimed = world.start(doomed(keyed()));
    world.remove_queue("doomed");
    let before = world.picture();
    assert_eq!(world.complete(&claimed), WriteOutcome::NotFound);
    assert_eq!(
        world.extend(&claimed.job.id, claimed.fence),
        WriteOutcome::NotFound
    );
    assert_eq!(world.cancel(&claimed.job.id), ActOutcome::NotFound);
    assert_eq!(world.picture(), before);
}

fn a_removed_queue_frees_its_keys(world: &World) {
    let old = world.start(doomed(with(Dedup::explicit("k").hold(Hold::forever()))));
    world.remove_queue("doomed");
    let successor = world.accepted(keyed());
    assert_ne!(successor, old.job.id);
    assert_eq!(world.complete(&old), WriteOutcome::NotFound);
    world.upkeep();
    assert_eq!(world.duplicate(keyed()), successor);
}

fn a_removed_queue_leaves_other_queues_alone(world: &World) {
    let stays = world.accepted(keyed());
    let running = world.start(into_queue("busy", plain()));
    let before = (world.job(&stays), world.job(&running.job.id));
    world.accepted(doomed(plain()));
    assert_eq!(world.remove_queue("doomed"), 1);
    assert_eq!(world.remove_queue("doomed"), 0);
    world.upkeep();
    assert_eq!((world.job(&stays), world.job(&running.job.id)), before);
    assert_eq!(world.complete(&running), WriteOutcome::Ok(State::Complete));
    assert_eq!(world.duplicate(keyed()), stays);
}

fn totals_outlive_a_removed_queue(world: &World) {
    let claimed = world.start(doomed(plain()));
    world.complete(&claimed);
    world.accepted(doomed(keyed()));
    world.duplicate(doomed(keyed()));
    let counts = world.counts();
    world.remove_queue("doomed");
    world.upkeep();
    assert_eq!(world.counts(), counts);
    assert_eq!(
        (counts.get(Counter::Accepted), counts.get(Counter::Duplicate)),
        (2, 1)
    );
}

fn a_removed_queue_can_be_used_again(world: &World) {
    let submission = doomed(keyed());
    world.accepted(submission.clone());
    world.remove_queue("doomed");
    let id = world.accepted(submission);
    world.upkeep();
    assert_eq!(world.state(&id), State::Queued);
    assert_eq!(world.duplicate(doomed(keyed())), id);
    assert_eq!(world.claimed_ids(), [id]);
}

fn a_removal_survives_a_crash(world: &World) {
    let id = world.accepted(doomed(keyed()));
    world.remove_queue("doomed");
    world.crash();
    assert_eq!((world.find(&id), world.claim(10)), (None, Vec::new()));
    world.accepted(keyed());
}
