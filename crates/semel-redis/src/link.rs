//! The way to the server: one connection that many callers share, made again when it breaks.
//!
//! Everything sent here may be sent twice: it reads, or draws numbers that may stay unused, or carries the number
//! by which the server knows it again. So a lost reply is asked for again until patience ends.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::sentinel::{SentinelClient, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ErrorKind, Pipeline, RedisError, RedisFuture,
    RedisResult, ServerErrorKind, Value,
};
use tokio::sync::Mutex as AsyncMutex;

use semel_core::error::StoreError;

use crate::clock::{Deadline, jittered};
use crate::driven::Driven;
use crate::options::{Place, RedisOptions};
use crate::scripts::{self, Scripts};

/// The first wait before another attempt.
const FIRST_WAIT: Duration = Duration::from_millis(10);
/// The longest.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

enum Source {
    Server(Box<Client>),
    Cluster(Box<ClusterClient>, Vec<String>),
    Sentinel(Box<AsyncMutex<SentinelClient>>),
}

#[derive(Clone)]
enum Wire {
    Single(MultiplexedConnection),
    Driven(Driven),
    Cluster(ClusterConnection),
}

impl ConnectionLike for Wire {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Wire::Single(wire) => wire.req_packed_command(cmd),
            Wire::Driven(wire) => Box::pin(wire.command(cmd)),
            Wire::Cluster(wire) => wire.req_packed_command(cmd),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        cmd: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Wire::Single(wire) => wire.req_packed_commands(cmd, offset, count),
            Wire::Driven(wire) => Box::pin(wire.commands(cmd, offset, count)),
            Wire::Cluster(wire) => wire.req_packed_commands(cmd, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Wire::Single(wire) => wire.get_db(),
            Wire::Driven(wire) => wire.db(),
            Wire::Cluster(wire) => wire.get_db(),
        }
    }
}

/// The way to the server.
pub struct Link {
    source: Source,
    wire: Mutex<Option<(u64, Wire)>>,
    making: AsyncMutex<u64>,
    patience: Duration,
    timeout: Duration,
    /// How many replicas must have a write, and how long they may take for it, in milliseconds.
    pub wait: Option<(usize, u128)>,
    /// Whether callers may read and write the connection themselves.
    by_callers: bool,
    /// Calls that lone callers have made, one after another.
    alone: Arc<AtomicU32>,
    /// The scripts.
    pub scripts: Scripts,
}

impl Link {
    /// A way that is not tried yet.
    pub fn new(options: &RedisOptions) -> Result<Self, StoreError> {
        prepare_tls();
        let unusable = |error: RedisError| StoreError::Refused {
            reason: format!("{} is no place to connect to: {error}", options.shown()),
            hint: "check the URL".to_owned(),
        };
        let source = match &options.place {
            Place::Server(url) => Source::Server(Box::new(Client::open(url.as_str()).map_err(unusable)?)),
            Place::Cluster(urls) => {
                let longest = options.timeout + options.wait_for;
                let cluster = ClusterClient::builder(urls.iter().map(String::as_str))
                    .connection_timeout(options.timeout)
                    .response_timeout(if options.wait > 0 {
                        longest
                    } else {
                        options.timeout
                    });
                Source::Cluster(Box::new(cluster.build().map_err(unusable)?), urls.clone())
            }
            Place::Sentinel {
                sentinels,
                master,
                login,
                database,
            } => {
                let mut node = node_info(login.as_deref(), *database).map_err(unusable)?;
                if sentinels.iter().any(|url| url.starts_with("rediss")) {
                    node = node.set_tls_mode(redis::TlsMode::Secure);
                }
                let sentinels = sentinels.iter().map(String::as_str).collect();
                let client =
                    SentinelClient::build(sentinels, master.clone(), Some(node), SentinelServerType::Master);
                Source::Sentinel(Box::new(AsyncMutex::new(client.map_err(unusable)?)))
            }
        };
        Ok(Link {
            source,
            wire: Mutex::new(None),
            making: AsyncMutex::new(0),
            patience: options.patience,
            // A reply may take as long as the replicas may.
            timeout: match options.wait {
                0 => options.timeout,
                _ => options.timeout + options.wait_for,
            },
            wait: (options.wait > 0).then_some((options.wait, options.wait_for.as_millis())),
            by_callers: true,
            alone: Arc::default(),
            scripts: Scripts::new(),
        })
    }

    /// The same as the client of a Redis library offers it, with a task that reads and writes for everybody.
    pub fn by_the_library(self) -> Self {
        Link {
            by_callers: false,
            ..self
        }
    }

    /// A lone caller is about to ask, or one that asks for many.
    pub fn note(&self, is_alone: bool) {
        if is_alone {
            self.alone.fetch_add(1, Ordering::Relaxed);
        } else {
            self.alone.store(0, Ordering::Relaxed);
        }
    }

    fn config(&self) -> AsyncConnectionConfig {
        AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(Some(self.timeout))
    }

    fn current(&self) -> Option<(u64, Wire)> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn wire(&self) -> RedisResult<(u64, Wire)> {
        if let Some(wire) = self.current() {
            return Ok(wire);
        }
        let mut number = self.making.lock().await;
        // Somebody else may have made it meanwhile.
        if let Some(wire) = self.current() {
            return Ok(wire);
        }
        let wire = self.connect().await?;
        *number += 1;
        let made = (*number, wire);
        *self.wire.lock().unwrap_or_else(PoisonError::into_inner) = Some(made.clone());
        Ok(made)
    }

    async fn connect(&self) -> RedisResult<Wire> {
        match &self.source {
            Source::Server(client) => {
                if let Some(place) = self.own_way(client) {
                    let login = client.get_connection_info().redis_settings();
                    let wire = Driven::connect(place, login, self.config(), &self.alone);
                    let wire = tokio::time::timeout(self.timeout, wire).await;
                    return wire.unwrap_or_else(|_| Err(too_late())).map(Wire::Driven);
                }
                let wire = client
                    .get_multiplexed_async_connection_with_config(&self.config())
                    .await?;
                Ok(Wire::Single(wire))
            }
            Source::Cluster(client, _) => Ok(Wire::Cluster(client.get_async_connection().await?)),
            Source::Sentinel(client) => {
                let mut client = client.lock().await;
                let wire = client.get_async_connection_with_config(&self.config()).await?;
                Ok(Wire::Single(wire))
            }
        }
    }

    /// The server, if its connection is to be read and written by whoever waits.
    fn own_way<'c>(&self, client: &'c Client) -> Option<(&'c str, u16)> {
        match client.get_connection_info().addr() {
            ConnectionAddr::Tcp(host, port) if self.by_callers => Some((host.as_str(), *port)),
            _ => None,
        }
    }

    fn discard(&self, broken: u64) {
        let mut wire = self.wire.lock().unwrap_or_else(PoisonError::into_inner);
        if wire.as_ref().is_some_and(|(number, _)| *number == broken)
            && let Some((_, Wire::Driven(left))) = wire.take()
        {
            left.give_up();
        }
    }

    /// Does something that has several calls on their way at a time.
    pub async fn drive<T>(&self, calls: impl Future<Output = T>) -> T {
        match self.current() {
            Some((_, Wire::Driven(wire))) => wire.drive(calls).await,
            _ => calls.await,
        }
    }

    /// What was asked so far is sent, though the caller goes on before it waits for answers.
    pub async fn send_off(&self) {
        match self.current() {
            Some((_, Wire::Driven(wire))) => wire.send_off().await,
            // A task writes, which may be one of this very thread.
            _ => tokio::task::yield_now().await,
        }
    }

    /// Sends commands and gives their answers. They may be sent more than once.
    pub async fn ask(&self, doing: &str, pipeline: &Pipeline) -> Result<Vec<Value>, StoreError> {
        let deadline = Deadline::after(self.patience);
        let mut wait = FIRST_WAIT;
        loop {
            let error = match self.attempt(pipeline).await {
                Ok(answers) => return Ok(answers),
                Err(error) => error,
            };
            if !is_passing(&error) || deadline.left().is_zero() {
                return Err(failed(doing, error));
            }
            tokio::time::sleep(jittered(wait).min(deadline.left())).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    async fn attempt(&self, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        let (number, mut wire) = self.wire().await?;
        let answer = pipeline.query_async::<Vec<Value>>(&mut wire).await;
        match answer {
            Err(error) if is_unknown_script(&error) => {
                self.load(&mut wire).await?;
                pipeline.query_async(&mut wire).await
            }
            // A server without room takes no transaction, not even one that only reads.
            Err(error)
                if pipeline.is_transaction()
                    && has_no_room(&error)
                    && !is_forbidden(&error)
                    && !writes(pipeline) =>
            {
                self.read(pipeline, &mut wire).await
            }
            Err(error) => {
                if breaks(&error) {
                    self.discard(number);
                }
                Err(error)
            }
            Ok(answers) => Ok(answers),
        }
    }

    /// What a transaction would read, in one instant too.
    async fn read(&self, transaction: &Pipeline, wire: &mut Wire) -> RedisResult<Vec<Value>> {
        let ask = scripts::reading(&self.scripts.read, transaction);
        let mut answer = ask.query_async::<Vec<Value>>(wire).await;
        if answer.as_ref().is_err_and(is_unknown_script) {
            self.load(wire).await?;
            answer = ask.query_async(wire).await;
        }
        match answer?.pop() {
            Some(Value::Array(answers)) => Ok(answers),
            other => Err(RedisError::from((
                ErrorKind::UnexpectedReturnType,
                "reading without room",
                format!("{other:?}"),
            ))),
        }
    }

    /// Makes the server know the scripts, which the user has to be allowed to.
    pub async fn load_scripts(&self) -> Result<(), StoreError> {
        let mut ask = redis::pipe();
        ask.cmd("PING");
        let doing = "loading scripts";
        self.ask(doing, &ask).await?;
        let failed = |error| failed(doing, error);
        let (_, mut wire) = self.wire().await.map_err(failed)?;
        self.load(&mut wire).await.map_err(failed)
    }

    async fn load(&self, wire: &mut Wire) -> RedisResult<()> {
        for load in self.scripts.load() {
            load.exec_async(wire).await?;
        }
        Ok(())
    }

    /// Whether the user may have several commands carried out at one instant. The client library takes the refusal of
    /// that for the end of a transaction, of which the commands were carried out one by one.
    pub async fn may_transact(&self) -> Result<(), StoreError> {
        let mut ask = redis::pipe();
        ask.cmd("MULTI").cmd("EXEC");
        let doing = "transactions (multi, exec)";
        let Source::Cluster(_, urls) = &self.source else {
            return self.ask(doing, &ask).await.map(drop);
        };
        for url in urls {
            let failed = |error| failed(doing, error);
            let client = Client::open(url.as_str()).map_err(failed)?;
            let wire = client
                .get_multiplexed_async_connection_with_config(&self.config())
                .await;
            ask.exec_async(&mut wire.map_err(failed)?).await.map_err(failed)?;
        }
        Ok(())
    }

    /// What each known node says of itself, and how it syncs its append-only file, if that may be asked.
    pub async fn describe(&self) -> Result<Vec<(String, Option<String>)>, StoreError> {
        let Source::Cluster(_, urls) = &self.source else {
            let mut ask = redis::pipe();
            ask.cmd("INFO");
            let info = self.ask("asking the server what it is", &ask).await?.remove(0);
            let fsync = match self.wire().await {
                Ok((_, mut wire)) => ask_fsync(&mut wire).await,
                Err(_) => None,
            };
            return Ok(vec![(answer::text(info)?, fsync)]);
        };
        let mut described = Vec::new();
        for url in urls {
            let failed = |error| failed("asking a node of the cluster what it is", error);
            let client = Client::open(url.as_str()).map_err(failed)?;
            let wire = client
                .get_multiplexed_async_connection_with_config(&self.config())
                .await;
            let mut wire = wire.map_err(failed)?;
            let info = redis::cmd("INFO")
                .query_async::<Value>(&mut wire)
                .await
                .map_err(failed)?;
            let fsync = ask_fsync(&mut wire).await;
            described.push((answer::text(info)?, fsync));
        }
        Ok(described)
    }

    /// The masters of a cluster by host and port; where there is only one server, nothing has to be said.
    pub async fn masters(&self) -> Result<Vec<Option<(String, u16)>>, StoreError> {
        if !matches!(self.source, Source::Cluster(..)) {
            return Ok(vec![None]);
        }
        let mut ask = redis::pipe();
        ask.cmd("CLUSTER").arg("SLOTS");
        let slots = self.ask("asking the cluster who is in it", &ask).await?.remove(0);
        let mut masters = Vec::new();
        for range in answer::list(slots)? {
            let master = answer::list(range)?.into_iter().nth(2).unwrap_or(Value::Nil);
            let mut place = answer::list(master)?.into_iter();
            let host = answer::text(place.next().unwrap_or(Value::Nil))?;
            let port = answer::number(place.next().unwrap_or(Value::Nil))?;
            let port = u16::try_from(port).map_err(|_| StoreError::corrupt(format!("{port} is no port")))?;
            let master = Some((host, port));
            if !masters.contains(&master) {
                masters.push(master);
            }
        }
        Ok(masters)
    }

    /// Sends a command to one of the masters.
    async fn ask_at(
        &self,
        doing: &str,
        master: Option<&(String, u16)>,
        command: Cmd,
    ) -> Result<Value, StoreError> {
        let failed = |error| failed(doing, error);
        match (master, self.wire().await.map_err(failed)?) {
            (Some((host, port)), (_, Wire::Cluster(mut wire))) => {
                let (host, port) = (host.clone(), *port);
                let there = RoutingInfo::SingleNode(SingleNodeRoutingInfo::ByAddress { host, port });
                wire.route_command(command, there).await.map_err(failed)
            }
            _ => {
                let mut ask = redis::pipe();
                ask.add_command(command);
                Ok(self.ask(doing, &ask).await?.remove(0))
            }
        }
    }

    /// How many listen to a channel.
    pub async fn listeners(&self, channel: &str) -> Result<i64, StoreError> {
        let mut sum = 0;
        for master in self.masters().await? {
            let mut ask = redis::cmd("PUBSUB");
            ask.arg("NUMSUB").arg(channel);
            let told = self.ask_at("asking who listens", master.as_ref(), ask).await?;
            let mut told = answer::list(told)?.into_iter();
            sum += answer::number(told.nth(1).unwrap_or(Value::Nil))?;
        }
        Ok(sum)
    }

    /// Some names of one server that match a pattern, and where to go on.
    pub async fn scan(
        &self,
        master: Option<&(String, u16)>,
        cursor: &[u8],
        pattern: &str,
    ) -> Result<(Vec<u8>, Vec<Vec<u8>>), StoreError> {
        let doing = "looking for keys";
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(1_000);
        let found = self.ask_at(doing, master, scan).await?;
        let mut parts = answer::list(found)?.into_iter();
        let next = answer::bytes(parts.next().unwrap_or(Value::Nil))?.unwrap_or_default();
        Ok((next, answer::all_bytes(parts.next().unwrap_or(Value::Nil))?))
    }

    /// A connection of its own that hears what is told on channels.
    pub async fn listener(&self) -> RedisResult<redis::aio::PubSub> {
        match &self.source {
            Source::Server(client) => client.get_async_pubsub().await,
            Source::Sentinel(client) => {
                client
                    .lock()
                    .await
                    .async_get_client()
                    .await?
                    .get_async_pubsub()
                    .await
            }
            // What is told on one node is heard on all of them.
            Source::Cluster(_, urls) => {
                let mut failed = RedisError::from((ErrorKind::Client, "no node to listen to"));
                for url in urls {
                    match Client::open(url.as_str())?.get_async_pubsub().await {
                        Ok(listener) => return Ok(listener),
                        Err(error) => failed = error,
                    }
                }
                Err(failed)
            }
        }
    }
}

fn too_late() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}

async fn ask_fsync(wire: &mut impl ConnectionLike) -> Option<String> {
    let mut ask = redis::cmd("CONFIG");
    ask.arg("GET").arg("appendfsync");
    let pair: Vec<String> = ask.query_async(wire).await.ok()?;
    pair.into_iter().nth(1)
}

/// The application may have chosen how to encrypt; if not, it is done with what this crate brings.
fn prepare_tls() {
    #[cfg(feature = "tls")]
    let _chosen_before = rustls::crypto::ring::default_provider().install_default();
}

fn node_info(login: Option<&str>, database: i64) -> RedisResult<redis::sentinel::SentinelNodeConnectionInfo> {
    let login = login.map(|login| format!("{login}@")).unwrap_or_default();
    let info: redis::ConnectionInfo =
        redis::IntoConnectionInfo::into_connection_info(format!("redis://{login}localhost/{database}"))?;
    Ok(redis::sentinel::SentinelNodeConnectionInfo::default()
        .set_redis_connection_info(info.redis_settings().clone()))
}

fn server_kind(error: &RedisError) -> Option<ServerErrorKind> {
    match error.kind() {
        ErrorKind::Server(kind) => Some(kind),
        _ => None,
    }
}

fn says(error: &RedisError, code: &str) -> bool {
    error.code() == Some(code) || error.to_string().contains(code)
}

fn is_unknown_script(error: &RedisError) -> bool {
    server_kind(error) == Some(ServerErrorKind::NoScript) || says(error, "NOSCRIPT")
}

/// Whether the connection is of no use any more.
fn breaks(error: &RedisError) -> bool {
    error.is_io_error()
        || error.is_timeout()
        || error.is_connection_dropped()
        || error.is_unrecoverable_error()
        || server_kind(error) == Some(ServerErrorKind::ReadOnly)
}

/// Whether the same call may succeed in a moment.
fn is_passing(error: &RedisError) -> bool {
    if error.kind() == ErrorKind::AuthenticationFailed || is_forbidden(error) {
        return false;
    }
    let passing = matches!(
        server_kind(error),
        Some(
            ServerErrorKind::BusyLoading
                | ServerErrorKind::TryAgain
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::MasterDown
                | ServerErrorKind::Moved
                | ServerErrorKind::Ask
                | ServerErrorKind::ReadOnly
        )
    );
    // In the middle of a failover there is no master, or no node, for a moment.
    let moving = matches!(
        error.kind(),
        ErrorKind::MasterNameNotFoundBySentinel | ErrorKind::ClusterConnectionNotFound
    );
    passing
        || moving
        || breaks(error)
        || error.is_connection_refusal()
        || error.is_cluster_error()
        || is_unknown_script(error)
}

/// Whether the server is short of memory. A transaction says only that it was given up.
fn has_no_room(error: &RedisError) -> bool {
    says(error, "OOM") || server_kind(error) == Some(ServerErrorKind::ExecAbort)
}

/// Whether a transaction writes: the only one that does has calls of scripts.
fn writes(transaction: &Pipeline) -> bool {
    let mut commands = transaction.cmd_iter();
    commands.any(|command| command.args_iter().next() == Some(redis::Arg::Simple(b"EVALSHA")))
}

/// Whether the user may not do this.
fn is_forbidden(error: &RedisError) -> bool {
    server_kind(error) == Some(ServerErrorKind::NoPerm)
        || says(error, "NOPERM")
        || says(error, "The user executing the script")
}

/// Too few replicas have a write. It is written, and asking again with the same token waits for them again.
#[derive(Debug)]
pub struct Unacknowledged {
    /// So many have it.
    pub by: i64,
    /// So many should.
    pub wanted: usize,
    /// Within so many milliseconds.
    pub within: u128,
}

impl std::fmt::Display for Unacknowledged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Unacknowledged { by, wanted, within } = self;
        write!(
            f,
            "{by} of {wanted} replicas had the write within {within} ms; hint: ask again with the same token"
        )
    }
}

impl std::error::Error for Unacknowledged {}

impl From<Unacknowledged> for StoreError {
    fn from(lacking: Unacknowledged) -> Self {
        StoreError::Unavailable {
            doing: "waiting for replicas".to_owned(),
            source: Some(Box::new(lacking)),
        }
    }
}

/// Whether calls that were made together fail together: none of them is the reason.
pub fn concerns_all(error: &StoreError) -> bool {
    let StoreError::Unavailable {
        source: Some(source), ..
    } = error
    else {
        return false;
    };
    source.is::<Unacknowledged>() || source.downcast_ref::<RedisError>().is_some_and(is_passing)
}

/// What a caller is told.
fn failed(doing: &str, error: RedisError) -> StoreError {
    let forbidden = is_forbidden(&error);
    // Of a transaction that was given up it is not known why: whoever asks in another way will be told.
    let given_up = server_kind(&error) == Some(ServerErrorKind::ExecAbort);
    if !forbidden && (given_up || says(&error, "OOM") || says(&error, "MISCONF")) {
        return StoreError::Full {
            doing: doing.to_owned(),
        };
    }
    if forbidden || error.kind() == ErrorKind::AuthenticationFailed {
        return StoreError::Refused {
            reason: format!("the server does not allow {doing}: {error}"),
            hint: "check user and password, and give the user +@read +@write +@transaction +@connection +@scripting \
                   +@pubsub +info +time ~semel:* &semel:*"
                .to_owned(),
        };
    }
    StoreError::Unavailable {
        doing: doing.to_owned(),
        source: Some(Box::new(error)),
    }
}

/// Reading answers of the server.
pub mod answer {
    use redis::Value;
    use semel_core::error::StoreError;

    /// A name and a value, or a member and a score.
    pub type Pair = (Vec<u8>, Vec<u8>);

    fn strange(value: &Value) -> StoreError {
        StoreError::corrupt(format!("the server answers {value:?}"))
    }

    /// Bytes, if there are any.
    pub fn bytes(value: Value) -> Result<Option<Vec<u8>>, StoreError> {
        match value {
            Value::Nil => Ok(None),
            Value::BulkString(bytes) => Ok(Some(bytes)),
            Value::SimpleString(text) => Ok(Some(text.into_bytes())),
            Value::Int(number) => Ok(Some(number.to_string().into_bytes())),
            other => Err(strange(&other)),
        }
    }

    /// A text.
    pub fn text(value: Value) -> Result<String, StoreError> {
        match value {
            Value::VerbatimString { text, .. } => Ok(text),
            other => Ok(String::from_utf8_lossy(&bytes(other)?.unwrap_or_default()).into_owned()),
        }
    }

    /// A list.
    pub fn list(value: Value) -> Result<Vec<Value>, StoreError> {
        match value {
            Value::Array(list) | Value::Set(list) => Ok(list),
            Value::Map(pairs) => Ok(pairs
                .into_iter()
                .flat_map(|(name, value)| [name, value])
                .collect()),
            Value::Nil => Ok(Vec::new()),
            other => Err(strange(&other)),
        }
    }

    /// A list of bytes.
    pub fn all_bytes(value: Value) -> Result<Vec<Vec<u8>>, StoreError> {
        list(value)?
            .into_iter()
            .map(|one| Ok(bytes(one)?.unwrap_or_default()))
            .collect()
    }

    /// Names and values, or members and scores.
    pub fn pairs(value: Value) -> Result<Vec<Pair>, StoreError> {
        let flat = all_bytes(value)?;
        let (pairs, _) = flat.as_chunks::<2>();
        Ok(pairs.iter().map(|[a, b]| (a.clone(), b.clone())).collect())
    }

    /// A number.
    pub fn number(value: Value) -> Result<i64, StoreError> {
        match value {
            Value::Int(number) => Ok(number),
            Value::Nil => Ok(0),
            other => match bytes(other)? {
                Some(bytes) => parse(&bytes),
                None => Ok(0),
            },
        }
    }

    /// A number, where an empty text stands for none.
    pub fn number_or_none(value: Value) -> Result<Option<i64>, StoreError> {
        match value {
            Value::Int(number) => Ok(Some(number)),
            other => match bytes(other)? {
                Some(bytes) if !bytes.is_empty() => parse(&bytes).map(Some),
                _ => Ok(None),
            },
        }
    }

    /// A number from its digits; scores may come with a point or an exponent.
    pub fn parse(bytes: &[u8]) -> Result<i64, StoreError> {
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        let number = text.parse::<i64>().ok().or_else(|| {
            let score: f64 = text.parse().ok()?;
            Some(score as i64)
        });
        number.ok_or_else(|| StoreError::corrupt(format!("{text:?} is no number")))
    }
}
