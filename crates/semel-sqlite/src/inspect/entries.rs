//! Pages of the ledger.

use semel_core::ids::{Digest, JobId};
use semel_core::store::{LedgerFilter, Page};
use semel_core::view::{LedgerEntry, Listing};

use crate::fail::Fail;
use crate::inspect::{Look, whole_job};
use crate::ledger::{self, Kept, Packed};
use crate::rows::{self, IdBytes};

impl Look<'_> {
    /// Absorbed submissions, newest first.
    pub fn ledger(&mut self, filter: &LedgerFilter, page: &Page) -> Result<Listing<LedgerEntry>, Fail> {
        let query = format!("ledger {filter:?}");
        let before = page.position(&query)?.unwrap_or(i64::MAX);
        let digest = match (&filter.digest, &filter.holder) {
            (Some(digest), _) => Some(*digest),
            (None, Some(holder)) => self.digest_of(holder)?,
            (None, None) => None,
        };
        let from = match digest {
            Some(_) => ledger::indexed(&mut self.statements)?,
            None => 0,
        };
        let mut found = Entries {
            filter,
            ns: self.ns,
            holder: filter.holder.as_ref().map(|id| rows::id_bytes(id, self.ns)),
            limit: page.limit,
            items: Vec::new(),
            more: false,
        };
        ledger::listed(&mut self.statements, self.ns, (from, before), |row, entry| {
            found.take(row, entry)
        })?;
        if let Some(digest) = digest.filter(|_| !found.more) {
            self.indexed_entries(&digest, before, &mut found)?;
        }
        let Entries { items, more, .. } = found;
        let next_cursor = items
            .last()
            .filter(|_| more)
            .map(|entry| Page::cursor(&query, entry.n));
        Ok(Listing { items, next_cursor })
    }

    fn indexed_entries(&mut self, digest: &Digest, before: i64, found: &mut Entries<'_>) -> Result<(), Fail> {
        let mut row: Option<Kept> = None;
        for n in ledger::of_key(&mut self.statements, digest, before)? {
            // Entries of a key are often in one row.
            if row.as_ref().is_none_or(|row| n < row.n) {
                row = ledger::find(&mut self.statements, n)?;
            }
            let Some(row) = &row else { continue };
            for entry in row.entries().iter().filter(|entry| entry.n == n) {
                if !found.take(row, entry)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn digest_of(&mut self, id: &JobId) -> Result<Option<Digest>, Fail> {
        let Some(seq) = self.seq(id)? else { return Ok(None) };
        Ok(whole_job(&mut self.statements, seq)?.and_then(|whole| whole.digest))
    }
}

/// A page of the ledger that is being filled.
struct Entries<'f> {
    filter: &'f LedgerFilter,
    ns: i64,
    /// The holder that is asked for; none of this store's if it is no id.
    holder: Option<Option<IdBytes>>,
    limit: usize,
    items: Vec<LedgerEntry>,
    more: bool,
}

impl Entries<'_> {
    /// Takes an entry if it fits; whether the page has room for more.
    fn take(&mut self, row: &Kept, entry: &Packed<'_>) -> Result<bool, Fail> {
        let holds = |holder: &Option<IdBytes>| {
            holder
                .as_ref()
                .is_some_and(|holder| rows::short(holder) == entry.holder)
        };
        let fits = row.ns == self.ns
            && self.filter.digest.is_none_or(|digest| digest == entry.digest)
            && self.holder.as_ref().is_none_or(holds);
        if !fits {
            return Ok(true);
        }
        if self.items.len() == self.limit {
            self.more = true;
            return Ok(false);
        }
        self.items.push(row.show(entry)?);
        Ok(true)
    }
}
