//! What can go wrong for a caller, by meaning.

use semel_core::error::{Invalid, StoreError};
use thiserror::Error as ThisError;

/// Why a call did not give what was asked for.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The request makes no sense; nothing was written.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The store could not answer.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid(invalid) => Error::Invalid(invalid),
            other => Error::Store(other),
        }
    }
}
