//! The writer: one thread, one connection, many callers in one commit.
//!
//! Calls queue up while a commit is being synced; the next commit takes all of them. A lone caller
//! waits for nobody. If a commit with several calls fails, each is tried alone, so that one bad call
//! does not fail its neighbours.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::oneshot;

use semel_core::error::StoreError;
use semel_core::ids::Name;
use semel_core::time::Clock;

use crate::callers::{Callers, Waits};
use crate::checkpoint::Checkpointer;
use crate::clock;
use crate::fail::Fail;
use crate::tx::{Cache, Signals, Tx};
use crate::wake::Wake;

/// Calls in one commit.
const GROUP: usize = 512;
/// How often the writer lets others go first while it waits for callers to come back.
const PATIENCE: usize = 100;
/// How often the queue is looked at before the thread falls asleep.
const LOOKS: usize = 1_000;

/// The writer's handle. Dropping it lets the thread finish what is queued and stop.
pub struct Writer {
    queue: Option<Sender<Box<dyn Call>>>,
    callers: Arc<Callers>,
    thread: Option<JoinHandle<()>>,
}

/// What the writer's thread works with.
pub struct Desk {
    /// Its connection.
    pub connection: Connection,
    /// The namespace.
    pub namespace: Name,
    /// The namespace's number.
    pub ns: i64,
    /// The store's time.
    pub clock: Arc<dyn Clock>,
    /// Who waits for changes.
    pub wake: Arc<Wake>,
    /// Who moves what was committed into the database file.
    pub checkpointer: Arc<Checkpointer>,
}

impl Writer {
    /// Starts the thread.
    pub fn start(desk: Desk) -> Result<Self, StoreError> {
        let (queue, calls) = mpsc::channel();
        let callers = Arc::new(Callers::default());
        let served = callers.clone();
        let thread = std::thread::Builder::new()
            .name("semel-writer".to_owned())
            .spawn(move || serve(desk, &calls, &served));
        let thread = thread.map_err(|error| StoreError::Unavailable {
            doing: "starting the writer".to_owned(),
            source: Some(Box::new(error)),
        })?;
        Ok(Writer {
            queue: Some(queue),
            callers,
            thread: Some(thread),
        })
    }

    /// Runs work in the next commit and gives its result once that is durable.
    ///
    /// The work may be run again if the commit it was part of fails, so it must not consume its input.
    pub async fn write<R, F>(&self, doing: &'static str, work: F) -> Result<R, StoreError>
    where
        R: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Result<R, Fail> + Send + 'static,
    {
        self.call(doing, work, Manner::Whole)?.await
    }

    /// As [`Writer::write`], for work that knows what to do where newborn jobs are not entered yet.
    pub async fn write_knowing<R, F>(&self, doing: &'static str, work: F) -> Result<R, StoreError>
    where
        R: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Result<R, Fail> + Send + 'static,
    {
        self.call(doing, work, Manner::Knowing)?.await
    }

    /// As [`Writer::write_knowing`], but lets the caller do something else before it waits.
    pub fn begin<R, F>(&self, doing: &'static str, work: F) -> Result<Answer<R>, StoreError>
    where
        R: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Result<R, Fail> + Send + 'static,
    {
        self.call(doing, work, Manner::Knowing)
    }

    /// Runs work and takes everything back: what would happen (contract 2.14).
    pub async fn rehearse<R, F>(&self, doing: &'static str, work: F) -> Result<R, StoreError>
    where
        R: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Result<R, Fail> + Send + 'static,
    {
        self.call(doing, work, Manner::Dry)?.await
    }

    fn call<R, F>(&self, doing: &'static str, work: F, manner: Manner) -> Result<Answer<R>, StoreError>
    where
        R: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Result<R, Fail> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let call = Work {
            doing,
            work,
            result: None,
            reply: Some(reply),
            manner,
            _waits: self.callers.enter(),
        };
        self.send(Box::new(call), doing)?;
        Ok(Answer {
            doing,
            answer,
            callers: Some(self.callers.clone()),
        })
    }

    fn send(&self, call: Box<dyn Call>, doing: &'static str) -> Result<(), StoreError> {
        let queue = self
            .queue
            .as_ref()
            .ok_or_else(|| StoreError::unavailable(doing))?;
        queue.send(call).map_err(|_| StoreError::unavailable(doing))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // A writer that panicked has answered nobody; there is nothing left to do about it here.
            let _ = thread.join();
        }
    }
}

/// The answer to a call that is under way.
pub struct Answer<R> {
    doing: &'static str,
    answer: oneshot::Receiver<Reply<R>>,
    /// Taken when it has been looked out for.
    callers: Option<Arc<Callers>>,
}

/// What comes back to a caller: the answer, and the call, which it takes apart itself. The writer has others to serve.
struct Reply<R> {
    result: Result<R, StoreError>,
    _call: Option<Box<dyn Send>>,
}

impl<R> From<Result<R, StoreError>> for Reply<R> {
    fn from(result: Result<R, StoreError>) -> Self {
        Reply { result, _call: None }
    }
}

impl<R> Future for Answer<R> {
    type Output = Result<R, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(callers) = self.callers.take() {
            callers.look_out(|| !self.answer.is_empty());
        }
        let answer = Pin::new(&mut self.answer).poll(context);
        answer.map(|answer| {
            answer.map_or_else(|_| Err(StoreError::unavailable(self.doing)), |reply| reply.result)
        })
    }
}

type Group = Vec<Box<dyn Call>>;

trait Call: Send {
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), Fail>;
    fn answer(self: Box<Self>);
    fn fail(self: Box<Self>, fail: Fail);
    fn share(self: Box<Self>, fail: &Fail);
    fn manner(&self) -> Manner;

    fn is_dry(&self) -> bool {
        self.manner() == Manner::Dry
    }
}

/// What a call asks of its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// Everything has to be in its place.
    Whole,
    /// It enters newborn jobs itself where that matters.
    Knowing,
    /// Nothing of it may stay.
    Dry,
}

struct Work<F, R> {
    doing: &'static str,
    work: F,
    result: Option<R>,
    reply: Option<oneshot::Sender<Reply<R>>>,
    manner: Manner,
    _waits: Waits,
}

impl<F, R> Work<F, R> {
    fn reply(&mut self, reply: Reply<R>) {
        if let Some(caller) = self.reply.take() {
            // The caller may have gone away; what was committed stays.
            let _ = caller.send(reply);
        }
    }
}

impl<F, R> Call for Work<F, R>
where
    R: Send + 'static,
    F: FnMut(&mut Tx<'_>) -> Result<R, Fail> + Send + 'static,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), Fail> {
        self.result = Some((self.work)(tx)?);
        Ok(())
    }

    fn answer(mut self: Box<Self>) {
        let result = self.result.take();
        let result = result.ok_or_else(|| StoreError::unavailable(self.doing));
        if let Some(caller) = self.reply.take() {
            // The caller may have gone away; what was committed stays.
            let _ = caller.send(Reply {
                result,
                _call: Some(self),
            });
        }
    }

    fn fail(mut self: Box<Self>, fail: Fail) {
        let result = Err(fail.into_store(self.doing));
        self.reply(result.into());
    }

    fn share(mut self: Box<Self>, fail: &Fail) {
        let result = Err(fail.shared(self.doing));
        self.reply(result.into());
    }

    fn manner(&self) -> Manner {
        self.manner
    }
}

fn serve(desk: Desk, calls: &Receiver<Box<dyn Call>>, callers: &Callers) {
    let mut cache = Cache::default();
    let mut waiting = None;
    let mut answered = 1;
    while let Some(first) = waiting.take().or_else(|| next(calls)) {
        if first.is_dry() {
            rehearse(&desk, &mut cache, first);
            continue;
        }
        let group;
        (group, waiting) = gather(first, calls, answered);
        answered = group.len();
        let begun = clock::instant();
        commit_group(&desk, &mut cache, group);
        callers.learn(clock::instant().duration_since(begun));
        desk.checkpointer.after_commit(&desk.connection);
    }
}

/// A call and those that wait behind it, up to one that writes nothing.
///
/// Callers that were answered together come back one by one. If the writer ran off with those who already wait, callers
/// would split into two halves that take turns, each waiting for the other's commit: so it lets most of both come, for a
/// moment. With one caller there is nobody to wait for.
fn gather(
    first: Box<dyn Call>,
    calls: &Receiver<Box<dyn Call>>,
    answered: usize,
) -> (Group, Option<Box<dyn Call>>) {
    let mut group = vec![first];
    let (mut expected, mut patience) = (None, PATIENCE);
    while group.len() < GROUP {
        match calls.try_recv() {
            Ok(call) if call.is_dry() => return (group, Some(call)),
            Ok(call) => group.push(call),
            Err(_) => {
                let expected = *expected.get_or_insert((group.len() + answered).min(GROUP) * 3 / 4);
                if group.len() >= expected || patience == 0 {
                    break;
                }
                patience -= 1;
                std::thread::yield_now();
            }
        }
    }
    (group, None)
}

/// The next call. Whoever was just answered often calls again at once: falling asleep in between would cost it more
/// than looking out for it for a moment.
fn next(calls: &Receiver<Box<dyn Call>>) -> Option<Box<dyn Call>> {
    for _ in 0..LOOKS {
        match calls.try_recv() {
            Ok(call) => return Some(call),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => std::hint::spin_loop(),
        }
    }
    calls.recv().ok()
}

fn commit_group(desk: &Desk, cache: &mut Cache, mut group: Vec<Box<dyn Call>>) {
    match commit(desk, cache, &mut group) {
        Ok(signals) => {
            for call in group {
                call.answer();
            }
            desk.wake.signal(signals);
        }
        Err(fail) if group.len() > 1 && fail.may_be_a_neighbours() => {
            for call in group {
                commit_group(desk, cache, vec![call]);
            }
        }
        Err(fail) => {
            let mut group = group.into_iter();
            let first = group.next();
            for call in group {
                call.share(&fail);
            }
            if let Some(first) = first {
                first.fail(fail);
            }
        }
    }
}

/// A panic while working on damaged data must not take the writer away from everybody else.
fn guarded<T>(work: impl FnOnce() -> Result<T, Fail>) -> Result<T, Fail> {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    caught.unwrap_or_else(|_| Err(Fail::Store(StoreError::corrupt("the work on it panicked"))))
}

fn commit(desk: &Desk, cache: &mut Cache, group: &mut [Box<dyn Call>]) -> Result<Signals, Fail> {
    let result = guarded(|| {
        begin(desk)?;
        let mut tx = Tx::new(
            &desk.connection,
            cache,
            desk.ns,
            &desk.namespace,
            desk.clock.micros(),
        )?;
        tx.deferring = group.iter().all(|call| call.manner() == Manner::Knowing);
        if !tx.deferring {
            tx.enter_newborn()?;
        }
        for call in group.iter_mut() {
            call.run(&mut tx)?;
        }
        let signals = tx.finish()?;
        desk.connection.prepare_cached("COMMIT")?.execute([])?;
        cache.commit();
        Ok(signals)
    });
    if result.is_err() {
        roll_back(desk, cache);
    }
    result
}

fn rehearse(desk: &Desk, cache: &mut Cache, mut call: Box<dyn Call>) {
    let result = guarded(|| {
        begin(desk)?;
        let mut tx = Tx::new(
            &desk.connection,
            cache,
            desk.ns,
            &desk.namespace,
            desk.clock.micros(),
        )?;
        tx.enter_newborn()?;
        call.run(&mut tx)
    });
    roll_back(desk, cache);
    match result {
        Ok(()) => call.answer(),
        Err(fail) => call.fail(fail),
    }
}

fn begin(desk: &Desk) -> Result<(), Fail> {
    desk.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    Ok(())
}

fn roll_back(desk: &Desk, cache: &mut Cache) {
    cache.roll_back();
    if !desk.connection.is_autocommit() {
        // If even this fails the next BEGIN says so, to a caller who can be told.
        let _ = desk.connection.execute_batch("ROLLBACK");
    }
}
