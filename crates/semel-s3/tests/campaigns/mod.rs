//! Submissions under faults, at any length.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use object_store::memory::InMemory;
use semel_core::dedup::{Dedup, Hold};
use semel_core::ids::JobId;
use semel_core::job::Outcome;
use semel_core::store::{Control as _, Inspect as _, Store as _, Submitted};
use semel_core::submission::Submission;
use semel_s3::S3Store;

use crate::bucket::{Faults, Faulty, open};
use crate::kit::{all, job, keyed, name};
use crate::through::Through;

/// What came of a campaign.
pub struct Report {
    /// Submissions made.
    pub submissions: usize,
    /// Keys they were about.
    pub keys: usize,
    /// Jobs there are.
    pub jobs: usize,
    /// Faults that happened.
    pub faults: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report {
            submissions,
            keys,
            jobs,
            faults,
        } = self;
        write!(
            f,
            "{submissions} submissions of {keys} keys under {faults} faults: {jobs} jobs, 0 double, 0 keys without one"
        )
    }
}

fn submission(n: u64, key: u64) -> Submission {
    keyed(n, Dedup::explicit(format!("key-{key}")).hold(Hold::forever()))
}

/// Two processes, as far as a bucket can tell: two handles, each with its own faults.
fn handles(
    bucket: &Arc<InMemory>,
    permille: u64,
    seed: u64,
) -> (Vec<Arc<S3Store>>, Vec<Arc<Through<Faulty>>>) {
    let faulty: Vec<Arc<Through<Faulty>>> = (0..2)
        .map(|n| Faulty::new(bucket.clone(), Faults::all(permille), seed + n))
        .collect();
    let stores = faulty
        .iter()
        .map(|faulty| open(faulty.clone(), &name("default"), None))
        .collect();
    (stores, faulty)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be made")
}

/// Submissions of four callers per key, each sent by one of two handles. Panics where a key has two jobs or none.
pub fn submissions(count: usize, permille: u64, seed: u64) -> Report {
    let bucket = Arc::new(InMemory::new());
    let (stores, faulty) = handles(&bucket, permille, seed);
    let keys = count.div_ceil(4) as u64;
    let answers = runtime().block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..count as u64 {
            let store = stores[(n % 2) as usize].clone();
            tasks.spawn(async move {
                let answer = store.submit(vec![submission(n, n % keys)]).await;
                (n % keys, answer.expect("the store answers").remove(0))
            });
        }
        tasks.join_all().await
    });
    check(&bucket, answers, keys);
    Report {
        submissions: count,
        keys: keys as usize,
        jobs: keys as usize,
        faults: faulty.iter().map(|one| one.made.load(Ordering::Relaxed)).sum(),
    }
}

/// So many callers for one key, round after round. Panics where not exactly one gets it.
pub fn races(racers: usize, rounds: u64, permille: u64, seed: u64) -> Report {
    let bucket = Arc::new(InMemory::new());
    let (stores, faulty) = handles(&bucket, permille, seed);
    let runtime = runtime();
    let mut answers = Vec::new();
    for round in 0..rounds {
        let some = runtime.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            for racer in 0..racers as u64 {
                let store = stores[(racer % 2) as usize].clone();
                tasks.spawn(async move {
                    let submission = submission(round * 1_000 + racer, round);
                    (
                        round,
                        store
                            .submit(vec![submission])
                            .await
                            .expect("the store answers")
                            .remove(0),
                    )
                });
            }
            tasks.join_all().await
        });
        answers.extend(some);
    }
    check(&bucket, answers, rounds);
    Report {
        submissions: racers * rounds as usize,
        keys: rounds as usize,
        jobs: rounds as usize,
        faults: faulty.iter().map(|one| one.made.load(Ordering::Relaxed)).sum(),
    }
}

/// One job per key, named by every answer, found by id and by key; as a handle without faults sees it.
fn check(bucket: &Arc<InMemory>, answers: Vec<(u64, Submitted)>, keys: u64) {
    let store = open(bucket.clone(), &name("default"), None);
    let mut named: BTreeMap<u64, BTreeSet<JobId>> = BTreeMap::new();
    let mut accepted: BTreeMap<u64, usize> = BTreeMap::new();
    for (key, answer) in &answers {
        named
            .entry(*key)
            .or_default()
            .insert(answer.id().expect("a job").clone());
        *accepted.entry(*key).or_default() += usize::from(answer.outcome() == Some(Outcome::Accepted));
    }
    assert_eq!(named.len() as u64, keys);
    assert!(
        named.values().all(|ids| ids.len() == 1),
        "a key names two jobs: {named:?}"
    );
    assert!(
        accepted.values().all(|n| *n == 1),
        "accepted twice, or never: {accepted:?}"
    );
    runtime().block_on(async {
        let jobs: BTreeSet<JobId> = all(&store).await.into_iter().map(|job| job.id).collect();
        let answered: BTreeSet<JobId> = named.into_values().flatten().collect();
        assert_eq!(
            jobs, answered,
            "jobs are those that were answered with, and no others"
        );
        for id in &answered {
            assert!(job(&store, id).await.is_some(), "{id} is not found by its id");
        }
        let stats = store.stats().await.expect("the store answers");
        assert_eq!(stats.active_keys as u64, keys, "a key without a job");
        let absorbed = answers.len() as i64 - keys as i64;
        assert_eq!(
            stats.raw.duplicates(),
            absorbed,
            "every other one was counted once"
        );
        assert_eq!(store.doctor(false).await.expect("the store answers"), []);
    });
}
