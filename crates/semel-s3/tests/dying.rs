//! Processes that die between any two requests, and what others remember of cells that have changed since: nothing is
//! lost, nothing comes twice, and no worker waits for what nobody will do.

#[path = "fuse/mod.rs"]
mod fuse;
#[path = "kit/mod.rs"]
mod kit;
#[path = "through/mod.rs"]
mod through;

use std::sync::Arc;

use fuse::Fused;
use kit::{LEASE, World, all, claim, complete, fail, job, plain, settle, submitted, token, upkeep};
use object_store::path::Path;
use object_store::{ObjectStore as _, PutOptions, PutPayload};
use semel_core::counters::Counter;
use semel_core::dedup::Dedup;
use semel_core::ids::JobId;
use semel_core::job::{Outcome, State};
use semel_core::lifecycle::Settle;
use semel_core::store::{
    Act, ActOutcome, Beat, Claimed, Control as _, ExtendRequest, Inspect as _, Page, Store as _,
    WriteOutcome, log_feed,
};
use semel_core::submission::Submission;
use semel_core::time::Millis;
use semel_core::view::Job;
use semel_s3::S3Store;

/// The directory of tokens, below that of the namespace.
const TOKENS: &str = "d132fe29051dca629/tasks/";

fn keyed(n: u64) -> Submission {
    kit::keyed(n, Dedup::explicit("refresh"))
}

async fn beat(store: &S3Store, claimed: &Claimed, log: Vec<String>) -> WriteOutcome {
    let beat = Beat {
        id: claimed.job.id.clone(),
        fence: claimed.fence,
        progress: None,
        log,
    };
    let request = ExtendRequest {
        leases: vec![beat],
        lease: LEASE,
    };
    store.extend(request).await.expect("the store answers").remove(0)
}

#[tokio::test]
async fn a_lease_of_a_dead_worker_is_taken_back_by_one_who_remembers_the_job_waiting() {
    let world = World::new();
    let (producer, worker) = (world.open().await, world.open().await);
    for (n, submission) in [plain(1), keyed(2)].into_iter().enumerate() {
        let id = submitted(&producer, submission).await;
        assert_eq!(claim(&worker, n as u64, 1).await.len(), 1);
        world.clock.advance(LEASE);
        let again = claim(&producer, 10 + n as u64, 1).await;
        assert_eq!(again.len(), 1, "the worker is dead, and its job is not");
        assert_eq!(again[0].job.id, id);
        complete(&producer, &again[0]).await;
        assert_eq!(producer.doctor(false).await.expect("the store answers"), []);
    }
}

#[tokio::test]
async fn producers_that_died_before_their_jobs_were_there_hold_up_nobody() {
    let world = World::new();
    for n in 0..100u64 {
        let fused = Fused::new(world.bucket.clone(), false);
        let producer = world.open_on(fused.clone()).await;
        let submission = if n.is_multiple_of(2) { plain(n) } else { keyed(n) };
        // The first two writes are those of the queue and the task, once.
        fused.leave(if n == 0 { 3 } else { 1 });
        let died = fused.run(producer.submit(vec![submission])).await;
        assert!(died.is_none(), "it died: {died:?}");
    }
    assert_eq!(world.names("/ready/").await.len(), 100);
    let store = world.open().await;
    world.clock.advance(Millis::from_secs(1));
    let id = submitted(&store, plain(1_000)).await;
    for worker in [&store, &world.open().await] {
        let claims = claim(worker, 1, 1).await;
        assert_eq!(claims.len(), 1, "behind a hundred hints that lead to nothing");
        assert_eq!(claims[0].job.id, id);
    }
    // Those who come back find that nothing was done, and do it.
    let id = submitted(&store, keyed(1)).await;
    assert_eq!(all(&store).await.len(), 2);
    world.clock.advance(Millis::from_secs(11));
    let claims = claim(&store, 2, 10).await;
    assert_eq!(claims.iter().filter(|claimed| claimed.job.id == id).count(), 1);
}

#[tokio::test]
async fn who_loses_a_race_takes_its_hint_back() {
    let world = World::new();
    let mut stores = Vec::new();
    for _ in 0..16 {
        stores.push(Arc::new(world.open().await));
    }
    let mut race = tokio::task::JoinSet::new();
    for (n, store) in stores.iter().enumerate() {
        let store = store.clone();
        race.spawn(async move { submitted(&store, keyed(n as u64)).await });
    }
    let ids = race.join_all().await;
    assert!(ids.iter().all(|id| *id == ids[0]));
    assert_eq!(world.names("/ready/").await.len(), 1);
}

/// What a process does with a job from its submission to its end, and more than once.
async fn script(store: &S3Store, world: &World) {
    submitted(store, keyed(1)).await;
    submitted(store, plain(2)).await;
    submitted(store, keyed(3)).await;
    let claims = claim(store, 1, 10).await;
    for claimed in &claims {
        beat(store, claimed, Vec::new()).await;
    }
    for claimed in &claims {
        let error = "again".to_owned();
        let delay = Some(Millis::from_secs(1));
        settle(store, claimed, Settle::Retry { error, delay }).await;
    }
    world.clock.advance(Millis::from_secs(1));
    for claimed in claim(store, 2, 10).await {
        fail(store, &claimed).await;
    }
    let letters = all(store).await;
    for (n, letter) in letters.into_iter().enumerate() {
        let act = match n % 2 {
            0 => Act::Retry { id: letter.id },
            _ => Act::Replay {
                id: letter.id,
                token: token(50),
            },
        };
        store.act(vec![act]).await.expect("the store answers");
    }
    for claimed in claim(store, 3, 10).await {
        complete(store, &claimed).await;
    }
    submitted(store, keyed(4)).await;
    upkeep(store).await;
}

/// A process that does all of it dies before or after each of its writes. Another one comes, sends again what was sent,
/// and works until nothing is left.
#[tokio::test]
async fn a_process_may_die_between_any_two_requests() {
    let mut deaths = 0;
    for done in [false, true] {
        for writes in 0.. {
            let world = World::new();
            let fused = Fused::new(world.bucket.clone(), done);
            let store = world.open_on(fused.clone()).await;
            fused.leave(writes);
            if fused.run(script(&store, &world)).await.is_some() {
                break;
            }
            deaths += 1;
            drop(store);
            assert_whole(
                &world,
                &format!("dead after {writes} writes, the next one done: {done}"),
            )
            .await;
        }
    }
    println!("{deaths} deaths, nothing lost, nothing twice");
    assert!(deaths > 60, "{deaths}");
}

async fn assert_whole(world: &World, when: &str) {
    let store = world.open().await;
    let first = submitted(&store, keyed(1)).await;
    assert_eq!(submitted(&store, keyed(1)).await, first, "{when}");
    let second = submitted(&store, plain(2)).await;
    for round in 0..10 {
        world.clock.advance(LEASE);
        for claimed in claim(&store, 100 + round, 10).await {
            let settled = complete(&store, &claimed).await;
            assert_eq!(settled, WriteOutcome::Ok(State::Complete), "{when}");
        }
    }
    let jobs = all(&store).await;
    let dead = |job: &&Job| job.state == State::Failed && job.replayed_as.is_none();
    let ended = |job: &Job| job.state == State::Complete || job.state == State::Failed;
    assert!(jobs.iter().all(ended), "{when}: {jobs:?}");
    for id in [&first, &second] {
        assert!(job(&store, id).await.is_some(), "{when}: {id} is gone");
    }
    let of = |n| {
        jobs.iter()
            .filter(move |job: &&Job| job.id.as_str().starts_with(&token(n).to_string()))
    };
    for n in [1, 2, 3, 4, 50] {
        assert!(of(n).count() <= 1, "{when}: token {n} made two jobs: {jobs:?}");
    }
    let stats = store.stats().await.expect("the store answers");
    assert_eq!(
        stats.raw.get(Counter::Accepted),
        jobs.len() as i64,
        "{when}: counted as often as it happened"
    );
    let complete = jobs.iter().filter(|job| job.state == State::Complete).count() as i64;
    assert_eq!(stats.raw.get(Counter::Completed), complete, "{when}");
    assert!(
        jobs.iter().filter(dead).count() <= 2,
        "{when}: a letter stays a letter: {jobs:?}"
    );
    assert_eq!(
        store.doctor(false).await.expect("the store answers"),
        [],
        "{when}"
    );
    upkeep(&store).await;
    assert_eq!(
        all(&store).await.len(),
        jobs.len(),
        "{when}: upkeep loses nothing"
    );
}

#[tokio::test]
async fn heartbeats_leave_no_trail() {
    let world = World::new();
    let (worker, other) = (world.open().await, world.open().await);
    submitted(&worker, keyed(1)).await;
    let claimed = claim(&worker, 1, 1).await.remove(0);
    for n in 0..60 {
        world.clock.advance(Millis::from_secs(10));
        assert_eq!(
            beat(&worker, &claimed, Vec::new()).await,
            WriteOutcome::Ok(State::Running)
        );
        assert_eq!(claim(&other, 10 + n, 1).await, []);
        assert_eq!(claim(&worker, 100 + n, 1).await, []);
    }
    let entries = world.names("/leases/").await;
    assert!(entries.len() <= 4, "of ten minutes: {entries:?}");
    assert_eq!(
        complete(&worker, &claimed).await,
        WriteOutcome::Ok(State::Complete)
    );
    submitted(&worker, keyed(2)).await;
    assert_eq!(claim(&worker, 200, 1).await.len(), 1);
    let entries = world.names("/leases/").await;
    assert!(entries.len() <= 2, "the spent one went with a claim: {entries:?}");
}

#[tokio::test]
async fn a_refused_write_leaves_the_lease_looked_after() {
    let world = World::new();
    let worker = world.open().await;
    submitted(&worker, keyed(1)).await;
    let claimed = claim(&worker, 1, 1).await.remove(0);
    let stale = Claimed {
        fence: claimed.fence - 1,
        ..claimed.clone()
    };
    assert!(matches!(
        complete(&worker, &stale).await,
        WriteOutcome::Refused(_)
    ));
    submitted(&worker, plain(2)).await;
    assert_eq!(claim(&worker, 2, 1).await.len(), 1);
    assert_eq!(worker.doctor(false).await.expect("the store answers"), []);
    drop(worker);
    world.clock.advance(LEASE);
    assert_eq!(claim(&world.open().await, 3, 10).await.len(), 2);
}

/// Submits, claims and fails a job of one key.
async fn one_life(store: &S3Store, n: u64) -> JobId {
    let id = submitted(store, keyed(n)).await;
    let claimed = claim(store, 1_000 + n, 1).await.remove(0);
    beat(store, &claimed, vec![format!("line {n}")]).await;
    fail(store, &claimed).await;
    id
}

#[tokio::test]
async fn a_key_that_is_used_for_ever_keeps_a_small_cell() {
    let world = World::new();
    let store = world.open().await;
    let mut sizes = Vec::new();
    let mut ids = Vec::new();
    for n in 0..300 {
        ids.push(one_life(&store, n).await);
        if n % 50 == 49 {
            upkeep(&store).await;
            sizes.push(world.largest_cell().await);
        }
    }
    let (least, most) = (sizes[0], sizes[5]);
    assert!(most <= least + 200, "after 50 to 300 jobs: {sizes:?}");
    assert_eq!(all(&store).await.len(), 300);
    let lines = store.feed(&log_feed(&ids[0]), Page::first(10)).await;
    let lines = lines.expect("the store answers").items;
    assert_eq!(lines.len(), 1, "what a job wrote stays with it");
    // Past their retention they go, from wherever they are.
    world.clock.advance(Millis::from_days(40));
    upkeep(&store).await;
    upkeep(&store).await;
    assert_eq!(all(&store).await.len(), 0);
    let lines = store.feed(&log_feed(&ids[0]), Page::first(10)).await;
    assert_eq!(lines.expect("the store answers").items, []);
    world.clock.advance(Millis::from_days(2));
    upkeep(&store).await;
    assert_eq!(world.names(TOKENS).await, [""; 0], "and nothing of them is left");
    let stats = store.stats().await.expect("the store answers");
    assert_eq!(stats.raw.get(Counter::Failed), 300, "but that they were");
}

#[tokio::test]
async fn a_job_that_moved_out_is_found_by_one_who_remembers_it_at_home() {
    let world = World::new();
    let (store, keeper) = (world.open().await, world.open().await);
    let mut ids = Vec::new();
    for n in 0..30 {
        ids.push(one_life(&store, n).await);
    }
    upkeep(&keeper).await;
    let retried = store.act(vec![Act::Retry { id: ids[0].clone() }]).await;
    let retried = retried.expect("the store answers").remove(0);
    assert!(matches!(retried, ActOutcome::Done { .. }), "{retried:?}");
    let claimed = claim(&keeper, 1, 1).await.remove(0);
    assert_eq!(claimed.job.id, ids[0]);
    complete(&keeper, &claimed).await;
    upkeep(&store).await;
    // It is deleted, at home or away, and does not come back from a copy.
    let deleted = store.act(vec![Act::Delete { id: ids[0].clone() }]).await;
    let deleted = deleted.expect("the store answers").remove(0);
    assert!(matches!(deleted, ActOutcome::Done { .. }), "{deleted:?}");
    for store in [&store, &keeper, &world.open().await] {
        upkeep(store).await;
        assert_eq!(job(store, &ids[0]).await, None);
        assert_eq!(all(store).await.len(), 29);
    }
    let again = store.submit(vec![keyed(5)]).await.expect("the store answers");
    assert_eq!(
        (again[0].outcome(), again[0].id()),
        (Some(Outcome::Accepted), Some(&ids[5])),
        "a submission sent again finds its job wherever that is"
    );
}

/// Upkeep that moves jobs out dies before or after each of its writes; so does who brings one home.
#[tokio::test]
async fn a_move_may_be_cut_off_anywhere() {
    let mut deaths = 0;
    for done in [false, true] {
        for writes in 0.. {
            let world = World::new();
            let store = world.open().await;
            let mut ids = Vec::new();
            for n in 0..14 {
                ids.push(one_life(&store, n).await);
            }
            let fused = Fused::new(world.bucket.clone(), done);
            let keeper = world.open_on(fused.clone()).await;
            fused.leave(writes);
            let work = async {
                upkeep(&keeper).await;
                let acts = vec![
                    Act::Retry { id: ids[0].clone() },
                    Act::Delete { id: ids[1].clone() },
                    Act::Replay {
                        id: ids[2].clone(),
                        token: token(77),
                    },
                ];
                keeper.act(acts).await.expect("the store answers");
                upkeep(&keeper).await;
            };
            if fused.run(work).await.is_some() {
                break;
            }
            deaths += 1;
            let when = format!("dead after {writes} writes, the next one done: {done}");
            for store in [&store, &world.open().await] {
                let jobs = all(store).await;
                let shown = |id: &&JobId| jobs.iter().filter(|job| job.id == **id).count();
                assert_eq!(shown(&&ids[0]), 1, "{when}");
                assert!(shown(&&ids[1]) <= 1, "{when}");
                for id in &ids[2..] {
                    assert_eq!(shown(&id), 1, "{when}: {id}");
                    assert!(job(store, id).await.is_some(), "{when}: {id}");
                }
                assert_eq!(
                    store.doctor(false).await.expect("the store answers"),
                    [],
                    "{when}"
                );
            }
            // Later, what was cut off is cleared away, and what was deleted stays so.
            store
                .act(vec![Act::Delete { id: ids[1].clone() }])
                .await
                .expect("the store answers");
            world.clock.advance(Millis::from_days(2));
            upkeep(&store).await;
            upkeep(&store).await;
            assert_eq!(job(&store, &ids[1]).await, None, "{when}");
            let others = all(&store).await;
            assert!(
                others.len() == 13 || others.len() == 14,
                "{when}: {}",
                others.len()
            );
        }
    }
    println!("{deaths} deaths of a mover");
    assert!(deaths > 30, "{deaths}");
}

#[tokio::test]
async fn a_broken_entry_of_leases_stops_no_other_work_and_is_told_of() {
    let world = World::new();
    let store = world.open().await;
    submitted(&store, plain(1)).await;
    let root = world.names(TOKENS).await[0]
        .split("/tasks/")
        .next()
        .map(str::to_owned);
    let entry = Path::from(format!(
        "{}/leases/000000000000001-broken.json",
        root.expect("a root")
    ));
    let broken = PutPayload::from_static(b"{\"version\":");
    world
        .bucket
        .put_opts(&entry, broken, PutOptions::default())
        .await
        .expect("it is written");
    let other = world.open().await;
    for store in [&store, &other] {
        world.clock.advance(Millis::from_secs(2));
        upkeep(store).await;
        let told = store.doctor(false).await.expect("the store answers");
        assert_eq!(told.len(), 1, "{told:?}");
    }
    let claimed = claim(&other, 1, 1).await;
    assert!(matches!(complete(&other, &claimed[0]).await, WriteOutcome::Ok(_)));
}

#[tokio::test]
async fn a_broken_object_stops_no_other_work_and_is_told_of() {
    let world = World::new();
    let store = world.open().await;
    submitted(&store, plain(1)).await;
    let broken = world.names(TOKENS).await.remove(0);
    let garbage = PutPayload::from_static(b"{ not a cell");
    let written = world
        .bucket
        .put_opts(&Path::from(broken), garbage, PutOptions::default())
        .await;
    written.expect("a write");
    world.clock.advance(Millis::from_secs(1));
    let id = submitted(&store, plain(2)).await;
    let worker = world.open().await;
    let claimed = claim(&worker, 1, 1).await.remove(0);
    assert_eq!(claimed.job.id, id);
    assert_eq!(
        complete(&worker, &claimed).await,
        WriteOutcome::Ok(State::Complete)
    );
    upkeep(&worker).await;
    assert_eq!(all(&worker).await.len(), 1);
    let findings = worker.doctor(true).await.expect("the store answers");
    assert!(
        findings.len() == 1 && findings[0].invariant == "I30" && findings[0].what.contains("cannot be read"),
        "{findings:?}"
    );
}
