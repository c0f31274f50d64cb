//! The calls of one worker, written to a file as they begin and end: the file outlives the worker, and says what its
//! death interrupted.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use async_trait::async_trait;
use semel::testing::{Call, Intercept};
use semel_core::error::StoreError;

/// The log a worker writes.
pub struct Calls {
    file: File,
}

/// A call under way; ends when it is dropped.
pub struct UnderWay<'a> {
    calls: &'a Calls,
    what: &'static str,
}

impl Calls {
    pub fn open(path: &str) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Calls { file: file.unwrap() }
    }

    /// Notes that something begins: one that is no call to the store.
    pub fn begin(&self, what: &'static str) -> UnderWay<'_> {
        self.note('+', what);
        UnderWay { calls: self, what }
    }

    /// One write for each line, so that none is ever half there.
    fn note(&self, sign: char, what: &str) {
        let line = format!("{sign}{what}\n");
        (&self.file).write_all(line.as_bytes()).unwrap();
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.calls.note('-', self.what);
    }
}

#[async_trait]
impl Intercept for Calls {
    async fn before(&self, call: &Call) -> Result<(), StoreError> {
        self.note('+', &format!("store: {call}"));
        Ok(())
    }

    async fn after(&self, call: &Call) -> Result<(), StoreError> {
        self.note('-', &format!("store: {call}"));
        Ok(())
    }
}

/// What had begun and not ended, by the log of a worker that stands still.
pub fn under_way(log: &Path) -> Vec<String> {
    let mut open: BTreeMap<String, i64> = BTreeMap::new();
    // A worker that has not come so far has no log.
    let text = std::fs::read_to_string(log).unwrap_or_default();
    for line in text.lines() {
        let (sign, what) = line.split_at(1);
        *open.entry(what.to_owned()).or_default() += if sign == "+" { 1 } else { -1 };
    }
    let open = open.into_iter().filter(|(_, count)| *count > 0);
    open.map(|(what, _)| what).collect()
}
