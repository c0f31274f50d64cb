//! A batch: takes along whoever waits, makes one call for all, and tells each what came of it.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use semel_core::error::StoreError;

use crate::coalesce::{Queue, Shared, Told, share};

/// Bytes in one batch; a single larger call goes alone.
pub(super) const BATCH_BYTES: usize = 16 * 1024 * 1024;

/// How often others are let run before a batch goes: those who were answered together come back one by one.
const YIELDS: usize = 3;

/// A batch under way, in a task of its own.
pub(super) struct Batch<Q, A> {
    shared: Arc<Shared<Q, A>>,
    gathering: bool,
    ended: bool,
}

impl<Q, A> Batch<Q, A>
where
    Q: Clone + Send + 'static,
    A: Send + 'static,
{
    /// A batch for those who wait, unless one takes them along anyway or enough are in flight.
    ///
    /// To be started when the queue is no longer locked: a runtime that ends drops it at once, and dropping locks.
    pub(super) fn next(shared: &Arc<Shared<Q, A>>, queue: &mut Queue<Q, A>) -> Option<Self> {
        if queue.waiting.is_empty() || queue.gathering || queue.batches >= shared.in_flight {
            return None;
        }
        queue.batches += 1;
        queue.under_way += 1;
        queue.gathering = true;
        Some(Batch {
            shared: shared.clone(),
            gathering: true,
            ended: false,
        })
    }

    /// Lets it run in a task of its own. It is owned by those who wait, and ends with the last of them.
    pub(super) fn start(self) {
        if let Ok(runtime) = Handle::try_current() {
            drop(runtime.spawn(self.run()));
        }
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
        let next = Batch::next(&shared, &mut queue);
        drop(queue);
        if let Some(next) = next {
            next.start();
        }
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
