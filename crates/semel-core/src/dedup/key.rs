//! How a key is derived: everything that goes into it, typed and length-prefixed, through SHA-256 (contract 2.1–2.3).
//!
//! The material of a key is a list of parts. Each part is written as one byte for its type, its length
//! as eight bytes, big-endian, and its bytes; so `("ab","c")` never equals `("a","bc")` and namespace,
//! scope and key never run into each other. The first part is a version tag. Anyone can recompute a
//! digest in any language from this page.

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};

use serde::{Deserialize, Serialize};

use crate::canonical::{self, Limits, Pointer, Value};
use crate::dedup::{Dedup, KeySource, Scope};
use crate::error::Invalid;
use crate::ids::{Digest, Name};
use crate::submission::Submission;
use crate::time::Timestamp;

/// The longest explicit key, in bytes.
pub const MAX_TEXT_BYTES: usize = 255;

const VERSION: &str = "semel/1";

/// What kind of key it is: decides whether another input can be a mismatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyBy {
    /// A text of the producer's.
    Explicit,
    /// The whole input.
    Input,
    /// Some of the input.
    Fields,
    /// The input without some.
    Except,
    /// Fields and input.
    Hybrid,
    /// Fresh for each submission.
    Generated,
}

impl KeyBy {
    /// The word for this kind of key.
    pub fn word(self) -> &'static str {
        match self {
            KeyBy::Explicit => "explicit",
            KeyBy::Input => "input",
            KeyBy::Fields => "fields",
            KeyBy::Except => "except",
            KeyBy::Hybrid => "hybrid",
            KeyBy::Generated => "generated",
        }
    }
}

/// A derived key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The identity itself.
    pub digest: Digest,
    /// For hybrid keys: the digest of the fields alone, by which collisions are found.
    pub group: Option<Digest>,
    /// The text a person recognises it by, where there is one.
    pub text: Option<Box<str>>,
    /// Tells inputs under one key apart: the canonical input, hashed, or the key itself where it is made from all of it.
    pub input: Digest,
    /// What it was made from.
    pub by: KeyBy,
    /// The scope, for people: `task`, `queue`, `global` or `custom:<name>`.
    pub scope: Cow<'static, str>,
}

/// Checks an explicit key and gives it trimmed.
pub fn check_text(text: &str) -> Result<&str, Invalid> {
    let trimmed = text.trim();
    if trimmed.is_empty() || trimmed.len() > MAX_TEXT_BYTES || trimmed.chars().any(char::is_control) {
        return Err(Invalid::new(
            "idempotency key",
            "1 to 255 bytes after trimming, without control characters",
        )
        .found(format!("{} bytes", trimmed.len())));
    }
    Ok(trimmed)
}

/// Derives the key of a submission under a policy. `now` is the store's time, used only for periods.
pub fn derive(
    namespace: &Name,
    submission: &Submission,
    policy: &Dedup,
    now: Timestamp,
) -> Result<Key, Invalid> {
    let mut material = Material::new(namespace, policy, submission);
    material.named(submission, policy)?;
    if let Some(period) = &policy.period {
        material.text(Part::Period, &period.bucket(submission.run_at.resolve(now))?);
    }
    let (by, group, text) = material.source(submission, policy)?;
    let digest = material.digest();
    // A key made from the whole input tells inputs apart by itself: no second hash is needed.
    let input = match by {
        KeyBy::Input | KeyBy::Hybrid => digest,
        _ => input_digest(submission)?,
    };
    Ok(Key {
        digest,
        group,
        text,
        input,
        by,
        scope: match &policy.scope {
            Scope::Custom(name) => format!("custom:{name}").into(),
            other => other.word().into(),
        },
    })
}

/// The digest under which a guard's key is kept (contract 5.3): the key of no job can equal it.
pub fn guard_digest(namespace: &Name, key: &str) -> Result<Digest, Invalid> {
    let mut material = Material::of(namespace);
    material.text(Part::Guard, check_text(key)?);
    Ok(material.digest())
}

/// The key a step hands downstream: from origin, step and generation, never from the attempt (contract 5.2).
pub fn downstream(namespace: &Name, origin: &str, step: &Name, generation: u32) -> Digest {
    let mut material = Material::of(namespace);
    material.text(Part::Origin, origin);
    material.text(Part::Step, step.as_str());
    material.bytes(Part::Step, &generation.to_be_bytes());
    material.digest()
}

/// The type of a part: its number is part of the format and never changes.
#[derive(Clone, Copy)]
enum Part {
    Version = 0,
    Namespace = 1,
    ScopeTask = 2,
    ScopeQueue = 3,
    ScopeGlobal = 4,
    ScopeCustom = 5,
    Header = 6,
    Meta = 7,
    Period = 8,
    Explicit = 9,
    Task = 10,
    Input = 11,
    Pointer = 12,
    Absent = 13,
    Except = 14,
    HybridInput = 15,
    Generated = 16,
    Guard = 17,
    Origin = 18,
    Step = 19,
}

/// The digest of a submission's canonical input.
fn input_digest(submission: &Submission) -> Result<Digest, Invalid> {
    let input = submission.content.input.as_str();
    let mut canonical = Vec::with_capacity(input.len());
    canonical::rewrite(input, Limits::default(), &mut canonical)?;
    Ok(Digest::from_bytes(Sha256::digest(&canonical).into()))
}

/// A byte for the type of a part, eight for its length.
const HEAD: usize = 9;

/// The parts of a key, one after another, hashed in one go.
struct Material(Vec<u8>);

impl Material {
    fn of(namespace: &Name) -> Self {
        let mut material = Material(Vec::with_capacity(512));
        material.text(Part::Version, VERSION);
        material.text(Part::Namespace, namespace.as_str());
        material
    }

    fn new(namespace: &Name, policy: &Dedup, submission: &Submission) -> Self {
        let mut material = Material::of(namespace);
        match &policy.scope {
            Scope::Task => material.text(Part::ScopeTask, submission.task.as_str()),
            Scope::Queue => material.text(Part::ScopeQueue, submission.queue.as_str()),
            Scope::Global => material.text(Part::ScopeGlobal, ""),
            Scope::Custom(name) => material.text(Part::ScopeCustom, name.as_str()),
        }
        material
    }

    fn text(&mut self, kind: Part, text: &str) {
        self.bytes(kind, text.as_bytes());
    }

    fn bytes(&mut self, kind: Part, bytes: &[u8]) {
        let Ok(()) = self.written(kind, |out| {
            out.extend_from_slice(bytes);
            Ok::<(), std::convert::Infallible>(())
        });
    }

    /// A part that is written in place: its length is known afterwards.
    fn written<E>(&mut self, kind: Part, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        let head = self.0.len();
        self.0.extend_from_slice(&[kind as u8, 0, 0, 0, 0, 0, 0, 0, 0]);
        write(&mut self.0)?;
        let length = (self.0.len() - head - HEAD) as u64;
        self.0[head + 1..head + HEAD].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    /// The whole input, in canonical form.
    fn input(&mut self, kind: Part, submission: &Submission) -> Result<(), Invalid> {
        let input = submission.content.input.as_str();
        Ok(self.written(kind, |out| canonical::rewrite(input, Limits::default(), out))?)
    }

    /// Headers and metadata enter only where the policy names them (contract 2.1).
    fn named(&mut self, submission: &Submission, policy: &Dedup) -> Result<(), Invalid> {
        for name in sorted(&policy.headers) {
            self.text(Part::Header, name);
            match submission.content.headers.get(name) {
                Some(value) => self.text(Part::Input, value),
                None => self.text(Part::Absent, ""),
            }
        }
        if policy.meta.is_empty() {
            return Ok(());
        }
        let text = submission
            .content
            .meta
            .as_ref()
            .map_or("{}", |meta| meta.as_str());
        let meta = canonical::parse(text, Limits::default())?;
        for name in sorted(&policy.meta) {
            self.text(Part::Meta, name);
            let member =
                Pointer::try_from(format!("/{}", name.replace('~', "~0").replace('/', "~1")).as_str())?;
            self.value(meta.at(&member));
        }
        Ok(())
    }

    fn value(&mut self, value: Option<&Value<'_>>) {
        match value {
            Some(value) => {
                let Ok(()) = self.written(Part::Input, |out| {
                    value.write(out);
                    Ok::<(), std::convert::Infallible>(())
                });
            }
            None => self.text(Part::Absent, ""),
        }
    }

    fn fields(&mut self, input: &Value<'_>, pointers: &[Pointer]) -> Result<(), Invalid> {
        named_somewhere(input, pointers)?;
        for pointer in pointers {
            self.text(Part::Pointer, &pointer.to_string());
            self.value(input.at(pointer));
        }
        Ok(())
    }

    #[expect(
        clippy::type_complexity,
        reason = "read once, two lines below its only caller's use"
    )]
    fn source(
        &mut self,
        submission: &Submission,
        policy: &Dedup,
    ) -> Result<(KeyBy, Option<Digest>, Option<Box<str>>), Invalid> {
        let parsed = || canonical::parse(submission.content.input.as_str(), Limits::default());
        match &policy.key {
            KeySource::Explicit(text) => {
                let text = check_text(text)?;
                self.text(Part::Explicit, text);
                Ok((KeyBy::Explicit, None, Some(text.into())))
            }
            KeySource::Input => {
                self.text(Part::Task, submission.task.as_str());
                self.input(Part::Input, submission)?;
                Ok((KeyBy::Input, None, None))
            }
            KeySource::Fields(pointers) => {
                self.fields(&parsed()?, pointers)?;
                Ok((KeyBy::Fields, None, None))
            }
            KeySource::Except(pointers) => {
                let input = parsed()?;
                named_somewhere(&input, pointers)?;
                self.text(Part::Except, "");
                self.value(Some(&input.without(pointers)));
                Ok((KeyBy::Except, None, None))
            }
            KeySource::Hybrid(pointers) => {
                self.fields(&parsed()?, pointers)?;
                let group = self.digest();
                self.input(Part::HybridInput, submission)?;
                Ok((KeyBy::Hybrid, Some(group), None))
            }
            KeySource::Generated => {
                let text = submission.token.to_string();
                self.text(Part::Generated, &text);
                Ok((KeyBy::Generated, None, Some(text.into())))
            }
        }
    }

    fn digest(&self) -> Digest {
        Digest::from_bytes(Sha256::digest(&self.0).into())
    }
}

fn sorted(names: &[String]) -> Vec<&str> {
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// A typo must not merge all jobs: at least one of the named pointers has to be there.
fn named_somewhere(input: &Value<'_>, pointers: &[Pointer]) -> Result<(), Invalid> {
    if pointers.iter().any(|pointer| input.at(pointer).is_some()) {
        return Ok(());
    }
    let named: Vec<String> = pointers.iter().map(ToString::to_string).collect();
    Err(
        Invalid::new("pointers of the key", "at least one pointer that is in the input")
            .found(format!("none of {} is there", named.join(", ")))
            .hint("a misspelt pointer would make all jobs of the task one job"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dedup::{Period, Unit};
    use crate::ids::Token;
    use crate::json::Json;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    fn submission(task: &str, input: &str) -> Submission {
        Submission::new(
            Token::from_parts(1, &[7; 10]),
            name(task),
            Json::new(input).expect("json"),
        )
    }

    fn digest(submission: &Submission, policy: &Dedup) -> Digest {
        derive(&name("default"), submission, policy, NOW)
            .expect("a key")
            .digest
    }

    #[test]
    fn order_and_spelling_of_the_input_do_not_matter_but_exact_integers_do() {
        let unique = Dedup::unique();
        let one = digest(&submission("t", r#"{"a":1,"b":2.0}"#), &unique);
        assert_eq!(one, digest(&submission("t", r#"{ "b": 2, "a": 1.0 }"#), &unique));
        let big = digest(&submission("t", r#"{"id":9007199254740992}"#), &unique);
        assert_ne!(
            big,
            digest(&submission("t", r#"{"id":9007199254740993}"#), &unique)
        );
        assert_ne!(
            digest(&submission("t", r#"{"a":null}"#), &unique),
            digest(&submission("t", "{}"), &unique)
        );
    }

    #[test]
    fn a_task_named_queue_is_not_the_scope_queue() {
        let by_task = Dedup::explicit("k").scope(Scope::Task);
        let by_queue = Dedup::explicit("k").scope(Scope::Queue);
        let custom = Dedup::explicit("k").scope(Scope::Custom(name("queue")));
        let mut job = submission("queue", "{}");
        job.queue = name("queue");
        let all = [
            digest(&job, &by_task),
            digest(&job, &by_queue),
            digest(&job, &custom),
        ];
        assert_ne!(all[0], all[1]);
        assert_ne!(all[1], all[2]);
        assert_ne!(all[0], all[2]);
    }

    #[test]
    fn parts_never_run_into_each_other() {
        let one = Dedup::explicit("c").scope(Scope::Custom(name("ab")));
        let two = Dedup::explicit("bc").scope(Scope::Custom(name("a")));
        let job = submission("t", "{}");
        assert_ne!(digest(&job, &one), digest(&job, &two));
        let here = derive(&name("a"), &job, &one, NOW).expect("a key").digest;
        let there = derive(&name("b"), &job, &one, NOW).expect("a key").digest;
        assert_ne!(here, there);
    }

    #[test]
    fn headers_count_only_by_name() {
        let mut traced = submission("t", "{}");
        traced.content.headers.insert("traceparent".into(), "00-1".into());
        let plain = submission("t", "{}");
        assert_eq!(
            digest(&traced, &Dedup::unique()),
            digest(&plain, &Dedup::unique())
        );
        let by_tenant = Dedup::unique().with_headers(["tenant"]);
        let mut tenant = submission("t", "{}");
        tenant.content.headers.insert("tenant".into(), "a".into());
        assert_ne!(digest(&tenant, &by_tenant), digest(&plain, &by_tenant));
    }

    #[test]
    fn fields_that_are_all_absent_are_refused() {
        let job = submission("t", r#"{"day":1}"#);
        assert!(
            derive(
                &name("default"),
                &job,
                &Dedup::fields(["/dya"]).expect("pointer"),
                NOW
            )
            .is_err()
        );
        let partly = Dedup::fields(["/dya", "/day"]).expect("pointers");
        assert!(derive(&name("default"), &job, &partly, NOW).is_ok());
    }

    #[test]
    fn except_merges_what_differs_only_there() {
        let policy = Dedup::except(["/at"]).expect("pointer");
        let one = digest(&submission("t", r#"{"at":1,"x":1}"#), &policy);
        assert_eq!(one, digest(&submission("t", r#"{"at":2,"x":1}"#), &policy));
        assert_ne!(one, digest(&submission("t", r#"{"at":1,"x":2}"#), &policy));
    }

    #[test]
    fn hybrid_keys_share_their_group() {
        let policy = Dedup::hybrid(["/order"]).expect("pointer");
        let derive = |input| derive(&name("default"), &submission("t", input), &policy, NOW).expect("a key");
        let (one, two) = (derive(r#"{"order":1,"x":1}"#), derive(r#"{"order":1,"x":2}"#));
        assert_eq!(one.group, two.group);
        assert_ne!(one.digest, two.digest);
    }

    #[test]
    fn a_period_splits_the_key() {
        let policy = Dedup::unique().period(Period::utc(Unit::Day));
        let job = submission("t", "{}");
        let today = derive(&name("default"), &job, &policy, NOW)
            .expect("a key")
            .digest;
        let tomorrow = derive(
            &name("default"),
            &job,
            &policy,
            NOW.plus(crate::time::Millis::from_days(1)),
        );
        assert_ne!(today, tomorrow.expect("a key").digest);
    }

    #[test]
    fn an_explicit_key_is_trimmed_and_bounded() {
        assert_eq!(check_text("  a "), Ok("a"));
        assert!(check_text("   ").is_err());
        assert!(check_text("a\u{7}b").is_err());
        assert!(check_text(&"x".repeat(256)).is_err());
        assert!(check_text(&"x".repeat(255)).is_ok());
    }

    /// The format is a promise: keys written by one version are found by the next. These were computed
    /// by another program from the description at the top of this file.
    #[test]
    fn digests_of_version_1_do_not_change() {
        let job = submission("charge_customer", r#"{"order":"ORD-123","amount":4200}"#);
        let explicit = "104debbacc37a07f51e19af8b84438e3e07847fccb5fa0dc40fa5199c14514ed";
        assert_eq!(
            digest(&job, &Dedup::idempotency_key("charge-ORD-123")).to_string(),
            explicit
        );
        let input = "562b1d9416ac5d116c25f741574935658da65fd8bdcb233070e2f8eab8841f1e";
        assert_eq!(digest(&job, &Dedup::unique()).to_string(), input);
    }
}
