//! What went wrong, as a sentence, a hint and an exit code.

use std::fmt;

use semel::Error;
use semel_core::error::{Invalid, StoreError};
use serde_json::{Map, Value};

use crate::exit::Exit;
use crate::screen::operand;

/// Why a command did not do what was asked.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The exit code.
    pub exit: Exit,
    /// A stable word for machines, the same that HTTP answers carry.
    pub code: &'static str,
    /// What was tried and what is allowed.
    pub message: String,
    /// What to try instead.
    pub hint: Option<String>,
    /// More for machines: `holder`, `state`, `differs`.
    pub details: Map<String, Value>,
}

impl Problem {
    /// A problem without hint and details.
    pub fn new(exit: Exit, code: &'static str, message: impl Into<String>) -> Self {
        Problem {
            exit,
            code,
            message: message.into(),
            hint: None,
            details: Map::new(),
        }
    }

    /// The request makes no sense.
    pub fn usage(message: impl Into<String>) -> Self {
        Problem::new(Exit::Usage, "invalid", message)
    }

    /// There is no such thing.
    pub fn not_found(message: impl Into<String>) -> Self {
        Problem::new(Exit::NotFound, "not_found", message)
    }

    /// Adds what to try.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a detail for machines.
    #[must_use]
    pub fn detail(mut self, name: &str, value: impl serde::Serialize) -> Self {
        if let Ok(value) = serde_json::to_value(value) {
            self.details.insert(name.to_owned(), value);
        }
        self
    }
}

impl From<Invalid> for Problem {
    fn from(error: Invalid) -> Self {
        let hint = error.hint.clone();
        let message = Invalid { hint: None, ..error }.to_string();
        Problem {
            hint,
            ..Problem::usage(message)
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        if let StoreError::Invalid(invalid) = error {
            return invalid.into();
        }
        let mut told = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(deeper) = cause {
            told.push_str(": ");
            told.push_str(&deeper.to_string());
            cause = deeper.source();
        }
        let (message, hint) = split_hint(&told);
        Problem {
            hint,
            ..Problem::new(Exit::Unavailable, "store_unavailable", message)
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (exit, code) = match error {
            Error::Invalid(invalid) => return invalid.into(),
            Error::Store(error) => return error.into(),
            Error::StoreUnavailable { source } => return source.into(),
            Error::Duplicate { .. } => (Exit::Rejected, "duplicate_rejected"),
            Error::IdempotencyConflict { .. } => (Exit::Conflict, "idempotency_conflict"),
            Error::Closed { .. } => (Exit::Unavailable, "closed"),
            Error::NotFound { .. } => (Exit::NotFound, "not_found"),
            Error::NoSubscribers { .. } => (Exit::NotFound, "no_subscribers"),
            Error::WrongState { state, .. } if state.is_terminal() => (Exit::Other, "terminal"),
            Error::WrongState { .. } => (Exit::Other, "not_terminal"),
            Error::Replayed { .. } => (Exit::Other, "replayed"),
            Error::NotInDoubt { .. } => (Exit::Other, "not_in_doubt"),
            Error::JobFailed { .. } => (Exit::JobFailed, "job_failed"),
            Error::JobCancelled { .. } => (Exit::JobFailed, "job_cancelled"),
            Error::WaitTimeout { .. } => (Exit::WaitTimeout, "wait_timeout"),
            _ => (Exit::Other, "other"),
        };
        let (mut message, hint) = split_hint(&error.to_string());
        if let Error::IdempotencyConflict { holder, differs } = &error {
            message = format!(
                "the key was used for something else: job {} of task {}",
                holder.id, holder.task
            );
            if !differs.is_empty() {
                message.push_str(&format!(
                    "; the inputs differ at {}",
                    crate::wording::differs(differs)
                ));
            }
        }
        let mut problem = Problem {
            hint,
            ..Problem::new(exit, code, message)
        };
        if let Some(holder) = error.holder() {
            problem = problem.detail("holder", crate::wire::Holder::from(holder));
            problem
                .hint
                .get_or_insert(format!("semel jobs show {}", operand(holder.id.as_str())));
        }
        match &error {
            Error::IdempotencyConflict { differs, .. } => problem.detail("differs", differs),
            Error::WrongState { state, .. } => problem.detail("state", state),
            _ => problem,
        }
    }
}

impl From<anyhow::Error> for Problem {
    fn from(error: anyhow::Error) -> Self {
        let told = format!("{error:#}");
        let (message, hint) = split_hint(&told);
        Problem {
            hint,
            ..Problem::new(Exit::Other, "other", message)
        }
    }
}

/// A word on the command line or in the configuration that is not understood. Whoever read it says which it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    allowed: String,
    hint: Option<String>,
}

impl Refused {
    /// What is allowed instead.
    pub fn new(allowed: impl Into<String>) -> Self {
        Refused {
            allowed: allowed.into(),
            hint: None,
        }
    }

    /// Adds what to try.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<Invalid> for Refused {
    fn from(error: Invalid) -> Self {
        Refused {
            allowed: format!("allowed is {}", error.allowed),
            hint: error.hint,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.allowed)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Refused {}

/// Errors of libraries carry their hint at the end of the sentence; here it has a line of its own.
fn split_hint(told: &str) -> (String, Option<String>) {
    match told.split_once("; hint: ") {
        Some((message, hint)) => (message.to_owned(), Some(hint.to_owned())),
        None => (told.to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_of_an_error_stands_apart_from_its_sentence() {
        let problem = Problem::from(Invalid::new("lease", "1 second to 1 hour").hint("use 30s"));
        assert_eq!(problem.message, "lease: allowed is 1 second to 1 hour");
        assert_eq!(problem.hint.as_deref(), Some("use 30s"));
        assert_eq!(problem.exit, Exit::Usage);

        let refused = StoreError::Refused {
            reason: "there is no store at x.db".to_owned(),
            hint: "name another file".to_owned(),
        };
        let problem = Problem::from(refused);
        assert_eq!(
            problem.message,
            "this store cannot be used: there is no store at x.db"
        );
        assert_eq!(problem.hint.as_deref(), Some("name another file"));
        assert_eq!(problem.exit, Exit::Unavailable);
    }
}
