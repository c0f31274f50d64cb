//! Mismatches: an equal key that means something else (contract 2.6).

use semel_core::counters::Counter;
use semel_core::dedup::{Dedup, Hold, OnDuplicate, OnMismatch, Scope};
use semel_core::ids::JobId;
use semel_core::job::Outcome;
use semel_core::store::Submitted;
use semel_core::submission::{RunAt, Submission};
use semel_core::time::Millis;

use super::list::cases;
use crate::kit::{World, into_queue, json, name, numbered, secs, with, with_input};

cases![
    "2.6" => an_explicit_key_with_another_input_is_a_conflict,
    "2.6" => a_conflict_names_pointers_and_never_values,
    "2.6" => a_conflict_names_a_bounded_number_of_pointers,
    "2.6" => a_mismatch_is_judged_before_the_rejection,
    "2.6" => a_mismatch_is_judged_wherever_the_holder_stands,
    "2.6" => an_input_that_is_only_spelt_otherwise_is_no_conflict,
    "2.6" => a_mismatch_can_be_ignored,
    "2.6" => priority_time_queue_headers_and_metadata_never_mismatch,
    "2.6" => another_input_is_no_mismatch_for_keys_of_fields,
    "2.6" => another_task_is_a_conflict_for_every_policy,
    "2.6" => content_made_for_one_task_is_never_handed_to_another,
];

fn conflict(submitted: Submitted) -> (JobId, Vec<String>) {
    match submitted {
        Submitted::Conflict { holder, differs } => (holder.id, differs),
        other => panic!("expected a conflict, got {other:?}"),
    }
}

/// Elsewhere a key met again with another payload lost that payload in silence.
fn an_explicit_key_with_another_input_is_a_conflict(world: &World) {
    let id = world.accepted(with_input(Dedup::explicit("k"), r#"{"amount":10,"to":"a"}"#));
    let submitted = world.submit(with_input(Dedup::explicit("k"), r#"{"amount":20,"to":"a"}"#));
    assert_eq!(conflict(submitted), (id.clone(), vec!["/amount".to_owned()]));
    assert_eq!(world.job(&id).input, json(r#"{"amount":10,"to":"a"}"#));
    let counts = world.counts();
    assert_eq!((counts.get(Counter::Conflicts), counts.duplicates()), (1, 0));
}

fn a_conflict_names_pointers_and_never_values(world: &World) {
    world.accepted(with_input(
        Dedup::explicit("k"),
        r#"{"a/b":"hush-1","list":[1,{"x":"hush-2"}],"gone":"hush-3"}"#,
    ));
    let other = r#"{"a/b":"hush-4","list":[1,{"x":"hush-5"},"hush-6"],"new":"hush-7"}"#;
    let submitted = world.submit(with_input(Dedup::explicit("k"), other));
    assert!(!format!("{submitted:?}").contains("hush"), "{submitted:?}");
    let mut differs = conflict(submitted).1;
    differs.sort();
    assert_eq!(differs, ["/a~1b", "/gone", "/list/1/x", "/list/2", "/new"]);
}

fn a_conflict_names_a_bounded_number_of_pointers(world: &World) {
    let wide = |n: u32| {
        let members: Vec<String> = (0..50).map(|at| format!(r#""m{at:02}":{n}"#)).collect();
        with_input(Dedup::explicit("k"), &format!("{{{}}}", members.join(",")))
    };
    world.accepted(wide(1));
    let differs = conflict(world.submit(wide(2))).1;
    assert_eq!((differs.len(), differs[0].as_str()), (20, "/m00"));
}

fn a_mismatch_is_judged_before_the_rejection(world: &World) {
    let id = world.accepted(numbered(Dedup::exclusive("k"), 1));
    assert_eq!(conflict(world.submit(numbered(Dedup::exclusive("k"), 2))).0, id);
    assert_eq!(
        world.answered(numbered(Dedup::exclusive("k"), 1), Outcome::Rejected),
        id
    );
    assert_eq!(
        (world.count(Counter::Conflicts), world.count(Counter::Rejected)),
        (1, 1)
    );
}

fn a_mismatch_is_judged_wherever_the_holder_stands(world: &World) {
    let window = || Dedup::explicit("k").hold(Hold::window(Millis::from_days(1)));
    let held = |task, n| Submission {
        task: name(task),
        ..numbered(window(), n)
    };
    world.accepted(held("waiting", 1));
    world.start(held("running", 1));
    world.complete(&world.start(held("ended", 1)));
    for task in ["waiting", "running", "ended"] {
        let (id, differs) = conflict(world.submit(held(task, 2)));
        assert_eq!(
            (world.job(&id).task, differs),
            (name(task), vec!["/n".to_owned()])
        );
    }
}

fn an_input_that_is_only_spelt_otherwise_is_no_conflict(world: &World) {
    let id = world.accepted(with_input(Dedup::explicit("k"), r#"{"a":1,"b":[2.50]}"#));
    assert_eq!(
        world.duplicate(with_input(Dedup::explicit("k"), r#"{ "b": [25e-1], "a": 1.0 }"#)),
        id
    );
}

fn a_mismatch_can_be_ignored(world: &World) {
    let ignoring = |on| {
        Dedup::explicit("k")
            .on_duplicate(on)
            .on_mismatch(OnMismatch::Ignore)
    };
    let id = world.accepted(numbered(Dedup::explicit("k"), 1));
    assert_eq!(
        world.duplicate(numbered(ignoring(OnDuplicate::UseExisting), 2)),
        id
    );
    assert_eq!(
        world.answered(numbered(ignoring(OnDuplicate::Reject), 2), Outcome::Rejected),
        id
    );
    assert_eq!(world.job(&id).input, json(r#"{"n":1}"#));
}

fn priority_time_queue_headers_and_metadata_never_mismatch(world: &World) {
    let id = world.accepted(with(Dedup::explicit("k")));
    let mut other = into_queue("elsewhere", with(Dedup::explicit("k")));
    other.content.headers.insert("trace".to_owned(), "2".to_owned());
    other.content.meta = Some(json(r#"{"by":"anna"}"#));
    other.content.timeout = Some(secs(1));
    let other = Submission {
        priority: 50,
        run_at: RunAt::After(secs(60)),
        max_attempts: 1,
        ..other
    };
    assert_eq!(world.duplicate(other), id);
}

fn another_input_is_no_mismatch_for_keys_of_fields(world: &World) {
    let by_order = || Dedup::fields(["/order"]).expect("a pointer");
    let id = world.accepted(with_input(by_order(), r#"{"order":1,"at":1}"#));
    assert_eq!(
        world.duplicate(with_input(by_order(), r#"{"order":1,"at":2}"#)),
        id
    );
    let rejecting = by_order().on_duplicate(OnDuplicate::Reject);
    assert_eq!(
        world.answered(with_input(rejecting, r#"{"order":1,"at":3}"#), Outcome::Rejected),
        id
    );
}

fn every_policy() -> [Dedup; 5] {
    let by_order = || Dedup::fields(["/order"]).expect("a pointer").scope(Scope::Global);
    [
        by_order(),
        by_order().on_duplicate(OnDuplicate::Reject),
        by_order().on_duplicate(OnDuplicate::Replace),
        by_order().debounce(secs(5), None),
        by_order().latest(),
    ]
}

/// Elsewhere the task was not compared, and a caller was given a job that did something else.
fn another_task_is_a_conflict_for_every_policy(world: &World) {
    let id = world.accepted(with_input(every_policy()[0].clone(), r#"{"order":1}"#));
    let before = world.job(&id);
    for policy in every_policy() {
        let other = Submission {
            task: name("other"),
            ..with_input(policy, r#"{"order":1}"#)
        };
        assert_eq!(conflict(world.submit(other)), (id.clone(), Vec::new()));
    }
    assert_eq!(world.job(&id), before);
    assert_eq!(world.count(Counter::Conflicts), 5);
}

fn content_made_for_one_task_is_never_handed_to_another(world: &World) {
    let id = world.accepted(with_input(every_policy()[0].clone(), r#"{"order":1}"#));
    let outcomes = every_policy().map(|policy| {
        let ignoring = with_input(policy.on_mismatch(OnMismatch::Ignore), r#"{"order":1,"x":2}"#);
        world
            .submit(Submission {
                task: name("other"),
                ..ignoring
            })
            .outcome()
            .expect("an outcome")
    });
    use Outcome::{Conflict, Duplicate, Rejected};
    assert_eq!(outcomes, [Duplicate, Rejected, Conflict, Conflict, Conflict]);
    assert_eq!(
        (world.job(&id).input, world.jobs().len()),
        (json(r#"{"order":1}"#), 1)
    );
}
