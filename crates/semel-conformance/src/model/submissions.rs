//! Random submissions: every kind of key, scope, hold and answer, and now and then one that makes no sense.

use std::collections::BTreeMap;

use semel_core::canonical::Pointer;
use semel_core::dedup::{
    Dedup, Hold, HoldKind, KeySource, Mode, OnDuplicate, OnMismatch, Period, ReleaseOn, Scope, Unit,
};
use semel_core::submission::{Policy, RunAt, Submission};
use semel_core::time::{Millis, Timestamp};

use super::cells::{ANSWERS, answer};
use super::words::Words;
use crate::kit::json;
use crate::rng::Rng;

/// Any submission.
pub(super) fn any(rng: &mut Rng, words: &Words, now: Timestamp) -> Submission {
    let token = rng.token(now);
    let mut submission = Submission::new(
        token,
        rng.pick(&words.tasks).clone(),
        rng.pick(&words.inputs).clone(),
    );
    submission.queue = rng.pick(&words.queues).clone();
    submission.policy = match rng.below(100) {
        0..12 => Policy::Unsaid,
        12..20 => Policy::None,
        _ => policy(rng, words).into(),
    };
    submission.run_at = run_at(rng, now);
    if debounces(&submission.policy) && !rng.once_in(20) {
        submission.run_at = RunAt::Now;
    }
    submission.max_attempts = u32::try_from(rng.between(1, 3)).expect("small");
    submission.max_deliveries = u32::try_from(rng.between(1, 3)).expect("small");
    adorn(rng, words, &mut submission);
    if rng.once_in(100) {
        spoil(rng, &mut submission);
    }
    submission
}

/// The same key again, with a fresh token and the given answer.
pub(super) fn again(
    rng: &mut Rng,
    words: &Words,
    recipe: &Submission,
    on_duplicate: OnDuplicate,
    now: Timestamp,
) -> Submission {
    let mut submission = Submission {
        token: rng.token(now),
        run_at: RunAt::Now,
        ..recipe.clone()
    };
    if let Policy::Dedup(policy) = &mut submission.policy {
        policy.on_duplicate = on_duplicate;
        policy.on_mismatch = if rng.chance(70) {
            OnMismatch::Ignore
        } else {
            OnMismatch::Conflict
        };
        policy.mode = Mode::Enforce;
        policy.hold = hold(rng);
        if on_duplicate == OnDuplicate::Latest {
            policy.hold = Hold::until_finished();
        }
        if matches!(policy.key, KeySource::Explicit(_)) && rng.chance(50) {
            submission.content.input = rng.pick(&words.inputs).clone();
        }
    }
    submission.priority = 0;
    adorn(rng, words, &mut submission);
    submission
}

fn debounces(policy: &Policy) -> bool {
    matches!(policy, Policy::Dedup(policy) if matches!(policy.on_duplicate, OnDuplicate::Debounce { .. }))
}

/// Headers, metadata, priority, timeout, producer: what travels along.
fn adorn(rng: &mut Rng, words: &Words, submission: &mut Submission) {
    if rng.chance(20) {
        submission.content.headers = BTreeMap::from([("trace".to_owned(), rng.below(3).to_string())]);
    }
    if rng.chance(20) {
        submission.content.meta = Some(json(&format!(r#"{{"m":{}}}"#, rng.below(2))));
    }
    if rng.chance(10) {
        submission.content.timeout = Some(Millis::new(rng.between(1, 60_000)));
    }
    if rng.chance(40) {
        submission.priority = i8::try_from(rng.between(-100, 100)).expect("within i8");
    }
    submission.producer = rng.chance(50).then(|| rng.pick(&words.producers).clone());
}

fn run_at(rng: &mut Rng, now: Timestamp) -> RunAt {
    match rng.below(20) {
        0..15 => RunAt::Now,
        15..17 => RunAt::After(Millis::new(rng.between(0, 20_000))),
        17 => RunAt::At(Timestamp::from_millis(now.as_millis() - rng.between(0, 5_000))),
        _ => RunAt::At(now.plus(Millis::new(rng.between(0, 5_000)))),
    }
}

/// Something the contract refuses.
fn spoil(rng: &mut Rng, submission: &mut Submission) {
    match rng.below(6) {
        0 => submission.priority = 101,
        1 => submission.max_attempts = 0,
        2 => submission.max_deliveries = 1_001,
        3 => submission.run_at = RunAt::At(Timestamp::MAX.plus(Millis::new(1))),
        4 => submission.content.meta = Some(json("[1]")),
        _ => submission.policy = Dedup::explicit(" ").into(),
    }
}

fn policy(rng: &mut Rng, words: &Words) -> Dedup {
    let mut policy = Dedup::by(source(rng, words));
    policy.scope = match rng.below(20) {
        0..10 => Scope::Task,
        10..13 => Scope::Queue,
        13..17 => Scope::Global,
        _ => Scope::Custom(rng.pick(&words.scopes).clone()),
    };
    if rng.once_in(20) {
        policy.headers = vec!["trace".to_owned()];
    }
    if rng.once_in(20) {
        policy.meta = vec!["m".to_owned()];
    }
    if rng.once_in(20) {
        policy.period = Some(Period::utc(*rng.pick(&[Unit::Minute, Unit::Hour])));
    }
    policy.hold = hold(rng);
    let word = *rng.pick(&ANSWERS);
    policy.on_duplicate = answer(rng, word);
    if policy.on_duplicate == OnDuplicate::Latest && !rng.once_in(30) {
        policy.hold = Hold::until_finished();
    }
    policy.on_mismatch = *rng.pick(&[OnMismatch::Conflict, OnMismatch::Ignore]);
    if rng.chance(8) {
        policy.mode = Mode::Observe;
    }
    policy
}

fn source(rng: &mut Rng, words: &Words) -> KeySource {
    let field = || vec![Pointer::try_from("/a").expect("a pointer")];
    match rng.below(20) {
        0..10 => KeySource::Explicit((*rng.pick(&words.keys)).to_owned()),
        10..13 => KeySource::Input,
        13..15 => KeySource::Fields(field()),
        15 => KeySource::Except(field()),
        16..19 => KeySource::Hybrid(field()),
        _ => KeySource::Generated,
    }
}

fn hold(rng: &mut Rng) -> Hold {
    let length = |rng: &mut Rng| Millis::new(rng.between(1, 60_000));
    let kind = *rng.pick(&HoldKind::ALL);
    let ttl = rng.chance(40).then(|| length(rng));
    let cool_down = rng.chance(50).then(|| length(rng));
    let release_on = ReleaseOn {
        failed: rng.chance(20),
        cancelled: rng.chance(20),
    };
    let none = ReleaseOn::default();
    match kind {
        HoldKind::UntilStarted => Hold {
            kind,
            ttl,
            cool_down: None,
            release_on: none,
        },
        HoldKind::UntilFinished => Hold {
            kind,
            ttl,
            cool_down,
            release_on: none,
        },
        HoldKind::Window => Hold {
            kind,
            ttl: Some(length(rng)),
            cool_down: None,
            release_on,
        },
        HoldKind::Forever => Hold {
            kind,
            ttl: None,
            cool_down: None,
            release_on,
        },
    }
}
