//! What the load writes down: a line before each call, a line after it.
//!
//! `> 17 settle <id> <fence> complete` and later `< 17 ok complete`. The file is opened for appending and each
//! line is one write, so a kill loses at most what was not yet written, and lines of several tasks do not mix.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The log of one load.
pub(super) struct Log {
    file: File,
    next: AtomicU64,
}

impl Log {
    pub(super) fn open(path: &Path) -> Self {
        let file = File::options()
            .create(true)
            .append(true)
            .open(path)
            .expect("the log can be written");
        Log {
            file,
            next: AtomicU64::new(0),
        }
    }

    /// Before the call.
    pub(super) fn intend(&self, request: &str) -> u64 {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        self.line(&format!("> {n} {request}\n"));
        n
    }

    /// After the call.
    pub(super) fn answer(&self, n: u64, answer: &str) {
        self.line(&format!("< {n} {answer}\n"));
    }

    fn line(&self, line: &str) {
        (&self.file)
            .write_all(line.as_bytes())
            .expect("the log can be written");
    }
}

/// A call as the log tells it.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The words of the request, the verb first.
    pub(super) request: Vec<String>,
    /// The words of the answer; `None`: unknown.
    pub(super) answer: Option<Vec<String>>,
    /// Whether the answer came only when the call was made once more.
    pub(super) repeated: bool,
}

impl Call {
    pub(super) fn verb(&self) -> &str {
        &self.request[0]
    }

    /// A word of the request.
    pub(super) fn asked(&self, at: usize) -> &str {
        self.request
            .get(at)
            .map_or_else(|| panic!("{self:?} has no word {at}"), String::as_str)
    }

    /// A word of the answer, empty where there is none.
    pub(super) fn said(&self, at: usize) -> &str {
        self.answer
            .as_ref()
            .and_then(|words| words.get(at))
            .map_or("", String::as_str)
    }
}

/// Whether the load has been answered a few times.
pub(super) fn has_answers(path: &Path) -> bool {
    std::fs::read_to_string(path)
        .is_ok_and(|text| text.lines().filter(|line| line.starts_with('<')).count() >= 6)
}

/// The calls of a log in the order they began. A last line without its end was not written.
pub(super) fn read(path: &Path) -> Vec<Call> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut calls: Vec<Call> = Vec::new();
    let mut place = std::collections::BTreeMap::new();
    for line in whole.lines() {
        // An answer may have no words at all: a claim that got nothing.
        let mut words = line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned);
        let kind = words.next().unwrap_or_default();
        let n = words
            .next()
            .and_then(|n| n.parse::<u64>().ok())
            .unwrap_or_else(|| panic!("a line of a log: {line:?}"));
        if kind == ">" {
            place.insert(n, calls.len());
            calls.push(Call {
                request: words.collect(),
                answer: None,
                repeated: false,
            });
        } else {
            calls[place[&n]].answer = Some(words.collect());
        }
    }
    calls
}
