//! What can go wrong.

use semel_core::error::{Invalid, StoreError};

/// Why a payload did not cross.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bridge was asked for something that makes no sense.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The job store is in trouble.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The Redis of Resque is in trouble.
    #[error("the Redis of Resque did not answer: {0}")]
    Redis(#[from] redis::RedisError),
}
