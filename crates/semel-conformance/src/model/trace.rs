//! The last operations, kept as they are and written out only when something went wrong.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::{self, Write as _};

use semel_core::time::Timestamp;

/// Operations remembered.
const KEPT: usize = 600;
/// Operations shown whatever they are about.
const LAST: usize = 30;
/// Characters shown of each; those that name a job in question are shown longer.
const SHORT: usize = 240;
const LONG: usize = 1_200;
/// The length of a job's id as text.
const ID: usize = 36;

/// The last operations and what the reference answered.
#[derive(Default)]
pub(super) struct Trace(VecDeque<Entry>);

struct Entry {
    transition: u64,
    at: Timestamp,
    name: &'static str,
    request: Box<dyn fmt::Debug>,
    answer: Option<Box<dyn fmt::Debug>>,
}

impl Trace {
    /// An operation begins.
    pub(super) fn begin(
        &mut self,
        transition: u64,
        at: Timestamp,
        name: &'static str,
        request: Box<dyn fmt::Debug>,
    ) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(Entry {
            transition,
            at,
            name,
            request,
            answer: None,
        });
    }

    /// The reference has answered.
    pub(super) fn answer(&mut self, answer: Box<dyn fmt::Debug>) {
        if let Some(last) = self.0.back_mut() {
            last.answer = Some(answer);
        }
    }

    /// The operations that name a job which `what` is about, and the last ones.
    pub(super) fn about(&self, what: &str) -> String {
        let ids = ids(what);
        let last = self.0.len().saturating_sub(LAST);
        let mut text = String::new();
        for (at, entry) in self.0.iter().enumerate() {
            let whole = entry.to_string();
            let about = ids.iter().any(|id| whole.contains(id));
            if about || at >= last {
                let mark = if about { '*' } else { ' ' };
                let shown = cut(&whole, if about { LONG } else { SHORT });
                writeln!(text, "{mark} {shown}").expect("a string takes anything");
            }
        }
        text
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Entry {
            transition,
            at,
            name,
            request,
            answer,
        } = self;
        write!(f, "{transition} {at:?} {name} {request:?}")?;
        answer.iter().try_for_each(|answer| write!(f, " -> {answer:?}"))
    }
}

/// Everything that looks like the id of a job.
fn ids(text: &str) -> BTreeSet<&str> {
    let is_part = |character: char| character.is_ascii_hexdigit() || character == '-';
    text.split(|character| !is_part(character))
        .filter(|word| word.len() == ID)
        .collect()
}

/// An oversized output must not drown what matters.
fn cut(text: &str, shown: usize) -> String {
    match text.char_indices().nth(shown) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}
