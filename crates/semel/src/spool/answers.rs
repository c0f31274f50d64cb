//! What those are told whose submissions are kept or sent.

use std::io;

use semel_core::ids::{Digest, JobId};
use semel_core::job::{Outcome, State};
use semel_core::store::{Admitted, Submitted};
use semel_core::submission::{RunAt, Submission};
use semel_core::time::Timestamp;
use semel_core::view::HolderView;

use crate::coalesce::share;
use crate::error::Error;
use crate::spool::directory::Kept;
use crate::spool::drain::Drained;

/// Why nothing could be kept, for each of those who tried together.
pub(super) type Broken = (io::ErrorKind, String);

/// What one is told whose submission was to be kept.
pub(super) fn answer(
    submission: &Submission,
    key: Option<Digest>,
    kept: Result<Kept, Broken>,
    now: Timestamp,
) -> Result<Submitted, Error> {
    match kept {
        Ok(Kept::Full(entries)) => Err(Error::SpoolFull { entries }),
        Err((kind, message)) => Err(Error::Spool {
            doing: "keeping a submission".to_owned(),
            source: io::Error::new(kind, message),
        }),
        Ok(Kept::Yes) => {
            tracing::warn!(task = %submission.task, token = %submission.token, "the store is out of reach, a submission waits in the spool");
            Ok(Submitted::Job(Box::new(spooled(submission, key, now))))
        }
    }
}

/// What a submission that waits is answered: the id it will have, unless its key is held by then.
fn spooled(submission: &Submission, key: Option<Digest>, now: Timestamp) -> Admitted {
    let state = match submission.run_at {
        RunAt::Now => State::Queued,
        RunAt::At(_) | RunAt::After(_) => State::Scheduled,
    };
    Admitted {
        outcome: Outcome::Spooled,
        job: HolderView {
            id: JobId::from(submission.token),
            task: submission.task.clone(),
            state,
            enqueued_at: now,
        },
        key,
        would: None,
        collides_with: None,
    }
}

/// The same result for each of those who shared a drain.
pub(super) fn again(drained: &Result<Drained, Error>) -> Result<Drained, Error> {
    match drained {
        Ok(drained) => Ok(*drained),
        Err(Error::StoreUnavailable { source }) => Err(Error::StoreUnavailable {
            source: share(source),
        }),
        Err(Error::Store(source)) => Err(Error::Store(share(source))),
        Err(Error::Spool { doing, source }) => Err(Error::Spool {
            doing: doing.clone(),
            source: io::Error::new(source.kind(), source.to_string()),
        }),
        Err(other) => Err(Error::Spool {
            doing: "draining it".to_owned(),
            source: io::Error::other(other.to_string()),
        }),
    }
}
