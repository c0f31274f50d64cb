//! On a cluster: every step stays within one slot, keys stay unique over queues, and everything is found again.

use std::collections::BTreeSet;

use crate::server::cluster::Cluster;
use semel_conformance::kit::{self, claim_request, name, with};
use semel_core::counters::Counter;
use semel_core::dedup::{Dedup, Scope};
use semel_core::job::{Outcome, State};
use semel_core::lifecycle::Settle;
use semel_core::store::{
    Control as _, Inspect as _, JobFilter, LedgerFilter, Page, SettingChange, Settlement, Store as _, Target,
    UpkeepRequest, WriteOutcome,
};
use semel_core::submission::Submission;
use semel_redis::RedisStore;

async fn open(cluster: &Cluster) -> RedisStore {
    RedisStore::connect(&format!("{}?shards=8", cluster.url()))
        .await
        .expect("the store opens")
}

fn into_queue(queue: &str, submission: Submission) -> Submission {
    Submission {
        queue: name(queue),
        ..submission
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_live_their_lives_on_a_cluster() {
    let cluster = Cluster::form();
    let store = open(&cluster).await;
    // A global key is one key, whatever queue it comes through (contract 2.3).
    let global = |n: usize| with(Dedup::explicit(format!("k{n}")).scope(Scope::Global));
    let first = (0..100).map(|n| into_queue("a", global(n))).collect();
    let answers = store.submit(first).await.unwrap();
    assert!(
        answers
            .iter()
            .all(|answer| answer.outcome() == Some(Outcome::Accepted))
    );
    let again = (0..100).map(|n| into_queue("b", global(n))).collect();
    let duplicates = store.submit(again).await.unwrap();
    for (first, again) in answers.iter().zip(&duplicates) {
        assert_eq!(
            (again.outcome(), again.id()),
            (Some(Outcome::Duplicate), first.id())
        );
    }
    let ids: BTreeSet<_> = answers
        .iter()
        .map(|answer| answer.id().unwrap().clone())
        .collect();
    let shards: BTreeSet<_> = ids
        .iter()
        .map(|id| id.as_str().split_once('.').unwrap().1.to_owned())
        .collect();
    assert!(shards.len() > 4, "{shards:?}");

    // Nothing is handed out while everything is paused (contract 6.1).
    let pause = SettingChange::Pause {
        lasting: None,
        reason: None,
    };
    store.set(Target::All, pause).await.unwrap();
    assert!(store.claim(claim_request(10)).await.unwrap().is_empty());
    store.set(Target::All, SettingChange::Resume).await.unwrap();

    let request = claim_request(60);
    let claims = store.claim(request.clone()).await.unwrap();
    assert_eq!(claims.len(), 60);
    let repeated: BTreeSet<_> = store
        .claim(request)
        .await
        .unwrap()
        .into_iter()
        .map(|one| one.job.id)
        .collect();
    assert_eq!(repeated, claims.iter().map(|one| one.job.id.clone()).collect());
    let settlements = claims.iter().map(|claimed| Settlement {
        id: claimed.job.id.clone(),
        fence: claimed.fence,
        result: Settle::Complete { output: None },
    });
    let settled = store.settle(settlements.collect()).await.unwrap();
    assert!(
        settled
            .iter()
            .all(|outcome| *outcome == WriteOutcome::Ok(State::Complete))
    );

    let stats = store.stats().await.unwrap();
    assert_eq!(
        (
            stats.raw.get(Counter::Accepted),
            stats.raw.get(Counter::Duplicate),
            stats.raw.get(Counter::Completed)
        ),
        (100, 100, 60)
    );
    assert_eq!(
        (
            stats.jobs[&State::Complete],
            stats.jobs[&State::Queued],
            stats.active_keys
        ),
        (60, 40, 40)
    );
    let (mut listed, mut page) = (Vec::new(), Page::first(7));
    loop {
        let listing = store.jobs(JobFilter::default(), page).await.unwrap();
        listed.extend(listing.items.into_iter().map(|job| job.id));
        match listing.next_cursor {
            Some(cursor) => page = Page::after(cursor, 7),
            None => break,
        }
    }
    assert_eq!(
        (listed.len(), listed.into_iter().collect::<BTreeSet<_>>()),
        (100, ids)
    );
    assert_eq!(
        store
            .ledger(LedgerFilter::default(), Page::first(500))
            .await
            .unwrap()
            .items
            .len(),
        100
    );
    store.upkeep(UpkeepRequest::default()).await.unwrap();
    assert_eq!(store.remove_queue(&name("a")).await.unwrap(), 100);
    assert!(store.claim(claim_request(10)).await.unwrap().is_empty());
    assert_eq!(store.doctor(true).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_on_one_key_gets_one_job_on_a_cluster() {
    let cluster = Cluster::form();
    let (one, two) = (open(&cluster).await, open(&cluster).await);
    let storm = || (0..200).map(|_| with(Dedup::idempotency_key("k"))).collect();
    let (here, there) = tokio::join!(one.submit(storm()), two.submit(storm()));
    let answers: Vec<_> = here.unwrap().into_iter().chain(there.unwrap()).collect();
    let accepted = answers
        .iter()
        .filter(|answer| answer.outcome() == Some(Outcome::Accepted))
        .count();
    let named: BTreeSet<_> = answers.iter().map(|answer| answer.id().unwrap()).collect();
    assert_eq!((accepted, named.len()), (1, 1));
    let plain = one.submit(vec![kit::plain()]).await.unwrap();
    assert_eq!(plain[0].outcome(), Some(Outcome::Accepted));
}
