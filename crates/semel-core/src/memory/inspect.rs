//! Lists. They may look at every job: people wait for them, workers do not.

use crate::error::Invalid;
use crate::ids::{Digest, Name};
use crate::memory::inner::Inner;
use crate::memory::record::{Arrival, Record};
use crate::store::{Capabilities, ErrorGroups, Guarantee, JobFilter, KeyFilter, LedgerFilter, Page};
use crate::time::{Millis, Timestamp};
use crate::view::{ErrorGroup, Job, KeyRow, LedgerEntry, Listing};

/// One page of rows that come in order, each with the position that the next page would begin after.
pub(super) fn fill<T>(page: &Page, query: &str, mut rows: impl Iterator<Item = (i64, T)>) -> Listing<T> {
    let (positions, items): (Vec<i64>, Vec<T>) = rows.by_ref().take(page.limit).unzip();
    let last = positions.last().filter(|_| rows.next().is_some());
    Listing {
        items,
        next_cursor: last.map(|position| Page::cursor(query, *position)),
    }
}

impl Inner {
    pub(super) fn list_jobs(
        &self,
        filter: &JobFilter,
        page: &Page,
        now: Timestamp,
    ) -> Result<Listing<Job>, Invalid> {
        let query = format!("jobs {filter:?}");
        let jobs = self
            .newest(page.position(&query)?)
            .filter(|(_, job)| filter.finds(&job.sought(now)));
        Ok(fill(
            page,
            &query,
            jobs.map(|(arrival, job)| (arrival, job.view(now))),
        ))
    }

    pub(super) fn list_keys(
        &self,
        filter: &KeyFilter,
        page: &Page,
        now: Timestamp,
    ) -> Result<Listing<KeyRow>, Invalid> {
        let query = format!("keys {filter:?}");
        let jobs = self.newest(page.position(&query)?);
        let rows = jobs.filter_map(|(arrival, job)| Some((arrival, self.key_row(job, now)?)));
        Ok(fill(page, &query, rows.filter(|(_, row)| filter.finds(row))))
    }

    /// Jobs before a place, the newest first.
    fn newest(&self, position: Option<Arrival>) -> impl Iterator<Item = (Arrival, &Record)> {
        let jobs = self.jobs.range(..position.unwrap_or(Arrival::MAX)).rev();
        jobs.map(|(arrival, job)| (*arrival, &**job))
    }

    /// The key as its holder, or the job that held it last, has it.
    pub(super) fn key(&self, digest: Digest, now: Timestamp) -> Option<KeyRow> {
        self.key_row(self.record(self.last_owner(digest)?), now)
    }

    fn key_row(&self, job: &Record, now: Timestamp) -> Option<KeyRow> {
        let key = job.key_view(now)?;
        Some(KeyRow {
            absorbed: self.ledger.absorbed(key.digest),
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

    pub(super) fn list_ledger(
        &self,
        filter: &LedgerFilter,
        page: &Page,
    ) -> Result<Listing<LedgerEntry>, Invalid> {
        let query = format!("ledger {filter:?}");
        let entries = self.ledger.before(page.position(&query)?);
        let wanted = entries.filter(|entry| filter.finds(entry));
        Ok(fill(page, &query, wanted.map(|entry| (entry.n, entry.clone()))))
    }

    /// Dead letters by cause, the most frequent first.
    pub(super) fn dead_letter_groups(&self, task: Option<&Name>) -> Vec<ErrorGroup> {
        let mut groups = ErrorGroups::default();
        let letters = self.jobs.iter().filter(|(_, job)| job.is_dead_letter());
        for (arrival, job) in letters.filter(|(_, job)| task.is_none_or(|task| *task == job.spec.task)) {
            let error = job.error.as_ref().map(|error| error.message.as_str());
            let died_at = job.life.finished_at.unwrap_or_default();
            groups.add(*arrival, &job.spec.id, &job.spec.task, error, died_at);
        }
        groups.largest_first()
    }
}

/// What a store in memory can and cannot do.
pub(super) fn capabilities() -> Capabilities {
    Capabilities {
        name: "memory",
        strict_order: true,
        wake_up: Millis::ZERO,
        durable: false,
        counters_at_once: true,
        clock_resolution: Millis::new(1),
        key_search: true,
        joins_transaction: false,
        tokens_stand_alone: true,
        shared_by_processes: false,
    }
}

/// The guarantee sheet of a store in memory.
pub(super) fn guarantees() -> Vec<Guarantee> {
    let known = "by construction: one lock, no disk";
    let line = |subject, statement: &str| Guarantee {
        subject,
        statement: statement.to_owned(),
        probed: known.to_owned(),
    };
    vec![
        line("atomicity", "every call is one step for every reader"),
        line("durability", "nothing survives the end of the process"),
        line("sharing", "only this process sees it"),
    ]
}
