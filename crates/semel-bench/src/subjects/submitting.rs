//! One caller that submits, one or many in a call.

use anyhow::Result;

use semel_core::job::Outcome;
use semel_core::submission::Submission;

use crate::load::{Kind, Load};
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

impl What {
    /// So many of them.
    pub(crate) fn make(self, load: &Load, size: usize) -> Result<Vec<Submission>> {
        match self {
            What::Fresh(kind) => load.batch(kind, size),
            What::Duplicates => (0..size).map(|_| load.again()).collect(),
        }
    }

    /// How each of them is answered.
    pub(crate) fn expected(self) -> Outcome {
        match self {
            What::Fresh(_) => Outcome::Accepted,
            What::Duplicates => Outcome::Duplicate,
        }
    }
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
}

impl Subject for Submitting {
    fn slice(&mut self, jobs: usize) -> Result<Slice> {
        let calls = batches(jobs, self.batch)
            .map(|size| self.what.make(&self.rig.load, size))
            .collect::<Result<Vec<_>>>()?;
        let expected = self.what.expected();
        self.rig.block_on(async {
            let watch = Stopwatch::start();
            for call in calls {
                self.rig.submit(call, expected).await?;
            }
            Ok(Slice::new(jobs, watch.elapsed()))
        })
    }
}
