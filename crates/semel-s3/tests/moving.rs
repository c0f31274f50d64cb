//! A key that is used again and again: its cell stays small, and no job behind it is lost.

use std::sync::Arc;

use object_store::ObjectStore as _;
use object_store::memory::InMemory;
use semel_core::counters::Counter;
use semel_core::dedup::Dedup;
use semel_core::ids::{JobId, Name, Token};
use semel_core::job::State;
use semel_core::json::Json;
use semel_core::lifecycle::Settle;
use semel_core::store::{
    Act, ActOutcome, ClaimRequest, Control as _, Inspect as _, JobFilter, Page, Settlement, Store as _,
    UpkeepRequest,
};
use semel_core::submission::Submission;
use semel_core::time::Millis;
use semel_s3::{S3Options, S3Store};

fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

fn token(n: u64) -> Token {
    let mut random = [0u8; 10];
    random[2..].copy_from_slice(&n.to_be_bytes());
    Token::from_parts(1_800_000_000_000, &random)
}

fn submission(n: u64) -> Submission {
    let mut submission = Submission::new(token(n), name("work"), Json::new("{}").expect("JSON"));
    submission.policy = Dedup::explicit("refresh").into();
    submission
}

async fn open(bucket: &Arc<InMemory>) -> S3Store {
    let options = S3Options::from_url("s3://memory/moving").expect("a valid URL");
    S3Store::on(bucket.clone(), options, None)
        .await
        .expect("the store opens")
}

/// Submits, claims and fails a job.
async fn one_life(store: &S3Store, n: u64) -> JobId {
    let answer = store
        .submit(vec![submission(n)])
        .await
        .expect("the store answers");
    let id = answer[0].id().expect("a job").clone();
    let made_here = id.as_str().starts_with(&token(n).to_string());
    assert!(made_here, "the key was free again");
    let request = ClaimRequest {
        token: token(1 << 40 | n),
        worker: name("worker"),
        queues: Vec::new(),
        tasks: Vec::new(),
        max: 1,
        lease: Millis::from_secs(60),
    };
    let claimed = store.claim(request).await.expect("the store answers").remove(0);
    let result = Settle::Fail {
        error: "boom".to_owned(),
    };
    let settlement = Settlement {
        id: id.clone(),
        fence: claimed.fence,
        result,
    };
    store.settle(vec![settlement]).await.expect("the store answers");
    id
}

async fn largest_cell(bucket: &InMemory) -> u64 {
    use futures_util::TryStreamExt as _;
    let listed: Vec<_> = bucket.list(None).try_collect().await.expect("a list");
    let cells = listed
        .iter()
        .filter(|one| one.location.as_ref().contains("/idempotency/"));
    cells.map(|one| one.size).max().unwrap_or(0)
}

async fn upkeep(store: &S3Store) {
    while store
        .upkeep(UpkeepRequest::default())
        .await
        .expect("the store answers")
        .more
    {}
}

#[tokio::test]
async fn a_busy_key_stays_small_and_its_jobs_are_there() {
    let bucket = Arc::new(InMemory::new());
    let store = open(&bucket).await;
    let mut ids = Vec::new();
    for n in 0..100 {
        ids.push(one_life(&store, n).await);
    }
    let before = largest_cell(&bucket).await;
    upkeep(&store).await;
    let after = largest_cell(&bucket).await;
    assert!(after * 4 < before, "{before} bytes before, {after} after");

    let other = open(&bucket).await;
    for store in [&store, &other] {
        assert_eq!(store.doctor(false).await.expect("the store answers"), []);
        let all = store
            .jobs(JobFilter::default(), Page::first(500))
            .await
            .expect("the store answers");
        assert_eq!(all.items.len(), 100);
        let found = store.jobs_by_id(&ids[..3]).await.expect("the store answers");
        assert!(
            found
                .iter()
                .flatten()
                .all(|job| job.state == State::Failed && job.attempt == 1)
        );
        assert_eq!(found.len(), 3);
        assert_eq!(store.attempts(&ids[0]).await.expect("the store answers").len(), 1);
        let again = store
            .submit(vec![submission(5)])
            .await
            .expect("the store answers");
        assert_eq!(
            again[0].id(),
            Some(&ids[5]),
            "a submission sent again names its job"
        );
    }
    let acts = vec![
        Act::Delete { id: ids[1].clone() },
        Act::Retry { id: ids[0].clone() },
        Act::Retry { id: ids[2].clone() },
        Act::Cancel { id: ids[3].clone() },
    ];
    let outcomes = other.act(acts).await.expect("the store answers");
    assert!(matches!(outcomes[0], ActOutcome::Done { .. }), "{outcomes:?}");
    assert!(
        matches!(
            outcomes[1],
            ActOutcome::Done {
                state: State::Queued,
                ..
            }
        ),
        "{outcomes:?}"
    );
    assert!(
        matches!(outcomes[2], ActOutcome::Held { .. }),
        "one at a time: {outcomes:?}"
    );
    assert!(
        matches!(outcomes[3], ActOutcome::WrongState(State::Failed)),
        "{outcomes:?}"
    );
    let found = store.jobs_by_id(&ids[..2]).await.expect("the store answers");
    assert_eq!(found[0].as_ref().map(|job| job.state), Some(State::Queued));
    assert_eq!(found[1], None, "what was deleted does not come back");
    upkeep(&store).await;
    upkeep(&other).await;
    assert_eq!(
        store.jobs_by_id(&ids[1..2]).await.expect("the store answers"),
        [None]
    );
    let stats = other.stats().await.expect("the store answers");
    assert_eq!(
        (stats.raw.get(Counter::Accepted), stats.raw.get(Counter::Failed)),
        (100, 100)
    );
    assert_eq!(stats.jobs.values().sum::<i64>(), 99);
    assert_eq!(other.doctor(false).await.expect("the store answers"), []);
}
