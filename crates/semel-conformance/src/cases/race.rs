//! Many at once: tasks, and processes where the store can be shared.

use std::collections::{BTreeMap, BTreeSet};

use semel_core::counters::Counter;
use semel_core::dedup::{Dedup, Hold};
use semel_core::ids::JobId;
use semel_core::job::State;
use semel_core::lifecycle::Settle;
use semel_core::store::{ClaimRequest, Settlement, Store, Submitted};
use semel_core::submission::Submission;

use super::list::cases;
use crate::kit::{World, claim_request, plain, secs, with};
use crate::race::{Answer, Arena, KeyHold, Order, PROCESSES, Team, storm};
use crate::rng::{Rng, number_from_environment, seed_from_environment};

cases![
    "2.8" => one_thousand_submissions_of_one_key_from_eight_processes_make_one_job,
    "1.5" => racing_claims_lease_every_job_exactly_once,
    "6.2" => of_cancel_and_settle_exactly_one_wins,
    "2.10" => of_many_releases_one_frees_the_key_and_at_most_one_submission_takes_it,
    "6.5" => of_replays_and_submissions_of_one_key_one_gets_it,
    "6.5" => replays_of_a_letter_that_keeps_its_key_move_it_once,
    "6.5" => many_replays_of_one_letter_make_one_job,
];

/// Things in dispute per case: enough that some are decided while others have not begun.
const ITEMS: usize = 40;

fn one_thousand_submissions_of_one_key_from_eight_processes_make_one_job(world: &World) {
    let rounds = number_from_environment("SEMEL_ROUNDS").unwrap_or(3);
    println!("storm: {}", storm(world, rounds));
}

fn racing_claims_lease_every_job_exactly_once(world: &World) {
    let arena = Arena::new(world);
    let mut team = Team::new(&arena, PROCESSES);
    let jobs: BTreeSet<JobId> = submit_all(&arena, (0..300).map(|_| plain()).collect())
        .into_iter()
        .collect();
    let answers = team.play(
        (0..PROCESSES)
            .map(|member| {
                vec![
                    Order::Claim {
                        item: member,
                        max: member % 3 + 1
                    };
                    2
                ]
            })
            .collect(),
    );
    let leased: BTreeSet<JobId> = answers.iter().map(|answer| id(&answer.id)).collect();
    assert_eq!(answers.len(), jobs.len(), "every lease is of another job");
    assert_eq!(leased, jobs);
    let stats = arena.block(arena.store.stats()).expect("the store answers");
    assert_eq!(stats.jobs.get(&State::Running), Some(&300));
    healthy(&arena);
}

fn of_cancel_and_settle_exactly_one_wins(world: &World) {
    let arena = Arena::new(world);
    let mut team = Team::new(&arena, PROCESSES);
    submit_all(&arena, (0..ITEMS).map(|_| plain()).collect());
    let leases = claim(&arena, ITEMS);
    let settles = leases
        .iter()
        .enumerate()
        .map(|(item, (id, fence))| Order::Settle {
            item,
            id: id.clone(),
            fence: *fence,
        });
    let cancels = leases
        .iter()
        .enumerate()
        .map(|(item, (id, _))| Order::Cancel { item, id: id.clone() });
    let answers = team.play(sides(settles.collect(), cancels.collect()));

    let mut ended = BTreeMap::new();
    for (item, answers) in by_item(answers) {
        let (id, _) = &leases[item];
        let state = state(&arena, id);
        let settled = words(&answers, "settle");
        let cancelled = words(&answers, "cancel");
        match state {
            State::Complete => {
                assert!(settled.iter().all(|word| word == "complete"), "{answers:?}");
                assert!(
                    cancelled.iter().all(|word| word == "wrong_complete"),
                    "{answers:?}"
                );
            }
            State::Cancelled => {
                assert!(
                    settled.iter().all(|word| word == "refused_cancelled"),
                    "{answers:?}"
                );
                assert_eq!(
                    cancelled.iter().filter(|word| *word == "done").count(),
                    1,
                    "{answers:?}"
                );
                assert!(
                    cancelled
                        .iter()
                        .all(|word| word == "done" || word == "wrong_cancelled"),
                    "{answers:?}"
                );
            }
            other => panic!("{id} is {other:?} after {answers:?}"),
        }
        *ended.entry(state).or_insert(0) += 1;
    }
    let counts = arena.block(arena.store.stats()).expect("the store answers").raw;
    let of = |state| ended.get(&state).copied().unwrap_or(0);
    assert_eq!(counts.get(Counter::Completed), of(State::Complete));
    assert_eq!(counts.get(Counter::Cancelled), of(State::Cancelled));
    let settles_per_job = i64::try_from(PROCESSES / 2).expect("small");
    assert_eq!(
        counts.get(Counter::StaleWrites),
        of(State::Cancelled) * settles_per_job
    );
    println!("cancel against settle: {ended:?}");
    healthy(&arena);
}

fn of_many_releases_one_frees_the_key_and_at_most_one_submission_takes_it(world: &World) {
    let arena = Arena::new(world);
    let mut team = Team::new(&arena, PROCESSES);
    let key = |item: usize| format!("release-{item}");
    let old = submit_all(
        &arena,
        (0..ITEMS)
            .map(|item| with(Dedup::explicit(key(item)).hold(Hold::forever())))
            .collect(),
    );
    end(&arena, ITEMS, &Settle::Complete { output: None });
    let digests: Vec<_> = old
        .iter()
        .map(|id| job(&arena, id).key.expect("submitted with a key").digest)
        .collect();
    let releases = (0..ITEMS).map(|item| Order::Release {
        item,
        digest: digests[item],
        holder: old[item].clone(),
    });
    let submits = (0..ITEMS).map(|item| Order::Submit {
        item,
        key: key(item),
        hold: KeyHold::Forever,
        times: 1,
    });
    let answers = team.play(sides(releases.collect(), submits.collect()));

    let mut taken = 0;
    for (item, answers) in by_item(answers) {
        let released = words(&answers, "release");
        assert_eq!(
            released.iter().filter(|word| *word == "done").count(),
            1,
            "{answers:?}"
        );
        let before = old[item].to_string();
        let fresh = only(&answers, "submit", "accepted");
        assert!(
            released
                .iter()
                .all(|word| matches!(word.as_str(), "done" | "not_found" | "held")),
            "{answers:?}"
        );
        let named: BTreeSet<&str> = answers
            .iter()
            .filter(|answer| answer.verb == "submit")
            .map(|answer| answer.id.as_str())
            .collect();
        assert!(
            named
                .iter()
                .all(|id| *id == before || Some(*id) == fresh.as_deref()),
            "{answers:?}"
        );
        let row = arena
            .block(arena.store.key(digests[item]))
            .expect("the store answers")
            .expect("its jobs exist");
        assert_eq!(row.key.held, fresh.is_some(), "{answers:?}");
        if let Some(fresh) = fresh {
            assert_eq!(row.holder.id.to_string(), fresh);
            taken += 1;
        }
    }
    println!("release against submit: {taken} of {ITEMS} keys taken again");
    healthy(&arena);
}

fn of_replays_and_submissions_of_one_key_one_gets_it(world: &World) {
    let arena = Arena::new(world);
    let mut team = Team::new(&arena, PROCESSES);
    let key = |item: usize| format!("replay-{item}");
    let letters = dead_letters(&arena, |item| Dedup::explicit(key(item)));
    let replays = letters
        .iter()
        .enumerate()
        .map(|(item, id)| Order::Replay { item, id: id.clone() });
    let submits = (0..ITEMS).map(|item| Order::Submit {
        item,
        key: key(item),
        hold: KeyHold::UntilFinished,
        times: 1,
    });
    let answers = team.play(sides(replays.collect(), submits.collect()));

    let mut replayed = 0;
    for (item, answers) in by_item(answers) {
        let by_replay = only(&answers, "replay", "done");
        let by_submission = only(&answers, "submit", "accepted");
        let winner = match (&by_replay, &by_submission) {
            (Some(id), None) | (None, Some(id)) => id.clone(),
            both => panic!("one of them gets the key, not {both:?}: {answers:?}"),
        };
        assert!(
            answers.iter().all(|answer| answer.id == winner),
            "all name {winner}: {answers:?}"
        );
        let lost = if by_replay.is_some() { "before" } else { "held" };
        assert!(
            words(&answers, "replay")
                .iter()
                .all(|word| word == "done" || word == lost),
            "{answers:?}"
        );
        let letter = job(&arena, &letters[item]);
        assert_eq!(
            letter.replayed_as.map(|id| id.to_string()),
            by_replay,
            "the letter is there unless it was replayed"
        );
        replayed += u64::from(lost == "before");
    }
    println!("replay against submit: {replayed} of {ITEMS} went to the replay");
    healthy(&arena);
}

fn replays_of_a_letter_that_keeps_its_key_move_it_once(world: &World) {
    let arena = Arena::new(world);
    let mut team = Team::new(&arena, PROCESSES);
    let key = |item: usize| format!("kept-{item}");
    let letters = dead_letters(&arena, |item| Dedup::explicit(key(item)).hold(Hold::forever()));
    let replays = letters
        .iter()
        .enumerate()
        .map(|(item, id)| Order::Replay { item, id: id.clone() });
    let submits = (0..ITEMS).map(|item| Order::Submit {
        item,
        key: key(item),
        hold: KeyHold::Forever,
        times: 1,
    });
    let answers = team.play(sides(replays.collect(), submits.collect()));

    for (item, answers) in by_item(answers) {
        let fresh =
            only(&answers, "replay", "done").unwrap_or_else(|| panic!("one replay is done: {answers:?}"));
        assert!(
            words(&answers, "replay")
                .iter()
                .all(|word| word == "done" || word == "before"),
            "{answers:?}"
        );
        let letter = letters[item].to_string();
        let holders = [&fresh, &letter];
        assert!(
            words(&answers, "submit").iter().all(|word| word == "duplicate"),
            "never free: {answers:?}"
        );
        assert!(
            answers.iter().all(|answer| holders.contains(&&answer.id)),
            "{answers:?}"
        );
    }
    healthy(&arena);
}

fn many_replays_of_one_letter_make_one_job(world: &World) {
    let arena = Arena::new(world);
    let mut team = Team::new(&arena, PROCESSES);
    submit_all(&arena, (0..ITEMS).map(|_| plain()).collect());
    let letters = end(
        &arena,
        ITEMS,
        &Settle::Fail {
            error: "no".to_owned(),
        },
    );
    let replays: Vec<Order> = letters
        .iter()
        .enumerate()
        .map(|(item, id)| Order::Replay { item, id: id.clone() })
        .collect();
    let answers = team.play(sides(replays.clone(), replays));
    for (_, answers) in by_item(answers) {
        let fresh = only(&answers, "replay", "done").unwrap_or_else(|| panic!("one is done: {answers:?}"));
        assert!(answers.iter().all(|answer| answer.id == fresh), "{answers:?}");
        assert_eq!(
            words(&answers, "replay")
                .iter()
                .filter(|word| *word == "before")
                .count(),
            PROCESSES - 1
        );
    }
    let counts = arena.block(arena.store.stats()).expect("the store answers").raw;
    assert_eq!(
        counts.get(Counter::Accepted),
        i64::try_from(2 * ITEMS).expect("small")
    );
    healthy(&arena);
}

/// Half of the members do one thing, half the other, each in its own order.
fn sides(ours: Vec<Order>, theirs: Vec<Order>) -> Vec<Vec<Order>> {
    let side = |member: usize| if member.is_multiple_of(2) { &ours } else { &theirs };
    (0..PROCESSES)
        .map(|member| shuffled(side(member), member))
        .collect()
}

fn shuffled(orders: &[Order], member: usize) -> Vec<Order> {
    let mut orders = orders.to_vec();
    Rng::new(seed_from_environment().unwrap_or(1) + member as u64).shuffle(&mut orders);
    orders
}

fn by_item(answers: Vec<Answer>) -> BTreeMap<usize, Vec<Answer>> {
    let mut items: BTreeMap<usize, Vec<Answer>> = BTreeMap::new();
    answers
        .into_iter()
        .for_each(|answer| items.entry(answer.item).or_default().push(answer));
    assert_eq!(items.len(), ITEMS, "every item was answered");
    items
}

fn words(answers: &[Answer], verb: &str) -> Vec<String> {
    answers
        .iter()
        .filter(|answer| answer.verb == verb)
        .map(|answer| answer.word.clone())
        .collect()
}

/// The one answer with this word, if there is one; two are a violation.
fn only(answers: &[Answer], verb: &str, word: &str) -> Option<String> {
    let mut found = answers
        .iter()
        .filter(|answer| answer.verb == verb && answer.word == word);
    let first = found.next().map(|answer| answer.id.clone());
    assert!(found.next().is_none(), "two {verb} are {word}: {answers:?}");
    first
}

fn id(text: &str) -> JobId {
    JobId::new(text).expect("an id")
}

fn job(arena: &Arena<'_>, id: &JobId) -> semel_core::view::Job {
    let found = arena
        .block(arena.store.jobs_by_id(std::slice::from_ref(id)))
        .expect("the store answers")
        .remove(0);
    found.unwrap_or_else(|| panic!("job {id} exists"))
}

fn state(arena: &Arena<'_>, id: &JobId) -> State {
    job(arena, id).state
}

fn submit_all(arena: &Arena<'_>, batch: Vec<Submission>) -> Vec<JobId> {
    let answers = arena.block(arena.store.submit(batch)).expect("the store answers");
    answers.iter().map(|answer| accepted(answer).clone()).collect()
}

fn accepted(answer: &Submitted) -> &JobId {
    assert_eq!(
        answer.outcome(),
        Some(semel_core::job::Outcome::Accepted),
        "{answer:?}"
    );
    answer.id().expect("an accepted submission has a job")
}

fn claim(arena: &Arena<'_>, max: usize) -> Vec<(JobId, i64)> {
    let request = ClaimRequest {
        lease: secs(3_600),
        ..claim_request(max)
    };
    let claims = arena
        .block(arena.store.claim(request))
        .expect("the store answers");
    assert_eq!(claims.len(), max);
    claims
        .into_iter()
        .map(|claimed| (claimed.job.id, claimed.fence))
        .collect()
}

/// Runs so many jobs to the same end; their ids.
fn end(arena: &Arena<'_>, count: usize, result: &Settle) -> Vec<JobId> {
    let leases = claim(arena, count);
    let settlement = |(id, fence): &(JobId, i64)| Settlement {
        id: id.clone(),
        fence: *fence,
        result: result.clone(),
    };
    arena
        .block(arena.store.settle(leases.iter().map(settlement).collect()))
        .expect("the store answers");
    leases.into_iter().map(|(id, _)| id).collect()
}

fn dead_letters(arena: &Arena<'_>, policy: impl Fn(usize) -> Dedup) -> Vec<JobId> {
    let ids = submit_all(arena, (0..ITEMS).map(|item| with(policy(item))).collect());
    end(
        arena,
        ITEMS,
        &Settle::Fail {
            error: "no".to_owned(),
        },
    );
    ids
}

/// The invariants that can be read off the store hold.
fn healthy(arena: &Arena<'_>) {
    let store: &dyn Store = &*arena.store;
    assert_eq!(arena.block(store.doctor(false)).expect("the store answers"), []);
}
