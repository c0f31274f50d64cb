//! Absorbed submissions on their way into other shards, in the order they had over all shards.

use std::collections::VecDeque;

use semel_core::error::StoreError;
use semel_core::view::LedgerEntry;

use super::copy::{Found, commit};
use super::{Notice, tell};
use crate::jobs::score;
use crate::keys::{Id, Keys};
use crate::link::{Link, answer};
use crate::records;
use crate::shard::Shard;
use crate::tx::{Slot, Tx};

/// Entries written at once.
const TOGETHER: usize = 200;

struct Entry {
    entry: LedgerEntry,
    token: Id,
    /// Its token leads to it.
    is_known: bool,
}

struct Pages<'l> {
    link: &'l Link,
    keys: &'l Keys,
    pages: VecDeque<i64>,
    read: VecDeque<Entry>,
}

impl<'l> Pages<'l> {
    async fn open(link: &'l Link, keys: &'l Keys) -> Result<Self, StoreError> {
        let mut ask = redis::pipe();
        ask.cmd("ZRANGE").arg(keys.ledger_pages()).arg(0).arg(-1);
        let pages = answer::all_bytes(link.ask("reading the ledger", &ask).await?.remove(0))?;
        let pages = pages.iter().map(|page| answer::parse(page));
        Ok(Pages {
            link,
            keys,
            pages: pages.collect::<Result<_, _>>()?,
            read: VecDeque::new(),
        })
    }

    async fn peek(&mut self) -> Result<Option<&Entry>, StoreError> {
        while self.read.is_empty() {
            let Some(page) = self.pages.pop_front() else {
                return Ok(None);
            };
            self.read = self.page(page).await?;
        }
        Ok(self.read.front())
    }

    async fn page(&self, page: i64) -> Result<VecDeque<Entry>, StoreError> {
        let mut ask = redis::pipe();
        ask.cmd("HVALS").arg(self.keys.ledger(page));
        let mut entries = Vec::new();
        for bytes in answer::all_bytes(self.link.ask("reading the ledger", &ask).await?.remove(0))? {
            entries.push(records::decode_entry(&bytes)?);
        }
        entries.sort_unstable_by_key(|(entry, _)| entry.n);
        if entries.is_empty() {
            return Ok(VecDeque::new());
        }
        let mut ask = redis::pipe();
        let known = ask.cmd("HMGET").arg(self.keys.tokens());
        for (_, token) in &entries {
            known.arg(&token.0);
        }
        let known = answer::list(self.link.ask("reading the ledger", &ask).await?.remove(0))?;
        let entries = entries.into_iter().zip(known).map(|((entry, token), known)| {
            let known = answer::bytes(known)?;
            let known = known.map(|bytes| answer::parse(&bytes)).transpose()?;
            Ok(Entry {
                is_known: known == Some(entry.n),
                entry,
                token,
            })
        });
        entries.collect()
    }
}

/// Copies the ledgers of all shards.
pub async fn copy(
    link: &Link,
    from: &[Keys],
    targets: &[Shard],
    found: &Found,
    notice: Notice<'_>,
) -> Result<(), StoreError> {
    let mut sources = Vec::with_capacity(from.len());
    for keys in from {
        sources.push(Pages::open(link, keys).await?);
    }
    let pages: usize = sources.iter().map(|source| source.pages.len()).sum();
    let mut pending: Vec<Vec<Entry>> = targets.iter().map(|_| Vec::new()).collect();
    loop {
        let mut oldest = None;
        for (shard, source) in sources.iter_mut().enumerate() {
            let Some(entry) = source.peek().await? else {
                continue;
            };
            let at = (entry.entry.at, shard);
            oldest = Some(oldest.map_or(at, |oldest| at.min(oldest)));
        }
        let Some((_, shard)) = oldest else { break };
        let Some(entry) = sources[shard].read.pop_front() else {
            break;
        };
        let target = found.shard_of(&entry.entry.digest, targets.len());
        pending[target].push(entry);
        if pending[target].len() == TOGETHER {
            let left: usize = sources.iter().map(|source| source.pages.len()).sum();
            tell(notice, "copying the ledger", pages - left, pages)?;
            write(&targets[target], std::mem::take(&mut pending[target])).await?;
        }
    }
    for (target, entries) in targets.iter().zip(pending) {
        tell(notice, "copying the ledger", pages, pages)?;
        write(target, entries).await?;
    }
    Ok(())
}

async fn write(shard: &Shard, entries: Vec<Entry>) -> Result<(), StoreError> {
    if entries.is_empty() {
        return Ok(());
    }
    let mut tx = Tx::begin(shard, Vec::new(), 0, entries.len()).await?;
    let keys = tx.names();
    for Entry {
        entry,
        token,
        is_known,
    } in entries
    {
        let n = tx.next_entry().await?;
        let entry = LedgerEntry { n, ..entry };
        let page = Keys::page(n);
        tx.set(
            Slot::new(keys.ledger(page), n.to_string()),
            records::encode_entry(&entry, &token),
        );
        tx.run("ZADD", keys.ledger_pages(), vec![score(page), score(page)]);
        tx.run("RPUSH", keys.ledger_of(&entry.digest), vec![score(n)]);
        tx.run("SADD", keys.touched(), vec![entry.digest.as_bytes().to_vec()]);
        tx.add(keys.meta(), "entries".to_owned(), 1);
        if is_known {
            tx.set(Slot::token(keys, &token), score(n));
        }
    }
    commit(tx).await
}
