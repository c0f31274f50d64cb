//! Concurrent single calls become batches.
//!
//! A caller who finds nobody under way goes at once, alone. Whoever comes while calls are in flight queues up;
//! a task takes along everything that has queued up, waits for nothing but its turn to run, makes one call for
//! all, and ends when nobody is left. Batches are not made by their callers: a future that is not polled for a
//! while must not hold up others.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use semel_core::error::StoreError;

/// Bytes in one batch; a single larger call goes alone.
const BATCH_BYTES: usize = 16 * 1024 * 1024;

/// Batches in flight: while a store commits one, others are prepared and at hand.
const IN_FLIGHT: usize = 4;

/// How often others are let run before a batch goes: those who were answered together come back one by one.
const YIELDS: usize = 3;

/// Turns concurrent calls with a `Q` into batches; each is answered with an `A`.
pub(crate) struct Coalescer<Q, A> {
    shared: Arc<Shared<Q, A>>,
}

struct Shared<Q, A> {
    call: Box<Call<Q, A>>,
    most: usize,
    weigh: fn(&Q) -> usize,
    /// Whether one who is alone goes without a task.
    lone: bool,
    in_flight: usize,
    queue: Mutex<Queue<Q, A>>,
}

/// What answers a batch, in order.
type Call<Q, A> = dyn Fn(Vec<Q>) -> Answered<A> + Send + Sync;
type Answered<A> = Pin<Box<dyn Future<Output = Result<Vec<A>, StoreError>> + Send>>;

struct Queue<Q, A> {
    /// Calls in flight, those of one alone included.
    under_way: usize,
    batches: usize,
    /// Whether one of the batches still takes others along.
    gathering: bool,
    waiting: VecDeque<Waiting<Q, A>>,
}

struct Waiting<Q, A> {
    request: Q,
    reply: oneshot::Sender<Told<A>>,
}

/// What one who waits is told.
enum Told<A> {
    /// This came of it.
    Answer(Result<A, StoreError>),
    /// The batch as a whole was refused: go alone, as one bad request must not fail its neighbours.
    Alone,
}

enum Entry<Q, A> {
    Alone(Lone<Q, A>),
    Wait(oneshot::Receiver<Told<A>>),
}

impl<Q, A> Coalescer<Q, A>
where
    Q: Clone + Send + 'static,
    A: Send + 'static,
{
    /// At most `most` requests in one call; `weigh` tells how many bytes one has; `call` answers a batch, in order.
    ///
    /// Requests may be sent more than once, so sending one again must change nothing (contract 3.5).
    pub(crate) fn new<F>(
        most: usize,
        weigh: fn(&Q) -> usize,
        call: impl Fn(Vec<Q>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Vec<A>, StoreError>> + Send + 'static,
    {
        let queue = Queue {
            under_way: 0,
            batches: 0,
            gathering: false,
            waiting: VecDeque::new(),
        };
        let shared = Shared {
            call: Box::new(move |batch| Box::pin(call(batch))),
            most,
            weigh,
            lone: true,
            in_flight: IN_FLIGHT,
            queue: Mutex::new(queue),
        };
        Coalescer {
            shared: Arc::new(shared),
        }
    }

    /// Never has two calls in flight.
    pub(crate) fn one_at_a_time(mut self) -> Self {
        let shared = Arc::get_mut(&mut self.shared).expect("nobody has called yet");
        shared.lone = false;
        shared.in_flight = 1;
        self
    }

    /// Answers one request, together with others that come at the same time.
    pub(crate) async fn call(&self, request: &Q) -> Result<A, StoreError> {
        let told = match self.enter(request) {
            Entry::Alone(_under_way) => return self.go_alone(request).await,
            Entry::Wait(told) => told,
        };
        match told.await {
            Ok(Told::Answer(answer)) => answer,
            // Also if the batch went down with the runtime it ran on, or with somebody's panic.
            Ok(Told::Alone) | Err(_) => self.go_alone(request).await,
        }
    }

    async fn go_alone(&self, request: &Q) -> Result<A, StoreError> {
        only((self.shared.call)(vec![request.clone()]).await?)
    }

    fn enter(&self, request: &Q) -> Entry<Q, A> {
        let mut queue = self.shared.lock();
        if self.shared.lone && queue.under_way == 0 && queue.waiting.is_empty() {
            queue.under_way += 1;
            return Entry::Alone(Lone(self.shared.clone()));
        }
        let (reply, told) = oneshot::channel();
        queue.waiting.push_back(Waiting {
            request: request.clone(),
            reply,
        });
        Batch::start_next(&self.shared, &mut queue);
        Entry::Wait(told)
    }
}

impl<Q, A> Shared<Q, A> {
    fn lock(&self) -> MutexGuard<'_, Queue<Q, A>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who is alone is under way.
struct Lone<Q, A>(Arc<Shared<Q, A>>);

impl<Q, A> Drop for Lone<Q, A> {
    fn drop(&mut self) {
        self.0.lock().under_way -= 1;
    }
}

/// A batch under way, in a task of its own.
struct Batch<Q, A> {
    shared: Arc<Shared<Q, A>>,
    gathering: bool,
    ended: bool,
}

impl<Q, A> Batch<Q, A>
where
    Q: Clone + Send + 'static,
    A: Send + 'static,
{
    /// Starts a batch for those who wait, unless one takes them along anyway or enough are in flight.
    fn start_next(shared: &Arc<Shared<Q, A>>, queue: &mut Queue<Q, A>) {
        if queue.waiting.is_empty() || queue.gathering || queue.batches >= shared.in_flight {
            return;
        }
        queue.batches += 1;
        queue.under_way += 1;
        queue.gathering = true;
        let batch = Batch {
            shared: shared.clone(),
            gathering: true,
            ended: false,
        };
        // Owned by those who wait: it ends with the last of them.
        drop(tokio::spawn(batch.run()));
    }

    async fn run(mut self) {
        loop {
            for _ in 0..YIELDS {
                tokio::task::yield_now().await;
            }
            let (requests, replies) = self.gather();
            if !requests.is_empty() {
                let size = requests.len();
                answer(replies, size, (self.shared.call)(requests).await);
            }
            if !self.goes_on() {
                return;
            }
        }
    }

    /// Everything that has queued up, as far as it fits into one call. What does not fit is for another batch.
    fn gather(&mut self) -> (Vec<Q>, Vec<oneshot::Sender<Told<A>>>) {
        let shared = self.shared.clone();
        let mut queue = shared.lock();
        let room = shared.most.min(queue.waiting.len());
        let (mut requests, mut replies) = (Vec::with_capacity(room), Vec::with_capacity(room));
        let mut bytes = 0;
        while let Some(next) = queue.waiting.front() {
            bytes += (shared.weigh)(&next.request);
            if requests.len() == shared.most || (bytes > BATCH_BYTES && !requests.is_empty()) {
                break;
            }
            let next = queue.waiting.pop_front().expect("it was in front");
            // Nobody waits for it any more, and it was not sent: it need not be.
            if !next.reply.is_closed() {
                requests.push(next.request);
                replies.push(next.reply);
            }
        }
        self.gathering = false;
        queue.gathering = false;
        Batch::start_next(&shared, &mut queue);
        (requests, replies)
    }

    /// Whether there is another batch to make, and nobody else makes it.
    fn goes_on(&mut self) -> bool {
        let mut queue = self.shared.lock();
        let goes_on = !queue.waiting.is_empty() && !queue.gathering;
        if goes_on {
            queue.gathering = true;
        } else {
            queue.batches -= 1;
            queue.under_way -= 1;
        }
        self.gathering = goes_on;
        self.ended = !goes_on;
        goes_on
    }
}

impl<Q, A> Drop for Batch<Q, A> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // Dropped in the middle, by a panic or a runtime that ends. Those who wait, perhaps on another, go alone.
        let mut queue = self.shared.lock();
        queue.batches -= 1;
        queue.under_way -= 1;
        if self.gathering {
            queue.gathering = false;
        }
        if !queue.gathering {
            queue.waiting.clear();
        }
    }
}

/// Tells each of those who made a call together what came of it.
fn answer<A>(replies: Vec<oneshot::Sender<Told<A>>>, size: usize, answered: Result<Vec<A>, StoreError>) {
    match answered {
        Ok(answers) if answers.len() == size => {
            tell(
                replies,
                answers.into_iter().map(|answer| Told::Answer(Ok(answer))),
            );
        }
        Ok(answers) => {
            let error = StoreError::corrupt(format!("{} answers to {size} requests", answers.len()));
            tell(
                replies,
                std::iter::repeat_with(|| Told::Answer(Err(share(&error)))),
            );
        }
        Err(error) if size > 1 && !error.is_retryable() => {
            tell(replies, std::iter::repeat_with(|| Told::Alone));
        }
        Err(error) => tell(
            replies,
            std::iter::repeat_with(|| Told::Answer(Err(share(&error)))),
        ),
    }
}

fn tell<A>(replies: Vec<oneshot::Sender<Told<A>>>, told: impl Iterator<Item = Told<A>>) {
    for (reply, told) in replies.into_iter().zip(told) {
        // One who has gone away need not be told.
        let _ = reply.send(told);
    }
}

fn only<A>(mut answers: Vec<A>) -> Result<A, StoreError> {
    match answers.len() {
        1 => Ok(answers.remove(0)),
        other => Err(StoreError::corrupt(format!("{other} answers to 1 request"))),
    }
}

/// The same error for each of those who made a call together.
pub(crate) fn share(error: &StoreError) -> StoreError {
    match error {
        StoreError::Invalid(invalid) => StoreError::Invalid(invalid.clone()),
        StoreError::Unavailable { doing, source } => StoreError::Unavailable {
            doing: doing.clone(),
            source: source.as_ref().map(|source| source.to_string().into()),
        },
        StoreError::Full { doing } => StoreError::Full { doing: doing.clone() },
        StoreError::ReadOnly { reason } => StoreError::ReadOnly {
            reason: reason.clone(),
        },
        StoreError::Refused { reason, hint } => StoreError::Refused {
            reason: reason.clone(),
            hint: hint.clone(),
        },
        StoreError::Corrupt { what } => StoreError::corrupt(what),
        other => StoreError::unavailable(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

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
            let answer =
                survivor.block_on(async { tokio::time::timeout(Duration::from_secs(5), waiting).await });
            assert_eq!(
                answer.expect("in time").expect("no panic").expect("an answer"),
                42
            );
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
}
