//! Concurrent single calls become batches.
//!
//! A caller who finds nobody under way goes at once, alone. Whoever comes while calls are in flight
//! queues up; when one ends, the one who waited longest leads the next: it takes everything that has
//! queued up meanwhile, waits for nothing, and makes one call for all. Callers lead in turn, so there
//! is no task that could outlive its owner.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use semel_core::error::StoreError;

/// Bytes in one batch; a single larger call goes alone.
const BATCH_BYTES: usize = 16 * 1024 * 1024;

/// Calls in flight: while a store commits one, the next is prepared and at hand.
const IN_FLIGHT: usize = 2;

/// Turns concurrent calls with a `Q` into batches; each is answered with an `A`.
pub(crate) struct Coalescer<Q, A> {
    queue: Arc<Mutex<Queue<Q, A>>>,
    most: usize,
    in_flight: usize,
    weigh: fn(&Q) -> usize,
}

struct Queue<Q, A> {
    /// How many calls are in flight.
    led: usize,
    waiting: VecDeque<Waiting<Q, A>>,
}

struct Waiting<Q, A> {
    request: Q,
    reply: oneshot::Sender<Turn<Q, A>>,
}

/// What one who waits is told.
enum Turn<Q, A> {
    /// This came of it.
    Answer(Result<A, StoreError>),
    /// The batch as a whole was refused: go alone, as one bad request must not fail its neighbours.
    Alone,
    /// Lead the next batch, with the request that was waiting.
    Lead(Leading<Q, A>, Q),
}

enum Entry<Q, A> {
    Lead(Leading<Q, A>, Q),
    Wait(oneshot::Receiver<Turn<Q, A>>),
}

impl<Q: Clone, A> Coalescer<Q, A> {
    /// At most so many requests in one call; `weigh` tells how many bytes one has.
    pub(crate) fn new(most: usize, weigh: fn(&Q) -> usize) -> Self {
        let queue = Queue {
            led: 0,
            waiting: VecDeque::new(),
        };
        Coalescer {
            queue: Arc::new(Mutex::new(queue)),
            most,
            in_flight: IN_FLIGHT,
            weigh,
        }
    }

    /// Never has two calls in flight.
    pub(crate) fn one_at_a_time(mut self) -> Self {
        self.in_flight = 1;
        self
    }

    /// Answers one request, together with others that come at the same time. `call` answers a batch, in order.
    ///
    /// Requests may be sent more than once, so sending one again must change nothing (contract 3.5).
    pub(crate) async fn call<C, F>(&self, request: &Q, call: C) -> Result<A, StoreError>
    where
        C: Fn(Vec<Q>) -> F,
        F: Future<Output = Result<Vec<A>, StoreError>>,
    {
        loop {
            let (leading, mine) = match self.enter(request) {
                Entry::Lead(leading, mine) => (leading, mine),
                Entry::Wait(told) => match told.await {
                    Ok(Turn::Answer(answer)) => return answer,
                    Ok(Turn::Alone) => return only(call(vec![request.clone()]).await?),
                    Ok(Turn::Lead(leading, mine)) => (leading, mine),
                    // The one who led went away in the middle: what became of the call is unknown.
                    Err(_) => continue,
                },
            };
            return self.lead(leading, request, mine, &call).await;
        }
    }

    fn enter(&self, request: &Q) -> Entry<Q, A> {
        let mut queue = lock(&self.queue);
        if queue.led < self.in_flight {
            queue.led += 1;
            return Entry::Lead(Leading(Some(self.queue.clone())), request.clone());
        }
        let (reply, told) = oneshot::channel();
        queue.waiting.push_back(Waiting {
            request: request.clone(),
            reply,
        });
        Entry::Wait(told)
    }

    async fn lead<C, F>(
        &self,
        leading: Leading<Q, A>,
        request: &Q,
        mine: Q,
        call: &C,
    ) -> Result<A, StoreError>
    where
        C: Fn(Vec<Q>) -> F,
        F: Future<Output = Result<Vec<A>, StoreError>>,
    {
        if lock(&self.queue).led > 1 {
            // Whoever is ready to run comes along. A lone caller finds nobody in flight and does not even do that.
            tokio::task::yield_now().await;
        }
        let (batch, others) = self.gather(mine);
        let size = batch.len();
        let answered = call(batch).await;
        // The next batch goes out before the answers of this one are read.
        drop(leading);
        match answered {
            Ok(answers) if answers.len() != size => Err(StoreError::corrupt(format!(
                "{} answers to {size} requests",
                answers.len()
            ))),
            Ok(answers) => {
                let mut answers = answers.into_iter();
                let first = answers.next().expect("as many answers as requests");
                tell(others, answers.map(|answer| Turn::Answer(Ok(answer))));
                Ok(first)
            }
            Err(error) if size > 1 && !error.is_retryable() => {
                tell(others, std::iter::repeat_with(|| Turn::Alone));
                only(call(vec![request.clone()]).await?)
            }
            Err(error) => {
                tell(
                    others,
                    std::iter::repeat_with(|| Turn::Answer(Err(share(&error)))),
                );
                Err(error)
            }
        }
    }

    /// Everything that has queued up, as far as it fits into one call.
    fn gather(&self, mine: Q) -> (Vec<Q>, Vec<oneshot::Sender<Turn<Q, A>>>) {
        let mut bytes = (self.weigh)(&mine);
        let mut queue = lock(&self.queue);
        let room = self.most.min(queue.waiting.len() + 1);
        let mut batch = Vec::with_capacity(room);
        let mut others = Vec::with_capacity(room);
        batch.push(mine);
        while let Some(next) = queue.waiting.front() {
            bytes += (self.weigh)(&next.request);
            if batch.len() == self.most || bytes > BATCH_BYTES {
                break;
            }
            let next = queue.waiting.pop_front().expect("it was in front");
            // Nobody waits for it any more, and it was not sent: it need not be.
            if !next.reply.is_closed() {
                batch.push(next.request);
                others.push(next.reply);
            }
        }
        (batch, others)
    }
}

/// The right to lead. However it ends, even unused, the next in line has it then.
struct Leading<Q, A>(Option<Arc<Mutex<Queue<Q, A>>>>);

impl<Q, A> Drop for Leading<Q, A> {
    fn drop(&mut self) {
        while let Some(queue) = self.0.take() {
            let mut locked = lock(&queue);
            let Some(next) = locked.waiting.pop_front() else {
                locked.led -= 1;
                return;
            };
            drop(locked);
            let turn = Turn::Lead(Leading(Some(queue)), next.request);
            if let Err(Turn::Lead(mut unused, _)) = next.reply.send(turn) {
                self.0 = unused.0.take();
            }
        }
    }
}

fn lock<Q, A>(queue: &Mutex<Queue<Q, A>>) -> MutexGuard<'_, Queue<Q, A>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tell<Q, A>(others: Vec<oneshot::Sender<Turn<Q, A>>>, turns: impl Iterator<Item = Turn<Q, A>>) {
    for (other, turn) in others.into_iter().zip(turns) {
        // One who has gone away need not be told.
        let _ = other.send(turn);
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

    fn numbers() -> Arc<Numbers> {
        Arc::new(Coalescer::new(1_000, |_| 8))
    }

    /// Doubles each number; says how large each batch was.
    async fn double(batch: Vec<u64>, sizes: &Mutex<Vec<usize>>) -> Result<Vec<u64>, StoreError> {
        sizes.lock().expect("unpoisoned").push(batch.len());
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok(batch.iter().map(|number| number * 2).collect())
    }

    #[tokio::test]
    async fn what_queues_up_during_a_call_is_the_next_batch() {
        let (coalescer, sizes) = (numbers(), Arc::new(Mutex::new(Vec::new())));
        let mut callers = tokio::task::JoinSet::new();
        for n in 0..64 {
            let (coalescer, sizes) = (coalescer.clone(), sizes.clone());
            callers.spawn(async move { (n, coalescer.call(&n, |batch| double(batch, &sizes)).await) });
        }
        for (n, answer) in callers.join_all().await {
            assert_eq!(answer.expect("an answer"), n * 2);
        }
        assert_eq!(*sizes.lock().expect("unpoisoned"), [1, 63]);
    }

    #[tokio::test]
    async fn a_leader_that_goes_away_takes_nobody_with_it() {
        let (coalescer, sizes) = (numbers(), Arc::new(Mutex::new(Vec::new())));
        for _ in 0..20 {
            let call = |n: u64| {
                let (coalescer, sizes) = (coalescer.clone(), sizes.clone());
                tokio::spawn(async move { coalescer.call(&n, |batch| double(batch, &sizes)).await })
            };
            let first = call(1);
            tokio::task::yield_now().await;
            let others: Vec<_> = (2..6).map(call).collect();
            tokio::time::sleep(Duration::from_millis(7)).await;
            // The first is done and another leads: stop that one, whoever it is, and one who waits.
            others[0].abort();
            others[2].abort();
            let _ = first.await;
            for (n, other) in (2..6).zip(others) {
                if let Ok(answer) = other.await {
                    assert_eq!(answer.expect("an answer"), n * 2);
                }
            }
            assert_eq!(call(50).await.expect("not aborted").expect("an answer"), 100);
        }
        assert_eq!(lock(&coalescer.queue).led, 0);
    }

    #[tokio::test]
    async fn one_bad_request_does_not_fail_its_neighbours() {
        let coalescer = numbers();
        let calls = Arc::new(AtomicUsize::new(0));
        let mut callers = tokio::task::JoinSet::new();
        for n in 0..10_u64 {
            let (coalescer, calls) = (coalescer.clone(), calls.clone());
            callers.spawn(async move {
                let refuse_seven = |batch: Vec<u64>| {
                    calls.fetch_add(1, Ordering::Relaxed);
                    async move {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        match batch.contains(&7) {
                            true => Err(StoreError::corrupt("seven")),
                            false => Ok(batch),
                        }
                    }
                };
                (n, coalescer.call(&n, refuse_seven).await)
            });
        }
        for (n, answer) in callers.join_all().await {
            assert_eq!(answer.is_ok(), n != 7, "{n}: {answer:?}");
        }
    }

    #[tokio::test]
    async fn a_batch_is_bounded_in_number_and_in_bytes() {
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let heavy: Arc<Numbers> = Arc::new(Coalescer::new(4, |n| if *n == 3 { BATCH_BYTES } else { 1 }));
        let mut callers = tokio::task::JoinSet::new();
        for n in 0..8 {
            let (coalescer, sizes) = (heavy.clone(), sizes.clone());
            callers.spawn(async move { coalescer.call(&n, |batch| double(batch, &sizes)).await });
        }
        callers.join_all().await;
        let mut sizes = sizes.lock().expect("unpoisoned").clone();
        sizes.sort_unstable();
        assert_eq!(sizes, [1, 1, 2, 4], "0 · 3 · 1, 2 · 4, 5, 6, 7");
    }
}
