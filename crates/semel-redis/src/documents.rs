//! Versioned documents and append-only feeds: what schedules, subscribers, workers, tokens, audit and logs are kept in.

use semel_core::error::{Invalid, StoreError};
use semel_core::ids::Name;
use semel_core::json::Json;
use semel_core::limits;
use semel_core::store::{Document, Expect, FEED_ENTRIES, FeedEntry, Page, PutDocument, PutOutcome};
use semel_core::view::Listing;

use crate::jobs::score;
use crate::link::answer;
use crate::records;
use crate::tx::{Slot, Tx};

/// Names read at once when a list is filled.
const NAMES: usize = 500;

/// A name of a document or feed: 1 to 512 bytes, no control characters.
pub fn check_name(what: &str, name: &str) -> Result<(), Invalid> {
    if name.is_empty() || name.len() > 512 || name.chars().any(char::is_control) {
        return Err(Invalid::new(what, "1 to 512 bytes without control characters"));
    }
    Ok(())
}

/// Refuses names and bodies that are too long.
pub fn check_document(put: &PutDocument) -> Result<(), Invalid> {
    check_name("document name", &put.name)?;
    if put.body.as_str().len() > limits::DOCUMENT_BYTES {
        return Err(Invalid::new(
            "document",
            format!("at most {} bytes", limits::DOCUMENT_BYTES),
        ));
    }
    Ok(())
}

fn due_member(kind: &Name, name: &str) -> Vec<u8> {
    // No name contains a control character.
    format!("{kind}\0{name}").into_bytes()
}

impl Tx<'_> {
    async fn stored_document(&mut self, kind: &Name, name: &str) -> Result<Option<Document>, StoreError> {
        let slot = Slot::new(self.names().documents(kind), name);
        let bytes = self.get(&slot).await?;
        bytes
            .map(|bytes| records::decode_document(kind, name, bytes))
            .transpose()
    }

    /// One document.
    pub async fn document(&mut self, kind: &Name, name: &str) -> Result<Option<Document>, StoreError> {
        let now = self.now;
        let live = |document: &Document| document.expires_at.is_none_or(|at| now < at);
        Ok(self.stored_document(kind, name).await?.filter(live))
    }

    /// Writes a document if what is there is what was expected.
    pub async fn put_document(&mut self, put: &PutDocument) -> Result<PutOutcome, StoreError> {
        let found = self.document(&put.kind, &put.name).await?;
        let fits = match put.expect {
            Expect::Any => true,
            Expect::Absent => found.is_none(),
            Expect::Version(version) => found.as_ref().is_some_and(|document| document.version == version),
        };
        if !fits {
            return Ok(PutOutcome::Mismatch { found });
        }
        let keys = self.names();
        // One number for all documents: it grows over removals and expiries too.
        let floor = Slot::new(keys.meta(), "document");
        let last = self.get(&floor).await?.map_or(Ok(0), answer::parse)?;
        let version = (last + 1).max(self.micros);
        self.set(floor, score(version));
        let document = Document {
            kind: put.kind.clone(),
            name: put.name.clone(),
            version,
            body: put.body.clone(),
            updated_at: self.now,
            expires_at: put.ttl.map(|ttl| self.now.plus(ttl)),
        };
        let name = put.name.as_bytes().to_vec();
        let due = due_member(&put.kind, &put.name);
        self.set(
            Slot::new(keys.documents(&put.kind), put.name.as_str()),
            records::encode_document(&document),
        );
        self.run("ZADD", keys.document_names(&put.kind), vec![score(0), name]);
        match document.expires_at {
            Some(at) => self.run("ZADD", keys.documents_due(), vec![score(at.as_millis()), due]),
            None => self.run("ZREM", keys.documents_due(), vec![due]),
        }
        Ok(PutOutcome::Done { version })
    }

    /// Removes a document if it has that version.
    pub async fn delete_document(
        &mut self,
        kind: &Name,
        name: &str,
        version: Option<i64>,
    ) -> Result<PutOutcome, StoreError> {
        match self.document(kind, name).await? {
            Some(document) if version.is_none_or(|version| version == document.version) => {
                self.drop_document(kind, name);
                Ok(PutOutcome::Done {
                    version: document.version,
                })
            }
            found => Ok(PutOutcome::Mismatch { found }),
        }
    }

    fn drop_document(&mut self, kind: &Name, name: &str) {
        let keys = self.names();
        self.unset(Slot::new(keys.documents(kind), name));
        self.run("ZREM", keys.document_names(kind), vec![name.as_bytes().to_vec()]);
        self.run("ZREM", keys.documents_due(), vec![due_member(kind, name)]);
    }

    /// Forgets documents that have expired; says how many.
    pub async fn prune_documents(&mut self, most: usize) -> Result<usize, StoreError> {
        let due = self.due(self.names().documents_due(), most).await?;
        for member in &due {
            let text = String::from_utf8_lossy(member);
            let Some((kind, name)) = text.split_once('\0') else {
                continue;
            };
            let Ok(kind) = Name::new(kind) else { continue };
            if self.document(&kind, name).await?.is_none() {
                self.drop_document(&kind, name);
            }
        }
        Ok(due.len())
    }

    /// Documents of a kind whose names begin with a prefix, by name.
    pub async fn documents(
        &mut self,
        kind: &Name,
        prefix: &str,
        page: &Page,
    ) -> Result<Listing<Document>, StoreError> {
        let query = format!("documents {kind:?} {prefix:?}");
        let mut after = page.place(&query)?.map(str::to_owned);
        let mut items: Vec<Document> = Vec::new();
        loop {
            let names = self.names_from(kind, prefix, after.as_deref()).await?;
            let slots = names
                .iter()
                .map(|name| Slot::new(self.names().documents(kind), name.as_str()));
            let slots = slots.collect();
            self.load(slots).await?;
            for name in &names {
                let Some(document) = self.document(kind, name).await? else {
                    continue;
                };
                if items.len() == page.limit {
                    let next_cursor = items.last().map(|last| Page::cursor(&query, &last.name));
                    return Ok(Listing { items, next_cursor });
                }
                items.push(document);
            }
            if names.len() < NAMES {
                return Ok(Listing {
                    items,
                    next_cursor: None,
                });
            }
            after = names.last().cloned();
        }
    }

    async fn names_from(
        &self,
        kind: &Name,
        prefix: &str,
        after: Option<&str>,
    ) -> Result<Vec<String>, StoreError> {
        let from = match after.filter(|after| *after >= prefix) {
            Some(after) => format!("({after}"),
            None => format!("[{prefix}"),
        };
        let mut to = format!("[{prefix}").into_bytes();
        // No text contains this byte: everything that begins with the prefix sorts before it.
        to.push(0xff);
        let mut ask = redis::pipe();
        ask.cmd("ZRANGEBYLEX")
            .arg(self.names().document_names(kind))
            .arg(from)
            .arg(to)
            .arg("LIMIT")
            .arg(0)
            .arg(NAMES);
        let names = answer::all_bytes(self.look(&ask).await?.remove(0))?;
        Ok(names
            .into_iter()
            .map(|name| String::from_utf8_lossy(&name).into_owned())
            .collect())
    }

    // Feeds.

    /// Appends to a feed; the oldest entries go once there are too many.
    pub fn append(&mut self, feed: &str, bodies: Vec<Json>) {
        if bodies.is_empty() {
            return;
        }
        let keys = self.names();
        let added = i64::try_from(bodies.len()).unwrap_or(i64::MAX);
        for body in &bodies {
            self.run(
                "RPUSH",
                keys.feed(feed),
                vec![records::encode_line(self.now, body)],
            );
        }
        let oldest = score(-(FEED_ENTRIES as i64));
        self.run("LTRIM", keys.feed(feed), vec![oldest, score(-1)]);
        self.add(keys.feeds(), feed.to_owned(), added);
    }

    /// Reads a feed, newest first.
    pub async fn feed(&mut self, feed: &str, page: &Page) -> Result<Listing<FeedEntry>, StoreError> {
        let query = format!("feed {feed:?}");
        let before = page.position(&query)?.unwrap_or(i64::MAX);
        if self.is_log_of_a_removed_job(feed).await? {
            return Ok(Listing {
                items: Vec::new(),
                next_cursor: None,
            });
        }
        let keys = self.names();
        let mut ask = redis::pipe();
        ask.atomic().cmd("HGET").arg(keys.feeds()).arg(feed);
        ask.cmd("LRANGE").arg(keys.feed(feed)).arg(0).arg(-1);
        let mut answers = self.look(&ask).await?.into_iter();
        let last = answer::number(answers.next().unwrap_or(redis::Value::Nil))?;
        let lines = answer::all_bytes(answers.next().unwrap_or(redis::Value::Nil))?;
        let first = last + 1 - lines.len() as i64;
        let wanted = lines.iter().zip(first..).filter(|(_, n)| *n < before);
        let wanted: Vec<_> = wanted.collect();
        let items = wanted.iter().rev().take(page.limit).map(|(line, n)| {
            let (at, body) = records::decode_line(line)?;
            Ok(FeedEntry { n: *n, at, body })
        });
        let items = items.collect::<Result<Vec<_>, StoreError>>()?;
        let more = wanted.len() > items.len();
        let next_cursor = items
            .last()
            .filter(|_| more)
            .map(|entry| Page::cursor(&query, entry.n));
        Ok(Listing { items, next_cursor })
    }

    async fn is_log_of_a_removed_job(&mut self, feed: &str) -> Result<bool, StoreError> {
        let id = feed
            .strip_prefix("log/")
            .and_then(|id| semel_core::ids::JobId::new(id).ok());
        let Some(id) = id.and_then(|id| self.shard.locate(&id)) else {
            return Ok(false);
        };
        let stored = self.stored(&id).await?;
        Ok(stored.is_some_and(|head| self.config.live(head.lane).is_none()))
    }
}
