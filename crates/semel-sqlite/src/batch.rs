//! A batch of submissions that is prepared and admitted at the same time.
//!
//! Deriving keys costs about as much as admitting. The caller prepares part after part; the writer admits what is
//! ready, and where nothing is, it prepares a part itself instead of waiting.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::vec::IntoIter;

use semel_core::error::{Invalid, StoreError};
use semel_core::ids::Name;
use semel_core::submission::{Prepared, Submission};
use semel_core::time::Timestamp;

use crate::fail::Fail;

/// Items that are prepared on the spot: the talk between caller and writer is not worth it.
pub const FEW: usize = 32;
/// Items prepared at a time: few, or the writer prepares a good part of a batch before the caller has made anything ready.
const PART: usize = 8;

/// An item of a batch, as the writer gets it.
pub type Item = Result<Prepared, Invalid>;

/// The writer's side of a batch of which a part may not be prepared yet.
pub struct Batch {
    size: usize,
    /// Items of a part; only the last is shorter.
    part: usize,
    /// The parts that are here, the first ones.
    received: Vec<Vec<Item>>,
    /// Where the rest is prepared; none if there is no rest.
    desk: Option<Arc<Desk>>,
}

impl Batch {
    /// A batch that is prepared on the spot.
    pub fn at_once(namespace: &Name, now: Timestamp, batch: Vec<Submission>) -> Self {
        let prepare = |submission| Prepared::new(namespace, submission, now);
        let items: Vec<Item> = batch.into_iter().map(prepare).collect();
        Batch {
            size: items.len(),
            part: items.len().max(1),
            received: vec![items],
            desk: None,
        }
    }

    /// A batch, and the side that prepares it.
    pub fn of(namespace: Name, now: Timestamp, batch: Vec<Submission>) -> (Preparing, Self) {
        let size = batch.len();
        let state = State {
            parts: std::iter::repeat_with(|| None)
                .take(size.div_ceil(PART))
                .collect(),
            rest: batch.into_iter(),
            begun: 0,
            given_up: false,
            awaited: false,
        };
        let desk = Arc::new(Desk {
            namespace,
            now,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let batch = Batch {
            size,
            part: PART,
            received: Vec::with_capacity(size.div_ceil(PART)),
            desk: Some(Arc::clone(&desk)),
        };
        (Preparing { desk }, batch)
    }

    /// How many items it has.
    pub fn len(&self) -> usize {
        self.size
    }

    /// An item, prepared. Fails if whoever prepares it has died.
    pub fn item(&mut self, at: usize) -> Result<&Item, Fail> {
        let number = at / self.part;
        while self.received.len() <= number {
            let desk = self.desk.as_ref();
            let part = desk.and_then(|desk| desk.part(self.received.len()));
            let part = part.ok_or_else(|| Fail::Store(StoreError::unavailable("preparing submissions")))?;
            self.received.push(part);
        }
        Ok(&self.received[number][at % self.part])
    }
}

/// The caller's side: prepares until nothing is left. If it goes away in the middle, the writer is told.
pub struct Preparing {
    desk: Arc<Desk>,
}

impl Preparing {
    /// Prepares all that the writer has not taken.
    pub fn run(self) {
        while let Some((number, part)) = self.desk.take() {
            self.desk.prepare(number, part);
        }
    }
}

impl Drop for Preparing {
    fn drop(&mut self) {
        self.desk.state().given_up = true;
        self.desk.changed.notify_all();
    }
}

/// What both sides work on.
struct Desk {
    namespace: Name,
    now: Timestamp,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// What nobody has begun.
    rest: IntoIter<Submission>,
    /// Parts that somebody has begun.
    begun: usize,
    /// Parts that are prepared and not taken by the writer.
    parts: Vec<Option<Vec<Item>>>,
    /// The caller prepares no more: it is through, or it died.
    given_up: bool,
    /// The writer sleeps until a part is prepared.
    awaited: bool,
}

impl State {
    fn take(&mut self) -> Option<(usize, Vec<Submission>)> {
        let part: Vec<Submission> = self.rest.by_ref().take(PART).collect();
        let number = self.begun;
        self.begun += usize::from(!part.is_empty());
        (!part.is_empty()).then_some((number, part))
    }
}

impl Desk {
    /// The state: whoever panicked while holding it did so between whole changes.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<(usize, Vec<Submission>)> {
        self.state().take()
    }

    fn prepare(&self, number: usize, part: Vec<Submission>) {
        let prepare = |submission| Prepared::new(&self.namespace, submission, self.now);
        let prepared = part.into_iter().map(prepare).collect();
        let mut state = self.state();
        state.parts[number] = Some(prepared);
        if state.awaited {
            self.changed.notify_all();
        }
    }

    /// A part, prepared by whoever comes first; none if it was begun and will not be finished.
    fn part(&self, number: usize) -> Option<Vec<Item>> {
        loop {
            let mut state = self.state();
            if let Some(part) = state.parts[number].take() {
                return Some(part);
            }
            if let Some((number, part)) = state.take() {
                drop(state);
                self.prepare(number, part);
            } else if state.given_up {
                return None;
            } else {
                state.awaited = true;
                let mut state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.awaited = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::ids::Token;
    use semel_core::json::Json;

    const SIZE: usize = 5 * PART + 7;

    fn batch() -> (Preparing, Batch) {
        let submission = |n: usize| {
            let token = Token::from_parts(1, &[n as u8; 10]);
            let task = Name::new("t").expect("a name");
            Submission::new(token, task, Json::new(n.to_string()).expect("JSON"))
        };
        let submissions = (0..SIZE).map(submission).collect();
        let namespace = Name::new("n").expect("a name");
        Batch::of(namespace, Timestamp::from_millis(1), submissions)
    }

    fn inputs(batch: &mut Batch) -> Vec<String> {
        let input = |at| {
            let item = batch.item(at).expect("prepared").as_ref().expect("valid");
            item.submission.content.input.as_str().to_owned()
        };
        (0..SIZE).map(input).collect()
    }

    fn in_order() -> Vec<String> {
        (0..SIZE).map(|n| n.to_string()).collect()
    }

    #[test]
    fn items_keep_their_order_whoever_prepares_them() {
        let (preparing, mut alone) = batch();
        assert_eq!(inputs(&mut alone), in_order(), "the writer alone");
        preparing.run();
        let (preparing, mut ready) = batch();
        preparing.run();
        assert_eq!(inputs(&mut ready), in_order(), "the caller alone");
        for _ in 0..200 {
            let (preparing, mut both) = batch();
            let caller = std::thread::spawn(move || preparing.run());
            assert_eq!(inputs(&mut both), in_order(), "both");
            caller.join().expect("the caller is through");
        }
    }

    #[test]
    fn the_writer_finishes_what_a_caller_has_not_begun_and_is_told_of_what_it_left() {
        let (preparing, mut abandoned) = batch();
        drop(preparing);
        assert_eq!(inputs(&mut abandoned), in_order());
        let (preparing, mut broken) = batch();
        assert!(preparing.desk.take().is_some(), "begun");
        drop(preparing);
        assert!(broken.item(0).is_err(), "a part was begun and not finished");
    }

    #[test]
    fn items_can_be_read_again() {
        let (preparing, mut batch) = batch();
        preparing.run();
        assert_eq!(inputs(&mut batch), inputs(&mut batch));
    }
}
