//! Keys: who has them, who had them, how often they absorbed.

use rusqlite::{OptionalExtension, params};

use semel_core::ids::Digest;
use semel_core::store::{KeyFilter, Page};
use semel_core::view::{HolderView, KeyRow, Listing};

use crate::fail::Fail;
use crate::inspect::{Look, SEARCH, whole_job};
use crate::keys;
use crate::ledger;
use crate::rows;
use crate::statements::Sql;

impl Look<'_> {
    /// Keys by filter, those of the newest jobs first.
    pub fn keys(&mut self, filter: &KeyFilter, page: &Page) -> Result<Listing<KeyRow>, Fail> {
        let query = format!("keys {filter:?}");
        let before = page.position(&query)?.unwrap_or(i64::MAX);
        let (seqs, looked_to) = match &filter.job {
            Some(id) => (
                self.seq(id)?.into_iter().filter(|seq| *seq < before).collect(),
                None,
            ),
            None => self.keyed(filter, before)?,
        };
        let mut items = Vec::new();
        let full = seqs.len();
        for (at, seq) in seqs.into_iter().enumerate() {
            if let Some(row) = self.key_row(seq, filter)? {
                items.push(row);
            }
            if items.len() == page.limit {
                let more = at + 1 < full || looked_to.is_some();
                return Ok(Listing {
                    items,
                    next_cursor: more.then(|| Page::cursor(&query, seq)),
                });
            }
        }
        Ok(Listing {
            items,
            next_cursor: looked_to.map(|to| Page::cursor(&query, to)),
        })
    }

    fn keyed(&mut self, filter: &KeyFilter, before: i64) -> Result<(Vec<i64>, Option<i64>), Fail> {
        const MOST: usize = 2_000;
        let (mut seqs, mut looked, mut last) = (Vec::new(), 0i64, before);
        let mut rows = self
            .statements
            .get(Sql::KeyScan)?
            .query(params![before, SEARCH])?;
        while let Some(row) = rows.next()? {
            looked += 1;
            last = row.get(0)?;
            let text = row.get_ref(1)?.as_str_or_null()?.unwrap_or_default();
            if filter
                .text
                .as_ref()
                .is_none_or(|wanted| text.contains(wanted.as_str()))
            {
                seqs.push(last);
            }
            if seqs.len() == MOST {
                return Ok((seqs, Some(last)));
            }
        }
        Ok((seqs, (looked == SEARCH).then_some(last)))
    }

    fn key_row(&mut self, seq: i64, filter: &KeyFilter) -> Result<Option<KeyRow>, Fail> {
        let Some(row) = self.life(seq)? else {
            return Ok(None);
        };
        let Some(whole) = whole_job(&mut self.statements, seq)? else {
            return Ok(None);
        };
        let Some(view) = whole.key_view(&row.life, self.now) else {
            return Ok(None);
        };
        let (queue, task) = self.lanes[&row.lane].clone();
        let text = view.text.as_deref().unwrap_or_default();
        let fits = (filter.also_free || view.held)
            && filter
                .text
                .as_ref()
                .is_none_or(|wanted| text.contains(wanted.as_str()))
            && filter.scope.as_ref().is_none_or(|wanted| *wanted == view.scope)
            && filter.task.as_ref().is_none_or(|wanted| *wanted == task);
        if !fits {
            return Ok(None);
        }
        let absorbed = ledger::total(&mut self.statements, &view.digest)?;
        Ok(Some(KeyRow {
            free_at: row
                .life
                .holding
                .as_ref()
                .and_then(|holding| holding.free_at(&row.life)),
            key: view,
            holder: HolderView {
                id: whole.id,
                task,
                state: row.life.state(self.now),
                enqueued_at: whole.enqueued_at,
            },
            queue,
            absorbed,
        }))
    }

    /// One key: its newest owner.
    pub fn key(&mut self, digest: &Digest) -> Result<Option<KeyRow>, Fail> {
        let seqs = self.owned(digest)?;
        let filter = KeyFilter {
            also_free: true,
            ..KeyFilter::default()
        };
        for seq in seqs {
            if let Some(row) = self.key_row(seq, &filter)? {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// Jobs that owned a key, and those that follow one of them.
    pub(super) fn of_key(&mut self, digest: &Digest, before: i64) -> Result<Vec<i64>, Fail> {
        let mut seqs = self.owned(digest)?;
        for at in 0..seqs.len() {
            let follower = self.statements.get(Sql::FollowerFind)?;
            let found = follower.query_row([seqs[at]], |row| row.get::<_, i64>(0));
            seqs.extend(found.optional()?);
        }
        seqs.retain(|seq| *seq < before);
        seqs.sort_unstable_by(|a, b| b.cmp(a));
        seqs.dedup();
        Ok(seqs)
    }

    /// Jobs that owned a key, the newest owner first.
    fn owned(&mut self, digest: &Digest) -> Result<Vec<i64>, Fail> {
        let mut seqs = Vec::new();
        for owner in keys::stored_owners(&mut self.statements, rows::prefix(digest))? {
            let theirs = self
                .statements
                .get(Sql::JobKeyed)?
                .query_row([owner.seq], |row| rows::digest(row, 1));
            if theirs.optional()?.flatten().as_ref() == Some(digest) {
                seqs.push(owner.seq);
            }
        }
        Ok(seqs)
    }
}
