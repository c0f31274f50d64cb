//! What the process says with its last word.

use std::process::ExitCode;

/// The exit codes of `semel`. People script against them: a number never changes its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done; also where an existing duplicate was the answer.
    Done = 0,
    /// Anything that has no number of its own.
    Other = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// The key is held, and the submission wanted to be told so.
    Rejected = 3,
    /// The key means something else.
    Conflict = 4,
    /// No such job, key, queue, schedule.
    NotFound = 5,
    /// The store cannot be used, now or at all.
    Unavailable = 6,
    /// The job that was waited for did not complete.
    JobFailed = 7,
    /// The job that was waited for has not ended yet.
    WaitTimeout = 8,
    /// Somebody has to allow it first.
    NotPermitted = 9,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}
