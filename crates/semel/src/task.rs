//! A kind of work, named once for producers and workers.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use semel_core::dedup::Unit;

use crate::policy::Dedup;

/// A kind of work with the types of its input and output. May stand in a constant that producers and
/// workers share; a policy that stands here cannot be contradicted by a producer (contract 3.1).
///
/// ```
/// use semel::{Dedup, Task, mins, secs};
///
/// const CHARGE: Task<u64, String> = Task::new("charge_customer").max_attempts(5).timeout(secs(30));
/// const SYNC: Task<u64> = Task::new("sync_user").unique_for(mins(10));
/// const REPORT: Task<String> = Task::new("report").dedup(|| Dedup::fields(["/day"]).latest());
/// assert_eq!(CHARGE.name(), "charge_customer");
/// assert!(SYNC.has_policy() && REPORT.has_policy() && !CHARGE.has_policy());
/// ```
pub struct Task<I, O = ()> {
    name: &'static str,
    settings: Settings,
    types: PhantomData<fn(I) -> O>,
}

/// What a task says about its jobs; a submission may say otherwise, but for the policy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) queue: Option<&'static str>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) max_deliveries: Option<u32>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) priority: Option<i8>,
    pub(crate) policy: TaskPolicy,
}

/// A policy in a form that a constant can have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum TaskPolicy {
    #[default]
    Unsaid,
    None,
    Unique,
    UniqueFor(Duration),
    OncePer(Unit),
    Made(fn() -> Dedup),
}

impl<I, O> Task<I, O> {
    /// A task of that name.
    pub const fn new(name: &'static str) -> Self {
        Task {
            name,
            settings: Settings {
                queue: None,
                max_attempts: None,
                max_deliveries: None,
                timeout: None,
                priority: None,
                policy: TaskPolicy::Unsaid,
            },
            types: PhantomData,
        }
    }

    /// Where its jobs wait, unless a submission says otherwise.
    #[must_use]
    pub const fn queue(mut self, queue: &'static str) -> Self {
        self.settings.queue = Some(queue);
        self
    }

    /// How many attempts may end in an error.
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.settings.max_attempts = Some(attempts);
        self
    }

    /// How many leases may expire.
    #[must_use]
    pub const fn max_deliveries(mut self, deliveries: u32) -> Self {
        self.settings.max_deliveries = Some(deliveries);
        self
    }

    /// How long one attempt may take.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// −100 to 100, larger first.
    #[must_use]
    pub const fn priority(mut self, priority: i8) -> Self {
        self.settings.priority = Some(priority);
        self
    }

    /// One job per input at a time.
    #[must_use]
    pub const fn unique(self) -> Self {
        self.policy(TaskPolicy::Unique)
    }

    /// One job per input at a time, letting another in after `ttl` if the first is still waiting.
    #[must_use]
    pub const fn unique_for(self, ttl: Duration) -> Self {
        self.policy(TaskPolicy::UniqueFor(ttl))
    }

    /// One job per input and calendar period, in UTC.
    #[must_use]
    pub const fn once_per(self, unit: Unit) -> Self {
        self.policy(TaskPolicy::OncePer(unit))
    }

    /// Any policy; a function, as a constant cannot hold the policy itself.
    #[must_use]
    pub const fn dedup(self, policy: fn() -> Dedup) -> Self {
        self.policy(TaskPolicy::Made(policy))
    }

    /// No deduplication, also on a queue that was declared unique (contract 2.15).
    #[must_use]
    pub const fn without_dedup(self) -> Self {
        self.policy(TaskPolicy::None)
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The queue it names, if it names one.
    pub const fn queue_name(&self) -> Option<&'static str> {
        self.settings.queue
    }

    /// Whether a policy stands on it.
    pub const fn has_policy(&self) -> bool {
        !matches!(self.settings.policy, TaskPolicy::Unsaid)
    }

    pub(crate) const fn settings(&self) -> Settings {
        self.settings
    }

    const fn policy(mut self, policy: TaskPolicy) -> Self {
        self.settings.policy = policy;
        self
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
