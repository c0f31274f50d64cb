//! What belongs to no job, on its way into other shards: counters, guards, claims, totals of keys, documents, feeds.
//!
//! Everything here says what is to be there, so that sent twice it is the same.

use std::collections::{BTreeMap, BTreeSet};

use redis::{Pipeline, Value};

use semel_core::counters::{Counter, Counts};
use semel_core::error::StoreError;
use semel_core::ids::{Digest, JobId, Token};
use semel_core::view::GuardStats;

use super::copy::Found;
use super::source::scored;
use super::{Notice, tell};
use crate::config::Config;
use crate::head::Head;
use crate::keys::{Id, Keys};
use crate::link::{Link, answer};
use crate::name;
use crate::records::Claim;
use crate::route;
use crate::shard::Shard;
use crate::stats::{decode_counts, encode_counts, read_numbers};
use crate::tx::Slot;

/// Commands sent at once.
const TOGETHER: usize = 500;

/// Copies all of it.
pub async fn copy(
    link: &Link,
    (pattern, from): (&str, &[Keys]),
    targets: &[Shard],
    found: &Found,
    notice: Notice<'_>,
) -> Result<(), StoreError> {
    let Some((first, into)) = from.first().zip(targets.first()) else {
        return Err(StoreError::corrupt("a store without shards"));
    };
    tell(notice, "copying counters", 0, 1)?;
    copy_numbers(link, from, targets, found).await?;
    for (done, keys) in from.iter().enumerate() {
        tell(notice, "copying guards and claims", done, from.len())?;
        copy_guards(link, keys, targets).await?;
        copy_claims(link, keys, targets, found).await?;
    }
    for (done, keys) in from.iter().enumerate() {
        tell(notice, "copying feeds", done, from.len())?;
        copy_feeds(link, keys, targets).await?;
    }
    tell(notice, "copying documents and totals of keys", 0, 1)?;
    for name in names(link, pattern).await? {
        let Some(keys) = from.iter().find(|keys| name.starts_with(keys.prefix())) else {
            continue;
        };
        let rest = &name[keys.prefix().len()..];
        if rest.starts_with("absorbed:") {
            copy_totals(link, &name, targets, found).await?;
        } else if keys.prefix() == first.prefix() {
            copy_whole(link, &name, &format!("{}{rest}", into.keys.prefix())).await?;
        }
    }
    Ok(())
}

/// Names that nothing else tells: of documents, and of the totals of keys.
async fn names(link: &Link, pattern: &str) -> Result<Vec<String>, StoreError> {
    let mut names = BTreeSet::new();
    for master in link.masters().await? {
        let mut cursor = b"0".to_vec();
        loop {
            let found;
            (cursor, found) = link.scan(master.as_ref(), &cursor, pattern).await?;
            let found = found.into_iter().filter_map(|name| String::from_utf8(name).ok());
            names.extend(found.filter(|name| {
                name.split_once("}:").is_some_and(|(_, rest)| {
                    let kinds = ["absorbed:", "documents:", "document_names:", "documents_due"];
                    kinds.iter().any(|kind| rest.starts_with(kind))
                })
            }));
            if cursor == b"0" {
                break;
            }
        }
    }
    Ok(names.into_iter().collect())
}

/// Copies a collection as it is.
async fn copy_whole(link: &Link, from: &str, to: &str) -> Result<(), StoreError> {
    let mut ask = redis::pipe();
    ask.cmd("DUMP").arg(from);
    let Some(bytes) = answer::bytes(link.ask("reading", &ask).await?.remove(0))? else {
        return Ok(());
    };
    let mut ask = redis::pipe();
    ask.cmd("RESTORE").arg(to).arg(0).arg(bytes).arg("REPLACE");
    link.ask("copying", &ask).await?;
    Ok(())
}

async fn copy_totals(link: &Link, name: &str, targets: &[Shard], found: &Found) -> Result<(), StoreError> {
    let mut ask = redis::pipe();
    ask.cmd("HGETALL").arg(name);
    for (digest, total) in answer::pairs(link.ask("reading", &ask).await?.remove(0))? {
        let Ok(bytes) = <[u8; 32]>::try_from(digest.as_slice()) else {
            continue;
        };
        let digest = Digest::from_bytes(bytes);
        let keys = &targets[found.shard_of(&digest, targets.len())].keys;
        let mut ask = redis::pipe();
        ask.cmd("HSET").arg(keys.absorbed(&digest)).arg(&bytes).arg(total);
        link.ask("copying", &ask).await?;
    }
    Ok(())
}

/// Counters are added up over the shards on reading. All of them go to the first, but that no shard has more jobs than
/// it has accepted.
async fn copy_numbers(
    link: &Link,
    from: &[Keys],
    targets: &[Shard],
    found: &Found,
) -> Result<(), StoreError> {
    let (mut now, mut before) = (BTreeMap::<u32, Counts>::new(), BTreeMap::<u32, Counts>::new());
    let (mut guards, mut snapshots) = (GuardStats::default(), BTreeMap::<i64, Counts>::new());
    let (mut since, mut document) = (None, None);
    for keys in from {
        let config = Config::read(link, keys).await?;
        let mut ask = redis::pipe();
        ask.cmd("HGETALL").arg(keys.counts());
        ask.cmd("HGETALL").arg(keys.baseline());
        ask.cmd("HGETALL").arg(keys.snapshots());
        ask.cmd("HMGET").arg(keys.meta()).arg("since").arg("document");
        let answers = link.ask("reading counters", &ask).await?;
        let [counts, baseline, taken, meta] = <[Value; 4]>::try_from(answers)
            .map_err(|_| StoreError::corrupt("an answer of another length"))?;
        let (counts, guard) = read_numbers(counts)?;
        let (baseline, _) = read_numbers(baseline)?;
        for (sums, numbers) in [(&mut now, counts), (&mut before, baseline)] {
            for (lane, own) in numbers {
                let lane = found.lanes.get(&config.names(lane)?);
                let lane = lane.ok_or_else(|| StoreError::corrupt("counters of a lane that is not there"))?;
                sums.entry(*lane).or_default().merge(&own.counts);
            }
        }
        guards.fresh += guard.fresh;
        guards.in_progress += guard.in_progress;
        guards.done += guard.done;
        for (at, counts) in answer::pairs(taken)? {
            let sum = snapshots.entry(answer::parse(&at)?).or_default();
            sum.merge(&decode_counts(&counts)?);
        }
        let mut meta = answer::list(meta)?.into_iter();
        for kept in [&mut since, &mut document] {
            let value = answer::bytes(meta.next().unwrap_or(Value::Nil))?;
            if kept.is_none() {
                *kept = value;
            }
        }
    }
    let first = &targets[0].keys;
    let mut sent = Sent::new(link);
    for ((shard, lane), accepted) in found.accepted.iter().filter(|((shard, _), _)| *shard > 0) {
        let field = format!("{lane}.c{}", Counter::Accepted as usize);
        sent.add(*shard, |ask| {
            ask.cmd("HSET")
                .arg(targets[*shard].keys.counts())
                .arg(&field)
                .arg(*accepted);
        })
        .await?;
        let sum = now.entry(*lane).or_default();
        sum.set(Counter::Accepted, sum.get(Counter::Accepted) - accepted);
    }
    for (key, sums) in [(first.counts(), now), (first.baseline(), before)] {
        for (lane, counts) in sums {
            for counter in Counter::ALL
                .into_iter()
                .filter(|counter| counts.get(*counter) != 0)
            {
                let field = format!("{lane}.c{}", counter as usize);
                sent.add(0, |ask| {
                    ask.cmd("HSET").arg(&key).arg(&field).arg(counts.get(counter));
                })
                .await?;
            }
        }
    }
    for (field, value) in [
        ("g.fresh", guards.fresh),
        ("g.in_progress", guards.in_progress),
        ("g.done", guards.done),
    ] {
        if value != 0 {
            sent.add(0, |ask| {
                ask.cmd("HSET").arg(first.counts()).arg(field).arg(value);
            })
            .await?;
        }
    }
    for (at, counts) in snapshots {
        sent.add(0, |ask| {
            ask.cmd("HSET")
                .arg(first.snapshots())
                .arg(at)
                .arg(encode_counts(&counts));
        })
        .await?;
    }
    if let Some(document) = document {
        sent.add(0, |ask| {
            ask.cmd("HSET").arg(first.meta()).arg("document").arg(&document);
        })
        .await?;
    }
    for (shard, target) in targets.iter().enumerate() {
        if let Some(since) = &since {
            sent.add(shard, |ask| {
                ask.cmd("HSET").arg(target.keys.meta()).arg("since").arg(since);
            })
            .await?;
        }
    }
    sent.end().await
}

async fn copy_guards(link: &Link, keys: &Keys, targets: &[Shard]) -> Result<(), StoreError> {
    let mut sent = Sent::new(link);
    for chunk in scored(link, keys.guards_due()).await?.chunks(TOGETHER) {
        let digests: Vec<(Digest, &Vec<u8>)> = chunk
            .iter()
            .filter_map(|(member, due)| Some((Digest::from_bytes(member.as_slice().try_into().ok()?), due)))
            .collect();
        let mut ask = redis::pipe();
        for (digest, _) in &digests {
            ask.cmd("HGET").arg(keys.guards(digest)).arg(digest.as_bytes());
        }
        if digests.is_empty() {
            continue;
        }
        let records = link.ask("reading guards", &ask).await?;
        for ((digest, due), record) in digests.into_iter().zip(records) {
            let Some(record) = answer::bytes(record)? else {
                continue;
            };
            let shard = route::of_digest(&digest, targets.len());
            let to = &targets[shard].keys;
            sent.add(shard, |ask| {
                ask.cmd("HSET")
                    .arg(to.guards(&digest))
                    .arg(digest.as_bytes())
                    .arg(record);
            })
            .await?;
            sent.add(shard, |ask| {
                ask.cmd("ZADD")
                    .arg(to.guards_due())
                    .arg(due)
                    .arg(digest.as_bytes());
            })
            .await?;
        }
    }
    sent.end().await
}

/// A claim is known wherever something of it runs, or where its token leads.
async fn copy_claims(link: &Link, keys: &Keys, targets: &[Shard], found: &Found) -> Result<(), StoreError> {
    let mut sent = Sent::new(link);
    for chunk in scored(link, keys.claims_due()).await?.chunks(TOGETHER) {
        let mut ask = redis::pipe();
        let read = ask.cmd("HMGET").arg(keys.claims());
        for (token, _) in chunk {
            read.arg(token);
        }
        let claims = answer::list(link.ask("reading claims", &ask).await?.remove(0))?;
        for ((token, due), claim) in chunk.iter().zip(claims) {
            let (Some(bytes), Ok(id)) = (answer::bytes(claim)?, <[u8; 16]>::try_from(token.as_slice()))
            else {
                continue;
            };
            let claim = Claim::decode(&bytes)?;
            let lost = route::of_slot(route::slot_of_token(&Token::from_bytes(id)), targets.len());
            let mut parts: BTreeMap<usize, Vec<Id>> = BTreeMap::new();
            for id in &claim.ids {
                if let Some(shard) = found.running.get(id) {
                    parts.entry(*shard).or_default().push(*id);
                }
            }
            if parts.is_empty() {
                parts.insert(lost, Vec::new());
            }
            for (shard, ids) in parts {
                let to = &targets[shard].keys;
                let part = Claim {
                    fence: claim.fence,
                    ids,
                };
                sent.add(shard, |ask| {
                    ask.cmd("HSET").arg(to.claims()).arg(token).arg(part.encode());
                })
                .await?;
                sent.add(shard, |ask| {
                    ask.cmd("ZADD").arg(to.claims_due()).arg(due).arg(token);
                })
                .await?;
            }
        }
    }
    sent.end().await
}

/// Log lines of jobs go with their jobs; what is left goes to the first shard, or where its name leads.
async fn copy_feeds(link: &Link, keys: &Keys, targets: &[Shard]) -> Result<(), StoreError> {
    let mut ask = redis::pipe();
    ask.cmd("HGETALL").arg(keys.feeds());
    for (feed, last) in answer::pairs(link.ask("reading feeds", &ask).await?.remove(0))? {
        let Ok(feed) = String::from_utf8(feed) else {
            continue;
        };
        let named = feed.strip_prefix("log/").and_then(|id| JobId::new(id).ok());
        let id = named.and_then(|id| name::parse(&id)).map(|(_, id)| id);
        let target = match id {
            None => 0,
            Some(id) if went_along(link, keys, &id).await? => continue,
            Some(id) => whereabouts(link, &id, targets).await?,
        };
        let to = &targets[target].keys;
        copy_whole(link, &keys.feed(&feed), &to.feed(&feed)).await?;
        let mut ask = redis::pipe();
        ask.cmd("HSET").arg(to.feeds()).arg(&feed).arg(last);
        link.ask("copying feeds", &ask).await?;
    }
    Ok(())
}

/// Whether the log of a job was copied with it.
async fn went_along(link: &Link, keys: &Keys, id: &Id) -> Result<bool, StoreError> {
    let (key, field) = Slot::head(keys, id).into_parts();
    let mut ask = redis::pipe();
    ask.cmd("HGET").arg(key).arg(field);
    let head = answer::bytes(link.ask("reading feeds", &ask).await?.remove(0))?;
    let marks = head.map(|bytes| Head::marks_in(*id, &bytes)).transpose()?;
    Ok(marks.is_some_and(|marks| marks.log))
}

async fn whereabouts(link: &Link, id: &Id, targets: &[Shard]) -> Result<usize, StoreError> {
    for (shard, target) in targets.iter().enumerate() {
        let mut ask = redis::pipe();
        ask.cmd("HEXISTS").arg(target.keys.specs()).arg(&id.0);
        if answer::number(link.ask("reading feeds", &ask).await?.remove(0))? == 1 {
            return Ok(shard);
        }
    }
    Ok(0)
}

/// Commands on their way, many at a time, by the shard they are about: one pipeline goes to one server.
struct Sent<'l> {
    link: &'l Link,
    asks: BTreeMap<usize, (Pipeline, usize)>,
}

impl<'l> Sent<'l> {
    fn new(link: &'l Link) -> Self {
        Sent {
            link,
            asks: BTreeMap::new(),
        }
    }

    async fn add(&mut self, shard: usize, command: impl FnOnce(&mut Pipeline)) -> Result<(), StoreError> {
        let (ask, count) = self.asks.entry(shard).or_insert_with(|| (redis::pipe(), 0));
        command(ask);
        *count += 1;
        if *count >= TOGETHER {
            self.send(shard).await?;
        }
        Ok(())
    }

    async fn send(&mut self, shard: usize) -> Result<(), StoreError> {
        if let Some((ask, _)) = self.asks.remove(&shard) {
            self.link.ask("copying", &ask).await?;
        }
        Ok(())
    }

    async fn end(mut self) -> Result<(), StoreError> {
        for shard in self.asks.keys().copied().collect::<Vec<_>>() {
            self.send(shard).await?;
        }
        Ok(())
    }
}
