//! The way to a server without a store on it: for measurements beside one, and for removing what was made.

use std::collections::BTreeMap;

use futures_util::stream::StreamExt as _;
use redis::{Pipeline, Value};

use semel_core::error::StoreError;
use semel_core::ids::Name;

use crate::keys;
use crate::link::{Link, answer};
use crate::options::RedisOptions;

/// Names in one command.
const CHUNK: usize = 500;
/// Commands on their way at a time.
const AT_ONCE: usize = 64;

/// The same client that a store uses, without a store.
pub struct Raw {
    link: Link,
}

impl Raw {
    /// Connects when it is first used.
    pub fn new(options: &RedisOptions) -> Result<Self, StoreError> {
        Ok(Raw {
            link: Link::new(options)?.by_the_library(),
        })
    }

    /// Sends commands and gives their answers. They may be sent more than once.
    pub async fn ask(&self, pipeline: &Pipeline) -> Result<Vec<Value>, StoreError> {
        self.link.ask("asking the server", pipeline).await
    }

    /// What the known nodes say about themselves (`INFO`).
    pub async fn info(&self) -> Result<Vec<String>, StoreError> {
        let described = self.link.describe().await?;
        Ok(described.into_iter().map(|(info, _)| info).collect())
    }

    /// Bytes that the servers use to know who has which key.
    pub async fn bytes_of_keys(&self, namespace: &Name) -> Result<u64, StoreError> {
        let mut sum = 0;
        for master in self.link.masters().await? {
            let mut cursor = b"0".to_vec();
            loop {
                let names;
                (cursor, names) = self
                    .link
                    .scan(master.as_ref(), &cursor, &keys::owners_pattern(namespace))
                    .await?;
                for name in names {
                    let mut ask = redis::pipe();
                    ask.cmd("MEMORY").arg("USAGE").arg(name).arg("SAMPLES").arg(0);
                    let bytes = self.link.ask("asking what keys cost", &ask).await?.remove(0);
                    sum += answer::number(bytes)?;
                }
                if cursor == b"0" {
                    break;
                }
            }
        }
        Ok(u64::try_from(sum).unwrap_or(0))
    }

    /// Removes a namespace with all that is in it, whatever its number of shards. Nobody may be at work in it.
    pub async fn remove_namespace(&self, namespace: &Name) -> Result<u64, StoreError> {
        let mut removed = 0;
        for pattern in keys::patterns(namespace) {
            removed += self.remove(&pattern).await?;
        }
        Ok(removed)
    }

    /// Removes all keys whose names match a pattern, as `SCAN` understands it.
    pub async fn remove(&self, pattern: &str) -> Result<u64, StoreError> {
        sweep(&self.link, pattern, |_| true).await
    }
}

/// Removes all keys whose names match a pattern, in small steps.
pub(crate) async fn sweep(
    link: &Link,
    pattern: &str,
    goes: impl Fn(&[u8]) -> bool,
) -> Result<u64, StoreError> {
    let mut removed = 0;
    for master in link.masters().await? {
        let mut cursor = b"0".to_vec();
        loop {
            let mut names;
            (cursor, names) = link.scan(master.as_ref(), &cursor, pattern).await?;
            names.retain(|name| goes(name));
            removed += unlink(link, names).await?;
            if cursor == b"0" {
                break;
            }
        }
    }
    Ok(removed)
}

/// What shares a hash tag shares a slot, and can go with one command.
async fn unlink(link: &Link, names: Vec<Vec<u8>>) -> Result<u64, StoreError> {
    let mut by_tag: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
    for name in names {
        by_tag.entry(tag(&name).to_vec()).or_default().push(name);
    }
    let mut asks = Vec::new();
    for names in by_tag.values() {
        for chunk in names.chunks(CHUNK) {
            let mut ask = redis::pipe();
            ask.cmd("UNLINK").arg(chunk);
            asks.push(ask);
        }
    }
    let gone = asks.iter().map(|ask| async move {
        let answers = link.ask("removing keys", ask).await?;
        answer::number(answers.into_iter().next().unwrap_or(Value::Nil))
    });
    // Names that share no slot need a command each: many are on their way at a time.
    let mut gone = futures_util::stream::iter(gone).buffer_unordered(AT_ONCE);
    let mut removed = 0;
    while let Some(count) = gone.next().await {
        removed += count?;
    }
    Ok(u64::try_from(removed).unwrap_or(0))
}

/// The part of a name that decides its slot.
fn tag(name: &[u8]) -> &[u8] {
    let open = name.iter().position(|byte| *byte == b'{');
    let tag = open.and_then(|open| {
        let rest = &name[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        Some(&rest[..close]).filter(|tag| !tag.is_empty())
    });
    tag.unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_a_name_is_what_stands_in_its_first_braces() {
        assert_eq!(tag(b"semel:{app/4/2}:meta"), b"app/4/2");
        assert_eq!(tag(b"semel:{}:meta"), b"semel:{}:meta");
        assert_eq!(tag(b"plain"), b"plain");
        assert_eq!(tag(b"half{open"), b"half{open");
    }
}
