//! A connection that a lone caller works by itself.
//!
//! As a rule a task of its own reads and writes a connection, and every call is handed to it and back: two turns of the
//! scheduler, often between two threads, which take as long as the server does. Here whoever waits alone for an answer
//! reads and writes in its own turns. As soon as a second one waits the task takes over, so nobody ever depends on
//! another caller, who may have stopped looking.
//!
//! A caller with several calls on their way, such as the parts of a large batch, is one who waits ([`Driven::drive`]): it
//! reads and writes for all of them.
//!
//! Who has been alone for a while also looks out for its answer instead of sleeping, for about as long as a server on the
//! same machine takes: to be woken, twice as a rule, takes longer than that. Where it does not help it is not done.

use std::future::poll_fn;
use std::io::{self, ErrorKind, Read as _};
use std::net::TcpStream as Socket;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use redis::aio::{ConnectionLike as _, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisConnectionInfo, RedisResult, Value};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::clock::Deadline;

/// How long an answer is looked out for.
const LOOK_OUT: Duration = Duration::from_micros(100);
/// Calls that have to be made alone before one looks out: among many, others need the thread.
const ALONE: u32 = 16;
/// Of so many calls one sleeps all the same: others of its thread get their turn then.
const SLEEPS: u32 = 16;
/// Calls that sleep at most, after one that has looked out in vain.
const DISCOURAGED: u32 = 255;
/// Turns of the processor between two looks.
const PAUSE: u32 = 16;
/// What is read at once of an answer that was looked out for.
const AT_ONCE: usize = 4_096;

type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

tokio::task_local! {
    /// The connection that the caller reads and writes for all its calls.
    static DRIVEN: usize;
}

/// A connection to one server, unencrypted.
#[derive(Clone)]
pub struct Driven {
    wire: MultiplexedConnection,
    worked: Arc<Worked>,
    _task: Arc<Task>,
}

/// What reads and writes, and how many wait for it.
struct Worked {
    /// None once the connection is closed.
    driver: Mutex<Option<Driver>>,
    waiting: AtomicUsize,
    /// It is used no more: whoever still waits leaves reading to the task. A caller that drives the next connection, or
    /// another, does not look at this one any more.
    given_up: AtomicBool,
    many: Notify,
    lookout: Option<Lookout>,
}

/// Looking out for answers.
struct Lookout {
    socket: Arc<Socket>,
    /// Whether there is something to read that the runtime may not know of yet.
    seen: Arc<AtomicBool>,
    /// Calls that lone callers have made, one after another.
    alone: Arc<AtomicU32>,
    /// Calls that are to sleep before one looks out again, and how many it was the last time.
    rests: AtomicU32,
    rested: AtomicU32,
}

/// A connection that can be read before the runtime has noticed that there is something to read.
struct Watched {
    stream: TcpStream,
    socket: Arc<Socket>,
    seen: Arc<AtomicBool>,
}

/// Stops with the last who could wait for it.
struct Task(tokio::task::JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// While it is there, somebody waits.
struct Waits<'w>(&'w AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Driven {
    /// Connects. How many calls lone callers have made one after another is counted outside.
    pub async fn connect(
        place: (&str, u16),
        login: &RedisConnectionInfo,
        config: AsyncConnectionConfig,
        alone: &Arc<AtomicU32>,
    ) -> RedisResult<Self> {
        let stream = TcpStream::connect(place).await?;
        stream.set_nodelay(true)?;
        let (stream, lookout) = Watched::watch(stream, alone)?;
        let (wire, driver) = MultiplexedConnection::new_with_config(login, stream, config).await?;
        let driver: Driver = Box::pin(driver);
        let worked = Arc::new(Worked {
            driver: Mutex::new(Some(driver)),
            waiting: AtomicUsize::new(0),
            given_up: AtomicBool::new(false),
            many: Notify::new(),
            // With one processor the server could not answer meanwhile.
            lookout: std::thread::available_parallelism()
                .is_ok_and(|processors| processors.get() > 1)
                .then_some(lookout),
        });
        let task = tokio::spawn(take_over(worked.clone()));
        Ok(Driven {
            wire,
            worked,
            _task: Arc::new(Task(task)),
        })
    }

    /// Sends a command.
    pub async fn command(&mut self, command: &Cmd) -> RedisResult<Value> {
        let Driven { wire, worked, .. } = self;
        let answer = wire.req_packed_command(command);
        match worked.is_driven_here() {
            true => answer.await,
            false => worked.attend(answer, true).await,
        }
    }

    /// Sends several.
    pub async fn commands(
        &mut self,
        commands: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        let Driven { wire, worked, .. } = self;
        let answer = wire.req_packed_commands(commands, offset, count);
        match worked.is_driven_here() {
            true => answer.await,
            false => worked.attend(answer, true).await,
        }
    }

    /// Does something that has several calls on their way at a time: all of them are those of one caller.
    pub async fn drive<T>(&self, calls: impl Future<Output = T>) -> T {
        match self.worked.is_driven_here() {
            true => calls.await,
            false => {
                let driven = DRIVEN.scope(self.worked.name(), calls);
                self.worked.attend(driven, false).await
            }
        }
    }

    /// What was asked so far is sent, though the caller goes on before it waits for answers.
    pub async fn send_off(&self) {
        let is_alone = !self.worked.is_left_to_the_task();
        // Only within [`Driven::drive`]: else the call that waits would not be woken when there is something to read.
        if is_alone && self.worked.is_driven_here() {
            poll_fn(|context| {
                self.worked.work_alone(context);
                Poll::Ready(())
            })
            .await;
        } else {
            // The task writes for many, and it may be one of this very thread.
            tokio::task::yield_now().await;
        }
    }

    /// Nobody asks here any more. The answers that are still to come are read by the task.
    pub fn give_up(&self) {
        self.worked.given_up.store(true, Ordering::Release);
        self.worked.many.notify_one();
    }

    /// The number of its database.
    pub fn db(&self) -> i64 {
        self.wire.get_db()
    }
}

impl Worked {
    /// By which it is told from other connections while it is there.
    fn name(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether the caller reads and writes for this call and others.
    fn is_driven_here(&self) -> bool {
        DRIVEN.try_with(|driven| *driven == self.name()).unwrap_or(false)
    }

    /// Whether the task reads and writes: for several who wait, or because it is not known who does.
    fn is_left_to_the_task(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 1 || self.given_up.load(Ordering::Acquire)
    }

    /// Waits for an answer, and meanwhile reads and writes if nobody else waits.
    async fn attend<T>(&self, answer: impl Future<Output = T>, looks_out: bool) -> T {
        let before = self.waiting.fetch_add(1, Ordering::AcqRel);
        let _waits = Waits(&self.waiting);
        if before > 0 {
            self.many.notify_one();
        }
        let mut lookout = self
            .lookout
            .as_ref()
            .filter(|lookout| looks_out && lookout.begins(before == 0));
        let mut answer = pin!(answer);
        poll_fn(|context| {
            if let Poll::Ready(answered) = answer.as_mut().poll(context) {
                return Poll::Ready(answered);
            }
            if self.is_left_to_the_task() {
                return Poll::Pending;
            }
            self.work_alone(context);
            let answered = answer.as_mut().poll(context);
            if answered.is_pending()
                && let Some(lookout) = lookout.take()
                && lookout.sees_something(&self.waiting)
            {
                self.work_alone(context);
                return answer.as_mut().poll(context);
            }
            answered
        })
        .await
    }

    /// Reads and writes for a caller that was alone a moment ago. Whoever came since has told the task, but it may have
    /// been done before this caller was: then this caller would be woken for the other one, and leave it to the task.
    fn work_alone(&self, context: &mut Context<'_>) {
        self.work(context);
        if self.is_left_to_the_task() {
            self.many.notify_one();
        }
    }

    /// Reads and writes what can be. From now on this task is woken when there is more.
    fn work(&self, context: &mut Context<'_>) {
        let mut driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(working) = driver.as_mut()
            && working.as_mut().poll(context).is_ready()
        {
            *driver = None;
        }
    }
}

impl Lookout {
    /// Whether a call is to look out. Says so of none of many, and of few where it did not help.
    fn begins(&self, is_alone: bool) -> bool {
        if !is_alone {
            self.alone.store(0, Ordering::Relaxed);
            return false;
        }
        let alone = self.alone.load(Ordering::Relaxed);
        if alone < ALONE || alone.is_multiple_of(SLEEPS) {
            return false;
        }
        let rests = self.rests.load(Ordering::Relaxed);
        self.rests.store(rests.saturating_sub(1), Ordering::Relaxed);
        rests == 0
    }

    /// Waits, without sleeping, until there is something to read: an answer, or the end of the connection.
    fn sees_something(&self, waiting: &AtomicUsize) -> bool {
        let end = Deadline::after(LOOK_OUT);
        let mut sight = [0];
        while self.socket.peek(&mut sight).is_err() {
            if waiting.load(Ordering::Acquire) > 1 {
                return false;
            }
            if end.left().is_zero() {
                let rests = self.rested.load(Ordering::Relaxed) * 2 + 1;
                self.rested.store(rests.min(DISCOURAGED), Ordering::Relaxed);
                self.rests.store(rests.min(DISCOURAGED), Ordering::Relaxed);
                return false;
            }
            // The socket is locked while it is looked at: whoever brings the answer needs it too.
            (0..PAUSE).for_each(|_| std::hint::spin_loop());
        }
        self.rested.store(0, Ordering::Relaxed);
        self.seen.store(true, Ordering::Relaxed);
        true
    }
}

impl Watched {
    fn watch(stream: TcpStream, alone: &Arc<AtomicU32>) -> io::Result<(Self, Lookout)> {
        let stream = stream.into_std()?;
        let (socket, seen) = (Arc::new(stream.try_clone()?), Arc::<AtomicBool>::default());
        let lookout = Lookout {
            socket: socket.clone(),
            seen: seen.clone(),
            alone: alone.clone(),
            rests: AtomicU32::new(0),
            rested: AtomicU32::new(0),
        };
        let stream = TcpStream::from_std(stream)?;
        Ok((Watched { stream, socket, seen }, lookout))
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.seen.swap(false, Ordering::Relaxed) {
            let room = into.remaining().min(AT_ONCE);
            match (&*self.socket).read(into.initialize_unfilled_to(room)) {
                Ok(read) => {
                    into.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, from)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, from)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Reads and writes for several who wait, until one of them is alone again and does it itself.
async fn take_over(worked: Arc<Worked>) {
    let mut told = pin!(worked.many.notified());
    poll_fn(|context| {
        // Also told while it was at it: then it looks once more.
        while told.as_mut().poll(context).is_ready() {
            told.set(worked.many.notified());
        }
        if worked.waiting.load(Ordering::Acquire) > 0 || worked.given_up.load(Ordering::Acquire) {
            worked.work(context);
        }
        Poll::<()>::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::task::Waker;
    use std::thread;

    use super::*;

    fn look_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn worked_by(driver: Driver) -> Arc<Worked> {
        Arc::new(Worked {
            driver: Mutex::new(Some(driver)),
            waiting: AtomicUsize::new(0),
            given_up: AtomicBool::new(false),
            many: Notify::new(),
            lookout: None,
        })
    }

    /// A caller finds itself alone and goes to read; before it does, another one comes and the task has read for both.
    /// Says whether that caller read then, and whether the task was told again.
    fn joined_on_the_way() -> (bool, bool) {
        let (asked, read) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let reads = read.clone();
        let driver: Driver = Box::pin(poll_fn(move |_| {
            reads.store(true, Ordering::SeqCst);
            Poll::Pending
        }));
        let worked = worked_by(driver);
        let held = worked.driver.lock().unwrap();
        let (first, asks) = (worked.clone(), asked.clone());
        let first = thread::spawn(move || {
            let answer = poll_fn(|_| {
                asks.store(true, Ordering::SeqCst);
                Poll::<()>::Pending
            });
            assert!(look_once(pin!(first.attend(answer, false))).is_pending());
        });
        while !asked.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(20));
        let mut second = pin!(worked.attend(pending::<()>(), false));
        assert!(look_once(second.as_mut()).is_pending());
        assert!(
            look_once(pin!(worked.many.notified())).is_ready(),
            "the task is told"
        );
        drop(held);
        first.join().expect("it ends");
        let told = look_once(pin!(worked.many.notified())).is_ready();
        (read.load(Ordering::SeqCst), told)
    }

    /// A caller with several calls on their way turned to the next connection when this one was given up: nobody read
    /// the answers that were still to come, until they were too late.
    #[test]
    fn answers_on_a_connection_that_was_given_up_are_read_by_the_task() {
        let reads = Arc::new(AtomicUsize::new(0));
        let counted = reads.clone();
        let worked = worked_by(Box::pin(poll_fn(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            Poll::Pending
        })));
        let mut task = pin!(take_over(worked.clone()));
        let mut look = || look_once(task.as_mut()).is_pending() && reads.load(Ordering::SeqCst) > 0;
        {
            let mut drive = pin!(worked.attend(pending::<()>(), false));
            assert!(look_once(drive.as_mut()).is_pending());
        }
        reads.store(0, Ordering::SeqCst);
        assert!(!look(), "nobody waits");
        worked.given_up.store(true, Ordering::Release);
        worked.many.notify_one();
        assert!(look(), "somebody may wait, and nobody reads");
        // From now on it is woken for what comes, also by one who was at it when it was given up.
        let mut late = pin!(worked.attend(pending::<()>(), false));
        assert!(look_once(late.as_mut()).is_pending());
        assert!(worked.is_left_to_the_task());
    }

    #[test]
    fn who_is_joined_on_the_way_tells_the_task_again() {
        // Whoever was too slow has seen the other one and left the reading to the task.
        let (_, told) = (0..100)
            .map(|_| joined_on_the_way())
            .find(|(read, _)| *read)
            .expect("one of them reads");
        assert!(told, "nobody will read for those who wait");
    }
}
