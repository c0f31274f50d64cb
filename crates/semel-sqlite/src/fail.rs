//! What SQLite says, in the words of the contract.

use rusqlite::ErrorCode;
use semel_core::error::{Invalid, StoreError};

/// Anything that stops a piece of work inside a transaction.
#[derive(Debug)]
pub enum Fail {
    /// SQLite said no.
    Sql(rusqlite::Error),
    /// The request makes no sense, or the data does not.
    Store(StoreError),
}

impl From<rusqlite::Error> for Fail {
    fn from(error: rusqlite::Error) -> Self {
        Fail::Sql(error)
    }
}

impl From<rusqlite::types::FromSqlError> for Fail {
    fn from(error: rusqlite::types::FromSqlError) -> Self {
        Fail::Sql(error.into())
    }
}

impl From<StoreError> for Fail {
    fn from(error: StoreError) -> Self {
        Fail::Store(error)
    }
}

impl From<Invalid> for Fail {
    fn from(error: Invalid) -> Self {
        Fail::Store(error.into())
    }
}

impl Fail {
    /// The error a caller gets.
    pub fn into_store(self, doing: &str) -> StoreError {
        match self {
            Fail::Store(error) => error,
            Fail::Sql(error) => translate(error, doing),
        }
    }

    /// The same for a call that was to be committed together with the one that failed.
    pub fn shared(&self, doing: &str) -> StoreError {
        match self {
            Fail::Sql(error) => match error.sqlite_error_code() {
                Some(ErrorCode::DiskFull) => StoreError::Full {
                    doing: doing.to_owned(),
                },
                Some(ErrorCode::ReadOnly) => StoreError::ReadOnly {
                    reason: format!("{error} while {doing}"),
                },
                _ => StoreError::unavailable(format!("{doing}: {error}")),
            },
            Fail::Store(error) => StoreError::unavailable(format!("{doing}: {error}")),
        }
    }

    /// Whether the same work alone, without its neighbours in the commit, could fare better.
    pub fn may_be_a_neighbours(&self) -> bool {
        match self {
            Fail::Store(_) => true,
            Fail::Sql(error) => !matches!(
                error.sqlite_error_code(),
                Some(
                    ErrorCode::DiskFull
                        | ErrorCode::ReadOnly
                        | ErrorCode::DatabaseBusy
                        | ErrorCode::SystemIoFailure
                )
            ),
        }
    }
}

/// The error a caller gets for something SQLite said.
pub fn translate(error: rusqlite::Error, doing: &str) -> StoreError {
    let code = error.sqlite_error_code();
    match code {
        Some(ErrorCode::DiskFull) => StoreError::Full {
            doing: doing.to_owned(),
        },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreError::ReadOnly {
            reason: format!("{error} while {doing}"),
        },
        Some(ErrorCode::DatabaseCorrupt) => StoreError::corrupt(format!("{error} while {doing}")),
        Some(ErrorCode::NotADatabase) => StoreError::Refused {
            reason: "the file is not a SQLite database".to_owned(),
            hint: "name another file, or move this one away".to_owned(),
        },
        Some(ErrorCode::CannotOpen) => StoreError::Refused {
            reason: format!("{error}"),
            hint: "does the directory exist, and may it be written to?".to_owned(),
        },
        None => StoreError::corrupt(format!("{error} while {doing}")),
        Some(_) => StoreError::Unavailable {
            doing: doing.to_owned(),
            source: Some(Box::new(error)),
        },
    }
}
