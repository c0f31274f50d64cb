//! One shard of the store, as this handle sees it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use redis::{Pipeline, Value};

use semel_core::error::StoreError;
use semel_core::ids::{JobId, Name};

use crate::clock::{self, Time};
use crate::config::Config;
use crate::fast::belief::Belief;
use crate::keys::{Id, Keys};
use crate::layout;
use crate::link::{Link, Unacknowledged, answer};
use crate::name::{self, Layout, Lead};
use crate::scripts;
use crate::tx::{Signals, Written};
use crate::wake::Wake;

/// One shard.
pub struct Shard {
    /// Its names.
    pub keys: Keys,
    /// The namespace.
    pub namespace: Name,
    /// Of how many, and since when.
    pub layout: Layout,
    /// Which one.
    pub number: usize,
    /// The way to the server.
    pub link: Arc<Link>,
    /// The store's time.
    pub time: Arc<Time>,
    /// Who waits for changes.
    pub wake: Arc<Wake>,
    config: Mutex<Arc<Config>>,
    handle: String,
    calls: AtomicU64,
    belief: Mutex<Belief>,
    at_work: AtomicUsize,
    /// What was written at once.
    pub at_once: Tallies,
}

/// How many jobs a shard has written at once.
#[derive(Default)]
pub struct Tallies {
    /// Admitted.
    pub admitted: AtomicU64,
    /// Absorbed: those are looked at first.
    pub absorbed: AtomicU64,
    /// Leased.
    pub leased: AtomicU64,
    /// Completed.
    pub completed: AtomicU64,
}

/// While it is there, a call is on its way.
pub struct AtWork<'s>(&'s AtomicUsize);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Shard {
    /// A shard that was not looked at yet.
    pub fn new(
        namespace: &Name,
        (layout, number): (Layout, usize),
        link: Arc<Link>,
        time: Arc<Time>,
        wake: Arc<Wake>,
    ) -> Self {
        Shard {
            keys: Keys::new(namespace, layout, number),
            namespace: namespace.clone(),
            layout,
            number,
            link,
            time,
            wake,
            config: Mutex::default(),
            handle: format!("{:016x}", clock::random()),
            calls: AtomicU64::new(0),
            belief: Mutex::default(),
            at_work: AtomicUsize::new(0),
            at_once: Tallies::default(),
        }
    }

    /// A call is on its way.
    pub fn at_work(&self) -> AtWork<'_> {
        self.at_work.fetch_add(1, Ordering::AcqRel);
        AtWork(&self.at_work)
    }

    /// The same, if no other is.
    pub fn alone(&self) -> Option<AtWork<'_>> {
        let alone = self
            .at_work
            .compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed);
        alone.ok()?;
        self.link.note(true);
        Some(AtWork(&self.at_work))
    }

    /// The job of this shard that an id names.
    pub fn locate(&self, id: &JobId) -> Option<Id> {
        let (lead, id) = name::locate(id, self.layout)?;
        matches!(lead, Lead::Somewhere)
            .then_some(id)
            .or((lead == Lead::Here(self.number)).then_some(id))
    }

    /// Lanes and settings at a version, or a newer one.
    pub async fn config(&self, version: i64) -> Result<Arc<Config>, StoreError> {
        let known = self.config.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if known.version == version {
            return Ok(known);
        }
        let config = Config::read(&self.link, &self.keys).await?;
        // Closed since the version was looked at: whoever remembered that mark would be taken for one who knows better.
        if config.version == layout::CLOSED {
            return Err(layout::closed());
        }
        self.remember_config(config.clone());
        Ok(config)
    }

    /// Lanes and settings as they were when they were last looked at; none if they never were.
    pub fn known_config(&self) -> Option<Arc<Config>> {
        let known = self.config.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (known.version > 0).then_some(known)
    }

    /// Looks at what is believed, or changes it.
    pub fn believe<T>(&self, change: impl FnOnce(&mut Belief) -> T) -> T {
        change(&mut self.belief.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lanes and settings as they are now.
    pub fn remember_config(&self, config: Arc<Config>) {
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = config;
    }

    /// Writes a step. One at a time: the server knows the last call of a handle again.
    pub async fn apply(
        &self,
        (mut keys, arguments): (Vec<String>, Vec<Vec<u8>>),
    ) -> Result<(Written, Option<Unacknowledged>), StoreError> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let applied = self.keys.applied(&self.handle);
        keys.push(applied.clone());
        let mut call = scripts::call(&self.link.scripts.apply, &keys);
        call.arg(number);
        for argument in &arguments {
            call.arg(argument);
        }
        let mut ask = redis::pipe();
        ask.add_command(call);
        if let Some((replicas, millis)) = self.link.wait {
            // The server waits for what this connection has written. A step that was applied over another one has
            // written nothing here, so something is written anyhow.
            ask.cmd("EXPIRE").arg(applied).arg(86_400);
            ask.cmd("WAIT").arg(replicas).arg(millis.to_string());
        }
        let mut answers = self.link.ask("writing", &ask).await?.into_iter();
        let written = read_written(answers.next().unwrap_or(Value::Nil))?;
        match written {
            Written::Done => Ok((written, self.lacking(answers.next_back())?)),
            Written::Conflict => Ok((written, None)),
        }
    }

    /// What the server said of the replicas, if they were to be waited for and too few have a write.
    fn lacking(&self, answer: Option<Value>) -> Result<Option<Unacknowledged>, StoreError> {
        let Some((wanted, within)) = self.link.wait else {
            return Ok(None);
        };
        let by = answer::number(answer.unwrap_or(Value::Nil))?;
        Ok((by < wanted as i64).then_some(Unacknowledged { by, wanted, within }))
    }

    /// Calls a script that knows by itself what it has done before, or sends a transaction in which the answer of such a
    /// call is the only one that is wanted; gives that answer.
    pub async fn write(&self, doing: &str, calls: &Pipeline) -> Result<Value, StoreError> {
        let answers = self.link.ask(doing, calls).await?;
        let first = answers.into_iter().next();
        first.ok_or_else(|| StoreError::corrupt("no answer to a call"))
    }

    /// Whether fields are as they were read.
    pub async fn check(&self, keys: &[String], arguments: &[Vec<u8>]) -> Result<Written, StoreError> {
        let mut call = scripts::call(&self.link.scripts.check, keys);
        for argument in arguments {
            call.arg(argument);
        }
        let mut ask = redis::pipe();
        ask.add_command(call);
        read_written(self.link.ask("writing", &ask).await?.remove(0))
    }

    /// Runs every command that a step may consist of, and leaves nothing: the user has to be allowed all of them, and to
    /// have several done in one transaction. What is not done at all is noticed; what is done one by one is not.
    pub async fn probe(&self) -> Result<(), StoreError> {
        self.link.may_transact().await?;
        let mut call = scripts::call(&self.link.scripts.probe, &self.keys.probes());
        call.arg(self.keys.channel())
            .arg(self.wake.message(Signals::default()));
        let mut ask = redis::pipe();
        ask.add_command(call);
        if self.link.wait.is_some() {
            ask.cmd("WAIT").arg(0).arg(1);
        }
        match self.link.ask("what the store does", &ask).await {
            // A server without room can still be read.
            Ok(_) | Err(StoreError::Full { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn read_written(answer: Value) -> Result<Written, StoreError> {
    match answer::bytes(answer)?.as_deref() {
        Some(b"applied" | b"before" | b"same") => Ok(Written::Done),
        Some(b"conflict") => Ok(Written::Conflict),
        other => Err(StoreError::corrupt(format!("the server answers {other:?}"))),
    }
}
