//! One key, said by its text, its digest or the beginning of it.

use semel_core::ids::Digest;
use semel_core::store::{KeyFilter, Page, Store};
use semel_core::view::KeyRow;

use crate::problem::Problem;
use crate::screen::{clean, count};

/// Keys that are looked through for a text or the beginning of a digest.
const FAR: usize = 100_000;
/// Fewer digits of a digest are taken for a text.
const FEWEST_DIGITS: usize = 6;

/// The beginning of a digest: enough to tell keys apart, and to find one again.
pub fn short(digest: Digest) -> String {
    digest.to_string()[..12].to_owned()
}

/// Finds the one key that is meant.
pub async fn find(store: &dyn Store, said: &str) -> Result<KeyRow, Problem> {
    if let Ok(digest) = said.parse::<Digest>() {
        let found = store.key(digest).await?;
        return found.ok_or_else(|| missing(said, None));
    }
    let by_text = KeyFilter {
        text: Some(said.to_owned()),
        also_free: true,
        ..KeyFilter::default()
    };
    let has_text = |row: &KeyRow| row.key.text.as_deref() == Some(said.trim());
    let (mut found, looked) = search(store, by_text, has_text).await?;
    if found.is_empty() && is_digits(said) {
        let all = KeyFilter {
            also_free: true,
            ..KeyFilter::default()
        };
        let begins = |row: &KeyRow| row.key.digest.to_string().starts_with(&said.to_lowercase());
        found = search(store, all, begins).await?.0;
    }
    match found.len() {
        0 => Err(missing(said, looked)),
        1 => Ok(found.remove(0)),
        _ => Err(several(said, &found)),
    }
}

fn is_digits(said: &str) -> bool {
    said.len() >= FEWEST_DIGITS && said.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Matching keys, one per digest; and, if not all were looked at, how many were.
async fn search(
    store: &dyn Store,
    filter: KeyFilter,
    matches: impl Fn(&KeyRow) -> bool,
) -> Result<(Vec<KeyRow>, Option<usize>), Problem> {
    let mut found: Vec<KeyRow> = Vec::new();
    let mut cursor = None;
    let mut looked = 0;
    loop {
        let listing = store.keys(filter.clone(), Page { cursor, limit: 500 }).await?;
        looked += 500;
        for row in listing.items {
            let known = found.iter().any(|other| other.key.digest == row.key.digest);
            if matches(&row) && !known {
                found.push(row);
            }
        }
        cursor = listing.next_cursor;
        match cursor {
            None => return Ok((found, None)),
            Some(_) if looked >= FAR => return Ok((found, Some(looked))),
            Some(_) => {}
        }
    }
}

fn missing(said: &str, looked: Option<usize>) -> Problem {
    let problem = Problem::not_found(format!("there is no key {:?}", clean(said)));
    match looked {
        Some(far) => problem.hint(format!(
            "the newest {} keys were looked through; a whole digest is found at any age",
            count(far as i64)
        )),
        None => problem.hint("semel keys list --text PART finds keys by a part of their text"),
    }
}

fn several(said: &str, found: &[KeyRow]) -> Problem {
    let each: Vec<String> = found
        .iter()
        .take(10)
        .map(|row| {
            format!(
                "{} in {} ({})",
                short(row.key.digest),
                row.key.scope,
                row.holder.task
            )
        })
        .collect();
    Problem::usage(format!(
        "{:?} is the key of several: {}",
        clean(said),
        each.join(", ")
    ))
    .hint("say which by the beginning of its digest")
}
