//! Keys and the ledger, compared; and the totals of keys, which outlive both.

use std::collections::{BTreeMap, BTreeSet};

use semel_core::ids::{Digest, JobId};
use semel_core::store::{KeyFilter, LedgerFilter, Store};
use semel_core::view::{KeyRow, LedgerEntry};

use super::dump::{all, any_limit};
use super::pair::{Agreed, Both, Run, same, same_list};
use crate::rng::Rng;

/// How the two count what a key has absorbed.
///
/// A total is exact for as long as anything is known of its key. Of a key of which nothing is left, stores may
/// forget the total at once or at the next upkeep; so when such a key comes back, the two may count from different
/// numbers on. From then on they have to count alike.
#[derive(Default)]
pub(super) struct Totals(BTreeMap<Digest, Total>);

#[derive(Default)]
struct Total {
    /// By how much the store is ahead.
    ahead: i64,
    /// The jobs that had the key when it was last looked at.
    owners: BTreeSet<JobId>,
}

impl Totals {
    fn judge(&mut self, rows: &Both<Vec<KeyRow>>) -> Agreed {
        let mut next: BTreeMap<Digest, Total> = BTreeMap::new();
        for (store, reference) in rows.store.iter().zip(&rows.reference) {
            let total = next.entry(reference.key.digest).or_default();
            total.ahead = store.absorbed - reference.absorbed;
            total.owners.insert(reference.holder.id.clone());
        }
        for (digest, total) in &next {
            let before = self
                .0
                .get(digest)
                .filter(|before| !before.owners.is_disjoint(&total.owners));
            if let Some(before) = before.filter(|before| before.ahead != total.ahead) {
                let (was, is) = (before.ahead, total.ahead);
                return Err(format!(
                    "what {digest} has absorbed: the store was {was} ahead, and is {is}"
                ));
            }
        }
        self.0 = next;
        Ok(())
    }
}

impl Run<'_> {
    pub(super) async fn same_keys(&mut self, rng: &mut Rng) -> Agreed {
        let limit = any_limit(rng);
        let whole = KeyFilter {
            also_free: true,
            ..KeyFilter::default()
        };
        let rows = self.same_rows(whole, limit).await?;
        self.known.totals.judge(&rows)?;
        let task = rng.pick(&self.words.tasks).clone();
        let filters = [
            KeyFilter {
                text: Some("k1".to_owned()),
                also_free: rng.chance(50),
                ..KeyFilter::default()
            },
            KeyFilter {
                task: Some(task),
                ..KeyFilter::default()
            },
            KeyFilter {
                scope: Some("global".to_owned()),
                also_free: true,
                ..KeyFilter::default()
            },
            KeyFilter {
                job: rng.maybe(&self.known.jobs).cloned(),
                ..KeyFilter::default()
            },
        ];
        for filter in filters {
            self.same_rows(filter, limit).await?;
        }
        for _ in 0..3.min(rows.reference.len()) {
            let digest = rng.pick(&rows.reference).key.digest;
            let Some(row) = self.look("key", async |store, _| store.key(digest).await).await? else {
                continue;
            };
            same("key", &row.map(|row, _| row.map(plain)))?;
        }
        Ok(())
    }

    async fn same_rows(&self, filter: KeyFilter, limit: usize) -> Agreed<Both<Vec<KeyRow>>> {
        let call = async |store: &dyn Store, _| {
            all(limit, async |page| store.keys(filter.clone(), page).await).await
        };
        let rows = self
            .look("keys", call)
            .await?
            .ok_or("the list of keys is refused")?;
        let compared = rows.clone().map(|rows, _| rows.into_iter().map(plain).collect());
        same_list("keys", &compared).map_err(|what| format!("{what}\n  filter: {filter:?}"))?;
        Ok(rows)
    }

    pub(super) async fn same_ledger(&self, rng: &mut Rng) -> Agreed {
        let holder = rng.maybe(&self.known.jobs).cloned();
        let limit = any_limit(rng).max(50);
        for filter in [LedgerFilter::default(), LedgerFilter { digest: None, holder }] {
            let call = async |store: &dyn Store, _| {
                all(limit, async |page| store.ledger(filter.clone(), page).await).await
            };
            let Some(entries) = self.look("ledger", call).await? else {
                continue;
            };
            if !entries.store.is_sorted_by(|newer, older| newer.n > older.n) {
                return Err("the ledger is not newest first".to_owned());
            }
            let unnumbered = |entry: LedgerEntry| LedgerEntry { n: 0, ..entry };
            same_list(
                "ledger",
                &entries.map(|list, _| list.into_iter().map(unnumbered).collect()),
            )?;
        }
        Ok(())
    }
}

/// Generations are the store's own numbers; totals are judged apart.
fn plain(mut row: KeyRow) -> KeyRow {
    row.key.generation = 0;
    row.absorbed = 0;
    row
}
