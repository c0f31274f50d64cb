//! Housekeeping: what time has made superfluous goes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt as _;
use semel_core::error::StoreError;
use semel_core::ids::{Digest, JobId, Token};
use semel_core::job::Phase;
use semel_core::limits;
use semel_core::store::{Retention, UpkeepReport, UpkeepRequest};
use semel_core::time::{Millis, Timestamp};

use crate::bucket::Listed;
use crate::cell::{Cell, Entry};
use crate::desk::{Desk, at_once, each, shown};
use crate::inspect::Sight;
use crate::layout;
use crate::record::{Arrival, Record};
use crate::setup::Setup;
use crate::stats::Look;

/// How often a regular round looks through the feeds, in milliseconds.
const FEEDS_EVERY: u64 = 600_000;

impl Desk {
    pub async fn upkeep(&self, request: UpkeepRequest) -> Result<UpkeepReport, StoreError> {
        let setup = self.setup().await?;
        let mut expired = self.tend_some(&setup, request.budget).await?;
        expired += self.sweep_due_leases(&setup).await?;
        let mut report = UpkeepReport {
            expired: expired as u64,
            more: expired >= request.budget,
            ..UpkeepReport::default()
        };
        if request.regular && !self.take_turn().await? {
            return Ok(report);
        }
        let kept = self.keep_house(&request, &setup, &mut report).await;
        if request.regular {
            let did_something = expired > 0 || *kept.as_ref().unwrap_or(&true);
            self.end_turn(did_something, report.more).await?;
        }
        kept.map(|_| report)
    }

    /// Everything is listed once; what follows works on that, and on what this handle has written since. Says whether
    /// there was anything to do.
    async fn keep_house(
        &self,
        request: &UpkeepRequest,
        setup: &Setup,
        report: &mut UpkeepReport,
    ) -> Result<bool, StoreError> {
        let UpkeepRequest {
            retention, budget, ..
        } = *request;
        let Look {
            sight,
            guards,
            counted,
        } = self.look().await?;
        report.snapshot = self.take_snapshot(&counted.raw(), sight.now).await?;
        let (pruned, stubbed) = self.prune_jobs(&sight, &retention, budget, setup).await?;
        let ledger = self.prune_ledger(&sight, retention.ledger, budget).await?;
        report.pruned = pruned as u64;
        report.stubbed = stubbed as u64;
        report.ledger = ledger as u64;
        let claims = self.forget_claims(budget).await?;
        let guards = self.prune_guards(&guards, budget).await?;
        let feeds = match self.is_time_for_feeds(request.regular) {
            true => self.prune_feeds(budget).await?,
            false => 0,
        };
        let sight = self.brought_up_to_date(sight, setup);
        let moved = self.move_out(&sight, budget).await?;
        let retired = self.retire(&sight, &counted.sums.folding, setup, budget).await?;
        let spent = [pruned + stubbed, ledger, claims, guards, feeds, moved, retired];
        report.more |= spent.into_iter().any(|spent| spent >= budget);
        Ok(spent.into_iter().any(|spent| spent > 0))
    }

    /// What was listed, with what this handle has seen since; nothing is asked for again.
    fn brought_up_to_date(&self, sight: Sight, setup: &Setup) -> Sight {
        let cells = sight.cells.into_iter().map(|(name, cell)| {
            let newest = self.seen_cell(&name).unwrap_or(cell);
            (name, newest)
        });
        Sight {
            cells: shown(cells.collect(), setup, self.moment()),
            now: self.moment().now,
            ..sight
        }
    }

    fn is_time_for_feeds(&self, regular: bool) -> bool {
        let now = self.moment().now.as_millis();
        let last = self.fed.load(Ordering::Acquire);
        let due = !regular || now.abs_diff(last) >= FEEDS_EVERY;
        if due {
            self.fed.store(now, Ordering::Release);
        }
        due
    }

    /// Removes jobs that ended long ago; of those that hold a key a stub stays.
    async fn prune_jobs(
        &self,
        sight: &Sight,
        retention: &Retention,
        most: usize,
        setup: &Setup,
    ) -> Result<(usize, usize), StoreError> {
        let mut old: Vec<(Option<Timestamp>, &str, JobId)> = Vec::new();
        for (name, cell) in &sight.cells {
            let outlived = cell
                .jobs
                .iter()
                .filter(|job| is_outlived(job, retention, sight.now));
            old.extend(outlived.map(|job| (job.life.finished_at, name.as_str(), job.spec.id.clone())));
        }
        old.sort();
        old.truncate(most);
        let route = |(_, name, _): &(Option<Timestamp>, &str, JobId)| (*name).to_owned();
        let done = each(old, route, |(_, name, id)| {
            async move {
                if let Some(copy) = sight.find(name).filter(|cell| cell.copied_by.is_some()) {
                    return self.prune_copy(&id, copy).await;
                }
                self.change(name, true, setup, |cell, moment| {
                    let job = cell.find(&id)?;
                    is_outlived(job, retention, moment.now).then(|| cell.drop_content(&id, true, moment))
                })
                .await
            }
            .boxed()
        })
        .await?;
        let count = |gone: bool| done.iter().filter(|it| **it == Some(gone)).count();
        Ok((count(true), count(false)))
    }

    /// A job that left the cell of its key goes by a word of that cell.
    async fn prune_copy(&self, id: &JobId, copy: &Cell) -> Result<Option<bool>, StoreError> {
        let Some(key) = &copy.points_to else {
            return Ok(None);
        };
        self.change(&key.cell, true, &Setup::default(), |cell, moment| {
            let job = copy.find(id).filter(|_| cell.lets_count(id, copy))?;
            cell.unlogged.extend(job.logged.then(|| id.clone()));
            cell.bury(copy, vec![id.clone()], moment.now);
            Some(true)
        })
        .await
    }

    /// Removes entries of the ledger that are too old or too many; totals stay exact. Says how many.
    async fn prune_ledger(&self, sight: &Sight, kept: Millis, most: usize) -> Result<usize, StoreError> {
        let surplus = surplus(sight, kept, most);
        let mut by_key: BTreeMap<Digest, Vec<(&str, Arrival)>> = BTreeMap::new();
        for (name, entry) in &surplus {
            by_key
                .entry(entry.digest)
                .or_default()
                .push((name, entry.arrival));
        }
        let keys: Vec<(Digest, Vec<(&str, Arrival)>)> = by_key.into_iter().collect();
        let route = |(digest, _): &(Digest, Vec<(&str, Arrival)>)| digest.to_string();
        each(keys, route, |(digest, entries)| {
            async move { self.fold_entries(digest, &entries).await }.boxed()
        })
        .await?;
        Ok(surplus.len())
    }

    /// Entries become a number in the cell of their key. First the number, with what it is about; then the entries go;
    /// then it is forgotten what it was about: so each is counted once at any time, however many are at it.
    async fn fold_entries(&self, digest: Digest, entries: &[(&str, Arrival)]) -> Result<(), StoreError> {
        let key = layout::key_cell(digest);
        let nothing = &Setup::default();
        let look = |_: &Cell| self.still_there(&key, entries).boxed();
        let elsewhere = self
            .change_after(&key, look, |cell, elsewhere, _| {
                for (name, arrival) in entries {
                    if *name == key {
                        let before = cell.entries.len();
                        cell.entries.retain(|entry| entry.arrival != *arrival);
                        cell.absorbed += i64::try_from(before - cell.entries.len()).unwrap_or(0);
                    }
                }
                for (_, arrival) in elsewhere {
                    if !cell.folding.contains(arrival) {
                        cell.folding.push(*arrival);
                        cell.absorbed += 1;
                    }
                }
                elsewhere.clone()
            })
            .await?;
        let route = |(name, _): &(String, Arrival)| name.clone();
        each(elsewhere, route, |(name, arrival)| {
            let erase = async move {
                self.change(&name, true, nothing, |cell, _| {
                    cell.entries.retain(|entry| entry.arrival != arrival);
                })
                .await
            };
            erase.boxed()
        })
        .await?;
        // Those that were not there any more as well: whoever erased them may have died before this.
        self.change(&key, true, nothing, |cell, _| {
            cell.folding
                .retain(|arrival| !entries.iter().any(|(_, gone)| gone == arrival));
        })
        .await
    }

    /// Those entries that are still in objects other than that of their key.
    async fn still_there(
        &self,
        key: &str,
        entries: &[(&str, Arrival)],
    ) -> Result<Vec<(String, Arrival)>, StoreError> {
        let elsewhere = entries.iter().filter(|(name, _)| *name != key);
        let reads = elsewhere.map(|(name, arrival)| {
            let read = async move {
                let loaded = self.read(name).await?;
                let mut entries = loaded.base.iter().flat_map(|(_, cell)| &cell.entries);
                let there = entries.any(|entry| entry.arrival == *arrival);
                Ok(there.then(|| ((*name).to_owned(), *arrival)))
            };
            read.boxed()
        });
        let found: Vec<Option<(String, Arrival)>> = at_once(reads.collect()).await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Forgets claims that nobody will send again; of those that still run, it asks again later. Says how many.
    async fn forget_claims(&self, most: usize) -> Result<usize, StoreError> {
        let now = self.moment().now;
        // One that was written a moment ago is not read: it cannot be due.
        let written_by = now.as_millis() / 1_000 - limits::CLAIM_KEPT.as_millis() / 1_000 + 1;
        let may_be_due = |one: &Listed| !self.time.is_servers() || one.written <= written_by;
        let (claims, _) = self.some(&[layout::CLAIMS], may_be_due).await?;
        let due = claims.into_iter().filter_map(|(name, cell)| {
            let claim = cell.claim.clone().filter(|claim| claim.forget_at <= now)?;
            Some((name, claim))
        });
        let mut forgotten = Vec::new();
        let mut looked = 0;
        for (name, claim) in due.take(most) {
            looked += 1;
            let token: Option<Token> = layout::token_of(&name);
            let mut runs = false;
            for (cell, id) in &claim.jobs {
                let loaded = self.recall(cell).await?;
                let job = loaded.base.as_ref().and_then(|(_, cell)| cell.find(id));
                runs |= job.is_some_and(|job| job.life.phase == Phase::Running && job.claim == token);
            }
            match runs {
                true => {
                    self.change(&name, true, &Setup::default(), |cell, moment| {
                        if let Some(claim) = &mut cell.claim {
                            claim.forget_at = moment.now.plus(limits::CLAIM_KEPT);
                        }
                    })
                    .await?;
                }
                false => forgotten.push(name),
            }
        }
        self.forget(&forgotten);
        self.bucket.delete(forgotten).await?;
        Ok(looked)
    }

    async fn prune_guards(&self, guards: &[(String, Arc<Cell>)], most: usize) -> Result<usize, StoreError> {
        let now = self.moment().now;
        let lapsed = guards.iter().filter(|(_, cell)| {
            let guard = cell.guard.as_ref();
            guard.is_some_and(|guard| guard.expires_at <= now)
        });
        let lapsed: Vec<String> = lapsed.take(most).map(|(name, _)| name.clone()).collect();
        let count = lapsed.len();
        each(lapsed, String::clone, |name| {
            async move {
                self.change(&name, true, &Setup::default(), |cell, moment| {
                    if cell
                        .guard
                        .as_ref()
                        .is_some_and(|guard| guard.expires_at <= moment.now)
                    {
                        cell.guard = None;
                    }
                })
                .await
            }
            .boxed()
        })
        .await?;
        Ok(count)
    }
}

/// Whether a job is past its retention, and something is to be done with it.
fn is_outlived(job: &Record, retention: &Retention, now: Timestamp) -> bool {
    let kept = match job.life.phase {
        Phase::Complete => retention.complete,
        _ => retention.failed,
    };
    let outlived = job.life.finished_at.is_some_and(|at| at.plus(kept) <= now);
    outlived && job.life.phase.is_terminal() && !(job.stub && job.life.is_holder(now))
}

/// Entries that are too old, or too many for the store or their key, oldest first.
fn surplus(sight: &Sight, kept: Millis, most: usize) -> Vec<(&str, &Entry)> {
    let written_until = sight.now.as_millis().saturating_sub(kept.as_millis());
    let mut entries: Vec<(&str, &Entry)> = sight
        .cells
        .iter()
        .flat_map(|(name, cell)| cell.entries.iter().map(move |entry| (name.as_str(), entry)))
        .collect();
    entries.sort_by_key(|(_, entry)| entry.arrival);
    let mut left = entries.len();
    let mut of_key: HashMap<Digest, usize> = HashMap::new();
    entries
        .iter()
        .for_each(|(_, entry)| *of_key.entry(entry.digest).or_default() += 1);
    let mut surplus = Vec::new();
    for (name, entry) in entries {
        let of_key = of_key.entry(entry.digest).or_default();
        let goes = entry.at.as_millis() <= written_until
            || left > limits::LEDGER_PER_STORE
            || *of_key > limits::LEDGER_PER_KEY;
        if goes && surplus.len() < most {
            left -= 1;
            *of_key -= 1;
            surplus.push((name, entry));
        }
    }
    surplus
}
