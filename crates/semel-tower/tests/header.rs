//! The `Idempotency-Key` header, case by case as the draft of the IETF has it.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod shop;

use std::collections::HashMap;
use std::time::Duration;

use shop::{Got, Shop, post_to};

/// Path, headers, body.
type Sent = (&'static str, Vec<(&'static str, &'static str)>, &'static str);

/// One request after the other: what is sent, what is answered, how often the service was reached by then.
struct Case {
    says: &'static str,
    sent: Vec<Sent>,
    last: u16,
    replayed: bool,
    runs: usize,
}

const K: (&str, &str) = ("idempotency-key", "\"k-1\"");

fn cases() -> Vec<Case> {
    let ann = ("authorization", "Bearer ann");
    let bob = ("authorization", "Bearer bob");
    let case = |says, sent, last, replayed, runs| Case {
        says,
        sent,
        last,
        replayed,
        runs,
    };
    vec![
        case(
            "a first request is carried out",
            vec![("/payments", vec![K], "1")],
            201,
            false,
            1,
        ),
        case(
            "without a key every request is carried out",
            vec![("/payments", vec![], "1"); 2],
            201,
            false,
            2,
        ),
        case(
            "a repeated request gets the first answer",
            vec![("/payments", vec![K], "1"); 3],
            201,
            true,
            1,
        ),
        case(
            "quotes are no part of the key",
            vec![
                ("/payments", vec![K], "1"),
                ("/payments", vec![("idempotency-key", "k-1")], "1"),
            ],
            201,
            true,
            1,
        ),
        case(
            "other headers do not matter",
            vec![
                ("/payments", vec![K], "1"),
                ("/payments", vec![K, ("traceparent", "x")], "1"),
            ],
            201,
            true,
            1,
        ),
        case(
            "another body is refused",
            vec![("/payments", vec![K], "1"), ("/payments", vec![K], "2")],
            422,
            false,
            1,
        ),
        case(
            "another path is refused",
            vec![("/payments", vec![K], "1"), ("/refunds", vec![K], "1")],
            422,
            false,
            1,
        ),
        case(
            "another query is refused",
            vec![("/payments", vec![K], "1"), ("/payments?x=1", vec![K], "1")],
            422,
            false,
            1,
        ),
        case(
            "after a refusal the first answer is still there",
            vec![
                ("/payments", vec![K], "1"),
                ("/payments", vec![K], "2"),
                ("/payments", vec![K], "1"),
            ],
            201,
            true,
            1,
        ),
        case(
            "another key is another request",
            vec![
                ("/payments", vec![K], "1"),
                ("/payments", vec![("idempotency-key", "\"k-2\"")], "1"),
            ],
            201,
            false,
            2,
        ),
        case(
            "keys of two callers do not meet",
            vec![("/payments", vec![K, ann], "1"), ("/payments", vec![K, bob], "2")],
            201,
            false,
            2,
        ),
        case(
            "keys of one caller do",
            vec![("/payments", vec![K, ann], "1"), ("/payments", vec![K, ann], "1")],
            201,
            true,
            1,
        ),
        case(
            "somebody without a credential is not ann",
            vec![("/payments", vec![K, ann], "1"), ("/payments", vec![K], "1")],
            201,
            false,
            2,
        ),
        case(
            "an empty key is refused",
            vec![("/payments", vec![("idempotency-key", "\"\"")], "1")],
            400,
            false,
            0,
        ),
        case(
            "a key that is not closed is refused",
            vec![("/payments", vec![("idempotency-key", "\"k")], "1")],
            400,
            false,
            0,
        ),
        case(
            "two keys are refused",
            vec![("/payments", vec![K, K], "1")],
            400,
            false,
            0,
        ),
        case(
            "a refusal by the service is an answer",
            vec![("/odd/declined", vec![K], "1"); 2],
            402,
            true,
            1,
        ),
        case(
            "so is an error of the service",
            vec![("/odd/broken", vec![K], "1"); 2],
            500,
            true,
            1,
        ),
        case(
            "a panic is not run again",
            vec![("/odd/panic", vec![K], "1"); 2],
            500,
            true,
            1,
        ),
        case(
            "who was told to come later may",
            vec![("/odd/busy", vec![K], "1"); 2],
            200,
            false,
            2,
        ),
        case(
            "and then has its answer",
            vec![("/odd/busy", vec![K], "1"); 3],
            200,
            true,
            2,
        ),
        case(
            "a service that gave up half-way is not asked again",
            vec![("/odd/half-way", vec![K], "1"); 2],
            503,
            true,
            1,
        ),
        case(
            "unless it says that nothing was done",
            vec![("/odd/full", vec![K], "1"); 2],
            200,
            false,
            2,
        ),
        case(
            "a large answer is said to have been given",
            vec![("/odd/large", vec![K], "1"); 2],
            409,
            false,
            1,
        ),
        case(
            "a route that is not there has an answer too",
            vec![("/nowhere", vec![K], "1"); 2],
            404,
            true,
            0,
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_of_cases() {
    for case in cases() {
        let shop = Shop::open().await;
        let mut last = None;
        for (path, headers, body) in &case.sent {
            last = Some(shop.ask(post_to(path, headers, body)).await);
        }
        let last = last.unwrap();
        assert_eq!(
            (last.status, last.is_replayed(), shop.runs()),
            (case.last, case.replayed, case.runs),
            "{}: {last:?}",
            case.says
        );
    }
}

#[tokio::test]
async fn a_replay_is_the_first_answer_byte_for_byte() {
    let shop = Shop::open().await;
    let first = shop.pay("k", "{\"amount\": 4200}").await;
    assert_eq!(first.body, b"{\"amount\": 4200} paid \xff\x00");
    let again = shop.pay("k", "{\"amount\": 4200}").await;
    assert!(again.is_replayed() && !first.is_replayed());
    assert_eq!(again.unmarked(), first);
}

#[tokio::test]
async fn refusals_say_why() {
    let shop = Shop::open().await;
    let missing = Shop::with(|layer| layer.required()).await;
    let refused = missing.ask(post_to("/payments", &[], "1")).await;
    assert_eq!((refused.status, refused.code().as_str()), (400, "invalid"));
    assert_eq!(missing.runs(), 0);

    shop.pay("k", "1").await;
    assert_eq!(shop.pay("k", "2").await.code(), "idempotency_conflict");
    let small = Shop::with(|layer| layer.request_bytes(10)).await;
    let refused = small.pay("k", "12345678901").await;
    assert_eq!(
        (refused.status, refused.code().as_str(), small.runs()),
        (413, "too_large", 0)
    );
    assert_eq!(small.pay("k", "1234567890").await.status, 201);
}

#[tokio::test]
async fn safe_methods_are_left_alone() {
    let shop = Shop::with(|layer| layer.required()).await;
    for method in ["GET", "PUT", "DELETE"] {
        let mut request = post_to("/payments", &[K], "1");
        *request.method_mut() = method.parse().unwrap();
        assert_eq!(shop.ask(request).await.status, 201, "{method}");
    }
    assert_eq!(shop.runs(), 3);
}

#[tokio::test]
async fn the_scope_can_be_said() {
    let by_tenant =
        |parts: &axum::http::request::Parts| parts.headers["x-tenant"].to_str().unwrap().to_owned();
    let shop = Shop::with(|layer| layer.scope(by_tenant)).await;
    let ask = async |tenant, caller| {
        let headers = [K, ("x-tenant", tenant), ("authorization", caller)];
        shop.ask(post_to("/payments", &headers, "1")).await.is_replayed()
    };
    assert!(!ask("a", "ann").await);
    assert!(ask("a", "bob").await, "one tenant, one space of keys");
    assert!(!ask("b", "ann").await);
}

#[tokio::test]
async fn while_it_is_in_progress_a_repeated_request_is_told_so() {
    let shop = Shop::open().await;
    let first = begin_slowly(&shop).await;
    let early = shop.ask(post_to("/slow", &[K], "1")).await;
    assert_eq!((early.status, early.code().as_str()), (409, "in_progress"));
    assert!(early.headers.iter().any(|(name, _)| name == "retry-after"));
    // What makes it another request is known with the answer of the first: until then it has to wait as well.
    let other = shop.ask(post_to("/slow", &[K], "2")).await;
    assert_eq!((other.status, other.code().as_str()), (409, "in_progress"));
    shop.gate.add_permits(1);
    assert_eq!(first.await.unwrap().body, b"slow 1");
    assert_eq!(shop.ask(post_to("/slow", &[K], "1")).await.body, b"slow 1");
    assert_eq!(shop.ask(post_to("/slow", &[K], "2")).await.status, 422);
}

#[tokio::test]
async fn which_statuses_say_that_nothing_was_done_can_be_said() {
    let shop = Shop::with(|layer| layer.undone(|status| status.as_u16() == 503)).await;
    let ask = async || shop.ask(post_to("/odd/half-way", &[K], "1")).await;
    assert_eq!(ask().await.status, 503);
    assert_eq!((ask().await.status, shop.runs()), (200, 2));
}

/// A caller that hangs up drops the future of its request. The effect goes on, and its answer is there for the next.
#[tokio::test]
async fn a_caller_that_hangs_up_finds_the_answer_later() {
    let shop = Shop::open().await;
    let hanging_up = begin_slowly(&shop).await;
    hanging_up.abort();
    assert!(hanging_up.await.unwrap_err().is_cancelled());
    shop.gate.add_permits(1);
    loop {
        let again = shop.ask(post_to("/slow", &[K], "1")).await;
        if again.status != 409 {
            assert_eq!(
                (again.body.as_slice(), again.is_replayed()),
                (&b"slow 1"[..], true)
            );
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(shop.runs(), 1);
}

/// A slow request that has reached the service.
async fn begin_slowly(shop: &Shop) -> tokio::task::JoinHandle<Got> {
    let asking = tokio::spawn({
        let shop = shop.clone();
        async move { shop.ask(post_to("/slow", &[K], "1")).await }
    });
    while shop.runs() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    asking
}

/// Answers outlive the process that gave them.
#[tokio::test(flavor = "multi_thread")]
async fn another_process_gives_the_same_answer() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("jobs.db").display());
    let first = {
        let jobs = semel::connect(&url).await.unwrap();
        Shop::on(&jobs, |layer| layer).pay("k", "1").await
    };
    let jobs = semel::connect(&url).await.unwrap();
    let shop = Shop::on(&jobs, |layer| layer);
    assert_eq!(shop.pay("k", "1").await.unmarked(), first);
    assert_eq!(shop.runs(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_a_thousand_equal_requests_at_once_one_is_carried_out() {
    for round in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("jobs.db").display());
        let jobs = semel::connect(&url).await.unwrap();
        let shop = Shop::on(&jobs, |layer| layer);
        let all: Vec<_> = (0..1_000)
            .map(|_| {
                let shop = shop.clone();
                tokio::spawn(async move { shop.pay("storm", "1").await })
            })
            .collect();
        let mut answers: HashMap<u16, Vec<Got>> = HashMap::new();
        for asked in all {
            let got = asked.await.unwrap();
            answers.entry(got.status).or_default().push(got);
        }
        assert_eq!(shop.runs(), 1, "round {round}");
        let paid = answers.remove(&201).unwrap();
        let early = answers.remove(&409).map_or(0, |refused| refused.len());
        assert!(answers.is_empty(), "{answers:?}");
        assert_eq!(paid.len() + early, 1_000);
        let firsts = paid.iter().filter(|got| !got.is_replayed()).count();
        assert_eq!(firsts, 1, "one answer is the first, all others are replays");
        let last = shop.pay("storm", "1").await.unmarked();
        assert!(paid.into_iter().all(|got| got.unmarked() == last));
        let stats = jobs.guard().stats().await.unwrap();
        assert_eq!((stats.fresh, stats.in_progress + stats.done), (1, 1_000));
    }
}
