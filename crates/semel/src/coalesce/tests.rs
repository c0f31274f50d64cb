//! Callers that come at once, go away, are not polled, or end with their runtime.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::*;
use crate::coalesce::batch::BATCH_BYTES;

type Numbers = Coalescer<u64, u64>;
type Sizes = Arc<Mutex<Vec<usize>>>;

/// Doubles each number, slowly; says how large each batch was.
fn doubling(most: usize, weigh: fn(&u64) -> usize) -> (Arc<Numbers>, Sizes) {
    let sizes = Sizes::default();
    let theirs = sizes.clone();
    let double = move |batch: Vec<u64>| {
        theirs.lock().expect("unpoisoned").push(batch.len());
        async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok(batch.iter().map(|number| number * 2).collect())
        }
    };
    (Arc::new(Coalescer::new(most, weigh, double)), sizes)
}

fn spawn(coalescer: &Arc<Numbers>, n: u64) -> tokio::task::JoinHandle<Result<u64, StoreError>> {
    let coalescer = coalescer.clone();
    tokio::spawn(async move { coalescer.call(&n).await })
}

fn sorted(sizes: &Sizes) -> Vec<usize> {
    let mut sizes = sizes.lock().expect("unpoisoned").clone();
    sizes.sort_unstable();
    sizes
}

#[tokio::test]
async fn what_queues_up_during_a_call_is_the_next_batch() {
    let (coalescer, sizes) = doubling(1_000, |_| 8);
    let callers: Vec<_> = (0..64).map(|n| spawn(&coalescer, n)).collect();
    for (n, caller) in (0..).zip(callers) {
        assert_eq!(caller.await.expect("no panic").expect("an answer"), n * 2);
    }
    assert_eq!(*sizes.lock().expect("unpoisoned"), [1, 63]);
}

#[tokio::test]
async fn callers_that_go_away_take_nobody_with_them() {
    let (coalescer, _) = doubling(1_000, |_| 8);
    for _ in 0..20 {
        let callers: Vec<_> = (0..8).map(|n| spawn(&coalescer, n)).collect();
        tokio::time::sleep(Duration::from_millis(2)).await;
        callers[0].abort();
        callers[3].abort();
        for (n, caller) in (0..).zip(callers) {
            if let Ok(answer) = caller.await {
                assert_eq!(answer.expect("an answer"), n * 2);
            }
        }
        let alone = spawn(&coalescer, 50).await.expect("no panic");
        assert_eq!(alone.expect("an answer"), 100);
    }
    let queue = coalescer.shared.lock();
    assert_eq!((queue.under_way, queue.batches, queue.gathering), (0, 0, false));
}

/// A `select!` in a loop keeps a future without polling it while another branch is worked on. If that
/// branch needed the one who is not polled, both would wait for ever.
#[tokio::test]
async fn a_caller_that_is_not_polled_holds_up_nobody() {
    let (coalescer, _) = doubling(1_000, |_| 8);
    let mut idle: Vec<_> = (0..20)
        .map(|n| Box::pin(async move { n }))
        .map(|n| {
            let coalescer = coalescer.clone();
            Box::pin(async move { coalescer.call(&n.await).await })
        })
        .collect();
    for caller in &mut idle {
        assert!(
            tokio::time::timeout(Duration::ZERO, caller).await.is_err(),
            "begun, not finished"
        );
    }
    let other = tokio::time::timeout(Duration::from_secs(5), coalescer.call(&7)).await;
    assert_eq!(other.expect("in time").expect("an answer"), 14);
    for (n, caller) in (0..).zip(idle) {
        assert_eq!(caller.await.expect("an answer"), n * 2);
    }
}

#[test]
fn a_runtime_that_ends_takes_nobody_of_another_with_it() {
    let (coalescer, _) = doubling(1_000, |_| 8);
    let survivor = tokio::runtime::Runtime::new().expect("a runtime");
    for _ in 0..20 {
        let ending = tokio::runtime::Runtime::new().expect("a runtime");
        let begun: Vec<_> = (0..5)
            .map(|n| {
                let coalescer = coalescer.clone();
                ending.spawn(async move { coalescer.call(&n).await })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(1));
        let theirs = coalescer.clone();
        let waiting = survivor.spawn(async move { theirs.call(&21).await });
        std::thread::sleep(Duration::from_millis(1));
        drop((begun, ending));
        let answer = survivor.block_on(async { tokio::time::timeout(Duration::from_secs(5), waiting).await });
        assert_eq!(
            answer.expect("in time").expect("no panic").expect("an answer"),
            42
        );
    }
}

/// A batch used to be spawned while the queue was locked. A runtime that ends drops what is spawned on it at once,
/// the batch gave up its place as it was dropped, and the thread waited for itself.
#[test]
fn a_batch_that_cannot_be_started_sends_its_callers_alone() {
    let coalescer = Coalescer::new(1_000, |_| 8, |batch: Vec<u64>| async move { Ok(batch) });
    coalescer.shared.lock().under_way = 1;
    let ending = tokio::runtime::Runtime::new().expect("a runtime");
    let handle = ending.handle().clone();
    drop(ending);
    for _inside in [Some(handle.enter()), None] {
        let mut call = Box::pin(coalescer.call(&7));
        let answer = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(answer, Poll::Ready(Ok(7))), "{answer:?}");
    }
}

#[tokio::test]
async fn one_bad_request_does_not_fail_its_neighbours() {
    let calls = Arc::new(AtomicUsize::new(0));
    let theirs = calls.clone();
    let coalescer = Arc::new(Coalescer::new(
        1_000,
        |_| 8,
        move |batch: Vec<u64>| {
            theirs.fetch_add(1, Ordering::Relaxed);
            async move {
                tokio::time::sleep(Duration::from_millis(5)).await;
                match batch.as_slice() {
                    [8] => panic!("eight"),
                    batch if batch.contains(&7) => Err(StoreError::corrupt("seven")),
                    _ => Ok(batch),
                }
            }
        },
    ));
    let callers: Vec<_> = (0..10).map(|n| spawn(&coalescer, n)).collect();
    for (n, caller) in (0..).zip(callers) {
        let answer = caller.await;
        assert_eq!(answer.is_err(), n == 8, "{n}");
        assert_eq!(answer.is_ok_and(|answer| answer.is_ok()), n != 7 && n != 8, "{n}");
    }
}

#[tokio::test]
async fn a_batch_is_bounded_in_number_and_in_bytes() {
    let (coalescer, sizes) = doubling(4, |n| if *n == 3 { BATCH_BYTES + 1 } else { 1 });
    let callers: Vec<_> = (0..8).map(|n| spawn(&coalescer, n)).collect();
    for caller in callers {
        assert!(caller.await.expect("no panic").is_ok());
    }
    assert_eq!(sorted(&sizes), [1, 1, 2, 4], "0 · 3 · 1, 2 · 4, 5, 6, 7");
}

#[tokio::test]
async fn one_at_a_time_is_never_two() {
    let at_once = Arc::new(AtomicUsize::new(0));
    let theirs = at_once.clone();
    let call = move |batch: Vec<u64>| {
        let at_once = theirs.clone();
        async move {
            assert_eq!(at_once.fetch_add(1, Ordering::AcqRel), 0, "two at once");
            tokio::time::sleep(Duration::from_millis(1)).await;
            at_once.fetch_sub(1, Ordering::AcqRel);
            Ok(batch)
        }
    };
    let coalescer = Arc::new(Coalescer::new(2, |_| 8, call).one_at_a_time());
    let callers: Vec<_> = (0..20).map(|n| spawn(&coalescer, n)).collect();
    for caller in callers {
        assert!(caller.await.expect("no panic").is_ok());
    }
}
