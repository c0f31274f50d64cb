//! Lists of jobs, keys and absorbed submissions (contract 7.3, 2.12).

use std::collections::BTreeSet;

use semel_core::dedup::{Dedup, Hold, KeyBy, OnDuplicate, Scope};
use semel_core::ids::{Digest, JobId};
use semel_core::job::{Outcome, State};
use semel_core::lifecycle::Settle;
use semel_core::store::{ActOutcome, JobFilter, KeyFilter, LedgerFilter, Page};
use semel_core::submission::{RunAt, Submission};
use semel_core::time::Millis;

use super::list::cases;
use crate::kit::{World, done, held_by, latest, name, of, plain, refused, secs, with, with_input};

cases![
    "7.3" => a_held_key_is_listed_with_its_holder,
    "7.3" => keys_are_found_by_text,
    "7.3" => keys_are_found_by_scope,
    "7.3" => keys_are_found_by_task_and_by_job,
    "7.3" => everything_asked_of_a_key_has_to_hold,
    "7.3" => a_free_key_is_listed_only_when_asked_for,
    "7.3" => a_key_is_found_by_digest_also_after_it_is_free,
    "7.3" => a_key_says_when_it_will_be_free,
    "7.3" => the_keys_taken_last_come_first,
    "7.3" => keys_are_paged_without_loss_or_repeat,
    "7.3" => what_a_key_absorbed_is_counted,
    "7.3" => a_release_names_the_holder_it_means,
    "7.3" => a_released_key_goes_to_the_next_with_a_higher_generation,
    "7.3" => a_late_release_leaves_the_successor_its_key,
    "7.3" => a_released_job_goes_on_without_its_key,
    "7.3" => a_release_lets_the_follower_go,
    "7.3" => a_free_key_cannot_be_released,
    "7.3" => the_ledger_tells_who_was_blocked_and_by_whom,
    "7.3" => the_ledger_is_paged_without_loss_or_repeat,
    "7.3" => jobs_are_listed_newest_first,
    "7.3" => jobs_are_found_by_state,
    "7.3" => jobs_are_found_by_queue_and_by_task,
    "7.3" => jobs_are_found_by_key,
    "7.3" => a_follower_is_found_by_the_key_it_waits_for,
    "7.3" => jobs_are_found_by_their_last_error,
    "7.3" => jobs_are_found_by_the_time_of_their_admission,
    "7.3" => everything_asked_of_a_job_has_to_hold,
    "7.3" => jobs_are_paged_without_loss_or_repeat,
    "7.3" => pages_stay_whole_while_jobs_arrive,
    "7.3" => jobs_by_id_come_in_the_order_asked_for,
    "7.3" => a_cursor_of_another_query_is_refused,
];

fn a_held_key_is_listed_with_its_holder(world: &World) {
    let policy = Dedup::explicit("order-7").hold(Hold::window(secs(3_600)));
    let submission = Submission {
        queue: name("mails"),
        policy: policy.into(),
        ..of("send", "{}")
    };
    let taken_at = world.now();
    let admitted = world.admitted(submission);
    world.crash();
    let rows = world.keys(KeyFilter::default());
    assert_eq!(rows.len(), 1);
    let (row, key) = (&rows[0], &rows[0].key);
    assert_eq!(
        (Some(key.digest), key.text.as_deref()),
        (admitted.key, Some("order-7"))
    );
    assert_eq!(
        (key.scope.as_str(), key.by, key.held, key.observed),
        ("task", KeyBy::Explicit, true, false)
    );
    assert_eq!(
        (key.taken_at, key.expires_at),
        (taken_at, Some(taken_at.plus(secs(3_600))))
    );
    assert_eq!(
        (&row.holder, &row.queue, row.absorbed),
        (&admitted.job, &name("mails"), 0)
    );
    assert_eq!(world.key(key.digest), *row);
}

fn keys_are_found_by_text(world: &World) {
    for text in ["order-1", "order-2", "refund-1"] {
        world.accepted(with(Dedup::explicit(text)));
    }
    world.accepted(with(Dedup::unique()));
    assert_eq!(
        texts(
            world,
            KeyFilter {
                text: Some("order".into()),
                ..any()
            }
        ),
        ["order-1", "order-2"]
    );
    assert_eq!(
        texts(
            world,
            KeyFilter {
                text: Some("-1".into()),
                ..any()
            }
        ),
        ["order-1", "refund-1"]
    );
    assert!(
        texts(
            world,
            KeyFilter {
                text: Some("nothing".into()),
                ..any()
            }
        )
        .is_empty()
    );
}

fn keys_are_found_by_scope(world: &World) {
    let scopes = [
        Scope::Task,
        Scope::Queue,
        Scope::Global,
        Scope::Custom(name("eu")),
        Scope::Custom(name("us")),
    ];
    for (n, scope) in scopes.into_iter().enumerate() {
        world.accepted(with(Dedup::explicit(format!("k{n}")).scope(scope)));
    }
    for (n, scope) in ["task", "queue", "global", "custom:eu", "custom:us"]
        .into_iter()
        .enumerate()
    {
        assert_eq!(
            texts(
                world,
                KeyFilter {
                    scope: Some(scope.into()),
                    ..any()
                }
            ),
            [format!("k{n}")]
        );
    }
}

fn keys_are_found_by_task_and_by_job(world: &World) {
    let keyed = |task, text| Submission {
        policy: Dedup::explicit(text).into(),
        ..of(task, "{}")
    };
    let send = world.accepted(keyed("send", "a"));
    world.accepted(keyed("send", "b"));
    world.accepted(keyed("scale", "c"));
    assert_eq!(
        texts(
            world,
            KeyFilter {
                task: Some(name("send")),
                ..any()
            }
        ),
        ["a", "b"]
    );
    assert_eq!(
        texts(
            world,
            KeyFilter {
                job: Some(send),
                ..any()
            }
        ),
        ["a"]
    );
    let nobody = JobId::new("nobody").expect("an id");
    assert!(
        texts(
            world,
            KeyFilter {
                job: Some(nobody),
                ..any()
            }
        )
        .is_empty()
    );
}

fn everything_asked_of_a_key_has_to_hold(world: &World) {
    for (text, scope) in [
        ("order-1", Scope::Global),
        ("order-2", Scope::Task),
        ("refund", Scope::Global),
    ] {
        world.accepted(with(Dedup::explicit(text).scope(scope)));
    }
    let both = KeyFilter {
        text: Some("order".into()),
        scope: Some("global".into()),
        ..any()
    };
    assert_eq!(texts(world, both.clone()), ["order-1"]);
    assert!(
        texts(
            world,
            KeyFilter {
                task: Some(name("unheard of")),
                ..both
            }
        )
        .is_empty()
    );
}

fn a_free_key_is_listed_only_when_asked_for(world: &World) {
    world.completed(with(Dedup::explicit("free")));
    world.pass(A_MOMENT);
    world.accepted(with(
        Dedup::explicit("lapsed").hold(Hold::until_started().ttl(secs(1))),
    ));
    world.pass(A_MOMENT);
    world.accepted(with(Dedup::explicit("held")));
    world.pass(secs(1));
    assert_eq!(texts(world, any()), ["held"]);
    let all = KeyFilter {
        also_free: true,
        ..any()
    };
    assert_eq!(texts(world, all.clone()), ["free", "held", "lapsed"]);
    let held: Vec<bool> = world.keys(all).iter().map(|row| row.key.held).collect();
    assert_eq!(held, [true, false, false]);
}

fn a_key_is_found_by_digest_also_after_it_is_free(world: &World) {
    let first = world.completed(with(Dedup::explicit("k")));
    let digest = digest_of(world, &first);
    let row = world.key(digest);
    assert_eq!(
        (&row.holder.id, row.holder.state, row.key.held),
        (&first, State::Complete, false)
    );
    let second = world.accepted(with(Dedup::explicit("k")));
    let row = world.key(digest);
    assert_eq!((&row.holder.id, row.key.held), (&second, true));
    world.cancel(&second);
    assert_eq!(
        world.key(digest).holder.id,
        second,
        "the last holder, not the first"
    );
    let nobody = Digest::from_bytes([7; 32]);
    assert_eq!(
        world.block(world.store().key(nobody)).expect("the store answers"),
        None
    );
}

fn a_key_says_when_it_will_be_free(world: &World) {
    let start = world.now();
    let hour = secs(3_600);
    let holds = [
        (Hold::until_finished(), None, None),
        (
            Hold::until_finished().cool_down(hour),
            None,
            Some(start.plus(hour)),
        ),
        (Hold::window(hour), None, Some(start.plus(hour))),
        (Hold::forever(), None, None),
    ];
    for (n, (hold, while_running, after)) in holds.into_iter().enumerate() {
        let claimed = world.started(with(Dedup::explicit(format!("k{n}")).hold(hold)));
        let digest = claimed.job.key.as_ref().expect("a key").digest;
        assert_eq!(world.key(digest).free_at, while_running, "{hold:?} while it runs");
        world.complete(&claimed);
        assert_eq!(world.key(digest).free_at, after, "{hold:?} after the end");
    }
}

fn the_keys_taken_last_come_first(world: &World) {
    for text in ["b", "c", "a"] {
        world.accepted(with(Dedup::explicit(text)));
        world.pass(A_MOMENT);
    }
    let rows = world.keys(any());
    let texts: Vec<_> = rows.iter().filter_map(|row| row.key.text.as_deref()).collect();
    assert_eq!(texts, ["a", "c", "b"]);
}

fn keys_are_paged_without_loss_or_repeat(world: &World) {
    let batch: Vec<_> = (0..25).map(|n| with(Dedup::explicit(format!("k{n}")))).collect();
    world.submit_all(batch);
    let rows = world.pages(4, |page| world.block(world.store().keys(any(), page)));
    let distinct: BTreeSet<_> = rows.iter().map(|row| row.key.digest).collect();
    assert_eq!((rows.len(), distinct.len()), (25, 25));
    let filter = KeyFilter {
        text: Some("k1".into()),
        ..any()
    };
    assert_eq!(
        world
            .pages(4, |page| world.block(world.store().keys(filter.clone(), page)))
            .len(),
        11
    );
}

fn what_a_key_absorbed_is_counted(world: &World) {
    let id = world.accepted(with(Dedup::explicit("k")));
    let digest = digest_of(world, &id);
    (0..3).for_each(|_| drop(world.submit(with(Dedup::explicit("k")))));
    world.submit(with_input(Dedup::explicit("k"), "1"));
    world.submit(with(Dedup::exclusive("k")));
    world.submit(with(Dedup::explicit("other")));
    assert_eq!(world.key(digest).absorbed, 5);
    world.cancel(&id);
    world.accepted(with(Dedup::explicit("k")));
    world.submit(with(Dedup::explicit("k")));
    assert_eq!(
        world.key(digest).absorbed,
        6,
        "the key goes on counting under its next holder"
    );
}

fn a_release_names_the_holder_it_means(world: &World) {
    let holder = world.accepted(with(Dedup::explicit("k")));
    let other = world.accepted(plain());
    let digest = digest_of(world, &holder);
    assert_eq!(held_by(world.release(digest, &other)).id, holder);
    assert!(world.key(digest).key.held);
    assert_eq!(world.release(digest, &holder), done(&holder, State::Queued));
    world.crash();
    assert!(!world.key(digest).key.held);
}

fn a_released_key_goes_to_the_next_with_a_higher_generation(world: &World) {
    let policy = || with(Dedup::explicit("k").hold(Hold::forever()));
    let first = world.completed(policy());
    let row = world.key(digest_of(world, &first));
    assert_eq!(
        world.release(row.key.digest, &first),
        done(&first, State::Complete)
    );
    let second = world.accepted(policy());
    let next = world.key(row.key.digest);
    assert_eq!(next.holder.id, second);
    assert!(next.key.generation > row.key.generation);
}

/// A key was released without a look at its owner, and a stranger's job lost it.
fn a_late_release_leaves_the_successor_its_key(world: &World) {
    let first = world.completed(with(Dedup::explicit("k")));
    let digest = digest_of(world, &first);
    let second = world.accepted(with(Dedup::explicit("k")));
    assert_eq!(held_by(world.release(digest, &first)).id, second);
    let third = world.admitted(with(Dedup::explicit("k")));
    assert_eq!((third.outcome, third.job.id), (Outcome::Duplicate, second));
}

fn a_released_job_goes_on_without_its_key(world: &World) {
    let first = world.started(with(Dedup::explicit("k")));
    world.release(digest_of(world, &first.job.id), &first.job.id);
    let second = world.accepted(with(Dedup::explicit("k")));
    world.complete(&first);
    assert_eq!(world.state(&first.job.id), State::Complete);
    assert_eq!(world.admitted(with(Dedup::explicit("k"))).job.id, second);
}

fn a_release_lets_the_follower_go(world: &World) {
    let latest = || with(Dedup::explicit("k").latest());
    let running = world.started(latest()).job.id;
    let follower = world.admitted(latest()).job.id;
    let digest = digest_of(world, &running);
    assert_eq!(world.release(digest, &running), done(&running, State::Running));
    assert_eq!(
        (world.state(&follower), world.key(digest).holder.id),
        (State::Queued, follower)
    );
}

fn a_free_key_cannot_be_released(world: &World) {
    let id = world.completed(with(Dedup::explicit("k")));
    assert_eq!(world.release(digest_of(world, &id), &id), ActOutcome::NotFound);
    assert_eq!(
        world.release(Digest::from_bytes([7; 32]), &id),
        ActOutcome::NotFound
    );
}

fn the_ledger_tells_who_was_blocked_and_by_whom(world: &World) {
    let one = world.accepted(with(Dedup::explicit("one")));
    let two = world.accepted(with(Dedup::explicit("two")));
    let from = |policy: Dedup, producer| Submission {
        producer: Some(name(producer)),
        ..with(policy)
    };
    world.submit(from(Dedup::explicit("one"), "shop"));
    world.pass(secs(1));
    world.submit(from(Dedup::exclusive("two"), "desk"));
    world.submit(from(
        Dedup::explicit("one").on_duplicate(OnDuplicate::Replace),
        "cron",
    ));
    world.crash();
    let seen = |filter| -> Vec<_> {
        let entries = world.ledger(filter).into_iter();
        entries
            .map(|entry| (entry.outcome, entry.producer, entry.holder, entry.policy))
            .collect()
    };
    let replaced = (
        Outcome::Replaced,
        Some(name("cron")),
        one.clone(),
        "replace".to_owned(),
    );
    let rejected = (
        Outcome::Rejected,
        Some(name("desk")),
        two.clone(),
        "reject".to_owned(),
    );
    let duplicate = (
        Outcome::Duplicate,
        Some(name("shop")),
        one.clone(),
        "use_existing".to_owned(),
    );
    assert_eq!(
        seen(LedgerFilter::default()),
        [replaced.clone(), rejected.clone(), duplicate.clone()]
    );
    let of_key = LedgerFilter {
        digest: Some(digest_of(world, &one)),
        holder: None,
    };
    assert_eq!(seen(of_key), [replaced, duplicate]);
    assert_eq!(
        seen(LedgerFilter {
            digest: None,
            holder: Some(two)
        }),
        [rejected]
    );
}

fn the_ledger_is_paged_without_loss_or_repeat(world: &World) {
    let id = world.accepted(with(Dedup::explicit("k")));
    world.accepted(with(Dedup::explicit("other")));
    for _ in 0..23 {
        world.submit(with(Dedup::explicit("k")));
        world.submit(with(Dedup::explicit("other")));
    }
    let filter = LedgerFilter {
        digest: None,
        holder: Some(id),
    };
    let entries = world.pages(5, |page| world.block(world.store().ledger(filter.clone(), page)));
    assert_eq!(entries.len(), 23);
    assert!(
        entries.windows(2).all(|pair| pair[0].n > pair[1].n),
        "newest first"
    );
}

fn jobs_are_listed_newest_first(world: &World) {
    let mut ids: Vec<JobId> = (0..5).map(|_| world.accepted(plain())).collect();
    world.complete(&world.claim_one());
    ids.reverse();
    assert_eq!(world.ids(JobFilter::default()), ids);
}

fn jobs_are_found_by_state(world: &World) {
    let latest = || with(Dedup::explicit("l").latest());
    let complete = world.completed(plain());
    let failed = world.failed(plain(), "broke");
    let running = world.started(latest()).job.id;
    let deferred = world.admitted(latest()).job.id;
    let parked = world.started(plain());
    world.settle(&parked.job.id, parked.fence, Settle::Park { reason: "?".into() });
    let cancelled = world.accepted(plain());
    world.cancel(&cancelled);
    let queued = world.accepted(plain());
    let scheduled = world.accepted(Submission {
        run_at: RunAt::After(secs(5)),
        ..plain()
    });
    let by = |state| {
        world.ids(JobFilter {
            state: Some(state),
            ..JobFilter::default()
        })
    };
    let expected = [
        scheduled.clone(),
        queued.clone(),
        running,
        deferred,
        parked.job.id,
        complete,
        failed,
        cancelled,
    ];
    for (state, id) in State::ALL.into_iter().zip(expected) {
        assert_eq!(by(state), [id], "{state:?}");
    }
    world.pass(secs(5));
    assert_eq!(
        (by(State::Scheduled), by(State::Queued)),
        (vec![], vec![scheduled, queued])
    );
}

fn jobs_are_found_by_queue_and_by_task(world: &World) {
    let a = world.accepted(Submission {
        queue: name("mails"),
        ..of("send", "{}")
    });
    world.pass(A_MOMENT);
    let b = world.accepted(Submission {
        queue: name("mails"),
        ..of("check", "{}")
    });
    world.pass(A_MOMENT);
    let c = world.accepted(Submission {
        queue: name("images"),
        ..of("send", "{}")
    });
    let mails = JobFilter {
        queue: Some(name("mails")),
        ..JobFilter::default()
    };
    assert_eq!(world.ids(mails.clone()), [b, a.clone()]);
    let send = JobFilter {
        task: Some(name("send")),
        ..JobFilter::default()
    };
    assert_eq!(world.ids(send), [c, a.clone()]);
    assert_eq!(
        world.ids(JobFilter {
            task: Some(name("send")),
            ..mails
        }),
        [a]
    );
    assert!(
        world
            .ids(JobFilter {
                queue: Some(name("send")),
                ..JobFilter::default()
            })
            .is_empty()
    );
}

fn jobs_are_found_by_key(world: &World) {
    let first = world.completed(with(Dedup::explicit("k")));
    let second = world.accepted(with(Dedup::explicit("k")));
    world.accepted(with(Dedup::explicit("other")));
    let key = Some(digest_of(world, &first));
    assert_eq!(
        world.ids(JobFilter {
            key,
            ..JobFilter::default()
        }),
        [second, first],
        "held or not"
    );
}

/// Until it is cancelled: then it neither has the key nor waits for it.
fn a_follower_is_found_by_the_key_it_waits_for(world: &World) {
    let running = world.start(latest(1)).job.id;
    let follower = world.answered(latest(2), Outcome::Deferred);
    let key = Some(digest_of(world, &running));
    let of_key = || JobFilter {
        key,
        ..JobFilter::default()
    };
    assert_eq!(world.ids(of_key()), [follower.clone(), running.clone()]);
    assert_eq!(world.cancel(&follower), done(&follower, State::Cancelled));
    assert_eq!(world.ids(of_key()), [running], "it waits for it no more");
}

fn jobs_are_found_by_their_last_error(world: &World) {
    let again = |id: &JobId, fence, error: &str| {
        let delay = Some(Millis::from_days(1));
        world.settle(
            id,
            fence,
            Settle::Retry {
                error: error.into(),
                delay,
            },
        );
    };
    let first = world.started(plain());
    again(&first.job.id, first.fence, "timeout of the printer");
    world.pass(Millis::from_days(1));
    again(&first.job.id, world.claim_one().fence, "out of ink");
    let second = world.started(plain());
    again(&second.job.id, second.fence, "timeout of the disk");
    let by = |text: &str| {
        world.ids(JobFilter {
            error: Some(text.into()),
            ..JobFilter::default()
        })
    };
    assert_eq!(by("timeout"), std::slice::from_ref(&second.job.id));
    assert_eq!(by("of ink"), std::slice::from_ref(&first.job.id));
    assert_eq!(by("o"), [second.job.id, first.job.id]);
}

fn jobs_are_found_by_the_time_of_their_admission(world: &World) {
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(world.accepted(plain()));
        world.pass(secs(10));
    }
    let start = world.job(&ids[0]).enqueued_at;
    let (since, until) = (Some(start.plus(secs(10))), Some(start.plus(secs(30))));
    let between = JobFilter {
        since,
        until,
        ..JobFilter::default()
    };
    assert_eq!(
        world.ids(between),
        [ids[2].clone(), ids[1].clone()],
        "from, and up to but not at"
    );
    assert_eq!(
        world
            .ids(JobFilter {
                since,
                ..JobFilter::default()
            })
            .len(),
        3
    );
    assert_eq!(
        world
            .ids(JobFilter {
                until,
                ..JobFilter::default()
            })
            .len(),
        3
    );
}

fn everything_asked_of_a_job_has_to_hold(world: &World) {
    let in_lane = |queue, task| Submission {
        queue: name(queue),
        ..of(task, "{}")
    };
    let wanted = world.failed(in_lane("mails", "send"), "timeout");
    world.failed(in_lane("mails", "send"), "no such address");
    world.failed(in_lane("images", "send"), "timeout");
    world.failed(in_lane("mails", "check"), "timeout");
    let replayed = world.failed(in_lane("mails", "send"), "timeout");
    world.replayed(&replayed);
    let filter = JobFilter {
        state: Some(State::Failed),
        queue: Some(name("mails")),
        task: Some(name("send")),
        error: Some("time".into()),
        dead_letters: true,
        since: Some(world.now()),
        ..JobFilter::default()
    };
    assert_eq!(world.ids(filter.clone()), [wanted]);
    assert!(
        world
            .ids(JobFilter {
                state: Some(State::Complete),
                ..filter
            })
            .is_empty()
    );
}

/// What came at the same moment may be listed in any order where order holds per shard.
const A_MOMENT: Millis = Millis::new(1);

fn one_after_another(world: &World, batch: Vec<Submission>) -> Vec<semel_core::store::Submitted> {
    let submit = |submission| {
        world.pass(A_MOMENT);
        world.submit(submission)
    };
    batch.into_iter().map(submit).collect()
}

fn jobs_are_paged_without_loss_or_repeat(world: &World) {
    let lanes = ["a", "b", "c"].map(name);
    let batch = (0..100)
        .map(|n: usize| Submission {
            queue: lanes[n % 3].clone(),
            ..plain()
        })
        .collect();
    let answers = one_after_another(world, batch);
    let ids: Vec<JobId> = answers
        .iter()
        .rev()
        .filter_map(|answer| answer.id().cloned())
        .collect();
    for limit in [1, 7, 100, 500] {
        let jobs = world.pages(limit, |page| {
            world.block(world.store().jobs(JobFilter::default(), page))
        });
        assert_eq!(
            jobs.into_iter().map(|job| job.id).collect::<Vec<_>>(),
            ids,
            "by {limit}"
        );
    }
    let filter = JobFilter {
        queue: Some(name("b")),
        ..JobFilter::default()
    };
    let jobs = world.pages(4, |page| world.block(world.store().jobs(filter.clone(), page)));
    let expected: Vec<JobId> = ids.iter().rev().skip(1).step_by(3).cloned().rev().collect();
    assert_eq!(jobs.into_iter().map(|job| job.id).collect::<Vec<_>>(), expected);
}

fn pages_stay_whole_while_jobs_arrive(world: &World) {
    let ids: BTreeSet<JobId> = (0..10).map(|_| world.accepted(plain())).collect();
    let jobs = world.pages(3, |page| {
        world.accepted(plain());
        world.block(world.store().jobs(JobFilter::default(), page))
    });
    let mut seen: Vec<JobId> = jobs.into_iter().map(|job| job.id).collect();
    seen.retain(|id| ids.contains(id));
    assert_eq!((seen.len(), seen.into_iter().collect::<BTreeSet<_>>()), (10, ids));
}

fn jobs_by_id_come_in_the_order_asked_for(world: &World) {
    let (a, b) = (world.accepted(plain()), world.accepted(plain()));
    let nobody = JobId::new("nobody").expect("an id");
    let asked = [b.clone(), nobody, a.clone(), b.clone()];
    let jobs = world
        .block(world.store().jobs_by_id(&asked))
        .expect("the store answers");
    let ids: Vec<_> = jobs.into_iter().map(|job| job.map(|job| job.id)).collect();
    assert_eq!(ids, [Some(b.clone()), None, Some(a), Some(b)]);
}

fn a_cursor_of_another_query_is_refused(world: &World) {
    world.submit_all((0..5).map(|n| with(Dedup::explicit(format!("k{n}")))).collect());
    let store = world.store();
    let first = world
        .block(store.jobs(JobFilter::default(), Page::first(2)))
        .expect("the store answers");
    let cursor = first.next_cursor.expect("there is more");
    let page = || Page::after(cursor.clone(), 2);
    assert!(world.block(store.jobs(JobFilter::default(), page())).is_ok());
    let others = [
        JobFilter {
            queue: Some(name("default")),
            ..JobFilter::default()
        },
        JobFilter {
            state: Some(State::Queued),
            ..JobFilter::default()
        },
        JobFilter {
            error: Some("x".into()),
            ..JobFilter::default()
        },
        JobFilter {
            dead_letters: true,
            ..JobFilter::default()
        },
        JobFilter {
            since: Some(world.now()),
            ..JobFilter::default()
        },
    ];
    for other in others {
        assert_eq!(refused(world.block(store.jobs(other, page()))).what, "cursor");
    }
    assert_eq!(refused(world.block(store.keys(any(), page()))).what, "cursor");
    assert_eq!(
        refused(world.block(store.ledger(LedgerFilter::default(), page()))).what,
        "cursor"
    );
    assert_eq!(refused(world.block(store.feed("audit", page()))).what, "cursor");
    assert_eq!(
        refused(world.block(store.documents(&name("note"), "", page()))).what,
        "cursor"
    );
}

fn any() -> KeyFilter {
    KeyFilter::default()
}

/// The texts of the keys that match, sorted.
fn texts(world: &World, filter: KeyFilter) -> Vec<String> {
    let mut texts: Vec<String> = world
        .keys(filter)
        .into_iter()
        .filter_map(|row| row.key.text)
        .collect();
    texts.sort();
    texts
}

fn digest_of(world: &World, id: &JobId) -> Digest {
    world.job(id).key.expect("a key").digest
}
