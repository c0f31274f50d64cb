//! Lists. They look at every cell, but read only those that have changed since they were last seen: people wait for
//! them, workers do not.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures_util::FutureExt as _;
use semel_core::error::{Invalid, StoreError};
use semel_core::ids::{Digest, JobId, Name};
use semel_core::store::{Capabilities, JobFilter, KeyFilter, LedgerFilter, Page};
use semel_core::time::{Millis, Timestamp};
use semel_core::view::{AttemptView, ErrorGroup, Job, KeyRow, LedgerEntry, Listing, error_group};

use crate::cell::{Cell, Entry};
use crate::desk::{Desk, each};
use crate::layout;
use crate::record::{Arrival, Record};
use crate::wake::LOOK_AGAIN;

/// Jobs that are looked for one by one; for more, everything is looked through.
const ONE_BY_ONE: usize = 32;
/// Cells beyond which jobs are always looked for one by one.
const TOO_MANY: usize = 20_000;

/// One page of rows, newest first, each with the place that the next page begins after.
pub fn fill<T>(page: &Page, query: &str, rows: Vec<(Arrival, T)>) -> Result<Listing<T>, Invalid> {
    let place = page.place(query)?;
    let before = place.map(|place| {
        Arrival::parse(place).ok_or_else(|| {
            Invalid::new(
                "cursor",
                "the next_cursor of the page before, with the same filter",
            )
        })
    });
    let before = before.transpose()?;
    let mut rows: Vec<(Arrival, T)> = rows
        .into_iter()
        .filter(|(arrival, _)| before.is_none_or(|before| *arrival < before))
        .collect();
    rows.sort_by_key(|(arrival, _)| std::cmp::Reverse(*arrival));
    let more = rows.len() > page.limit;
    rows.truncate(page.limit);
    let last = rows.last().map(|(arrival, _)| *arrival).filter(|_| more);
    Ok(Listing {
        items: rows.into_iter().map(|(_, item)| item).collect(),
        next_cursor: last.map(|arrival| Page::cursor(query, arrival)),
    })
}

/// Everything at one look.
pub struct Sight {
    pub cells: Vec<(String, Arc<Cell>)>,
    pub bytes: u64,
    pub now: Timestamp,
}

impl Sight {
    /// A cell by its name: the names of keys come first, each kind in order.
    pub fn find(&self, name: &str) -> Option<&Cell> {
        let at = self
            .cells
            .binary_search_by(|(other, _)| other.as_str().cmp(name))
            .ok()?;
        Some(&self.cells[at].1)
    }

    pub fn jobs(&self) -> impl Iterator<Item = &Record> {
        self.cells.iter().flat_map(|(_, cell)| &cell.jobs)
    }

    /// Absorbed submissions.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.cells.iter().flat_map(|(_, cell)| &cell.entries)
    }

    /// How many submissions each key has absorbed, ever.
    pub fn absorbed(&self) -> HashMap<Digest, i64> {
        let mut totals: HashMap<Digest, i64> = HashMap::new();
        let mut folding = std::collections::HashSet::new();
        for (name, cell) in &self.cells {
            folding.extend(cell.folding.iter().copied());
            if cell.absorbed != 0
                && let Some(digest) = layout::digest_of(name)
            {
                *totals.entry(digest).or_default() += cell.absorbed;
            }
        }
        for entry in self.entries().filter(|entry| !folding.contains(&entry.arrival)) {
            *totals.entry(entry.digest).or_default() += 1;
        }
        totals
    }
}

impl Desk {
    pub async fn sight(&self) -> Result<Sight, StoreError> {
        let setup = self.setup().await?;
        let (cells, bytes) = self.cells(&setup).await?;
        let now = self.moment().now;
        Ok(Sight { cells, bytes, now })
    }

    /// A job as it is stored.
    pub async fn record(&self, id: &JobId) -> Result<Option<Record>, StoreError> {
        let setup = self.setup().await?;
        let Some(home) = self.home(id).await? else {
            return Ok(None);
        };
        let cell = self.read(&home).await?.cell();
        let job = match cell.find(id) {
            Some(job) => Some(job.clone()),
            None => self
                .copy_of(id, &home, &cell)
                .await?
                .and_then(|copy| copy.find(id).cloned()),
        };
        Ok(job.filter(|job| !setup.is_void(job)))
    }

    pub async fn jobs_by_id(&self, ids: &[JobId]) -> Result<Vec<Option<Job>>, StoreError> {
        if ids.len() <= ONE_BY_ONE || self.seen_cells() > TOO_MANY {
            let items: Vec<(usize, JobId)> = ids.iter().cloned().enumerate().collect();
            let found = each(
                items,
                |(at, _)| at.to_string(),
                |(_, id)| async move { self.record(&id).await }.boxed(),
            )
            .await?;
            let now = self.moment().now;
            return Ok(found
                .into_iter()
                .map(|job| job.map(|job| job.view(now)))
                .collect());
        }
        let sight = self.sight().await?;
        let jobs: HashMap<&JobId, &Record> = sight.jobs().map(|job| (&job.spec.id, job)).collect();
        Ok(ids
            .iter()
            .map(|id| jobs.get(id).map(|job| job.view(sight.now)))
            .collect())
    }

    pub async fn jobs(&self, filter: JobFilter, page: Page) -> Result<Listing<Job>, StoreError> {
        let query = format!("jobs {filter:?}");
        page.place(&query)?;
        let sight = self.sight().await?;
        let jobs = sight.jobs().filter(|job| matches(&filter, job, sight.now));
        let listing = fill(&page, &query, jobs.map(|job| (job.arrival, job)).collect())?;
        Ok(Listing {
            items: listing.items.iter().map(|job| job.view(sight.now)).collect(),
            next_cursor: listing.next_cursor,
        })
    }

    pub async fn attempts(&self, id: &JobId) -> Result<Vec<AttemptView>, StoreError> {
        let record = self.record(id).await?;
        Ok(record.map(|record| record.attempts()).unwrap_or_default())
    }

    pub async fn keys(&self, filter: KeyFilter, page: Page) -> Result<Listing<KeyRow>, StoreError> {
        let query = format!("keys {filter:?}");
        page.place(&query)?;
        let sight = self.sight().await?;
        let totals = sight.absorbed();
        let rows = sight
            .jobs()
            .filter_map(|job| Some((job, key_row(job, &totals, sight.now)?)))
            .filter(|(job, row)| matches_key(&filter, job, row))
            .map(|(job, row)| (job.arrival, row));
        Ok(fill(&page, &query, rows.collect())?)
    }

    /// The key as its holder, or the job that held it last, has it.
    pub async fn key(&self, digest: Digest) -> Result<Option<KeyRow>, StoreError> {
        let setup = self.setup().await?;
        let mut cell = self.read(&layout::key_cell(digest)).await?.cell();
        cell.void(&setup, self.moment());
        let Some(job) = cell.last_owner() else {
            return Ok(None);
        };
        let sight = self.sight().await?;
        Ok(key_row(job, &sight.absorbed(), sight.now))
    }

    pub async fn ledger(&self, filter: LedgerFilter, page: Page) -> Result<Listing<LedgerEntry>, StoreError> {
        let query = format!("ledger {filter:?}");
        page.place(&query)?;
        let sight = self.sight().await?;
        let wanted = sight.entries().filter(|entry| {
            filter.digest.is_none_or(|digest| digest == entry.digest)
                && filter
                    .holder
                    .as_ref()
                    .is_none_or(|holder| *holder == entry.holder)
        });
        let rows = wanted.map(|entry| (entry.arrival, entry.view()));
        Ok(fill(&page, &query, rows.collect())?)
    }

    /// Dead letters by cause, the most frequent first.
    pub async fn dead_letter_groups(&self, task: Option<Name>) -> Result<Vec<ErrorGroup>, StoreError> {
        let sight = self.sight().await?;
        let mut groups: BTreeMap<(Name, String), (ErrorGroup, Arrival)> = BTreeMap::new();
        let letters = sight.jobs().filter(|job| job.is_dead_letter());
        for job in letters.filter(|job| task.as_ref().is_none_or(|task| *task == job.spec.task)) {
            let error = error_group(job.error.as_ref().map_or("", |error| &error.message));
            let task = job.spec.task.clone();
            let died_at = job.life.finished_at.unwrap_or_default();
            let (group, newest) = groups.entry((task.clone(), error.clone())).or_insert_with(|| {
                let group = ErrorGroup {
                    task,
                    error,
                    jobs: 0,
                    newest: job.spec.id.clone(),
                    newest_at: died_at,
                };
                (group, job.arrival)
            });
            group.jobs += 1;
            // Of those that died in the same moment the one that came last.
            if (died_at, job.arrival) >= (group.newest_at, *newest) {
                group.newest = job.spec.id.clone();
                group.newest_at = died_at;
                *newest = job.arrival;
            }
        }
        let mut groups: Vec<ErrorGroup> = groups.into_values().map(|(group, _)| group).collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.jobs));
        Ok(groups)
    }
}

fn key_row(job: &Record, totals: &HashMap<Digest, i64>, now: Timestamp) -> Option<KeyRow> {
    let key = job.key_view(now)?;
    Some(KeyRow {
        absorbed: totals.get(&key.digest).copied().unwrap_or(0),
        key,
        holder: job.holder_view(now),
        queue: job.spec.queue.clone(),
        free_at: job
            .life
            .holding
            .as_ref()
            .and_then(|holding| holding.free_at(&job.life)),
    })
}

fn matches(filter: &JobFilter, job: &Record, now: Timestamp) -> bool {
    let JobFilter {
        state,
        queue,
        task,
        key,
        error,
        since,
        until,
        dead_letters,
    } = filter;
    let message = job.error.as_ref().map(|error| error.message.as_str());
    !job.stub
        && state.is_none_or(|state| state == job.state(now))
        && queue.as_ref().is_none_or(|queue| *queue == job.spec.queue)
        && task.as_ref().is_none_or(|task| *task == job.spec.task)
        && key.is_none_or(|key| Some(key) == job.digest() && job.life.has_or_awaits_key())
        && error
            .as_ref()
            .is_none_or(|text| message.is_some_and(|message| message.contains(text.as_str())))
        && since.is_none_or(|since| job.spec.enqueued_at >= since)
        && until.is_none_or(|until| job.spec.enqueued_at < until)
        && (!dead_letters || job.is_dead_letter())
}

fn matches_key(filter: &KeyFilter, job: &Record, row: &KeyRow) -> bool {
    let KeyFilter {
        text,
        scope,
        task,
        job: id,
        also_free,
    } = filter;
    let key_text = row.key.text.as_deref();
    (*also_free || row.key.held)
        && text
            .as_ref()
            .is_none_or(|text| key_text.is_some_and(|key| key.contains(text.as_str())))
        && scope.as_ref().is_none_or(|scope| *scope == row.key.scope)
        && task.as_ref().is_none_or(|task| *task == job.spec.task)
        && id.as_ref().is_none_or(|id| *id == job.spec.id)
}

/// What a bucket can and cannot do.
pub fn capabilities(shared: bool, resolution: Millis) -> Capabilities {
    Capabilities {
        name: "s3",
        strict_order: false,
        wake_up: Millis::from(LOOK_AGAIN),
        durable: shared,
        counters_at_once: false,
        clock_resolution: resolution,
        key_search: false,
        joins_transaction: false,
        tokens_stand_alone: false,
        shared_by_processes: shared,
    }
}
