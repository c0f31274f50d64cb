//! A batch of submissions that the writer works on while the rest of it is still being prepared.

use std::sync::mpsc::{self, Receiver, Sender};

use semel_core::error::{Invalid, StoreError};
use semel_core::submission::Prepared;

use crate::fail::Fail;

/// Items handed over at a time.
pub const PART: usize = 64;

/// An item of a batch, as it reaches the writer.
pub type Item = Result<Prepared, Invalid>;

/// A batch of which a part may still be on its way.
pub struct Batch {
    size: usize,
    received: Vec<Item>,
    coming: Receiver<Vec<Item>>,
}

impl Batch {
    /// A batch of so many items, and where they are to be sent.
    pub fn of(size: usize) -> (Sender<Vec<Item>>, Self) {
        let (feed, coming) = mpsc::channel();
        let batch = Batch {
            size,
            received: Vec::with_capacity(size),
            coming,
        };
        (feed, batch)
    }

    /// How many items it has in the end.
    pub fn len(&self) -> usize {
        self.size
    }

    /// An item; waits until it has come. Fails if whoever prepares them has died.
    pub fn item(&mut self, at: usize) -> Result<&Item, Fail> {
        while self.received.len() <= at {
            let part = self.coming.recv();
            let part = part.map_err(|_| Fail::Store(StoreError::unavailable("preparing submissions")))?;
            self.received.extend(part);
        }
        Ok(&self.received[at])
    }
}
