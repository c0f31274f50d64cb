//! The handle on a running recording.

use std::fmt;

use crate::log::Log;
use crate::state::Shared;

/// A running recording of one directory, from [`Vfs::record`](crate::Vfs::record).
///
/// It can be shared between threads. Dropping it ends the recording and discards the log.
pub struct Recorder {
    shared: &'static Shared,
    id: u64,
}

impl Recorder {
    pub(crate) fn new(shared: &'static Shared, id: u64) -> Self {
        Self { shared, id }
    }

    /// Appends a mark, in order with the file events.
    ///
    /// A mark set after an operation has returned comes after every write and sync that the
    /// operation made, so a cut behind the mark must not lose the operation.
    pub fn mark(&self, n: u64) {
        self.shared.tapes().mark(self.id, n);
    }

    /// The number of events so far, marks included.
    pub fn len(&self) -> usize {
        self.shared.tapes().len(self.id)
    }

    /// Whether nothing has been recorded yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the recording and hands over the log; a second call finds an empty one.
    pub fn stop(&self) -> Log {
        self.shared.stop(self.id)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
