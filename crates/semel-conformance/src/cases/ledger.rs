//! The ledger: who blocked me, whom did I block (contract 2.12).

use semel_core::counters::Counter;
use semel_core::dedup::{Dedup, OnDuplicate, OnMismatch, Scope};
use semel_core::job::{Outcome, State};
use semel_core::limits;
use semel_core::store::{LedgerFilter, Page};
use semel_core::submission::Submission;
use semel_core::time::Millis;
use semel_core::view::LedgerEntry;

use super::list::cases;
use crate::kit::{
    World, again, into_queue, json, latest, name, numbered, plain, refused, secs, with, with_input,
};

cases![
    "2.12" => an_absorbed_submission_leaves_a_record,
    "2.12" => the_ledger_tells_who_blocked_me_and_whom_i_blocked,
    "2.12" => every_way_of_being_absorbed_is_recorded_with_its_outcome,
    "2.12" => a_submission_that_became_a_job_leaves_no_record,
    "2.12" => an_equal_input_leaves_neither_pointers_nor_a_copy,
    "2.12" => a_different_input_is_kept_and_can_be_submitted_again,
    "2.12" => a_large_input_is_not_kept_but_its_pointers_are,
    "2.12" => a_replacement_is_compared_with_what_it_replaced,
    "2.12" => the_record_names_the_task_and_queue_that_were_asked_for,
    "2.12" => a_follower_is_the_holder_of_what_it_took_in,
    "2.12" => recording_a_duplicate_never_touches_the_job,
    "2.12" => the_ledger_is_read_in_pages_newest_first,
    "2.12" => pages_stay_true_while_the_ledger_grows,
    "2.12" => a_cursor_of_another_ledger_query_is_refused,
    "2.12" => the_ledger_survives_a_crash,
    "2.12" => totals_stay_exact_when_a_busy_key_is_folded,
    "2.12" => old_records_go_and_totals_stay,
    "2.12" => a_key_taken_again_goes_on_counting,
];

fn ignoring() -> Dedup {
    Dedup::explicit("k").on_mismatch(OnMismatch::Ignore)
}

fn all(world: &World) -> Vec<LedgerEntry> {
    world.ledger(LedgerFilter::default())
}

fn an_absorbed_submission_leaves_a_record(world: &World) {
    let id = world.accepted(with(Dedup::explicit("k")));
    world.pass(secs(5));
    world.duplicate(Submission {
        producer: Some(name("shop")),
        ..with(Dedup::explicit("k"))
    });
    let entries = all(world);
    assert_eq!(entries.len(), 1);
    let entry = &entries[0];
    assert_eq!(
        (entry.at, entry.outcome, &entry.holder),
        (world.now(), Outcome::Duplicate, &id)
    );
    assert_eq!(
        (entry.digest, entry.policy.as_str()),
        (world.digest(&id), "use_existing")
    );
    assert_eq!((entry.task.as_str(), entry.queue.as_str()), ("work", "default"));
    assert_eq!(entry.producer, Some(name("shop")));
}

/// Elsewhere a duplicate got nothing back, and nobody could learn what it had collided with.
fn the_ledger_tells_who_blocked_me_and_whom_i_blocked(world: &World) {
    let (a, b) = (
        world.accepted(with(Dedup::explicit("a"))),
        world.accepted(with(Dedup::explicit("b"))),
    );
    for text in ["a", "b", "a"] {
        world.submit(with(Dedup::explicit(text)));
    }
    let blocked_by = |id| {
        world.ledger(LedgerFilter {
            holder: Some(id),
            ..LedgerFilter::default()
        })
    };
    assert_eq!((blocked_by(a.clone()).len(), blocked_by(b.clone()).len()), (2, 1));
    let of_key = world.ledger(LedgerFilter {
        digest: Some(world.digest(&b)),
        ..LedgerFilter::default()
    });
    assert_eq!((of_key.len(), &of_key[0].holder), (1, &b));
    let neither = LedgerFilter {
        digest: Some(world.digest(&a)),
        holder: Some(b),
    };
    assert_eq!(world.ledger(neither), []);
}

fn every_way_of_being_absorbed_is_recorded_with_its_outcome(world: &World) {
    let on = |on| Dedup::explicit("k").on_duplicate(on);
    world.accepted(latest(1));
    world.submit(numbered(on(OnDuplicate::UseExisting), 1));
    world.submit(numbered(on(OnDuplicate::UseExisting), 2));
    world.submit(numbered(on(OnDuplicate::Reject), 1));
    world.submit(numbered(on(OnDuplicate::Replace), 2));
    world.submit(numbered(Dedup::explicit("k").debounce(secs(1), None), 3));
    world.pass(secs(1));
    world.claim_one();
    world.submit(latest(4));
    let told: Vec<_> = all(world)
        .into_iter()
        .rev()
        .map(|entry| (entry.outcome, entry.policy))
        .collect();
    let expected = [
        (Outcome::Duplicate, "use_existing"),
        (Outcome::Conflict, "use_existing"),
        (Outcome::Rejected, "reject"),
        (Outcome::Replaced, "replace"),
        (Outcome::Debounced, "debounce"),
        (Outcome::Deferred, "latest"),
    ];
    assert_eq!(
        told,
        expected.map(|(outcome, policy)| (outcome, policy.to_owned()))
    );
}

fn a_submission_that_became_a_job_leaves_no_record(world: &World) {
    world.accepted(plain());
    world.accepted(with(Dedup::explicit("k")));
    world.accepted(with(Dedup::explicit("k").observe()));
    world.nonsense(with(Dedup::explicit("")));
    assert_eq!(all(world), []);
}

fn an_equal_input_leaves_neither_pointers_nor_a_copy(world: &World) {
    world.accepted(with_input(Dedup::explicit("k"), r#"{"a":1}"#));
    world.submit(with_input(Dedup::explicit("k"), r#"{ "a": 1.0 }"#));
    let entry = all(world).remove(0);
    assert_eq!((entry.differs, entry.input), (Vec::new(), None));
}

fn a_different_input_is_kept_and_can_be_submitted_again(world: &World) {
    let id = world.accepted(with_input(ignoring(), r#"{"a":1,"b":{"c":2}}"#));
    assert_eq!(
        world.duplicate(with_input(ignoring(), r#"{"a":1,"b":{"c":3}}"#)),
        id
    );
    let entry = all(world).remove(0);
    assert_eq!(entry.differs, ["/b/c"]);
    let input = entry.input.expect("a copy");
    assert_eq!(input, json(r#"{"a":1,"b":{"c":3}}"#));
    world.cancel(&id);
    world.accepted(with_input(ignoring(), input.as_str()));
}

fn a_large_input_is_not_kept_but_its_pointers_are(world: &World) {
    let sized = |bytes: usize| {
        let frame = r#"{"text":""}"#.len();
        with_input(
            ignoring(),
            &format!(r#"{{"text":"{}"}}"#, "x".repeat(bytes - frame)),
        )
    };
    world.accepted(sized(20));
    world.duplicate(sized(limits::LEDGER_INPUT_BYTES));
    world.duplicate(sized(limits::LEDGER_INPUT_BYTES + 1));
    let entries = all(world);
    assert_eq!(
        (&entries[0].input, &entries[0].differs),
        (&None, &vec!["/text".to_owned()])
    );
    assert!(entries[1].input.is_some());
}

fn a_replacement_is_compared_with_what_it_replaced(world: &World) {
    let replace = |input| with_input(Dedup::explicit("k").on_duplicate(OnDuplicate::Replace), input);
    world.accepted(replace(r#"{"a":1,"b":1}"#));
    world.submit(replace(r#"{"a":2,"b":1}"#));
    world.submit(replace(r#"{"a":2,"b":2}"#));
    world.submit(replace(r#"{"a":2,"b":2}"#));
    let differs: Vec<_> = all(world).into_iter().rev().map(|entry| entry.differs).collect();
    assert_eq!(differs, [vec!["/a"], vec!["/b"], Vec::new()]);
}

fn the_record_names_the_task_and_queue_that_were_asked_for(world: &World) {
    let everywhere = || ignoring().scope(Scope::Global);
    let id = world.accepted(with(everywhere()));
    let other = into_queue(
        "elsewhere",
        Submission {
            task: name("other"),
            ..with(everywhere())
        },
    );
    assert_eq!(world.duplicate(other), id);
    let entry = all(world).remove(0);
    assert_eq!(
        (entry.task.as_str(), entry.queue.as_str(), entry.holder),
        ("other", "elsewhere", id)
    );
}

fn a_follower_is_the_holder_of_what_it_took_in(world: &World) {
    let latest = |input| with_input(Dedup::explicit("k").latest(), input);
    let claimed = world.start(latest(r#"{"a":1,"b":1}"#));
    let follower = world.answered(latest(r#"{"a":2,"b":1}"#), Outcome::Deferred);
    world.answered(latest(r#"{"a":2,"b":2}"#), Outcome::Deferred);
    let [newest, oldest] = &all(world)[..] else {
        panic!("two records")
    };
    assert_eq!(
        (newest.outcome, oldest.outcome),
        (Outcome::Deferred, Outcome::Deferred)
    );
    assert_eq!((&newest.holder, &oldest.holder), (&follower, &claimed.job.id));
    assert_eq!(
        (&newest.differs[..], &oldest.differs[..]),
        (&["/b".to_owned()][..], &["/a".to_owned()][..])
    );
    assert_eq!(world.key(world.digest(&claimed.job.id)).absorbed, 2);
}

/// Elsewhere recording a duplicate rewrote the status of the job, and turned `succeeded` back.
fn recording_a_duplicate_never_touches_the_job(world: &World) {
    let claimed = world.start(with(Dedup::idempotency_key("k")));
    world.duplicate(with(Dedup::idempotency_key("k")));
    world.complete(&claimed);
    let ended = world.job(&claimed.job.id);
    assert_eq!(ended.state, State::Complete);
    for _ in 0..3 {
        world.pass(secs(1));
        world.duplicate(with(Dedup::idempotency_key("k")));
        assert_eq!(world.job(&claimed.job.id), ended);
    }
}

/// Twenty-five absorbed submissions of one key, and the key's filter.
fn busy(world: &World) -> LedgerFilter {
    let id = world.accepted(with(Dedup::explicit("k")));
    world.submit_all((0..25).map(|_| with(Dedup::explicit("k"))).collect());
    LedgerFilter {
        digest: Some(world.digest(&id)),
        ..LedgerFilter::default()
    }
}

fn the_ledger_is_read_in_pages_newest_first(world: &World) {
    let filter = busy(world);
    let whole = world.ledger(filter.clone());
    assert_eq!(whole.len(), 25);
    assert!(whole.windows(2).all(|pair| pair[0].n > pair[1].n), "newest first");
    let small = world.pages(10, |page| world.block(world.store().ledger(filter.clone(), page)));
    assert_eq!(small, whole);
    let by_holder = LedgerFilter {
        holder: Some(whole[0].holder.clone()),
        ..LedgerFilter::default()
    };
    assert_eq!(
        world.pages(7, |page| world
            .block(world.store().ledger(by_holder.clone(), page))),
        whole
    );
}

fn pages_stay_true_while_the_ledger_grows(world: &World) {
    let filter = busy(world);
    let whole = world.ledger(filter.clone());
    let growing = world.pages(10, |page| {
        let listing = world.block(world.store().ledger(filter.clone(), page));
        world.duplicate(with(Dedup::explicit("k")));
        listing
    });
    assert_eq!(growing, whole, "neither twice nor left out");
}

fn a_cursor_of_another_ledger_query_is_refused(world: &World) {
    let filter = busy(world);
    let store = world.store();
    let page = world
        .block(store.ledger(filter, Page::first(10)))
        .expect("the store answers");
    let cursor = page.next_cursor.expect("there is more");
    refused(world.block(store.ledger(LedgerFilter::default(), Page::after(cursor, 10))));
}

fn the_ledger_survives_a_crash(world: &World) {
    let id = world.accepted(numbered(ignoring(), 1));
    world.duplicate(Submission {
        producer: Some(name("shop")),
        ..numbered(ignoring(), 2)
    });
    let before = all(world);
    world.crash();
    assert_eq!(all(world), before);
    world.duplicate(numbered(ignoring(), 3));
    let after = all(world);
    assert_eq!(after[1..], before);
    assert!(after[0].n > before[0].n);
    assert_eq!(world.key(world.digest(&id)).absorbed, 2);
}

fn totals_stay_exact_when_a_busy_key_is_folded(world: &World) {
    let id = world.accepted(with(Dedup::explicit("k")));
    let other = world.accepted(with(Dedup::explicit("other")));
    world.duplicate(with(Dedup::explicit("other")));
    for _ in 0..3 {
        world.submit_all((0..500).map(|_| with(Dedup::explicit("k"))).collect());
    }
    world.upkeep();
    let filter = LedgerFilter {
        digest: Some(world.digest(&id)),
        ..LedgerFilter::default()
    };
    assert_eq!(world.ledger(filter).len(), limits::LEDGER_PER_KEY);
    assert_eq!(world.key(world.digest(&id)).absorbed, 1_500);
    assert_eq!(world.key(world.digest(&other)).absorbed, 1);
    assert_eq!(
        (all(world).len(), world.count(Counter::Duplicate)),
        (limits::LEDGER_PER_KEY + 1, 1_501)
    );
    world.duplicate(with(Dedup::explicit("k")));
    assert_eq!(
        world.key(world.digest(&id)).absorbed,
        1_501,
        "and go on from there"
    );
}

fn old_records_go_and_totals_stay(world: &World) {
    let id = world.accepted(with(Dedup::explicit("k")));
    world.duplicate(with(Dedup::explicit("k")));
    world.pass(Millis::from_days(29));
    world.duplicate(with(Dedup::explicit("k")));
    world.upkeep();
    assert_eq!(all(world).len(), 2);
    world.pass(Millis::from_days(1));
    world.upkeep();
    assert_eq!(all(world).len(), 1);
    assert_eq!(
        (
            world.key(world.digest(&id)).absorbed,
            world.count(Counter::Duplicate)
        ),
        (2, 2)
    );
}

fn a_key_taken_again_goes_on_counting(world: &World) {
    let submission = with(Dedup::explicit("k"));
    let first = world.start(submission.clone());
    world.duplicate(again(&submission));
    world.complete(&first);
    let second = world.accepted(again(&submission));
    assert_eq!(world.duplicate(again(&submission)), second);
    assert_eq!(world.key(world.digest(&second)).absorbed, 2);
    let holders: Vec<_> = all(world).into_iter().map(|entry| entry.holder).collect();
    assert_eq!(holders, [second, first.job.id]);
}
