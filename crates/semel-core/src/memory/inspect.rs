//! Lists. They may look at every job: people wait for them, workers do not.

use std::collections::BTreeMap;

use crate::error::Invalid;
use crate::ids::{Digest, Name};
use crate::memory::inner::Inner;
use crate::memory::record::{Arrival, Record};
use crate::store::{Capabilities, Guarantee, JobFilter, KeyFilter, LedgerFilter, Page};
use crate::time::{Millis, Timestamp};
use crate::view::{ErrorGroup, Job, KeyRow, LedgerEntry, Listing, error_group};

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
            .filter(|(_, job)| matches(filter, job, now));
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
        let rows = jobs.filter_map(|(arrival, job)| Some((arrival, job, self.key_row(job, now)?)));
        let rows = rows.filter(|(_, job, row)| matches_key(filter, job, row));
        Ok(fill(page, &query, rows.map(|(arrival, _, row)| (arrival, row))))
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
        let wanted = entries.filter(|entry| {
            filter.digest.is_none_or(|digest| digest == entry.digest)
                && filter
                    .holder
                    .as_ref()
                    .is_none_or(|holder| *holder == entry.holder)
        });
        Ok(fill(page, &query, wanted.map(|entry| (entry.n, entry.clone()))))
    }

    /// Dead letters by cause, the most frequent first.
    pub(super) fn dead_letter_groups(&self, task: Option<&Name>) -> Vec<ErrorGroup> {
        let mut groups: BTreeMap<(Name, String), ErrorGroup> = BTreeMap::new();
        let letters = self.jobs.values().filter(|job| job.is_dead_letter());
        for job in letters.filter(|job| task.is_none_or(|task| *task == job.spec.task)) {
            let error = error_group(job.error.as_ref().map_or("", |error| &error.message));
            let task = job.spec.task.clone();
            let died_at = job.life.finished_at.unwrap_or_default();
            let group = groups
                .entry((task.clone(), error.clone()))
                .or_insert_with(|| ErrorGroup {
                    task,
                    error,
                    jobs: 0,
                    newest: job.spec.id.clone(),
                    newest_at: died_at,
                });
            group.jobs += 1;
            // Of those that died in the same moment the one that came last.
            if died_at >= group.newest_at {
                group.newest = job.spec.id.clone();
                group.newest_at = died_at;
            }
        }
        let mut groups: Vec<ErrorGroup> = groups.into_values().collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.jobs));
        groups
    }
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
        && key.is_none_or(|key| Some(key) == job.digest())
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
