//! Jobs of a shard that is closed, in the order of their arrival, each with everything that goes with it.

use std::collections::VecDeque;
use std::sync::Arc;

use redis::Value;

use semel_core::error::StoreError;
use semel_core::ids::Name;
use semel_core::store::log_feed;

use crate::config::Config;
use crate::head::Head;
use crate::jobs::parse_arrivals;
use crate::keys::{Id, Keys};
use crate::link::Link;
use crate::link::answer::{self, Pair};
use crate::records::Spec;
use crate::tx::Slot;

/// Jobs read at once: few, for their inputs may be long.
const READ: usize = 64;

/// A job with everything that goes with it.
pub struct Moving {
    /// How it fares.
    pub head: Head,
    /// What it is.
    pub spec: Spec,
    /// Its queue and task.
    pub lane: (Name, Name),
    /// What it gave.
    pub output: Option<Vec<u8>>,
    /// What went wrong last.
    pub error: Option<Vec<u8>>,
    /// How far it is.
    pub progress: Option<Vec<u8>>,
    /// Deliveries that ended.
    pub attempts: Vec<Vec<u8>>,
    /// Its log: the name of the feed, the last number, the lines.
    pub log: Option<(String, i64, Vec<Vec<u8>>)>,
    /// The steps of its chain.
    pub steps: Vec<Vec<u8>>,
    /// Who took its key last.
    pub owner: Option<Vec<u8>>,
}

/// The jobs of one shard.
pub struct Source<'l> {
    link: &'l Link,
    keys: &'l Keys,
    config: Arc<Config>,
    chunks: VecDeque<i64>,
    ids: VecDeque<Id>,
    read: VecDeque<Moving>,
}

impl<'l> Source<'l> {
    /// Begins with the oldest.
    pub async fn open(link: &'l Link, keys: &'l Keys) -> Result<Self, StoreError> {
        let mut ask = redis::pipe();
        ask.cmd("ZRANGE").arg(keys.chunks()).arg(0).arg(-1);
        let chunks = answer::all_bytes(link.ask("reading jobs", &ask).await?.remove(0))?;
        let chunks = chunks.iter().map(|chunk| answer::parse(chunk));
        Ok(Source {
            link,
            keys,
            config: Config::read(link, keys).await?,
            chunks: chunks.collect::<Result<_, _>>()?,
            ids: VecDeque::new(),
            read: VecDeque::new(),
        })
    }

    /// Lanes and settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The next job.
    pub async fn peek(&mut self) -> Result<Option<&Moving>, StoreError> {
        while self.read.is_empty() {
            if self.ids.is_empty() && !self.next_chunk().await? {
                return Ok(None);
            }
            let ids: Vec<Id> = self.ids.drain(..self.ids.len().min(READ)).collect();
            self.read_jobs(&ids).await?;
        }
        Ok(self.read.front())
    }

    /// Takes the next job.
    pub fn take(&mut self) -> Option<Moving> {
        self.read.pop_front()
    }

    async fn next_chunk(&mut self) -> Result<bool, StoreError> {
        let Some(chunk) = self.chunks.pop_front() else {
            return Ok(false);
        };
        let mut ask = redis::pipe();
        ask.cmd("LRANGE").arg(self.keys.order(chunk)).arg(0).arg(-1);
        let arrivals = answer::all_bytes(self.link.ask("reading jobs", &ask).await?.remove(0))?;
        let jobs = arrivals.iter().filter_map(|entry| parse_arrivals(chunk, entry));
        let mut jobs: Vec<(i64, Id)> = jobs.flatten().collect();
        jobs.sort_unstable();
        jobs.dedup();
        self.ids = jobs.into_iter().map(|(_, id)| id).collect();
        Ok(true)
    }

    async fn read_jobs(&mut self, ids: &[Id]) -> Result<(), StoreError> {
        if ids.is_empty() {
            return Ok(());
        }
        let keys = self.keys;
        let mut ask = redis::pipe();
        for key in [
            keys.heads(),
            keys.specs(),
            keys.outputs(),
            keys.errors(),
            keys.progress(),
        ] {
            let read = ask.cmd("HMGET").arg(key);
            for id in ids {
                read.arg(&id.0);
            }
        }
        let mut answers = Vec::new();
        for answer in self.link.ask("reading jobs", &ask).await? {
            let values = answer::list(answer)?.into_iter().map(answer::bytes);
            answers.push(values.collect::<Result<Vec<_>, _>>()?.into_iter());
        }
        let mut next = |part: usize| answers.get_mut(part).and_then(Iterator::next).flatten();
        let mut jobs = Vec::with_capacity(ids.len());
        for id in ids {
            let [head, spec, output, error, progress] = std::array::from_fn(&mut next);
            let head = Head::read(*id, head.as_deref(), spec.as_deref())?;
            // Listed, but gone, or removed with its queue.
            let Some(head) = head.filter(|head| self.config.live(head.lane).is_some()) else {
                continue;
            };
            let Some(spec) = spec else {
                let name = keys.id_of(&head.trail, id);
                return Err(StoreError::corrupt(format!("job {name} has no content")));
            };
            jobs.push(Moving {
                lane: self.config.names(head.lane)?,
                spec: Spec::decode(&spec)?,
                output: output.filter(|_| head.marks.output),
                error: error.filter(|_| head.marks.error),
                progress: progress.filter(|_| head.marks.progress),
                attempts: Vec::new(),
                log: None,
                steps: Vec::new(),
                owner: None,
                head,
            });
        }
        self.read_rest(&mut jobs).await?;
        self.read.extend(jobs);
        Ok(())
    }

    /// What only some jobs have.
    async fn read_rest(&self, jobs: &mut [Moving]) -> Result<(), StoreError> {
        let keys = self.keys;
        let mut ask = redis::pipe();
        for Moving { head, .. } in jobs.iter() {
            if head.marks.attempts {
                ask.cmd("LRANGE").arg(keys.attempts(&head.id)).arg(0).arg(-1);
            }
            if head.marks.log {
                let feed = log_feed(&keys.id_of(&head.trail, &head.id));
                ask.cmd("HGET").arg(keys.feeds()).arg(&feed);
                ask.cmd("LRANGE").arg(keys.feed(&feed)).arg(0).arg(-1);
            }
            if has_steps(head) {
                ask.cmd("HVALS").arg(keys.steps(&head.origin()));
            }
            if let Some(digest) = &head.digest {
                let (key, field) = Slot::owner(keys, digest).into_parts();
                ask.cmd("HGET").arg(key).arg(field);
            }
        }
        if ask.is_empty() {
            return Ok(());
        }
        let mut answers = self.link.ask("reading jobs", &ask).await?.into_iter();
        let mut next = || answers.next().unwrap_or(Value::Nil);
        for job in jobs {
            if job.head.marks.attempts {
                job.attempts = answer::all_bytes(next())?;
            }
            if job.head.marks.log {
                let feed = log_feed(&keys.id_of(&job.head.trail, &job.head.id));
                let last = answer::number(next())?;
                job.log = Some((feed, last, answer::all_bytes(next())?));
            }
            if has_steps(&job.head) {
                job.steps = answer::all_bytes(next())?;
            }
            if job.head.digest.is_some() {
                job.owner = answer::bytes(next())?;
            }
        }
        Ok(())
    }
}

/// Whether its chain may have begun a step.
fn has_steps(head: &Head) -> bool {
    head.origin.is_some() || head.life.deliveries > 0 || head.life.fence > 0
}

/// The members of a sorted set with their scores.
pub async fn scored(link: &Link, key: String) -> Result<Vec<Pair>, StoreError> {
    let mut ask = redis::pipe();
    ask.cmd("ZRANGE").arg(key).arg(0).arg(-1).arg("WITHSCORES");
    answer::pairs(link.ask("reading", &ask).await?.remove(0))
}
