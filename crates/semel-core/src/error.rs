//! What can be wrong with a request, and what can go wrong with a store.

use std::error::Error as StdError;

use thiserror::Error;

/// A request that makes no sense, with what is allowed instead (contract 8.1, 2.17). Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what}{}: allowed is {allowed}{}", .found.as_ref().map(|found| format!(" ({found})")).unwrap_or_default(), .hint.as_ref().map(|hint| format!("; hint: {hint}")).unwrap_or_default())]
pub struct Invalid {
    /// Which part of the request.
    pub what: String,
    /// What was found there, where it is safe to repeat.
    pub found: Option<String>,
    /// What is allowed.
    pub allowed: String,
    /// What to try.
    pub hint: Option<String>,
}

impl Invalid {
    /// `what` is wrong; `allowed` says what would be right.
    pub fn new(what: impl Into<String>, allowed: impl Into<String>) -> Self {
        Invalid {
            what: what.into(),
            found: None,
            allowed: allowed.into(),
            hint: None,
        }
    }

    /// Adds what was found.
    #[must_use]
    pub fn found(mut self, found: impl Into<String>) -> Self {
        self.found = Some(found.into());
        self
    }

    /// Adds what to try.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Why a store could not answer. Duplicates, conflicts and lost leases are *answers*, not errors.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The request as a whole makes no sense.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The store is out of reach or busy; whether the call was applied is unknown. Send it again with the same token.
    #[error("the store is unavailable while {doing}")]
    Unavailable {
        /// What was being attempted.
        doing: String,
        /// What the store's client said.
        #[source]
        source: Option<Box<dyn StdError + Send + Sync>>,
    },
    /// There is no room left; nothing of the call was applied.
    #[error("the store is full while {doing}; hint: free some space, what was acknowledged before is safe")]
    Full {
        /// What was being attempted.
        doing: String,
    },
    /// The store cannot be written to; nothing of the call was applied.
    #[error("the store is read-only: {reason}")]
    ReadOnly {
        /// Why.
        reason: String,
    },
    /// The store refuses to start or to go on, for a reason that time does not mend (contract 9.3).
    #[error("this store cannot be used: {reason}; hint: {hint}")]
    Refused {
        /// Why.
        reason: String,
        /// What to do about it.
        hint: String,
    },
    /// The stored data contradicts itself.
    #[error("the stored data is damaged: {what}; hint: run `semel doctor`")]
    Corrupt {
        /// What was found.
        what: String,
    },
}

impl StoreError {
    /// An [`StoreError::Unavailable`] without a cause.
    pub fn unavailable(doing: impl Into<String>) -> Self {
        StoreError::Unavailable {
            doing: doing.into(),
            source: None,
        }
    }

    /// An [`StoreError::Corrupt`].
    pub fn corrupt(what: impl Into<String>) -> Self {
        StoreError::Corrupt { what: what.into() }
    }

    /// Whether the same call may succeed later. Safe to repeat with the same token (contract 3.5).
    pub fn is_retryable(&self) -> bool {
        matches!(self, StoreError::Unavailable { .. } | StoreError::Full { .. })
    }
}
