//! Looking at a store, said shortly.

use semel_core::counters::{Counter, Counts};
use semel_core::error::{Invalid, StoreError};
use semel_core::ids::{Digest, JobId};
use semel_core::store::{FeedEntry, JobFilter, KeyFilter, LedgerFilter, Page};
use semel_core::view::{AttemptView, KeyRow, LedgerEntry, Listing, Stats};

use super::{World, claim_request};

impl World {
    /// Every page of a list, with no page longer than asked for.
    pub fn pages<T>(&self, limit: usize, fetch: impl Fn(Page) -> Result<Listing<T>, StoreError>) -> Vec<T> {
        let (mut page, mut rows) = (Page::first(limit), Vec::new());
        for _ in 0..10_000 {
            let listing = fetch(page).expect("the store answers");
            assert!(
                listing.items.len() <= limit,
                "{} rows of {limit}",
                listing.items.len()
            );
            rows.extend(listing.items);
            match listing.next_cursor {
                Some(cursor) => page = Page::after(cursor, limit),
                None => return rows,
            }
        }
        panic!("the pages never come to an end");
    }

    /// The ids of all jobs that match, in the order they are listed.
    pub fn ids(&self, filter: JobFilter) -> Vec<JobId> {
        let jobs = self.pages(500, |page| self.block(self.store().jobs(filter.clone(), page)));
        jobs.into_iter().map(|job| job.id).collect()
    }

    /// The ids of all dead letters, newest first.
    pub fn dead_letters(&self) -> Vec<JobId> {
        self.ids(JobFilter {
            dead_letters: true,
            ..JobFilter::default()
        })
    }

    /// All keys that match.
    pub fn keys(&self, filter: KeyFilter) -> Vec<KeyRow> {
        self.pages(500, |page| self.block(self.store().keys(filter.clone(), page)))
    }

    /// One key, which must be known.
    pub fn key(&self, digest: Digest) -> KeyRow {
        self.block(self.store().key(digest))
            .expect("the store answers")
            .expect("a known key")
    }

    /// All absorbed submissions that match.
    pub fn ledger(&self, filter: LedgerFilter) -> Vec<LedgerEntry> {
        self.pages(500, |page| self.block(self.store().ledger(filter.clone(), page)))
    }

    /// A whole feed, newest first.
    pub fn feed(&self, feed: &str) -> Vec<FeedEntry> {
        self.pages(500, |page| self.block(self.store().feed(feed, page)))
    }

    /// The deliveries of a job that have ended.
    pub fn attempts(&self, id: &JobId) -> Vec<AttemptView> {
        self.block(self.store().attempts(id)).expect("the store answers")
    }

    /// The statistics, after upkeep where counters need it.
    pub fn exact_stats(&self) -> Stats {
        if !self.store().capabilities().counters_at_once {
            self.upkeep();
        }
        self.stats()
    }

    /// The counters that are not zero, since the last reset.
    pub fn counted(&self) -> Vec<(&'static str, i64)> {
        nonzero(&self.exact_stats().totals)
    }

    /// Claims everything that is due; the ids in the order they are given.
    pub fn claimed_ids(&self) -> Vec<JobId> {
        let claims = self
            .block(self.store().claim(claim_request(1_000)))
            .expect("the store answers");
        claims.into_iter().map(|claimed| claimed.job.id).collect()
    }
}

/// The counters that are not zero.
pub fn nonzero(counts: &Counts) -> Vec<(&'static str, i64)> {
    Counter::ALL
        .iter()
        .map(|counter| (counter.word(), counts.get(*counter)))
        .filter(|(_, n)| *n != 0)
        .collect()
}

/// A call that was refused as a whole, saying what is allowed.
pub fn refused<T: std::fmt::Debug>(result: Result<T, StoreError>) -> Invalid {
    match result {
        Err(StoreError::Invalid(invalid)) => said(invalid),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// A refusal that says what is wrong and what is allowed.
pub fn said(invalid: Invalid) -> Invalid {
    assert!(
        !invalid.what.is_empty() && !invalid.allowed.is_empty(),
        "{invalid:?}"
    );
    invalid
}
