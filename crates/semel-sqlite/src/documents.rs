//! Versioned documents and append-only feeds: what schedules, subscribers, workers, tokens, audit and logs are kept in.

use rusqlite::{OptionalExtension, Row, params};

use semel_core::error::Invalid;
use semel_core::ids::Name;
use semel_core::json::Json;
use semel_core::limits;
use semel_core::store::{Document, Expect, FEED_ENTRIES, FeedEntry, Page, PutDocument, PutOutcome};
use semel_core::view::Listing;

use crate::fail::Fail;
use crate::inspect::Look;
use crate::rows;
use crate::statements::{Sql, Statements};
use crate::tx::Tx;

/// A name of a document or feed: 1 to 512 bytes, no control characters.
pub fn check_name(what: &str, name: &str) -> Result<(), Invalid> {
    if name.is_empty() || name.len() > 512 || name.chars().any(char::is_control) {
        return Err(Invalid::new(what, "1 to 512 bytes without control characters"));
    }
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<Document> {
    let kind: String = row.get(0)?;
    Ok(Document {
        kind: Name::new(kind).map_err(rows::unreadable)?,
        name: row.get(1)?,
        version: row.get(2)?,
        body: Json::trusted(row.get::<_, String>(3)?),
        updated_at: rows::time(row.get(4)?),
        expires_at: rows::optional_time(row, 5)?,
    })
}

fn find(statements: &mut Statements<'_>, ns: i64, kind: &Name, name: &str) -> Result<Option<Document>, Fail> {
    Ok(statements
        .get(Sql::DocumentFind)?
        .query_row(params![ns, kind.as_str(), name], read)
        .optional()?)
}

/// Writes a document if what is there is what was expected.
pub fn put(tx: &mut Tx<'_>, put: &PutDocument) -> Result<PutOutcome, Fail> {
    check_name("document name", &put.name)?;
    if put.body.as_str().len() > limits::DOCUMENT_BYTES {
        return Err(Invalid::new("document", format!("at most {} bytes", limits::DOCUMENT_BYTES)).into());
    }
    let stored = find(&mut tx.statements, tx.ns, &put.kind, &put.name)?;
    let live = stored.filter(|document| document.expires_at.is_none_or(|at| tx.now < at));
    let fits = match put.expect {
        Expect::Any => true,
        Expect::Absent => live.is_none(),
        Expect::Version(version) => live.as_ref().is_some_and(|document| document.version == version),
    };
    if !fits {
        return Ok(PutOutcome::Mismatch { found: live });
    }
    // One number for all documents: it grows over removals and expiries too.
    let version = (tx.floor("document")? + 1).max(tx.micros);
    tx.raise_floor("document", version)?;
    tx.statements.get(Sql::DocumentPut)?.execute(params![
        tx.ns,
        put.kind.as_str(),
        put.name,
        version,
        put.body.as_str(),
        tx.now.as_millis(),
        put.ttl.map(|ttl| tx.now.plus(ttl).as_millis()),
    ])?;
    Ok(PutOutcome::Done { version })
}

/// Removes a document if it has that version.
pub fn delete(tx: &mut Tx<'_>, kind: &Name, name: &str, version: Option<i64>) -> Result<PutOutcome, Fail> {
    let stored = find(&mut tx.statements, tx.ns, kind, name)?;
    let live = stored.filter(|document| document.expires_at.is_none_or(|at| tx.now < at));
    match live {
        Some(document) if version.is_none_or(|version| version == document.version) => {
            tx.statements
                .get(Sql::DocumentDelete)?
                .execute(params![tx.ns, kind.as_str(), name])?;
            Ok(PutOutcome::Done {
                version: document.version,
            })
        }
        found => Ok(PutOutcome::Mismatch { found }),
    }
}

/// Appends to a feed.
pub fn append(tx: &mut Tx<'_>, feed: &str, bodies: &[Json]) -> Result<(), Fail> {
    check_name("feed", feed)?;
    append_texts(tx, feed, bodies.iter().map(|body| body.as_str().to_owned()))
}

/// Appends lines of text, each as a JSON string.
pub fn append_lines<'a>(
    tx: &mut Tx<'_>,
    feed: &str,
    lines: impl Iterator<Item = &'a str>,
) -> Result<(), Fail> {
    append_texts(
        tx,
        feed,
        lines.map(|line| serde_json::Value::from(line).to_string()),
    )
}

fn append_texts(tx: &mut Tx<'_>, feed: &str, texts: impl Iterator<Item = String>) -> Result<(), Fail> {
    let mut next = None;
    for text in texts {
        let n = match next {
            Some(n) => n,
            None => {
                let last = tx.statements.get(Sql::FeedLast)?;
                last.query_row(params![tx.ns, feed], |row| row.get::<_, Option<i64>>(0))?
                    .unwrap_or(0)
                    + 1
            }
        };
        let at = tx.now.as_millis();
        tx.statements
            .get(Sql::FeedInsert)?
            .execute(params![tx.ns, feed, n, at, text])?;
        next = Some(n + 1);
    }
    let surplus = next.unwrap_or(0) - 1 - FEED_ENTRIES as i64;
    if surplus > 0 {
        tx.statements
            .get(Sql::FeedTrim)?
            .execute(params![tx.ns, feed, surplus])?;
    }
    Ok(())
}

impl Look<'_> {
    /// One document.
    pub fn document(&mut self, kind: &Name, name: &str) -> Result<Option<Document>, Fail> {
        let found = find(&mut self.statements, self.ns, kind, name)?;
        Ok(found.filter(|document| document.expires_at.is_none_or(|at| self.now < at)))
    }

    /// Documents of a kind whose names begin with a prefix, by name.
    pub fn documents(&mut self, kind: &Name, prefix: &str, page: &Page) -> Result<Listing<Document>, Fail> {
        let query = format!("documents {kind} {prefix}");
        let after = page.place(&query)?;
        let from = after.unwrap_or(prefix).max(prefix);
        let now = self.now.as_millis();
        let list = self.statements.get(Sql::DocumentList)?;
        let found = list.query_map(
            params![self.ns, kind.as_str(), from, now, page.limit as i64 + 2],
            read,
        )?;
        let mut items = Vec::new();
        let is_last = |document: &rusqlite::Result<Document>| {
            document
                .as_ref()
                .is_ok_and(|document| Some(document.name.as_str()) == after)
        };
        for document in found.filter(|document| !is_last(document)) {
            let document = document?;
            if !document.name.starts_with(prefix) {
                break;
            }
            items.push(document);
        }
        let more = items.len() > page.limit;
        items.truncate(page.limit);
        let next_cursor = items
            .last()
            .filter(|_| more)
            .map(|document| Page::cursor(&query, &document.name));
        Ok(Listing { items, next_cursor })
    }

    /// A feed, newest first.
    pub fn feed(&mut self, feed: &str, page: &Page) -> Result<Listing<FeedEntry>, Fail> {
        check_name("feed", feed)?;
        let query = format!("feed {feed}");
        let before = page.position(&query)?.unwrap_or(i64::MAX);
        let read = |row: &Row<'_>| {
            let body = Json::trusted(row.get::<_, String>(2)?);
            Ok(FeedEntry {
                n: row.get(0)?,
                at: rows::time(row.get(1)?),
                body,
            })
        };
        let list = self.statements.get(Sql::FeedList)?;
        let found = list.query_map(params![self.ns, feed, before, page.limit as i64 + 1], read)?;
        let mut items = found.collect::<rusqlite::Result<Vec<_>>>()?;
        let more = items.len() > page.limit;
        items.truncate(page.limit);
        let next_cursor = items
            .last()
            .filter(|_| more)
            .map(|entry| Page::cursor(&query, entry.n));
        Ok(Listing { items, next_cursor })
    }
}
