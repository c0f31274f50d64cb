//! What a namespace records of its layout: over how many shards it is spread, and whether that is being changed.

use redis::Value;

use semel_core::error::StoreError;
use semel_core::ids::Name;

use crate::keys::Keys;
use crate::link::{Link, answer};
use crate::name::Layout;
use crate::options::RedisOptions;

/// The layout this crate writes. See `keys.rs`.
const VERSION: i64 = 6;
/// The version of lanes and settings in a shard that nobody may use any more: each script and each step looks at it.
pub const CLOSED: i64 = -1;

const FIELDS: [&str; 5] = ["layout", "shards", "generation", "becoming", "leftover"];

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where everything is.
    pub layout: Layout,
    /// The number of shards it is being changed to. From here on nobody else may use the store.
    pub becoming: Option<usize>,
    /// An earlier layout that was not removed yet.
    pub leftover: Option<Layout>,
}

impl Record {
    /// What a namespace records; none if there is no store.
    pub async fn read(link: &Link, namespace: &Name) -> Result<Option<Self>, StoreError> {
        let mut look = redis::pipe();
        look.cmd("HMGET").arg(Keys::layout(namespace)).arg(&FIELDS);
        let answer = link.ask("opening the store", &look).await?.into_iter().next();
        let found = answer::all_bytes(answer.unwrap_or(Value::Nil))?;
        let text = |at: usize| found.get(at).filter(|bytes| !bytes.is_empty());
        let number = |at: usize| text(at).map(|bytes| answer::parse(bytes)).transpose();
        let Some(version) = number(0)? else {
            return Ok(None);
        };
        if version != VERSION {
            return Err(StoreError::Refused {
                reason: format!("the store has layout {version}, this program knows {VERSION}"),
                hint: "use the version of this program that made it, or make a new store".to_owned(),
            });
        }
        let shards = |number: i64| {
            let shards = usize::try_from(number).ok().filter(|shards| *shards > 0);
            shards.ok_or_else(|| StoreError::corrupt(format!("{number} is recorded as the number of shards")))
        };
        let leftover = text(4).map(|bytes| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let parts = text.split_once('.').unwrap_or((text.as_str(), "0"));
            let parts = (parts.0.parse(), parts.1.parse());
            match parts {
                (Ok(shards), Ok(generation)) => Ok(Layout { shards, generation }),
                _ => Err(StoreError::corrupt(format!(
                    "{text} is recorded as an earlier layout"
                ))),
            }
        });
        let generation = number(2)?.unwrap_or(0);
        Ok(Some(Record {
            layout: Layout {
                shards: shards(number(1)?.unwrap_or(0))?,
                generation: u16::try_from(generation)
                    .map_err(|_| StoreError::corrupt(format!("{generation} is recorded as a generation")))?,
            },
            becoming: number(3)?.map(shards).transpose()?,
            leftover: leftover.transpose()?,
        }))
    }

    /// Writes it, in one step.
    pub async fn write(&self, link: &Link, namespace: &Name) -> Result<(), StoreError> {
        let key = Keys::layout(namespace);
        let Layout { shards, generation } = self.layout;
        let mut ask = redis::pipe();
        // One command, so that all of it is said at once; what is not there is empty.
        ask.cmd("HSET")
            .arg(&key)
            .arg(&["layout".to_owned(), VERSION.to_string()])
            .arg(&["shards".to_owned(), shards.to_string()])
            .arg(&["generation".to_owned(), generation.to_string()])
            .arg("becoming")
            .arg(self.becoming.map(|shards| shards.to_string()).unwrap_or_default())
            .arg("leftover")
            .arg(self.leftover.map(Layout::tag).unwrap_or_default());
        link.ask("recording the number of shards", &ask).await?;
        Ok(())
    }
}

/// The layout of a store that is to be opened: made where there is none, and refused if the URL says another number of
/// shards, or if a change of it has not come to its end.
pub async fn check(link: &Link, options: &RedisOptions) -> Result<Layout, StoreError> {
    let mut found = Record::read(link, &options.namespace).await?;
    // Written only where it is missing: a server without room can still be read.
    if options.create && found.is_none() {
        let key = Keys::layout(&options.namespace);
        let mut ask = redis::pipe();
        ask.cmd("HSETNX").arg(&key).arg("shards").arg(options.shards);
        ask.cmd("HSETNX").arg(&key).arg("layout").arg(VERSION);
        link.ask("making the store", &ask).await?;
        found = Record::read(link, &options.namespace).await?;
    }
    let Some(record) = found else {
        return Err(StoreError::Refused {
            reason: format!(
                "there is no store at {} in the namespace {}",
                options.shown(),
                options.namespace
            ),
            hint: "a first submission or a worker makes it".to_owned(),
        });
    };
    let shards = record.layout.shards;
    if let Some(becoming) = record.becoming {
        return Err(StoreError::Refused {
            reason: format!(
                "the number of shards is being changed from {shards} to {becoming}, or was and that did not finish"
            ),
            hint: format!(
                "`semel shards set {becoming}` begins again and finishes it, `semel shards set {shards}` takes it back"
            ),
        });
    }
    if shards != options.shards {
        return Err(StoreError::Refused {
            reason: format!(
                "the store was made with {shards} shards, the URL says {}",
                options.shards
            ),
            hint: format!(
                "write shards={shards}; `semel shards set {}` changes it while nobody works",
                options.shards
            ),
        });
    }
    Ok(record.layout)
}

/// What is told to whoever still uses a shard that is closed.
pub fn closed() -> StoreError {
    StoreError::Refused {
        reason: "the number of shards of this store is being changed, or has changed".to_owned(),
        hint: "open it again; `semel shards show` says how many there are".to_owned(),
    }
}
