//! Concurrent single calls become batches.
//!
//! A caller who finds nobody under way goes at once, alone. Whoever comes while calls are in flight queues up;
//! a task takes along everything that has queued up, waits for nothing but its turn to run, makes one call for
//! all, and ends when nobody is left. Batches are not made by their callers: a future that is not polled for a
//! while must not hold up others.

mod batch;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use semel_core::error::StoreError;

use crate::coalesce::batch::Batch;

/// Batches in flight: while a store commits one, others are prepared and at hand.
const IN_FLIGHT: usize = 4;

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
        let next = Batch::next(&self.shared, &mut queue);
        drop(queue);
        if let Some(next) = next {
            next.start();
        }
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
