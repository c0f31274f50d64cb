//! Another number of shards, while nobody works.
//!
//! The way there is recorded first, and every shard is closed: from then on each step of anybody who still has the
//! store open is refused, and so is opening it. Everything is copied into the shards of the new layout, whose names no
//! other layout has; then one write says that they are the store; then the old ones go. Killed anywhere, the same
//! command begins the copy again, or goes on removing. What stays of an old shard is the mark that closes it.

mod copy;
mod facts;
mod ledger;
mod source;

use std::sync::Arc;

use redis::Value;

use semel_core::error::{Invalid, StoreError};
use semel_core::ids::Name;

use crate::clock::Time;
use crate::keys::Keys;
use crate::layout::{CLOSED, Record};
use crate::link::{Link, answer};
use crate::name::Layout;
use crate::open;
use crate::options::{MOST_SHARDS, RedisOptions};
use crate::raw::sweep;
use crate::shard::Shard;
use crate::wake::Wake;

/// How far the version of lanes and settings is moved on in a shard that is open again: nobody may take what he
/// remembers for the present.
const REOPENED: i64 = 1_000;

/// What a change would mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardPlan {
    /// How many shards there are.
    pub from: usize,
    /// How many there are to be.
    pub to: usize,
    /// Jobs that are copied, those that are kept for their key included.
    pub jobs: u64,
    /// Bytes the servers use; for a while it may be twice as many.
    pub bytes: i64,
    /// Bytes they may use, if that is known.
    pub room: Option<i64>,
    /// The number of shards of a change that was begun and has not come to its end.
    pub unfinished: Option<usize>,
    /// Whether something of an earlier change is still to be removed.
    pub leftover: bool,
    /// Signs that somebody works.
    pub at_work: Vec<String>,
}

impl ShardPlan {
    /// Whether there is nothing to do.
    pub fn is_done(&self) -> bool {
        self.from == self.to && self.unfinished.is_none() && !self.leftover
    }
}

/// What is being done, and how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardProgress {
    /// What is done.
    pub doing: &'static str,
    /// How much of it is done.
    pub done: u64,
    /// Of how much.
    pub of: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardOutcome {
    /// The store has the wanted number of shards, with so many jobs.
    Changed {
        /// Jobs.
        jobs: u64,
    },
    /// It had it already.
    Same,
    /// A change that had not come to its end was taken back.
    TakenBack,
}

/// Told before each part of the work; an error ends the work there.
pub type Notice<'n> = &'n mut (dyn FnMut(ShardProgress) -> Result<(), StoreError> + Send);

/// A change of the number of shards.
pub struct ShardChange {
    link: Arc<Link>,
    namespace: Name,
    to: usize,
}

impl ShardChange {
    /// Reaches the server. What the options say of shards is not asked.
    pub async fn new(options: &RedisOptions, to: usize) -> Result<Self, StoreError> {
        if !(1..=MOST_SHARDS).contains(&to) {
            let allowed = format!("1 to {MOST_SHARDS}");
            return Err(Invalid::new("shards", allowed).found(to.to_string()).into());
        }
        let link = Arc::new(Link::new(options)?);
        for server in open::probe(&link).await? {
            open::check(&server, options)?;
        }
        link.load_scripts().await?;
        Ok(ShardChange {
            link,
            namespace: options.namespace.clone(),
            to,
        })
    }

    /// How many shards a store has.
    pub async fn count(options: &RedisOptions) -> Result<usize, StoreError> {
        let link = Link::new(options)?;
        let record = Record::read(&link, &options.namespace).await?;
        Ok(record.ok_or_else(|| no_store(&options.namespace))?.layout.shards)
    }

    async fn record(&self) -> Result<Record, StoreError> {
        let record = Record::read(&self.link, &self.namespace).await?;
        record.ok_or_else(|| no_store(&self.namespace))
    }

    fn names(&self, layout: Layout) -> Vec<Keys> {
        let names = (0..layout.shards).map(|shard| Keys::new(&self.namespace, layout, shard));
        names.collect()
    }

    /// What it would mean.
    pub async fn plan(&self) -> Result<ShardPlan, StoreError> {
        let record = self.record().await?;
        let servers = open::probe(&self.link).await?;
        Ok(ShardPlan {
            from: record.layout.shards,
            to: self.to,
            jobs: self.jobs(record.layout).await?,
            bytes: servers.iter().map(open::Server::bytes).sum(),
            room: servers.iter().map(open::Server::most_bytes).sum(),
            unfinished: record.becoming,
            leftover: record.leftover.is_some(),
            at_work: match record.becoming {
                None => self.at_work(record.layout).await?,
                Some(_) => Vec::new(),
            },
        })
    }

    async fn jobs(&self, layout: Layout) -> Result<u64, StoreError> {
        let mut sum = 0;
        for keys in self.names(layout) {
            let mut ask = redis::pipe();
            ask.cmd("HLEN").arg(keys.specs());
            ask.cmd("HEXISTS").arg(keys.specs()).arg("");
            let mut counted = self.link.ask("counting jobs", &ask).await?.into_iter();
            let mut number = || answer::number(counted.next().unwrap_or(Value::Nil));
            sum += number()? - number()?;
        }
        Ok(u64::try_from(sum).unwrap_or(0))
    }

    /// Signs that somebody works: leases that have not run out, and those who listen for changes.
    async fn at_work(&self, layout: Layout) -> Result<Vec<String>, StoreError> {
        let (mut leases, mut listening) = (0, 0);
        for keys in self.names(layout) {
            let mut ask = redis::pipe();
            ask.cmd("TIME");
            let time = answer::all_bytes(self.link.ask("looking for work", &ask).await?.remove(0))?;
            let seconds = time.first().map_or(Ok(0), |seconds| answer::parse(seconds))?;
            let mut ask = redis::pipe();
            ask.cmd("ZCOUNT")
                .arg(keys.leases())
                .arg(seconds * 1_000)
                .arg("+inf");
            leases += answer::number(self.link.ask("looking for work", &ask).await?.remove(0))?;
        }
        for keys in self.names(layout) {
            listening = listening.max(self.link.listeners(&keys.channel()).await?);
        }
        let mut signs = Vec::new();
        if leases > 0 {
            signs.push("jobs are running under a lease".to_owned());
        }
        if listening > 0 {
            signs.push(format!("workers or callers listen for changes: {listening}"));
        }
        Ok(signs)
    }

    /// Changes the number of shards. Unless it is `forced`, signs that somebody works are a reason not to begin.
    pub async fn carry_out(&self, forced: bool, notice: Notice<'_>) -> Result<ShardOutcome, StoreError> {
        let mut record = self.record().await?;
        if let Some(leftover) = record.leftover {
            self.remove(leftover, notice).await?;
            record.leftover = None;
            record.write(&self.link, &self.namespace).await?;
        }
        let old = record.layout;
        let next = |shards: usize| Layout {
            shards,
            generation: old.generation.wrapping_add(1),
        };
        if old.shards == self.to {
            let Some(becoming) = record.becoming else {
                return Ok(ShardOutcome::Same);
            };
            self.remove(next(becoming), notice).await?;
            self.reopen(old).await?;
            record.becoming = None;
            record.write(&self.link, &self.namespace).await?;
            return Ok(ShardOutcome::TakenBack);
        }
        if record.becoming.is_none() && !forced {
            let signs = self.at_work(old).await?;
            if !signs.is_empty() {
                return Err(StoreError::Refused {
                    reason: format!("somebody is at work: {}", signs.join("; ")),
                    hint: "stop workers and servers first, or add --force".to_owned(),
                });
            }
        }
        if let Some(becoming) = record.becoming {
            self.remove(next(becoming), notice).await?;
        }
        tell(notice, "recording the change", 0, 1)?;
        record.becoming = Some(self.to);
        record.write(&self.link, &self.namespace).await?;
        for (number, keys) in self.names(old).iter().enumerate() {
            tell(notice, "closing the shards", number, old.shards)?;
            self.close(keys).await?;
        }
        let new = next(self.to);
        self.remove(new, notice).await?;
        let jobs = self.copy(old, new, notice).await?;
        tell(notice, "switching over", 0, 1)?;
        record = Record {
            layout: new,
            becoming: None,
            leftover: Some(old),
        };
        record.write(&self.link, &self.namespace).await?;
        self.remove(old, notice).await?;
        record.leftover = None;
        record.write(&self.link, &self.namespace).await?;
        Ok(ShardOutcome::Changed { jobs })
    }

    async fn copy(&self, old: Layout, new: Layout, notice: Notice<'_>) -> Result<u64, StoreError> {
        let (time, wake) = (Arc::new(Time::new(None)), Arc::new(Wake::default()));
        let shard = |number| {
            Shard::new(
                &self.namespace,
                (new, number),
                self.link.clone(),
                time.clone(),
                wake.clone(),
            )
        };
        let targets: Vec<Shard> = (0..new.shards).map(shard).collect();
        let from = self.names(old);
        let of = self.jobs(old).await?;
        let mut copier = copy::Copier::begin(&self.link, (old, &from), &targets, notice).await?;
        copier.jobs(of, notice).await?;
        let found = copier.end(notice).await?;
        ledger::copy(&self.link, &from, &targets, &found, notice).await?;
        let names = Keys::of_layout(&self.namespace, old);
        facts::copy(&self.link, (&names, &from), &targets, &found, notice).await?;
        let there = self.jobs(new).await?;
        if there != found.jobs {
            return Err(StoreError::corrupt(format!(
                "{} jobs were copied, {there} arrived",
                found.jobs
            )));
        }
        Ok(found.jobs)
    }

    /// Nobody writes to a shard from here on, whenever he has opened the store.
    async fn close(&self, keys: &Keys) -> Result<(), StoreError> {
        let config = self.config(keys, "config").await?;
        if config == CLOSED {
            return Ok(());
        }
        let mut ask = redis::pipe();
        ask.cmd("HSET")
            .arg(keys.meta())
            .arg("closed_at")
            .arg(config)
            .arg("config")
            .arg(CLOSED);
        self.link.ask("closing a shard", &ask).await?;
        Ok(())
    }

    async fn reopen(&self, layout: Layout) -> Result<(), StoreError> {
        for keys in self.names(layout) {
            if self.config(&keys, "config").await? != CLOSED {
                continue;
            }
            let before = self.config(&keys, "closed_at").await?;
            let mut ask = redis::pipe();
            ask.cmd("HSET")
                .arg(keys.meta())
                .arg("config")
                .arg(before + REOPENED);
            self.link.ask("opening a shard again", &ask).await?;
        }
        Ok(())
    }

    async fn config(&self, keys: &Keys, field: &str) -> Result<i64, StoreError> {
        let mut ask = redis::pipe();
        ask.cmd("HGET").arg(keys.meta()).arg(field);
        answer::number(self.link.ask("looking at a shard", &ask).await?.remove(0))
    }

    /// Removes the shards of a layout, but for the marks that close them.
    async fn remove(&self, layout: Layout, notice: Notice<'_>) -> Result<(), StoreError> {
        tell(notice, "removing what is not needed", 0, 1)?;
        let closed: Vec<Vec<u8>> = match self.config(&self.names(layout)[0], "config").await? {
            CLOSED => self
                .names(layout)
                .iter()
                .map(|keys| keys.meta().into_bytes())
                .collect(),
            // The rest of a copy that was not finished: nobody ever had it open.
            _ => Vec::new(),
        };
        let pattern = Keys::of_layout(&self.namespace, layout);
        sweep(&self.link, &pattern, |name| {
            !closed.iter().any(|meta| meta == name)
        })
        .await?;
        Ok(())
    }
}

fn tell(notice: Notice<'_>, doing: &'static str, done: usize, of: usize) -> Result<(), StoreError> {
    notice(ShardProgress {
        doing,
        done: done as u64,
        of: of as u64,
    })
}

fn no_store(namespace: &Name) -> StoreError {
    StoreError::Refused {
        reason: format!("there is no store in the namespace {namespace}"),
        hint: "a first submission or a worker makes it, with the number of shards its URL says".to_owned(),
    }
}
