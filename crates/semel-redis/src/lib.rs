//! A store in Redis: one server, Sentinel or Cluster, shared by any number of processes.
//!
//! Reading, deciding, writing: a step reads the fields its decision needs, asks core, and hands what it read and what
//! it wants to write to one script, which writes only if nothing of it has changed ([`tx`]). All keys of a shard share
//! a hash slot ([`keys`]), so a step is atomic on a cluster too. Each verb is a file; every decision is core's.

mod act;
mod admit;
mod claim;
mod clock;
mod codec;
mod config;
mod control;
mod doctor;
mod documents;
mod driven;
mod effects;
mod fast;
mod head;
mod inspect;
mod jobs;
mod keys;
mod layout;
mod link;
mod listen;
mod looking;
mod name;
mod open;
mod open_calls;
mod options;
mod owners;
mod pack;
mod raw;
mod records;
mod reshard;
mod route;
mod scripts;
mod settings;
mod settle;
mod shard;
mod spread;
mod stats;
mod submit;
mod tx;
mod upkeep;
mod wake;
mod work;
mod writer;

pub use options::{Place, RedisOptions};
pub use raw::Raw;
pub use reshard::{ShardChange, ShardOutcome, ShardPlan, ShardProgress};

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::try_join_all;

use semel_core::error::StoreError;
use semel_core::ids::{JobId, Name};
use semel_core::time::Clock;

use crate::clock::Time;
use crate::keys::Id;
use crate::link::{Link, answer};
use crate::listen::Listener;
use crate::name::{Layout, Lead};
use crate::shard::Shard;
use crate::tx::Tx;
use crate::wake::Wake;
use crate::writer::{Call, Reply, Writer};

/// A store in Redis.
pub struct RedisStore {
    // Fields are dropped in this order: nobody writes or listens once the rest goes.
    members: Vec<Member>,
    listener: Listener,
    link: Arc<Link>,
    wake: Arc<Wake>,
    options: RedisOptions,
    layout: Layout,
}

/// How many jobs a handle has written at once, without reading first; the others went the long way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtOnce {
    /// Submissions that became a job.
    pub admitted: u64,
    /// Submissions that were absorbed. Of these it is looked first who has their keys.
    pub absorbed: u64,
    /// Jobs that were leased.
    pub leased: u64,
    /// Jobs that were completed.
    pub completed: u64,
}

/// Which members ids lead to.
struct Leads {
    layout: Layout,
    found: HashMap<JobId, usize>,
}

impl Leads {
    /// The member an id leads to; for an id that leads nowhere any of them says so.
    fn of(&self, id: &JobId) -> usize {
        match name::locate(id, self.layout) {
            Some((Lead::Here(shard), _)) => shard,
            _ => self.found.get(id).copied().unwrap_or(0),
        }
    }
}

/// A shard and the one who writes to it.
struct Member {
    writer: Writer,
    shard: Arc<Shard>,
}

impl Member {
    /// A lone caller waits for nobody: what can be written at once is written here, and calls that come meanwhile
    /// are written together by the writer.
    async fn ask(&self, doing: &str, mut call: Call) -> Result<Reply, StoreError> {
        if let Call::Claim(request) = &call
            && let Some(claims) = fast::claim::claim(&self.shard, request).await?
        {
            return Ok(Reply::Claimed(claims));
        }
        if matches!(call, Call::Submit(_) | Call::Settle(_))
            && let Some(_at_work) = self.shard.alone()
        {
            open_calls::at_once(&self.shard, std::slice::from_mut(&mut call)).await?;
            if open_calls::is_answered(&call) {
                return open_calls::reply(call);
            }
        }
        self.writer.ask(doing, call).await
    }

    async fn look(&self) -> Result<Tx<'_>, StoreError> {
        Tx::begin_looking(&self.shard).await
    }
}

impl RedisStore {
    /// Opens the store at a URL; see [`RedisOptions::from_url`]. Must be called within a Tokio runtime, which keeps
    /// the connection alive.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::open(RedisOptions::from_url(url)?).await
    }

    /// Opens a store with the server's clock.
    pub async fn open(options: RedisOptions) -> Result<Self, StoreError> {
        Self::start(options, None).await
    }

    /// Opens a store with another clock; for tests.
    pub async fn open_with_clock(options: RedisOptions, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::start(options, Some(clock)).await
    }

    async fn start(options: RedisOptions, clock: Option<Arc<dyn Clock>>) -> Result<Self, StoreError> {
        let link = Arc::new(Link::new(&options)?);
        for server in open::probe(&link).await? {
            open::check(&server, &options)?;
        }
        link.load_scripts().await?;
        let layout = layout::check(&link, &options).await?;
        let wake = Arc::new(Wake::default());
        let of_all = Arc::new(Time::new(clock.clone()));
        let time = || match options.place {
            // The shards are on several servers, of which each has a clock.
            Place::Cluster(_) => Arc::new(Time::new(clock.clone())),
            _ => of_all.clone(),
        };
        let member = |number: usize| {
            let place = (layout, number);
            let shard = Shard::new(&options.namespace, place, link.clone(), time(), wake.clone());
            let shard = Arc::new(shard);
            Member {
                writer: Writer::start(shard.clone()),
                shard,
            }
        };
        let members: Vec<Member> = (0..options.shards).map(member).collect();
        members[0].shard.probe().await?;
        // The first look teaches how far the server's clock is from the host's.
        members[0].look().await?;
        let channels = members.iter().map(|member| member.shard.keys.channel()).collect();
        Ok(RedisStore {
            listener: Listener::new(link.clone(), wake.clone(), channels),
            members,
            link,
            wake,
            options,
            layout,
        })
    }

    /// How many jobs this handle has written at once.
    pub fn at_once(&self) -> AtOnce {
        let mut sum = AtOnce::default();
        for member in &self.members {
            let own = &member.shard.at_once;
            sum.admitted += own.admitted.load(Ordering::Relaxed);
            sum.absorbed += own.absorbed.load(Ordering::Relaxed);
            sum.leased += own.leased.load(Ordering::Relaxed);
            sum.completed += own.completed.load(Ordering::Relaxed);
        }
        sum
    }

    fn shards(&self) -> usize {
        self.members.len()
    }

    /// Where documents, feeds and whatever belongs to no key are.
    fn first(&self) -> &Member {
        &self.members[0]
    }

    /// Finds the members that ids lead to. Only those that were given in an earlier layout have to be looked for.
    async fn leads(&self, ids: impl Iterator<Item = &JobId>) -> Result<Leads, StoreError> {
        let mut leads = Leads {
            layout: self.layout,
            found: HashMap::new(),
        };
        if self.layout.generation == 0 || self.shards() == 1 {
            return Ok(leads);
        }
        let old: Vec<(&JobId, Id)> = ids
            .filter_map(|id| match name::locate(id, self.layout)? {
                (Lead::Somewhere, job) => Some((id, job)),
                (Lead::Here(_), _) => None,
            })
            .collect();
        if old.is_empty() {
            return Ok(leads);
        }
        let looks = self.members.iter().map(async |member| {
            // What a job is is there for as long as the job is.
            let mut ask = redis::pipe();
            for (_, job) in &old {
                ask.cmd("HEXISTS").arg(member.shard.keys.specs()).arg(&job.0);
            }
            self.link.ask("looking for jobs", &ask).await
        });
        for (shard, answers) in try_join_all(looks).await?.into_iter().enumerate() {
            for ((id, _), there) in old.iter().zip(answers) {
                if answer::number(there)? == 1 {
                    leads.found.insert((*id).clone(), shard);
                }
            }
        }
        Ok(leads)
    }

    /// The same for one.
    async fn lead(&self, id: &JobId) -> Result<usize, StoreError> {
        Ok(self.leads(std::iter::once(id)).await?.of(id))
    }

    /// Asks all shards at once.
    async fn ask_all(&self, doing: &str, call: impl Fn() -> Call) -> Result<Vec<Reply>, StoreError> {
        try_join_all(self.members.iter().map(|member| member.ask(doing, call()))).await
    }

    /// Asks several shards at once, each for its items; gives the answers in the order of the items.
    async fn ask_each<I, O>(
        &self,
        doing: &str,
        items: Vec<I>,
        route: impl Fn(&I) -> usize,
        call: impl Fn(Vec<I>) -> Call,
        read: impl Fn(Reply) -> Result<Vec<O>, StoreError>,
    ) -> Result<Vec<O>, StoreError> {
        if self.shards() == 1 {
            return read(self.first().ask(doing, call(items)).await?);
        }
        let mut places: Vec<Vec<usize>> = vec![Vec::new(); self.shards()];
        let mut parts: Vec<Vec<I>> = (0..self.shards()).map(|_| Vec::new()).collect();
        let mut answers: Vec<Option<O>> = Vec::with_capacity(items.len());
        for (place, item) in items.into_iter().enumerate() {
            let shard = route(&item);
            places[shard].push(place);
            parts[shard].push(item);
            answers.push(None);
        }
        let parts = parts.into_iter().enumerate().filter(|(_, part)| !part.is_empty());
        let asked: Vec<(usize, Call)> = parts.map(|(shard, part)| (shard, call(part))).collect();
        let replies = asked.into_iter().map(async |(shard, call)| {
            let reply = self.members[shard].ask(doing, call).await?;
            Ok::<_, StoreError>((shard, reply))
        });
        for (shard, reply) in try_join_all(replies).await? {
            for (place, answer) in places[shard].iter().zip(read(reply)?) {
                answers[*place] = Some(answer);
            }
        }
        let whole: Option<Vec<O>> = answers.into_iter().collect();
        whole.ok_or_else(|| StoreError::corrupt("a shard answered too little"))
    }

    /// The namespace, for what is made from it.
    fn space(&self) -> &Name {
        &self.options.namespace
    }
}
