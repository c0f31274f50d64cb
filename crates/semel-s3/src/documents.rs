//! Small versioned documents, and feeds that only grow.

use semel_core::error::{Invalid, StoreError};
use semel_core::ids::Name;
use semel_core::json::Json;
use semel_core::limits;
use semel_core::store::{Document, Expect, FEED_ENTRIES, FeedEntry, Page, PutDocument, PutOutcome};
use semel_core::time::Timestamp;
use semel_core::view::Listing;

use crate::cell::{Cell, FeedPage, FeedPart, Line, Paper, Shelf};
use crate::clock::random;
use crate::desk::Desk;
use crate::layout;
use crate::setup::Setup;

/// The longest name of a document or a feed, in bytes.
const NAME_BYTES: usize = 512;
/// Entries of a feed that its head keeps before they become a page.
const HEAD_LINES: usize = 64;

/// Refuses names and bodies that are too long.
pub fn check_document(put: &PutDocument) -> Result<(), Invalid> {
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
pub fn check_name(what: &str, name: &str) -> Result<(), Invalid> {
    if name.is_empty() || name.len() > NAME_BYTES || name.chars().any(char::is_control) {
        let allowed = format!("1 to {NAME_BYTES} bytes without control characters");
        return Err(Invalid::new(format!("name of a {what}"), allowed));
    }
    Ok(())
}

impl Shelf {
    /// The document, if it is there at a moment.
    pub fn live(&self, now: Timestamp) -> Option<Document> {
        let paper = self.document.as_ref()?;
        paper.expires_at.is_none_or(|at| now < at).then(|| Document {
            kind: self.kind.clone(),
            name: self.name.clone(),
            version: self.version,
            body: paper.body.clone(),
            updated_at: paper.updated_at,
            expires_at: paper.expires_at,
        })
    }
}

fn live(cell: &Cell, now: Timestamp) -> Option<Document> {
    cell.shelf.as_ref().and_then(|shelf| shelf.live(now))
}

impl Desk {
    pub async fn put_document(&self, put: PutDocument) -> Result<PutOutcome, StoreError> {
        check_document(&put)?;
        let name = layout::document(&put.kind, &put.name);
        self.change(&name, false, &Setup::default(), |cell, moment| {
            let found = live(cell, moment.now);
            let met = match put.expect {
                Expect::Any => true,
                Expect::Absent => found.is_none(),
                Expect::Version(version) => found.as_ref().is_some_and(|it| it.version == version),
            };
            if !met {
                return PutOutcome::Mismatch { found };
            }
            let last = cell.shelf.as_ref().map_or(0, |shelf| shelf.version);
            let version = moment.micros.max(last + 1);
            cell.shelf = Some(Shelf {
                kind: put.kind.clone(),
                name: put.name.clone(),
                version,
                document: Some(Paper {
                    body: put.body.clone(),
                    updated_at: moment.now,
                    expires_at: put.ttl.map(|ttl| moment.now.plus(ttl)),
                }),
            });
            PutOutcome::Done { version }
        })
        .await
    }

    pub async fn document(&self, kind: &Name, name: &str) -> Result<Option<Document>, StoreError> {
        let loaded = self.read(&layout::document(kind, name)).await?;
        let now = self.moment().now;
        Ok(loaded.base.and_then(|(_, cell)| live(&cell, now)))
    }

    pub async fn documents(
        &self,
        kind: &Name,
        prefix: &str,
        page: Page,
    ) -> Result<Listing<Document>, StoreError> {
        let query = format!("documents {kind:?} {prefix:?}");
        let after = page.place(&query)?;
        let (cells, _) = self.all(&[&layout::documents(kind)]).await?;
        let now = self.moment().now;
        let mut documents: Vec<Document> = cells
            .iter()
            .filter_map(|(_, cell)| live(cell, now))
            .filter(|it| it.name.starts_with(prefix) && after.is_none_or(|after| it.name.as_str() > after))
            .collect();
        documents.sort_by(|a, b| a.name.cmp(&b.name));
        let more = documents.len() > page.limit;
        documents.truncate(page.limit);
        let last = documents.last().filter(|_| more);
        Ok(Listing {
            next_cursor: last.map(|document| Page::cursor(&query, &document.name)),
            items: documents,
        })
    }

    pub async fn delete_document(
        &self,
        kind: &Name,
        name: &str,
        version: Option<i64>,
    ) -> Result<PutOutcome, StoreError> {
        let object = layout::document(kind, name);
        self.change(&object, false, &Setup::default(), |cell, moment| {
            let found = live(cell, moment.now);
            match (cell.shelf.as_mut(), found) {
                (Some(shelf), Some(document))
                    if version.is_none_or(|version| version == document.version) =>
                {
                    shelf.document = None;
                    PutOutcome::Done {
                        version: document.version,
                    }
                }
                (_, found) => PutOutcome::Mismatch { found },
            }
        })
        .await
    }

    pub async fn append(&self, feed: &str, bodies: Vec<Json>) -> Result<(), StoreError> {
        if bodies.is_empty() {
            return Ok(());
        }
        let name = layout::feed_head(feed);
        self.turn_page(feed, &name).await?;
        self.change(&name, true, &Setup::default(), |cell, moment| {
            let part = cell.feed.get_or_insert_with(|| FeedPart {
                name: feed.to_owned(),
                ..FeedPart::default()
            });
            for body in &bodies {
                part.last += 1;
                part.lines.push(Line {
                    n: part.last,
                    at: moment.now,
                    body: body.clone(),
                });
            }
        })
        .await
    }

    /// Once the head of a feed is full, its entries become a page of their own.
    async fn turn_page(&self, feed: &str, name: &str) -> Result<(), StoreError> {
        let loaded = self.recall(name).await?;
        let Some(part) = loaded.base.as_ref().and_then(|(_, cell)| cell.feed.clone()) else {
            return Ok(());
        };
        let Some(first) = part.lines.first().map(|line| line.n) else {
            return Ok(());
        };
        if part.lines.len() < HEAD_LINES {
            return Ok(());
        }
        let page = FeedPage {
            first,
            lines: part.lines.len(),
            object: layout::feed_page(feed, first, random()),
        };
        let content = Cell {
            feed: Some(FeedPart {
                name: feed.to_owned(),
                lines: part.lines.clone(),
                ..FeedPart::default()
            }),
            ..Cell::default()
        };
        self.bucket.put(&page.object, content.encode()).await?;
        let turned = self
            .change(name, true, &Setup::default(), |cell, _| match &mut cell.feed {
                // By a write of which nothing was heard, behind many others by now.
                Some(now) if now.pages.iter().any(|it| it.object == page.object) => true,
                Some(now) if now.lines.starts_with(&part.lines) && now.last >= part.last => {
                    now.lines.drain(..part.lines.len());
                    now.pages.push(page.clone());
                    true
                }
                _ => false,
            })
            .await?;
        match turned {
            true => Ok(()),
            false => self.bucket.delete(vec![page.object.clone()]).await,
        }
    }

    pub async fn feed(&self, feed: &str, page: Page) -> Result<Listing<FeedEntry>, StoreError> {
        let query = format!("feed {feed:?}");
        let before = page.position(&query)?.unwrap_or(i64::MAX);
        let loaded = self.read(&layout::feed_head(feed)).await?;
        let part = loaded
            .base
            .and_then(|(_, cell)| cell.feed.clone())
            .unwrap_or_default();
        let floor = part.floor;
        let wanted = |line: &Line| line.n < before && line.n > floor;
        let mut lines: Vec<Line> = part.lines.into_iter().rev().filter(wanted).collect();
        for older in part.pages.iter().rev().filter(|it| it.first < before) {
            if lines.len() > page.limit {
                break;
            }
            let loaded = self.recall(&older.object).await?;
            let content = loaded
                .base
                .and_then(|(_, cell)| cell.feed.clone())
                .unwrap_or_default();
            lines.extend(content.lines.into_iter().rev().filter(wanted));
        }
        let more = lines.len() > page.limit;
        lines.truncate(page.limit);
        let last = lines.last().filter(|_| more);
        Ok(Listing {
            next_cursor: last.map(|line| Page::cursor(&query, line.n)),
            items: lines
                .iter()
                .map(|line| FeedEntry {
                    n: line.n,
                    at: line.at,
                    body: line.body.clone(),
                })
                .collect(),
        })
    }

    /// Removes a feed.
    pub async fn drop_feed(&self, feed: &str) -> Result<(), StoreError> {
        let listed = self.bucket.list(&layout::feed(feed), None, usize::MAX).await?;
        let names: Vec<String> = listed.into_iter().map(|one| one.name).collect();
        self.forget(&names);
        self.bucket.delete(names).await
    }

    /// Removes the oldest entries of feeds that are too long; says how many.
    pub async fn prune_feeds(&self, most: usize) -> Result<usize, StoreError> {
        let listed = self.bucket.list(layout::FEEDS, None, usize::MAX).await?;
        let heads = listed.iter().filter(|one| one.name.ends_with("/head.json"));
        let mut left = most;
        for head in heads {
            let known = self.seen_tag(&head.name).is_some_and(|tag| tag == head.tag);
            let loaded = match known {
                true => self.recall(&head.name).await?,
                false => self.read(&head.name).await?,
            };
            let Some(part) = loaded.base.as_ref().and_then(|(_, cell)| cell.feed.as_ref()) else {
                continue;
            };
            let oldest = part.pages.first().map(|page| page.first);
            let oldest = oldest.or(part.lines.first().map(|line| line.n)).unwrap_or(1);
            let kept = part.last - (oldest - 1).max(part.floor);
            let surplus = usize::try_from(kept)
                .unwrap_or(0)
                .saturating_sub(FEED_ENTRIES)
                .min(left);
            if surplus == 0 {
                continue;
            }
            left -= surplus;
            let floor = (oldest - 1).max(part.floor) + i64::try_from(surplus).unwrap_or(0);
            let gone = self
                .change(&head.name, true, &Setup::default(), |cell, _| {
                    let Some(part) = &mut cell.feed else {
                        return Vec::new();
                    };
                    part.floor = part.floor.max(floor);
                    let passed =
                        |page: &FeedPage| page.first + i64::try_from(page.lines).unwrap_or(0) - 1 <= floor;
                    let gone = part.pages.iter().filter(|page| passed(page));
                    let gone: Vec<String> = gone.map(|page| page.object.clone()).collect();
                    part.pages.retain(|page| !passed(page));
                    part.lines.retain(|line| line.n > floor);
                    gone
                })
                .await?;
            self.bucket.delete(gone).await?;
        }
        Ok(most - left)
    }
}
