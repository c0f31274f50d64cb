//! The Redis of Resque: its names, and the scripts that read and write its lists.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError, RedisResult, Script, ScriptInvocation, Value};

use semel_core::error::Invalid;
use semel_core::ids::{JobId, Name, Token};
use semel_redis::{Place, RedisOptions};

use crate::error::Error;

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(10);

const MEND: &str = include_str!("lua/mend.lua");

/// The Redis of Resque.
pub struct Resque {
    client: Client,
    wire: Mutex<Option<MultiplexedConnection>>,
    prefix: String,
    take: Script,
    finish: Script,
    push: Script,
}

/// A payload that left its queue and is no job yet.
pub struct Taken {
    /// What makes submitting it again the same submission.
    pub token: Token,
    /// When resque-uniqueue noted it; empty where it did not.
    pub time: String,
    /// What was in the list.
    pub payload: Vec<u8>,
}

/// What a unique queue needed before it could be used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mended {
    /// Its structures did not agree.
    pub mended: u64,
    /// Payloads that were in it twice.
    pub dropped: u64,
}

/// What came of a pushed payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It is in the queue.
    New,
    /// The same payload was in the unique queue.
    Absorbed,
    /// An earlier delivery of its job had pushed it.
    Again,
}

impl Resque {
    /// A server that is not tried yet. `namespace` is Resque's own, `resque` where nobody changed it.
    pub fn new(url: &str, namespace: &str) -> Result<Self, Error> {
        let options = RedisOptions::from_url(url)?;
        let Place::Server(url) = options.place else {
            let allowed = "one server, redis:// or rediss://: the keys of Resque have no slot in common";
            return Err(Invalid::new("the Redis of Resque", allowed).into());
        };
        let script = |text: &str| Script::new(&format!("{MEND}\n{text}"));
        Ok(Resque {
            client: Client::open(url)?,
            wire: Mutex::new(None),
            prefix: format!("{namespace}:"),
            take: script(include_str!("lua/take.lua")),
            finish: Script::new(include_str!("lua/finish.lua")),
            push: script(include_str!("lua/push.lua")),
        })
    }

    fn name(&self, rest: &str) -> String {
        format!("{}{rest}", self.prefix)
    }

    /// The list, the set of payloads and the list of times of a queue.
    fn queue(&self, queue: &Name) -> [String; 3] {
        let list = self.name(&format!("queue:{queue}"));
        [
            list.clone(),
            format!("{list}:uniqueue"),
            format!("{list}:start_at"),
        ]
    }

    fn under_way(&self, queue: &Name) -> String {
        self.name(&format!("semel:under_way:{queue}"))
    }

    fn pushed(&self, queue: &Name) -> String {
        self.name(&format!("semel:pushed:{queue}"))
    }

    async fn wire(&self) -> RedisResult<MultiplexedConnection> {
        let held = self.held().clone();
        if let Some(wire) = held {
            return Ok(wire);
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(TIMEOUT))
            .set_response_timeout(Some(TIMEOUT));
        let wire = self
            .client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        *self.held() = Some(wire.clone());
        Ok(wire)
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<MultiplexedConnection>> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A wire that failed is not used again.
    fn checked<T>(&self, answer: RedisResult<T>) -> Result<T, Error> {
        if answer.is_err() {
            *self.held() = None;
        }
        Ok(answer?)
    }

    async fn run<T: redis::FromRedisValue>(&self, call: &ScriptInvocation<'_>) -> Result<T, Error> {
        let mut wire = self.checked(self.wire().await)?;
        self.checked(call.invoke_async(&mut wire).await)
    }

    /// Seconds since 1970, as the server counts them.
    pub async fn seconds(&self) -> Result<i64, Error> {
        let mut wire = self.checked(self.wire().await)?;
        let time: RedisResult<(i64, i64)> = redis::cmd("TIME").query_async(&mut wire).await;
        Ok(self.checked(time)?.0)
    }

    /// Payloads that were taken and are no jobs yet: by a bridge that runs, or by one that was killed.
    pub async fn left(&self, queue: &Name) -> Result<Vec<Taken>, Error> {
        let mut wire = self.checked(self.wire().await)?;
        let mut ask = redis::cmd("HGETALL");
        let found: RedisResult<Vec<(Vec<u8>, Vec<u8>)>> =
            ask.arg(self.under_way(queue)).query_async(&mut wire).await;
        let mut left: Vec<Taken> = self.checked(found)?.into_iter().filter_map(read_left).collect();
        left.sort_by_key(|taken| *taken.token.as_bytes());
        Ok(left)
    }

    /// Takes payloads, one for each token.
    pub async fn take(
        &self,
        queue: &Name,
        unique: bool,
        force: bool,
        tokens: &[Token],
    ) -> Result<(Mended, Vec<Taken>), Error> {
        let mut call = self.take.prepare_invoke();
        for key in self.queue(queue) {
            call.key(key);
        }
        call.key(self.under_way(queue)).arg(flag(unique)).arg(flag(force));
        for token in tokens {
            call.arg(&token.as_bytes()[..]);
        }
        let answer: Vec<Value> = self.run(&call).await?;
        let mut answer = answer.into_iter();
        let mended = read_mended(&mut answer)?;
        let mut taken = Vec::new();
        while let (Some(token), Some(time), Some(payload)) = (answer.next(), answer.next(), answer.next()) {
            let token: Vec<u8> = read(token)?;
            if let Ok(token) = <[u8; 16]>::try_from(token) {
                taken.push(Taken {
                    token: Token::from_bytes(token),
                    time: read(time)?,
                    payload: read(payload)?,
                });
            }
        }
        Ok((mended, taken))
    }

    /// Payloads are jobs now; those with a text go to Resque's failed ones.
    pub async fn finish(&self, queue: &Name, finished: &[(Token, String)]) -> Result<(), Error> {
        let mut call = self.finish.prepare_invoke();
        call.key(self.under_way(queue)).key(self.name("failed"));
        for (token, failed) in finished {
            call.arg(&token.as_bytes()[..]).arg(failed);
        }
        let _count: i64 = self.run(&call).await?;
        Ok(())
    }

    /// Pushes the payloads of jobs.
    pub async fn push(
        &self,
        queue: &Name,
        unique: bool,
        jobs: &[(String, String)],
    ) -> Result<(Mended, Vec<Pushed>), Error> {
        let mut call = self.push.prepare_invoke();
        call.key(self.name("queues"));
        for key in self.queue(queue) {
            call.key(key);
        }
        call.key(self.pushed(queue)).arg(flag(unique)).arg(queue.as_str());
        for (id, payload) in jobs {
            call.arg(id).arg(payload);
        }
        let answer: Vec<Value> = self.run(&call).await?;
        let mut answer = answer.into_iter();
        let mended = read_mended(&mut answer)?;
        let answered = |value| {
            let word: String = read(value)?;
            Ok(match word.as_str() {
                "pushed" => Pushed::New,
                "absorbed" => Pushed::Absorbed,
                _ => Pushed::Again,
            })
        };
        Ok((mended, answer.map(answered).collect::<Result<_, Error>>()?))
    }

    /// Jobs that were pushed and are not known to be settled.
    pub async fn marked(&self, queue: &Name) -> Result<Vec<JobId>, Error> {
        let mut wire = self.checked(self.wire().await)?;
        let mut ask = redis::cmd("HKEYS");
        let found: RedisResult<Vec<String>> = ask.arg(self.pushed(queue)).query_async(&mut wire).await;
        let ids = self.checked(found)?.into_iter();
        Ok(ids.filter_map(|id| JobId::new(id).ok()).collect())
    }

    /// Jobs are settled: nobody will push them again.
    pub async fn forget(&self, queue: &Name, ids: &[String]) -> Result<(), Error> {
        let mut wire = self.checked(self.wire().await)?;
        let mut forget = redis::cmd("HDEL");
        forget.arg(self.pushed(queue)).arg(ids);
        let _count: i64 = self.checked(forget.query_async(&mut wire).await)?;
        Ok(())
    }
}

fn read<T: redis::FromRedisValue>(value: Value) -> Result<T, Error> {
    Ok(redis::from_redis_value(value).map_err(RedisError::from)?)
}

fn flag(is: bool) -> &'static str {
    if is { "1" } else { "0" }
}

fn read_left((token, text): (Vec<u8>, Vec<u8>)) -> Option<Taken> {
    let at = text.iter().position(|byte| *byte == b' ')?;
    Some(Taken {
        token: Token::from_bytes(token.try_into().ok()?),
        time: String::from_utf8_lossy(&text[..at]).into_owned(),
        payload: text[at + 1..].to_vec(),
    })
}

fn read_mended(answer: &mut impl Iterator<Item = Value>) -> Result<Mended, Error> {
    let mut number = || answer.next().map_or(Ok(0), read);
    Ok(Mended {
        mended: number()?,
        dropped: number()?,
    })
}
