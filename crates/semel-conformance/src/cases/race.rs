//! Many at once: tasks, and processes where the store can be shared.

use std::collections::{BTreeMap, BTreeSet};

use semel_core::counters::Counter;
use semel_core::dedup::{Dedup, Hold};
use semel_core::job::State;
use semel_core::lifecycle::Settle;

use super::list::cases;
use crate::kit::{World, plain, with};
use crate::race::{Answers, Arena, KeyHold, Order, PROCESSES, Team, sides, storm};
use crate::rng::number_from_environment;

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
    let jobs = arena.submit_all((0..300).map(|_| plain()).collect());
    let claims = |item| {
        vec![
            Order::Claim {
                item,
                max: item % 3 + 1
            };
            2
        ]
    };
    let answers = team.play((0..PROCESSES).map(claims).collect());
    let expected: BTreeSet<String> = jobs.iter().map(ToString::to_string).collect();
    let leased: BTreeSet<String> = answers.iter().map(|answer| answer.id.clone()).collect();
    assert_eq!(answers.len(), jobs.len(), "every lease is of another job");
    assert_eq!(leased, expected);
    let stats = arena.block(arena.store.stats()).expect("the store answers");
    assert_eq!(stats.jobs.get(&State::Running), Some(&300));
    arena.is_healthy();
}

fn of_cancel_and_settle_exactly_one_wins(world: &World) {
    let arena = Arena::new(world);
    let mut team = Team::new(&arena, PROCESSES);
    arena.submit_all((0..ITEMS).map(|_| plain()).collect());
    let leases = arena.claim(ITEMS);
    let settle = |item: usize| {
        let (id, fence) = leases[item].clone();
        Order::Settle { item, id, fence }
    };
    let cancel = |item: usize| Order::Cancel {
        item,
        id: leases[item].0.clone(),
    };
    let answers = team.play(sides(ITEMS, settle, cancel));

    let mut ended = BTreeMap::from([(State::Complete, 0), (State::Cancelled, 0)]);
    for (item, answers) in Answers::by_item(answers, ITEMS) {
        let state = arena.job(&leases[item].0).state;
        match state {
            State::Complete => {
                assert!(answers.all("settle", &["complete"]), "{answers:?}");
                assert!(answers.all("cancel", &["wrong_complete"]), "{answers:?}");
            }
            State::Cancelled => {
                assert!(answers.all("settle", &["refused_cancelled"]), "{answers:?}");
                assert!(answers.all("cancel", &["done", "wrong_cancelled"]), "{answers:?}");
                assert_eq!(answers.count("cancel", "done"), 1, "{answers:?}");
            }
            other => panic!("{other:?} after {answers:?}"),
        }
        *ended.entry(state).or_insert(0) += 1;
    }
    let counts = arena.counts();
    let settles_per_job = i64::try_from(PROCESSES / 2).expect("small");
    assert_eq!(counts.get(Counter::Completed), ended[&State::Complete]);
    assert_eq!(counts.get(Counter::Cancelled), ended[&State::Cancelled]);
    assert_eq!(
        counts.get(Counter::StaleWrites),
        ended[&State::Cancelled] * settles_per_job
    );
    println!("cancel against settle: {ended:?}");
    arena.is_healthy();
}

fn of_many_releases_one_frees_the_key_and_at_most_one_submission_takes_it(world: &World) {
    let arena = Arena::new(world);
    let mut team = Team::new(&arena, PROCESSES);
    let key = |item: usize| format!("release-{item}");
    let keep = |item| with(Dedup::explicit(key(item)).hold(Hold::forever()));
    let old = arena.submit_all((0..ITEMS).map(keep).collect());
    arena.end(ITEMS, &Settle::Complete { output: None });
    let digest = |item: usize| arena.job(&old[item]).key.expect("submitted with a key").digest;
    let release = |item: usize| Order::Release {
        item,
        digest: digest(item),
        holder: old[item].clone(),
    };
    let submit = |item: usize| Order::submit(item, key(item), KeyHold::Forever);
    let answers = team.play(sides(ITEMS, release, submit));

    let mut taken = 0;
    for (item, answers) in Answers::by_item(answers, ITEMS) {
        assert_eq!(answers.count("release", "done"), 1, "{answers:?}");
        assert!(
            answers.all("release", &["done", "not_found", "held"]),
            "{answers:?}"
        );
        assert!(answers.all("submit", &["accepted", "duplicate"]), "{answers:?}");
        let before = old[item].to_string();
        let fresh = answers.only("submit", "accepted");
        let holders = [before.as_str(), fresh.as_deref().unwrap_or(&before)];
        assert!(answers.name_only("submit", &holders), "{answers:?}");
        let row = arena
            .block(arena.store.key(digest(item)))
            .expect("the store answers");
        let row = row.expect("its jobs exist");
        assert_eq!(row.key.held, fresh.is_some(), "{answers:?}");
        if let Some(fresh) = fresh {
            assert_eq!(row.holder.id.to_string(), fresh);
            taken += 1;
        }
    }
    println!("release against submit: {taken} of {ITEMS} keys taken again");
    arena.is_healthy();
}

fn of_replays_and_submissions_of_one_key_one_gets_it(world: &World) {
    let arena = Arena::new(world);
    let mut team = Team::new(&arena, PROCESSES);
    let key = |item: usize| format!("replay-{item}");
    let letters = arena.dead_letters(ITEMS, |item| Dedup::explicit(key(item)));
    let replay = |item: usize| Order::Replay {
        item,
        id: letters[item].clone(),
    };
    let submit = |item: usize| Order::submit(item, key(item), KeyHold::UntilFinished);
    let answers = team.play(sides(ITEMS, replay, submit));

    let mut replayed = 0;
    for (item, answers) in Answers::by_item(answers, ITEMS) {
        let by_replay = answers.only("replay", "done");
        let winner = match (by_replay.clone(), answers.only("submit", "accepted")) {
            (Some(id), None) | (None, Some(id)) => id,
            both => panic!("one of them gets the key, not {both:?}: {answers:?}"),
        };
        let lost = if by_replay.is_some() { "before" } else { "held" };
        assert!(answers.all("replay", &["done", lost]), "{answers:?}");
        assert!(answers.all("submit", &["accepted", "duplicate"]), "{answers:?}");
        assert!(
            answers.name_only("replay", &[&winner]),
            "all name {winner}: {answers:?}"
        );
        assert!(
            answers.name_only("submit", &[&winner]),
            "all name {winner}: {answers:?}"
        );
        let letter = arena.job(&letters[item]);
        assert_eq!(
            letter.replayed_as.map(|id| id.to_string()),
            by_replay,
            "a letter stays until it is replayed"
        );
        replayed += u64::from(by_replay.is_some());
    }
    println!("replay against submit: {replayed} of {ITEMS} went to the replay");
    arena.is_healthy();
}

fn replays_of_a_letter_that_keeps_its_key_move_it_once(world: &World) {
    let arena = Arena::new(world);
    let mut team = Team::new(&arena, PROCESSES);
    let key = |item: usize| format!("kept-{item}");
    let letters = arena.dead_letters(ITEMS, |item| Dedup::explicit(key(item)).hold(Hold::forever()));
    let replay = |item: usize| Order::Replay {
        item,
        id: letters[item].clone(),
    };
    let submit = |item: usize| Order::submit(item, key(item), KeyHold::Forever);
    let answers = team.play(sides(ITEMS, replay, submit));

    for (item, answers) in Answers::by_item(answers, ITEMS) {
        let letter = letters[item].to_string();
        let fresh = answers.only("replay", "done");
        let fresh = fresh.unwrap_or_else(|| panic!("one replay is done: {answers:?}"));
        assert!(answers.all("replay", &["done", "before"]), "{answers:?}");
        assert!(answers.name_only("replay", &[&fresh]), "{answers:?}");
        assert!(
            answers.all("submit", &["duplicate"]),
            "the key is never free: {answers:?}"
        );
        assert!(answers.name_only("submit", &[&letter, &fresh]), "{answers:?}");
    }
    arena.is_healthy();
}

fn many_replays_of_one_letter_make_one_job(world: &World) {
    let arena = Arena::new(world);
    let mut team = Team::new(&arena, PROCESSES);
    arena.submit_all((0..ITEMS).map(|_| plain()).collect());
    let letters = arena.end(
        ITEMS,
        &Settle::Fail {
            error: "no".to_owned(),
        },
    );
    let replay = |item: usize| Order::Replay {
        item,
        id: letters[item].clone(),
    };
    let answers = team.play(sides(ITEMS, replay, replay));
    for (_, answers) in Answers::by_item(answers, ITEMS) {
        let fresh = answers.only("replay", "done");
        let fresh = fresh.unwrap_or_else(|| panic!("one replay is done: {answers:?}"));
        assert!(answers.name_only("replay", &[&fresh]), "{answers:?}");
        assert_eq!(answers.count("replay", "before"), PROCESSES - 1, "{answers:?}");
    }
    let accepted = arena.counts().get(Counter::Accepted);
    assert_eq!(accepted, i64::try_from(2 * ITEMS).expect("small"));
    arena.is_healthy();
}
