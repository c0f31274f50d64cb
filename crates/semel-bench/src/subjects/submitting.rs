//! One caller that submits, one or many in a call.

use anyhow::Result;

use semel_core::job::Outcome;
use semel_core::submission::Submission;

use crate::load::Kind;
use crate::rig::{Rig, batches};
use crate::rounds::{Slice, Subject};
use crate::stopwatch::Stopwatch;

/// What is submitted.
#[derive(Clone, Copy)]
pub(crate) enum What {
    /// Jobs that are accepted.
    Fresh(Kind),
    /// Unique jobs that are there already.
    Duplicates,
}

/// One caller that submits and waits for the answer before it goes on.
pub(crate) struct Submitting {
    rig: Rig,
    what: What,
    batch: usize,
}

impl Submitting {
    /// Submits so many in a call.
    pub(crate) fn new(rig: Rig, what: What, batch: usize) -> Self {
        Submitting { rig, what, batch }
    }

    fn make(&self, size: usize) -> Result<Vec<Submission>> {
        match self.what {
            What::Fresh(kind) => self.rig.load.batch(kind, size),
            What::Duplicates => (0..size).map(|_| self.rig.load.again()).collect(),
        }
    }

    fn expected(&self) -> Outcome {
        match self.what {
            What::Fresh(_) => Outcome::Accepted,
            What::Duplicates => Outcome::Duplicate,
        }
    }
}

impl Subject for Submitting {
    fn slice(&mut self, jobs: usize) -> Result<Slice> {
        let calls = batches(jobs, self.batch)
            .map(|size| self.make(size))
            .collect::<Result<Vec<_>>>()?;
        let expected = self.expected();
        self.rig.block_on(async {
            let watch = Stopwatch::start();
            for call in calls {
                self.rig.submit(call, expected).await?;
            }
            Ok(Slice::new(jobs, watch.elapsed()))
        })
    }
}
