//! The bucket: a handful of requests, counted. A conditional write whose answer is lost or undecided is decided by
//! reading it back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::path::Path;
use object_store::{
    Error, GetOptions, ObjectMeta, ObjectStore, PutMode, PutOptions, PutPayload, UpdateVersion,
};
use semel_core::error::StoreError;

use crate::clock::{Deadline, jittered, random};
use crate::layout;

/// How long a request is tried again before the store counts as out of reach.
const PATIENCE: Duration = Duration::from_secs(20);
/// The first wait between two tries.
const FIRST_WAIT: Duration = Duration::from_millis(10);
/// The longest.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// What tells one content of an object from another.
pub type Tag = String;

/// Requests made, by kind.
#[derive(Debug, Default)]
pub struct Requests {
    pub get: AtomicU64,
    pub put: AtomicU64,
    pub list: AtomicU64,
    pub delete: AtomicU64,
    pub settings: AtomicU64,
}

/// Requests made until a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Objects read.
    pub get: u64,
    /// Objects written, or tried to.
    pub put: u64,
    /// Pages of lists.
    pub list: u64,
    /// Deletions, each of up to a thousand objects.
    pub delete: u64,
    /// Those of the reads that were of the settings.
    pub settings: u64,
}

impl RequestCounts {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.get + self.put + self.list + self.delete
    }

    /// All of them but the reads of the settings.
    pub fn beside_settings(&self) -> u64 {
        self.total() - self.settings
    }

    /// Those since an earlier count.
    #[must_use]
    pub fn since(&self, earlier: &RequestCounts) -> RequestCounts {
        RequestCounts {
            get: self.get - earlier.get,
            put: self.put - earlier.put,
            list: self.list - earlier.list,
            delete: self.delete - earlier.delete,
            settings: self.settings - earlier.settings,
        }
    }
}

/// What came of a conditional write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is there, under this tag.
    Done(Option<Tag>),
    /// Something else was there.
    Refused,
    /// The answer was lost, or says nothing.
    Undecided,
}

/// Objects below a prefix of a bucket.
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    root: String,
    requests: Requests,
}

impl Bucket {
    /// The objects below a root.
    pub fn new(store: Arc<dyn ObjectStore>, root: String) -> Self {
        Bucket {
            store,
            root,
            requests: Requests::default(),
        }
    }

    /// How many requests were made.
    pub fn requests(&self) -> RequestCounts {
        let load = |n: &AtomicU64| n.load(Ordering::Relaxed);
        RequestCounts {
            get: load(&self.requests.get),
            put: load(&self.requests.put),
            list: load(&self.requests.list),
            delete: load(&self.requests.delete),
            settings: load(&self.requests.settings),
        }
    }

    fn path(&self, name: &str) -> Path {
        Path::from(format!("{}/{name}", self.root))
    }

    fn name(&self, path: &Path) -> String {
        let path = path.as_ref();
        path.strip_prefix(&self.root)
            .map_or(path, |rest| rest.trim_start_matches('/'))
            .to_owned()
    }

    /// An object and its tag.
    pub async fn get(&self, name: &str) -> Result<Option<(Bytes, Tag)>, StoreError> {
        let path = self.path(name);
        let mut patience = Patience::new();
        loop {
            count(&self.requests.get);
            if name == layout::SETTINGS {
                count(&self.requests.settings);
            }
            let read = async {
                let got = self.store.get_opts(&path, GetOptions::default()).await?;
                let tag = got.meta.e_tag.clone();
                Ok::<_, Error>((got.bytes().await?, tag))
            };
            match read.await {
                Ok((bytes, Some(tag))) => return Ok(Some((bytes, tag))),
                Ok((_, None)) => return Err(no_tags()),
                Err(Error::NotFound { .. }) => return Ok(None),
                Err(error) => patience.after("reading", error).await?,
            }
        }
    }

    /// Creates an object, or changes it if it still has that tag. The request is made once: what an answer that
    /// says nothing means is for the caller to find out.
    pub async fn write(&self, name: &str, bytes: Vec<u8>, over: Option<&Tag>) -> Result<Written, StoreError> {
        let mode = match over {
            None => PutMode::Create,
            Some(tag) => PutMode::Update(UpdateVersion {
                e_tag: Some(tag.clone()),
                version: None,
            }),
        };
        let options = PutOptions {
            mode,
            ..PutOptions::default()
        };
        count(&self.requests.put);
        let payload = PutPayload::from(bytes);
        match self.store.put_opts(&self.path(name), payload, options).await {
            Ok(put) => Ok(Written::Done(put.e_tag)),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotFound { .. }) => {
                // Also what a server says that met our own write, whose answer was lost, or that is undecided.
                Ok(Written::Refused)
            }
            Err(error) if is_final(&error) => Err(refused("writing", error)),
            Err(error) => {
                tracing::debug!(%error, name, "a write is undecided");
                Ok(Written::Undecided)
            }
        }
    }

    /// Writes an object whatever is there; for hints, whose content says nothing.
    pub async fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        let payload = PutPayload::from(bytes);
        let mut patience = Patience::new();
        loop {
            count(&self.requests.put);
            let options = PutOptions::default();
            match self
                .store
                .put_opts(&self.path(name), payload.clone(), options)
                .await
            {
                Ok(_) => return Ok(()),
                Err(error) => patience.after("writing", error).await?,
            }
        }
    }

    /// Deletes objects, a thousand at a time. That one is not there is fine.
    pub async fn delete(&self, names: Vec<String>) -> Result<(), StoreError> {
        let mut patience = Patience::new();
        for names in names.chunks(1_000) {
            loop {
                count(&self.requests.delete);
                let paths: Vec<_> = names.iter().map(|name| Ok(self.path(name))).collect();
                let deleted = self.store.delete_stream(stream::iter(paths).boxed());
                let outcomes: Vec<_> = deleted.collect().await;
                let failed = outcomes.into_iter().filter_map(Result::err);
                match failed
                    .into_iter()
                    .find(|error| !matches!(error, Error::NotFound { .. }))
                {
                    None => break,
                    Some(error) => patience.after("deleting", error).await?,
                }
            }
        }
        Ok(())
    }

    /// Objects below a directory, by name, from a name on, at most so many.
    pub async fn list(
        &self,
        directory: &str,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<Listed>, StoreError> {
        let prefix = self.path(directory);
        let mut patience = Patience::new();
        loop {
            let listed = match after {
                Some(after) => self.store.list_with_offset(Some(&prefix), &self.path(after)),
                None => self.store.list(Some(&prefix)),
            };
            let listed: Result<Vec<ObjectMeta>, Error> = listed.take(most).try_collect().await;
            match listed {
                Ok(metas) => {
                    let pages = 1 + metas.len().saturating_sub(1) / 1_000;
                    self.requests.list.fetch_add(pages as u64, Ordering::Relaxed);
                    let mut metas: Vec<Listed> = metas.into_iter().map(|meta| self.listed(meta)).collect();
                    metas.sort_by(|a, b| a.name.cmp(&b.name));
                    return Ok(metas);
                }
                Err(error) => patience.after("listing", error).await?,
            }
        }
    }

    fn listed(&self, meta: ObjectMeta) -> Listed {
        Listed {
            name: self.name(&meta.location),
            tag: meta.e_tag.unwrap_or_default(),
            size: meta.size,
            written: meta.last_modified.timestamp(),
        }
    }

    /// The directories right below one.
    pub async fn directories(&self, directory: &str) -> Result<Vec<String>, StoreError> {
        let prefix = self.path(directory);
        let mut patience = Patience::new();
        loop {
            count(&self.requests.list);
            match self.store.list_with_delimiter(Some(&prefix)).await {
                Ok(listed) => {
                    let names = listed.common_prefixes.iter().map(|path| self.name(path));
                    return Ok(names
                        .filter_map(|name| name.rsplit('/').next().map(str::to_owned))
                        .collect());
                }
                Err(error) => patience.after("listing", error).await?,
            }
        }
    }
}

/// An object in a list.
#[derive(Clone, Debug)]
pub struct Listed {
    pub name: String,
    pub tag: Tag,
    pub size: u64,
    /// When, in seconds since 1970, as the server says.
    pub written: i64,
}

fn count(requests: &AtomicU64) {
    requests.fetch_add(1, Ordering::Relaxed);
}

/// Tries again for a while, waiting longer each time.
pub struct Patience {
    until: Deadline,
    wait: Duration,
}

impl Patience {
    pub fn new() -> Self {
        Patience {
            until: Deadline::after(PATIENCE),
            wait: FIRST_WAIT,
        }
    }

    /// Waits before the next try; an error once it has been long enough, or trying again is of no use.
    async fn after(&mut self, doing: &str, error: Error) -> Result<(), StoreError> {
        if is_final(&error) {
            return Err(refused(doing, error));
        }
        if self.until.is_over() {
            return Err(StoreError::Unavailable {
                doing: format!("{doing} an object"),
                source: Some(Box::new(error)),
            });
        }
        self.pause().await;
        Ok(())
    }

    /// Waits after losing a race; an error once it has been long enough.
    pub async fn again(&mut self, doing: &str) -> Result<(), StoreError> {
        if self.until.is_over() {
            return Err(StoreError::unavailable(format!(
                "{doing}: others write all the time"
            )));
        }
        self.pause().await;
        Ok(())
    }

    async fn pause(&mut self) {
        tokio::time::sleep(jittered(self.wait.mul_f64(1.0 + (random() % 4) as f64 / 8.0))).await;
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
    }
}

fn is_final(error: &Error) -> bool {
    matches!(
        error,
        Error::PermissionDenied { .. }
            | Error::Unauthenticated { .. }
            | Error::NotSupported { .. }
            | Error::NotImplemented { .. }
            | Error::InvalidPath { .. }
    )
}

fn refused(doing: &str, error: Error) -> StoreError {
    let hint = match &error {
        Error::PermissionDenied { .. } => {
            "the credentials need s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket on this prefix"
        }
        Error::Unauthenticated { .. } => "check the access key, its secret, and the region",
        _ => "this needs an S3-compatible endpoint with conditional writes",
    };
    StoreError::Refused {
        reason: format!("{doing} an object is refused: {error}"),
        hint: hint.to_owned(),
    }
}

fn no_tags() -> StoreError {
    StoreError::Refused {
        reason: "the endpoint gives no ETag".to_owned(),
        hint: "this needs an S3-compatible endpoint with conditional writes".to_owned(),
    }
}
