//! The policy a submission is given piece by piece, and what of it contradicts itself (contract 2.17).

use std::time::Duration;

use semel_core::dedup::{Hold, Period, Scope};
use semel_core::error::Invalid;
use semel_core::submission::Policy;
use semel_core::time::Millis;

use crate::policy::Dedup;
use crate::task::TaskPolicy;

/// What was said about deduplication so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    source: Option<Source>,
    shape: Option<Shape>,
    ttl: Option<Duration>,
    scope: Option<Scope>,
}

/// What the key is made from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// An idempotency key, which is a policy by itself.
    Idempotency(String),
    /// Any other source; the shape says the rest.
    By(Dedup),
}

/// How long the key is kept and what a duplicate gets.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Unique,
    UniqueFor(Duration),
    OncePer(Period),
    Exclusive(String),
    Latest,
    Debounce(Duration, Option<Duration>),
    Whole(Dedup),
    Without,
}

impl Shape {
    fn word(&self) -> &'static str {
        match self {
            Shape::Unique => "unique",
            Shape::UniqueFor(_) => "unique_for",
            Shape::OncePer(_) => "once_per",
            Shape::Exclusive(_) => "exclusive",
            Shape::Latest => "latest",
            Shape::Debounce(..) => "debounce",
            Shape::Whole(_) => "dedup",
            Shape::Without => "without_dedup",
        }
    }

    /// Whether it says itself what the key is made from.
    fn has_source(&self) -> bool {
        matches!(self, Shape::Exclusive(_) | Shape::Whole(_) | Shape::Without)
    }
}

impl Wish {
    pub(crate) fn source(&mut self, source: Source) -> Result<(), Invalid> {
        if self.source.is_some() {
            return Err(two_policies("two keys"));
        }
        self.source = Some(source);
        Ok(())
    }

    pub(crate) fn shape(&mut self, shape: Shape) -> Result<(), Invalid> {
        if let Some(before) = &self.shape {
            return Err(two_policies(&format!("{} and {}", before.word(), shape.word())));
        }
        self.shape = Some(shape);
        Ok(())
    }

    pub(crate) fn ttl(&mut self, ttl: Duration) {
        self.ttl = Some(ttl);
    }

    pub(crate) fn scope(&mut self, scope: Scope) {
        self.scope = Some(scope);
    }

    /// The policy, given what stands on the task.
    pub(crate) fn policy(self, task: &str, standing: TaskPolicy) -> Result<Policy, Invalid> {
        if self.says_nothing() {
            return standing_policy(standing);
        }
        if !matches!(standing, TaskPolicy::Unsaid) {
            return Err(Invalid::new(
                format!("a policy beside the one of task {task}"),
                "no policy: the one that stands on the task holds for all its producers",
            ));
        }
        self.check()?;
        let policy = match self.shape {
            Some(Shape::Without) => return Ok(Policy::None),
            Some(Shape::Whole(policy)) => policy,
            Some(Shape::Exclusive(text)) => semel_core::dedup::Dedup::exclusive(text).into(),
            Some(shape) => shaped(base(self.source), shape),
            None => match self.source {
                Some(Source::Idempotency(text)) => {
                    let ttl = self.ttl.map_or(Hold::DEFAULT_WINDOW, Millis::from);
                    Dedup::explicit(text).hold(Hold::window(ttl))
                }
                source => base(source),
            },
        };
        let policy = match self.scope {
            Some(scope) => policy.scope(scope),
            None => policy,
        };
        Ok(policy.build()?.into())
    }

    /// A policy that came as a whole, if nothing was said beside it.
    pub(crate) fn beside(&self, given: Policy) -> Result<Policy, Invalid> {
        if self.says_nothing() {
            return Ok(given);
        }
        Err(two_policies("one beside that of the request"))
    }

    fn says_nothing(&self) -> bool {
        self.source.is_none() && self.shape.is_none() && self.ttl.is_none() && self.scope.is_none()
    }

    fn check(&self) -> Result<(), Invalid> {
        let keyed = matches!(self.source, Some(Source::Idempotency(_)));
        let shape = self.shape.as_ref();
        if self.ttl.is_some() && !(keyed && shape.is_none()) {
            return Err(Invalid::new(
                "idempotency_ttl",
                "only beside idempotency_key, with no other policy",
            )
            .hint("a policy of another kind says its own: unique_for(ttl), or dedup(…)"));
        }
        if self.scope.is_some() && self.source.is_none() {
            return Err(Invalid::new("idempotency_scope", "only beside a key")
                .hint("dedup(Dedup::input().scope(…)) sets the scope of any policy"));
        }
        match shape {
            Some(shape) if self.source.is_some() && shape.has_source() => {
                Err(two_policies(&format!("a key and {}", shape.word())))
            }
            Some(shape @ (Shape::Unique | Shape::UniqueFor(_) | Shape::OncePer(_))) if keyed => {
                Err(two_policies(&format!("idempotency_key and {}", shape.word())))
            }
            _ => Ok(()),
        }
    }
}

fn standing_policy(standing: TaskPolicy) -> Result<Policy, Invalid> {
    let policy = match standing {
        TaskPolicy::Unsaid => return Ok(Policy::Unsaid),
        TaskPolicy::None => return Ok(Policy::None),
        TaskPolicy::Unique => Dedup::input(),
        TaskPolicy::UniqueFor(ttl) => shaped(Dedup::input(), Shape::UniqueFor(ttl)),
        TaskPolicy::OncePer(unit) => Dedup::input().once_per(Period::utc(unit)),
        TaskPolicy::Made(make) => make(),
    };
    Ok(policy.build()?.into())
}

fn base(source: Option<Source>) -> Dedup {
    match source {
        None => Dedup::input(),
        Some(Source::Idempotency(text)) => Dedup::explicit(text),
        Some(Source::By(policy)) => policy,
    }
}

fn shaped(base: Dedup, shape: Shape) -> Dedup {
    match shape {
        Shape::UniqueFor(ttl) => base.hold(Hold::until_finished().ttl(ttl.into())),
        Shape::OncePer(period) => base.once_per(period),
        Shape::Latest => base.latest(),
        Shape::Debounce(delay, max_wait) => base.debounce(delay, max_wait),
        Shape::Unique | Shape::Exclusive(_) | Shape::Whole(_) | Shape::Without => base,
    }
}

fn two_policies(which: &str) -> Invalid {
    Invalid::new(format!("two policies at once ({which})"), "one policy").hint(
        "a key of another kind, with a shape, is said by by_key, by_fields, by_input_except or by_hybrid",
    )
}
