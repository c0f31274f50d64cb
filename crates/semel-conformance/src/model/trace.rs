//! The last operations, kept as they are and written out only when something went wrong.

use std::collections::VecDeque;
use std::fmt;

use semel_core::time::Timestamp;

const KEPT: usize = 30;
const SHOWN: usize = 1_500;

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
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Entry {
            transition,
            at,
            name,
            request,
            answer,
        } in &self.0
        {
            let request = cut(format!("{request:?}"));
            writeln!(f, "  {transition} {at:?} {name} {request}")?;
            if let Some(answer) = answer {
                writeln!(f, "      -> {}", cut(format!("{answer:?}")))?;
            }
        }
        Ok(())
    }
}

/// An oversized output must not drown what matters.
fn cut(text: String) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}
