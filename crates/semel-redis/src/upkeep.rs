//! Housekeeping in small steps: each kind of work looks at no more than `budget` rows in one round, and is written
//! by itself, so that no step is long and nobody waits for it.

use std::collections::HashMap;

use semel_core::error::StoreError;
use semel_core::ids::Digest;
use semel_core::job::Phase;
use semel_core::limits;
use semel_core::store::{Retention, UpkeepReport, UpkeepRequest};
use semel_core::time::{Millis, Timestamp};
use semel_core::view::LedgerEntry;

use crate::head::Head;
use crate::jobs::{parse_arrivals, score, sound, unless_damaged};
use crate::keys::{Id, Keys, LAPSE_SPAN};
use crate::link::answer;
use crate::records;
use crate::settle::follower_slot;
use crate::shard::Shard;
use crate::tx::{Slot, Tx, Written};

/// Chunks of the order of arrival that one round of the sweep looks at.
const SWEEP: usize = 16;

/// The kinds of work of one round.
#[derive(Clone, Copy, Debug)]
enum Chore {
    Leases,
    Stubs,
    Complete,
    Failed,
    Sweep,
    LedgerAge,
    LedgerKeys,
    Claims,
    Guards,
    Documents,
    Lapses,
    Snapshot,
}

const CHORES: [Chore; 12] = [
    Chore::Leases,
    Chore::Stubs,
    Chore::Complete,
    Chore::Failed,
    Chore::Sweep,
    Chore::LedgerAge,
    Chore::LedgerKeys,
    Chore::Claims,
    Chore::Guards,
    Chore::Documents,
    Chore::Lapses,
    Chore::Snapshot,
];

/// One round.
pub async fn upkeep(shard: &Shard, request: &UpkeepRequest) -> Result<UpkeepReport, StoreError> {
    let mut report = UpkeepReport::default();
    for chore in CHORES {
        loop {
            let mut tx = Tx::begin(shard, Vec::new(), 0, 0).await?;
            let done = tx.chore(chore, request, report).await?;
            if tx.commit().await? == Written::Done {
                report = done;
                break;
            }
        }
    }
    Ok(report)
}

impl Tx<'_> {
    async fn chore(
        &mut self,
        chore: Chore,
        request: &UpkeepRequest,
        mut report: UpkeepReport,
    ) -> Result<UpkeepReport, StoreError> {
        let (budget, retention) = (request.budget.max(1), request.retention);
        let spent = match chore {
            Chore::Leases => {
                let expired = self.rescue(budget).await?;
                report.expired += expired as u64;
                expired
            }
            Chore::Stubs => self.free_stubs(&retention, budget, &mut report).await?,
            Chore::Complete => self.prune(true, retention.complete, budget, &mut report).await?,
            Chore::Failed => self.prune(false, retention.failed, budget, &mut report).await?,
            Chore::Sweep => {
                report.more |= self.sweep().await?;
                0
            }
            Chore::LedgerAge => self.age_ledger(retention.ledger, budget, &mut report).await?,
            Chore::LedgerKeys => self.thin_ledger(budget, &mut report).await?,
            Chore::Claims => self.forget_claims(budget).await?,
            Chore::Guards => self.prune_guards(budget).await?,
            Chore::Documents => self.prune_documents(budget).await?,
            Chore::Lapses => {
                self.forget_lapses().await?;
                0
            }
            Chore::Snapshot => {
                report.snapshot = self.take_snapshot().await?;
                0
            }
        };
        report.more |= spent >= budget;
        Ok(report)
    }

    /// Jobs whose retention is over: gone, or a stub while they hold a key. Says how many were looked at.
    async fn prune(
        &mut self,
        complete: bool,
        kept: Millis,
        budget: usize,
        report: &mut UpkeepReport,
    ) -> Result<usize, StoreError> {
        // Both kinds share one budget.
        let budget = budget.saturating_sub((report.pruned + report.stubbed) as usize);
        let index = self.names().ended(complete);
        let until = before(self.now, kept);
        let mut ids = self.ids_up_to(index.clone(), until, budget).await?;
        let indexed = ids.len();
        if complete {
            let more = self.completed_up_to(until, budget - ids.len()).await?;
            ids.extend(more);
        }
        report.more |= ids.len() == budget;
        for (place, id) in ids.iter().enumerate() {
            // A completion stays listed when its job is deleted by hand and left as a stub, which waits elsewhere.
            let is_over = |head: &Head| {
                has_ended(head, complete)
                    && head.life.finished_at.is_some_and(|finished| finished <= until)
                    && (place < indexed || !head.marks.stub)
            };
            let dropped = match self.sound_head(id).await?.filter(is_over) {
                Some(head) => {
                    let dropped = self.drop_content(&head, true).await.map(Some);
                    unless_damaged(id, dropped)?
                }
                None => None,
            };
            match dropped {
                Some(true) => report.pruned += 1,
                Some(false) => report.stubbed += 1,
                // Swept with its queue, retried or damaged: whatever it is now, it is found elsewhere.
                None => self.run("ZREM", index.clone(), vec![id.0.to_vec()]),
            }
        }
        Ok(ids.len())
    }

    /// Jobs that were completed in the common way, the oldest first; they are listed no more.
    async fn completed_up_to(&mut self, until: Timestamp, most: usize) -> Result<Vec<Id>, StoreError> {
        /// Members that are read at once: each may stand for many jobs.
        const MEMBERS: usize = 32;
        let key = self.names().completed();
        let (mut ids, mut from) = (Vec::new(), 0);
        while ids.len() < most {
            let mut ask = redis::pipe();
            ask.cmd("LRANGE").arg(&key).arg(from).arg(from + MEMBERS - 1);
            let members = answer::all_bytes(self.look(&ask).await?.remove(0))?;
            let (read, before) = (members.len(), ids.len());
            for member in members {
                let Some((at, ended)) = ended_together(&member) else {
                    self.run("LREM", key.clone(), vec![score(1), member]);
                    continue;
                };
                // Clocks of several handles, or one that was set back: what is listed need not be in order.
                if at > until.as_millis() || ids.len() == most {
                    continue;
                }
                let taken = ended.len().min(most - ids.len());
                ids.extend_from_slice(&ended[..taken]);
                if taken < ended.len() {
                    let rest = member.get(8 + 16 * taken..).unwrap_or_default();
                    let rest = [member.get(..8).unwrap_or_default(), rest].concat();
                    self.run("LPUSH", key.clone(), vec![rest]);
                }
                self.run("LREM", key.clone(), vec![score(1), member]);
            }
            if read < MEMBERS || ids.len() == before {
                break;
            }
            from += MEMBERS;
        }
        self.load_heads(ids.iter().copied()).await?;
        Ok(ids)
    }

    async fn ids_up_to(
        &mut self,
        index: String,
        until: Timestamp,
        most: usize,
    ) -> Result<Vec<Id>, StoreError> {
        if most == 0 {
            return Ok(Vec::new());
        }
        let members = self.up_to(index, until.as_millis(), most).await?;
        let ids: Vec<Id> = members
            .into_iter()
            .filter_map(|id| id.try_into().ok().map(Id))
            .collect();
        self.load_heads(ids.iter().copied()).await?;
        Ok(ids)
    }

    /// Stubs whose key is free again: gone if their retention is over, otherwise they wait for that.
    async fn free_stubs(
        &mut self,
        retention: &Retention,
        budget: usize,
        report: &mut UpkeepReport,
    ) -> Result<usize, StoreError> {
        let keys = self.names();
        let ids = self.ids_up_to(keys.stubs(), self.now, budget).await?;
        for id in &ids {
            let Some(head) = self.sound_head(id).await?.filter(|head| head.marks.stub) else {
                self.run("ZREM", keys.stubs(), vec![id.0.to_vec()]);
                continue;
            };
            let complete = head.life.phase == Phase::Complete;
            let kept = if complete {
                retention.complete
            } else {
                retention.failed
            };
            let finished_at = head.life.finished_at.unwrap_or_default();
            if finished_at.plus(kept) <= self.now {
                self.remove(&head).await?;
                report.pruned += 1;
            } else {
                self.run("ZREM", keys.stubs(), vec![id.0.to_vec()]);
                self.run(
                    "ZADD",
                    keys.ended(complete),
                    vec![score(finished_at.as_millis()), id.0.to_vec()],
                );
            }
        }
        Ok(ids.len())
    }

    /// Jobs of removed queues: nobody sees them any more, so they are not reported. Says whether there is more.
    async fn sweep(&mut self) -> Result<bool, StoreError> {
        let keys = self.names();
        let mut ask = redis::pipe();
        ask.cmd("HGETALL").arg(keys.gone());
        let gone = answer::pairs(self.look(&ask).await?.remove(0))?;
        let open = gone.into_iter().filter(|(_, state)| state != b"swept");
        let open: Vec<(Vec<u8>, i64)> = open
            .map(|(lane, from)| Ok((lane, answer::parse(&from)?)))
            .collect::<Result<_, StoreError>>()?;
        let Some(from) = open.iter().map(|(_, from)| *from).min() else {
            return Ok(false);
        };
        let mut ask = redis::pipe();
        ask.cmd("ZRANGEBYSCORE")
            .arg(keys.chunks())
            .arg(from)
            .arg("+inf")
            .arg("LIMIT")
            .arg(0)
            .arg(SWEEP);
        let chunks = answer::all_bytes(self.look(&ask).await?.remove(0))?;
        let mut last = from;
        for chunk in &chunks {
            last = answer::parse(chunk)?;
            self.sweep_chunk(last).await?;
        }
        let done = chunks.len() < SWEEP;
        for (lane, _) in open {
            let state = if done { b"swept".to_vec() } else { score(last + 1) };
            self.run("HSET", keys.gone(), vec![lane, state]);
        }
        Ok(!done)
    }

    async fn sweep_chunk(&mut self, chunk: i64) -> Result<(), StoreError> {
        let mut ask = redis::pipe();
        ask.cmd("LRANGE").arg(self.names().order(chunk)).arg(0).arg(-1);
        let arrivals = answer::all_bytes(self.look(&ask).await?.remove(0))?;
        let ids: Vec<Id> = arrivals
            .iter()
            .filter_map(|entry| parse_arrivals(chunk, entry))
            .flatten()
            .map(|(_, id)| id)
            .collect();
        self.load_heads(ids.iter().copied()).await?;
        let mut void = Vec::new();
        for id in ids {
            let stored = self.stored(&id).await;
            let stored = unless_damaged(&id, stored)?;
            void.extend(stored.filter(|head| self.config.live(head.lane).is_none()));
        }
        let keys = self.names();
        self.load(void.iter().map(|head| follower_slot(keys, &head.id)).collect())
            .await?;
        for head in void {
            // Whoever followed it from another queue was let go with the queue, unless it came at the same moment.
            self.remove(&head).await?;
        }
        Ok(())
    }

    /// Entries that are too old, or more than the store keeps.
    async fn age_ledger(
        &mut self,
        kept: Millis,
        budget: usize,
        report: &mut UpkeepReport,
    ) -> Result<usize, StoreError> {
        let keys = self.names();
        let mut ask = redis::pipe();
        ask.cmd("HGET").arg(keys.meta()).arg("entries");
        ask.cmd("ZRANGE")
            .arg(keys.ledger_pages())
            .arg(0)
            .arg(budget / 256 + 1);
        let mut answers = self.look(&ask).await?.into_iter();
        let entries = answer::number(answers.next().unwrap_or(redis::Value::Nil))?;
        let mut surplus = entries.saturating_sub(limits::LEDGER_PER_STORE as i64);
        let until = before(self.now, kept);
        let (mut going, mut damaged, mut all_damaged) = (Going::default(), Vec::new(), true);
        'all: for page in answer::all_bytes(answers.next().unwrap_or(redis::Value::Nil))? {
            let page = answer::parse(&page)?;
            // What cannot be read goes with the next one that can; where there is none far and wide, before others.
            if all_damaged {
                self.drop_damaged(&mut damaged).await?;
            }
            let on_page = self.entries_on(page).await?;
            all_damaged &= on_page.sound.is_empty();
            let fields = on_page.damaged.into_iter();
            damaged.extend(fields.map(|field| (page, Slot::new(keys.ledger(page), field))));
            for (entry, token) in on_page.sound {
                if going.count == budget || (entry.at > until && surplus <= 0) {
                    break 'all;
                }
                surplus -= 1;
                self.drop_entry(&entry, &token, &mut going).await?;
                self.drop_damaged(&mut damaged).await?;
            }
        }
        self.forget_totals(&going).await?;
        report.ledger += going.count as u64;
        Ok(going.count)
    }

    /// Keeps the newest entries of keys that have very many.
    async fn thin_ledger(&mut self, budget: usize, report: &mut UpkeepReport) -> Result<usize, StoreError> {
        let keys = self.names();
        let mut ask = redis::pipe();
        ask.cmd("SRANDMEMBER").arg(keys.touched()).arg(budget);
        let touched = answer::all_bytes(self.look(&ask).await?.remove(0))?;
        let mut going = Going::default();
        for member in &touched {
            let Ok(bytes) = <[u8; 32]>::try_from(member.as_slice()) else {
                continue;
            };
            let digest = Digest::from_bytes(bytes);
            let (surplus, all) = self.surplus_of(&digest, budget - going.count).await?;
            for n in surplus {
                let slot = self.entry_slot(n);
                let found = self.get(&slot).await?.map(records::decode_entry);
                let is_there = found.is_some();
                match found.and_then(|entry| sound("the ledger", entry)) {
                    Some((entry, token)) => self.drop_entry(&entry, &token, &mut going).await?,
                    None => {
                        self.thin(&digest, n);
                        if is_there {
                            self.drop_from_page(Keys::page(n), slot);
                        }
                    }
                }
            }
            if all <= going.of(&digest) || all == 0 {
                self.run("SREM", keys.touched(), vec![member.clone()]);
            }
        }
        report.ledger += going.count as u64;
        Ok(touched.len().max(going.count))
    }

    /// Everything but the newest entries of a key, the oldest first, so many at most; and how many there are in all.
    async fn surplus_of(&self, digest: &Digest, most: usize) -> Result<(Vec<i64>, usize), StoreError> {
        let entries = self.names().ledger_of(digest);
        let mut ask = redis::pipe();
        ask.atomic().cmd("LLEN").arg(&entries);
        ask.cmd("LRANGE").arg(&entries).arg(0).arg(most);
        let mut answers = self.look(&ask).await?.into_iter();
        let mut next = || answers.next().unwrap_or(redis::Value::Nil);
        let all = usize::try_from(answer::number(next())?).unwrap_or(0);
        let all = all.saturating_sub(limits::LEDGER_PER_KEY);
        let numbers = answer::all_bytes(next())?;
        let numbers = numbers
            .iter()
            .take(all.min(most))
            .map(|number| answer::parse(number));
        Ok((numbers.collect::<Result<_, _>>()?, all))
    }

    /// Removes an entry; it stays counted for as long as its key is known.
    async fn drop_entry(
        &mut self,
        entry: &LedgerEntry,
        token: &Id,
        going: &mut Going,
    ) -> Result<(), StoreError> {
        let keys = self.names();
        let slot = self.entry_slot(entry.n);
        if self.get(&slot).await?.is_none() {
            return Ok(());
        }
        self.drop_from_page(Keys::page(entry.n), slot);
        let by_token = Slot::new(keys.tokens(), token.0);
        if self.get(&by_token).await?.map(answer::parse).transpose()? == Some(entry.n) {
            self.unset(by_token);
        }
        self.thin(&entry.digest, entry.n);
        *going.keys.entry(entry.digest).or_default() += 1;
        going.count += 1;
        Ok(())
    }

    /// Takes entries away that cannot be read, as far as they are still there.
    async fn drop_damaged(&mut self, damaged: &mut Vec<(i64, Slot)>) -> Result<(), StoreError> {
        for (page, slot) in damaged.drain(..) {
            if self.get(&slot).await?.is_some() {
                self.drop_from_page(page, slot);
            }
        }
        Ok(())
    }

    /// Takes what is at a place of a page away, and the page if nothing else is on it.
    fn drop_from_page(&mut self, page: i64, slot: Slot) {
        let keys = self.names();
        self.unset(slot);
        self.add(keys.meta(), "entries".to_owned(), -1);
        self.forget_if_empty(keys.ledger(page), keys.ledger_pages(), "ZREM", score(page));
    }

    async fn forget_totals(&mut self, going: &Going) -> Result<(), StoreError> {
        for digest in going.keys.keys() {
            self.forget_total(digest).await?;
        }
        Ok(())
    }

    /// Keys that lapsed are counted no more.
    async fn forget_lapses(&mut self) -> Result<(), StoreError> {
        let keys = self.names();
        let span = self.now.as_millis() / LAPSE_SPAN;
        let mut ask = redis::pipe();
        ask.cmd("HKEYS").arg(keys.lapses());
        for field in answer::all_bytes(self.look(&ask).await?.remove(0))? {
            let text = String::from_utf8_lossy(&field).into_owned();
            let past = text
                .split_once(':')
                .and_then(|(_, past)| past.parse::<i64>().ok());
            if let Some(past) = past.filter(|past| *past < span) {
                self.run("HDEL", keys.lapses(), vec![field]);
                self.run("DEL", keys.lapse(past), Vec::new());
            }
        }
        Ok(())
    }
}

/// Entries of the ledger that go in one step.
#[derive(Default)]
struct Going {
    count: usize,
    keys: HashMap<Digest, usize>,
}

impl Going {
    fn of(&self, digest: &Digest) -> usize {
        self.keys.get(digest).copied().unwrap_or(0)
    }
}

fn has_ended(head: &Head, complete: bool) -> bool {
    head.life.phase.is_terminal() && (head.life.phase == Phase::Complete) == complete
}

/// The moment `length` before `now`.
fn before(now: Timestamp, length: Millis) -> Timestamp {
    Timestamp::from_millis(now.as_millis().saturating_sub(length.as_millis()))
}

/// The moment and the jobs of a member of the list of completed ones.
fn ended_together(member: &[u8]) -> Option<(i64, Vec<Id>)> {
    let (at, ids) = member.split_first_chunk::<8>()?;
    let (ids, []) = ids.as_chunks::<16>() else {
        return None;
    };
    Some((i64::from_be_bytes(*at), ids.iter().map(|id| Id(*id)).collect()))
}
