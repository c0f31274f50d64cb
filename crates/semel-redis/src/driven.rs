//! A connection that a lone caller works by itself.
//!
//! As a rule a task of its own reads and writes a connection, and every call is handed to it and back: two turns of the
//! scheduler, often between two threads, which take as long as the server does. Here whoever waits alone for an answer
//! reads and writes in its own turns. As soon as a second one waits the task takes over, so nobody ever depends on
//! another caller, who may have stopped looking.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use redis::aio::{ConnectionLike as _, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisConnectionInfo, RedisResult, Value};
use tokio::net::TcpStream;
use tokio::sync::Notify;

type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

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
    many: Notify,
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
    /// Connects.
    pub async fn connect(
        place: (&str, u16),
        login: &RedisConnectionInfo,
        config: AsyncConnectionConfig,
    ) -> RedisResult<Self> {
        let stream = TcpStream::connect(place).await?;
        stream.set_nodelay(true)?;
        let (wire, driver) = MultiplexedConnection::new_with_config(login, stream, config).await?;
        let driver: Driver = Box::pin(driver);
        let worked = Arc::new(Worked {
            driver: Mutex::new(Some(driver)),
            waiting: AtomicUsize::new(0),
            many: Notify::new(),
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
        worked.attend(wire.req_packed_command(command)).await
    }

    /// Sends several.
    pub async fn commands(
        &mut self,
        commands: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        let Driven { wire, worked, .. } = self;
        worked
            .attend(wire.req_packed_commands(commands, offset, count))
            .await
    }

    /// The number of its database.
    pub fn db(&self) -> i64 {
        self.wire.get_db()
    }
}

impl Worked {
    /// Waits for an answer, and meanwhile reads and writes if nobody else waits.
    async fn attend<T>(&self, answer: impl Future<Output = T>) -> T {
        let before = self.waiting.fetch_add(1, Ordering::AcqRel);
        let _waits = Waits(&self.waiting);
        if before > 0 {
            self.many.notify_one();
        }
        let mut answer = pin!(answer);
        poll_fn(|context| {
            if let Poll::Ready(answered) = answer.as_mut().poll(context) {
                return Poll::Ready(answered);
            }
            if self.waiting.load(Ordering::Acquire) > 1 {
                return Poll::Pending;
            }
            self.work(context);
            answer.as_mut().poll(context)
        })
        .await
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

/// Reads and writes for several who wait, until one of them is alone again and does it itself.
async fn take_over(worked: Arc<Worked>) {
    let mut told = pin!(worked.many.notified());
    poll_fn(|context| {
        // Also told while it was at it: then it looks once more.
        while told.as_mut().poll(context).is_ready() {
            told.set(worked.many.notified());
        }
        if worked.waiting.load(Ordering::Acquire) > 0 {
            worked.work(context);
        }
        Poll::<()>::Pending
    })
    .await;
}
