//! A kind of work, named once for producers and workers.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// A kind of work with the types of its input and output. May stand in a constant.
pub struct Task<I, O = ()> {
    name: &'static str,
    queue: Option<&'static str>,
    max_attempts: Option<u32>,
    timeout: Option<Duration>,
    types: PhantomData<fn(I) -> O>,
}

impl<I, O> Task<I, O> {
    /// A task of that name.
    pub const fn new(name: &'static str) -> Self {
        Task {
            name,
            queue: None,
            max_attempts: None,
            timeout: None,
            types: PhantomData,
        }
    }

    /// Where its jobs wait, unless a submission says otherwise.
    #[must_use]
    pub const fn queue(mut self, queue: &'static str) -> Self {
        self.queue = Some(queue);
        self
    }

    /// How many attempts may end in an error.
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// How long one attempt may take.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<I, O> Clone for Task<I, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, O> Copy for Task<I, O> {}

impl<I, O> fmt::Debug for Task<I, O> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Task").field(&self.name).finish()
    }
}
