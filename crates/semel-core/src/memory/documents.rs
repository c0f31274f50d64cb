//! Small versioned documents, and feeds that only grow.

use std::collections::VecDeque;

use crate::error::Invalid;
use crate::ids::Name;
use crate::json::Json;
use crate::limits;
use crate::memory::inner::{Inner, Moment};
use crate::memory::inspect::fill;
use crate::store::{Document, Expect, FEED_ENTRIES, FeedEntry, Page, PutDocument, PutOutcome};
use crate::time::Timestamp;
use crate::view::Listing;

/// The longest name of a document or a feed, in bytes.
const NAME_BYTES: usize = 512;

/// The place of a document. Its version outlives the document, so that it only grows.
#[derive(Clone, Debug, Default)]
pub(super) struct Shelf {
    version: i64,
    document: Option<Document>,
}

impl Shelf {
    fn live(&self, now: Timestamp) -> Option<&Document> {
        self.document
            .as_ref()
            .filter(|document| document.expires_at.is_none_or(|at| now < at))
    }
}

/// Entries under one name, oldest in front.
#[derive(Clone, Debug, Default)]
pub(super) struct Feed {
    entries: VecDeque<FeedEntry>,
    last: i64,
}

/// Refuses names and bodies that are too long.
pub(super) fn check_document(put: &PutDocument) -> Result<(), Invalid> {
    check_name("document", &put.name)?;
    if put.body.as_str().len() > limits::DOCUMENT_BYTES {
        return Err(Invalid::new(
            "document",
            format!("at most {} bytes", limits::DOCUMENT_BYTES),
        ));
    }
    Ok(())
}

/// Refuses names that are empty, too long or not printable.
pub(super) fn check_name(what: &str, name: &str) -> Result<(), Invalid> {
    if name.is_empty() || name.len() > NAME_BYTES || name.chars().any(char::is_control) {
        let allowed = format!("1 to {NAME_BYTES} bytes without control characters");
        return Err(Invalid::new(format!("name of a {what}"), allowed));
    }
    Ok(())
}

impl Inner {
    pub(super) fn put_document(&mut self, put: PutDocument, moment: Moment) -> PutOutcome {
        let PutDocument {
            kind,
            name,
            body,
            expect,
            ttl,
        } = put;
        let found = self.document(&kind, &name, moment.now);
        let met = match expect {
            Expect::Any => true,
            Expect::Absent => found.is_none(),
            Expect::Version(version) => found.as_ref().is_some_and(|document| document.version == version),
        };
        if !met {
            return PutOutcome::Mismatch { found };
        }
        let shelf = self.documents.entry((kind.clone(), name.clone())).or_default();
        let version = moment.micros.max(shelf.version + 1);
        let expires_at = ttl.map(|ttl| moment.now.plus(ttl));
        shelf.version = version;
        shelf.document = Some(Document {
            kind,
            name,
            version,
            body,
            updated_at: moment.now,
            expires_at,
        });
        PutOutcome::Done { version }
    }

    pub(super) fn document(&self, kind: &Name, name: &str, now: Timestamp) -> Option<Document> {
        self.documents
            .get(&(kind.clone(), name.to_owned()))?
            .live(now)
            .cloned()
    }

    pub(super) fn list_documents(
        &self,
        kind: &Name,
        prefix: &str,
        page: &Page,
        now: Timestamp,
    ) -> Result<Listing<Document>, Invalid> {
        let query = format!("documents {kind:?} {prefix:?}");
        let after = page.place(&query)?;
        let mut documents = self
            .documents
            .range((kind.clone(), after.unwrap_or(prefix).max(prefix).to_owned())..)
            .take_while(|((of, name), _)| of == kind && name.starts_with(prefix))
            .filter(|((_, name), _)| Some(name.as_str()) != after)
            .filter_map(|(_, shelf)| shelf.live(now).cloned());
        let items: Vec<Document> = documents.by_ref().take(page.limit).collect();
        let last = items.last().filter(|_| documents.next().is_some());
        Ok(Listing {
            next_cursor: last.map(|document| Page::cursor(&query, &document.name)),
            items,
        })
    }

    pub(super) fn delete_document(
        &mut self,
        kind: &Name,
        name: &str,
        version: Option<i64>,
        moment: Moment,
    ) -> PutOutcome {
        let shelf = self.documents.get_mut(&(kind.clone(), name.to_owned()));
        let found = shelf.as_ref().and_then(|shelf| shelf.live(moment.now)).cloned();
        match (shelf, found) {
            (Some(shelf), Some(document)) if version.is_none_or(|version| version == document.version) => {
                shelf.document = None;
                PutOutcome::Done {
                    version: document.version,
                }
            }
            (_, found) => PutOutcome::Mismatch { found },
        }
    }

    /// Forgets documents that are gone; says how many. A version in the clock's past need not be
    /// remembered: the next one starts from the clock.
    pub(super) fn prune_documents(&mut self, most: usize, moment: Moment) -> usize {
        let gone = |shelf: &Shelf| shelf.live(moment.now).is_none() && shelf.version < moment.micros;
        let shelves = self.documents.iter().filter(|(_, shelf)| gone(shelf)).take(most);
        let names: Vec<_> = shelves.map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| drop(self.documents.remove(name)));
        names.len()
    }

    pub(super) fn append(&mut self, name: &str, bodies: impl Iterator<Item = Json>, now: Timestamp) {
        let mut bodies = bodies.peekable();
        if bodies.peek().is_none() {
            return;
        }
        let feed = self.feeds.entry(name.to_owned()).or_default();
        for body in bodies {
            feed.last += 1;
            feed.entries.push_back(FeedEntry {
                n: feed.last,
                at: now,
                body,
            });
        }
    }

    pub(super) fn feed(&self, name: &str, page: &Page) -> Result<Listing<FeedEntry>, Invalid> {
        let query = format!("feed {name:?}");
        let before = page.position(&query)?.unwrap_or(i64::MAX);
        let entries = self
            .feeds
            .get(name)
            .into_iter()
            .flat_map(|feed| feed.entries.iter().rev());
        let rows = entries
            .filter(|entry| entry.n < before)
            .map(|entry| (entry.n, entry.clone()));
        Ok(fill(page, &query, rows))
    }

    /// Removes the oldest entries of feeds that are too long; says how many.
    pub(super) fn prune_feeds(&mut self, most: usize) -> usize {
        let mut left = most;
        for feed in self.feeds.values_mut() {
            let surplus = feed.entries.len().saturating_sub(FEED_ENTRIES).min(left);
            feed.entries.drain(..surplus);
            left -= surplus;
        }
        most - left
    }
}
