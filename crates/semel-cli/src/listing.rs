//! Lists, a page at a time.

use clap::Args;
use semel_core::error::StoreError;
use semel_core::limits;
use semel_core::store::Page;
use semel_core::view::Listing;

/// Which part of a list.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Page")]
pub struct PageArgs {
    /// Show at most this many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    /// Go on where the page before ended
    #[arg(long, value_name = "CURSOR")]
    pub cursor: Option<String>,
}

impl PageArgs {
    /// A query with where the page begins.
    pub fn query(&self, mut query: Vec<(&'static str, String)>) -> Vec<(&'static str, String)> {
        query.extend(said([("cursor", self.cursor.clone())]));
        query
    }
}

/// Those of the values that were said.
pub fn said<const N: usize>(values: [(&'static str, Option<String>); N]) -> Vec<(&'static str, String)> {
    let said = values.into_iter();
    said.filter_map(|(name, value)| value.map(|value| (name, value)))
        .collect()
}

/// Asks for pages until there are as many rows as wanted: a page may be short, even empty, and go on.
pub async fn gather<T>(
    wanted: &PageArgs,
    mut fetch: impl AsyncFnMut(Page) -> Result<Listing<T>, StoreError>,
) -> Result<Listing<T>, StoreError> {
    let mut items = Vec::new();
    let mut cursor = wanted.cursor.clone();
    loop {
        let missing = wanted.limit.saturating_sub(items.len());
        let page = Page {
            cursor,
            // A limit of nothing is refused by the store, in its own words.
            limit: if wanted.limit == 0 {
                0
            } else {
                missing.min(limits::PAGE)
            },
        };
        let found = fetch(page).await?;
        items.extend(found.items);
        cursor = found.next_cursor;
        if cursor.is_none() || items.len() >= wanted.limit {
            return Ok(Listing {
                items,
                next_cursor: cursor,
            });
        }
    }
}
