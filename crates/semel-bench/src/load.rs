//! What is submitted: made from a seed and a number, so that it can be made again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;

use semel_core::dedup::Dedup;
use semel_core::ids::{Name, Token};
use semel_core::json::Json;
use semel_core::submission::Submission;

/// The task of all submissions.
pub(crate) const TASK: &str = "charge";

/// The milliseconds in the first token, where nothing else is said.
const EPOCH: u64 = 1_750_000_000_000;
/// Tokens with the same milliseconds, as from a busy producer.
const TOKENS_PER_MILLI: u64 = 64;

/// Whether submissions have a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No key.
    Plain,
    /// [`Dedup::unique`].
    Unique,
}

/// A source of submissions that differ from each other. Clones draw from the same sequence.
#[derive(Clone)]
pub(crate) struct Load {
    seed: u64,
    task: Name,
    inputs: Arc<AtomicU64>,
    tokens: Arc<AtomicU64>,
    /// The milliseconds in the first token.
    epoch: u64,
}

impl Load {
    /// A load that is a function of the seed alone.
    pub(crate) fn new(seed: u64) -> Result<Self> {
        let task = Name::new(TASK)?;
        Ok(Load {
            seed,
            task,
            inputs: Arc::default(),
            tokens: Arc::default(),
            epoch: EPOCH,
        })
    }

    /// The same with tokens made now, as a client makes them: a store may keep moments by how far they are from that.
    #[cfg(feature = "redis")]
    pub(crate) fn made_now(self) -> Self {
        Load {
            epoch: crate::stopwatch::millis_now(),
            ..self
        }
    }

    /// A submission with an input no other has.
    pub(crate) fn fresh(&self, kind: Kind) -> Result<Submission> {
        let n = self.inputs.fetch_add(1, Ordering::Relaxed);
        let mut submission =
            Submission::new(self.token(), self.task.clone(), Json::new(input(self.seed, n))?);
        if kind == Kind::Unique {
            submission.policy = Dedup::unique().into();
        }
        Ok(submission)
    }

    /// A batch of them.
    pub(crate) fn batch(&self, kind: Kind, size: usize) -> Result<Vec<Submission>> {
        (0..size).map(|_| self.fresh(kind)).collect()
    }

    /// Another unique submission with the input of one that was drawn before.
    pub(crate) fn again(&self) -> Result<Submission> {
        let draw = self.tokens.fetch_add(1, Ordering::Relaxed);
        let n = mix(!self.seed, draw) % self.inputs.load(Ordering::Relaxed).max(1);
        let input = Json::new(input(self.seed, n))?;
        let mut submission = Submission::new(self.token_of(draw), self.task.clone(), input);
        submission.policy = Dedup::unique().into();
        Ok(submission)
    }

    /// Another submission that is a duplicate of this one.
    #[cfg(feature = "s3")]
    pub(crate) fn again_of(&self, first: &Submission) -> Submission {
        Submission {
            token: self.token(),
            ..first.clone()
        }
    }

    /// A plain submission with an input of about so many bytes that no other call draws.
    pub(crate) fn filler(&self, bytes: usize) -> Result<Submission> {
        let input = Json::new(format!(r#"{{"filler":"{}"}}"#, "x".repeat(bytes)))?;
        Ok(Submission::new(self.token(), self.task.clone(), input))
    }

    /// A submission with a token that is made now, as a client does when it sends it.
    pub(crate) fn sent_now(&self, submission: Submission) -> Submission {
        Submission {
            token: self.token(),
            ..submission
        }
    }

    /// A token no other is, later than those before.
    pub(crate) fn token(&self) -> Token {
        self.token_of(self.tokens.fetch_add(1, Ordering::Relaxed))
    }

    /// Tokens of one process are in the order they were made in, also within a millisecond.
    fn token_of(&self, draw: u64) -> Token {
        let mut random = [0u8; 10];
        random[1] = (draw % TOKENS_PER_MILLI) as u8;
        random[2..].copy_from_slice(&mix(self.seed, draw).to_be_bytes());
        Token::from_parts(self.epoch + draw / TOKENS_PER_MILLI, &random)
    }
}

/// SplitMix64 over a seed and a number.
fn mix(seed: u64, n: u64) -> u64 {
    let mut z = seed
        .wrapping_mul(0xD134_2543_DE82_EF95)
        .wrapping_add(n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// An order of about 300 bytes.
pub(crate) fn input(seed: u64, n: u64) -> String {
    let (customer, goods, rest) = (
        mix(seed, n),
        mix(seed.wrapping_add(1), n),
        mix(seed.wrapping_add(2), n),
    );
    format!(
        concat!(
            r#"{{"order":"{:010}-{:04}","customer":{{"id":"{:016x}","email":"{:08x}@example.com"}},"#,
            r#""items":[{{"sku":"A-{:08x}","quantity":{},"cents":{}}},{{"sku":"B-{:08x}","quantity":{},"cents":{}}}],"#,
            r#""currency":"EUR","ship_to":{{"street":"{:08x} Street","city":"Tallinn","country":"EE"}},"#,
            r#""gift":{}}}"#
        ),
        n,
        seed % 10_000,
        customer,
        customer >> 32,
        goods & 0xFFFF_FFFF,
        1 + goods % 9,
        100 + goods % 90_000,
        goods >> 32,
        1 + rest % 9,
        100 + rest % 90_000,
        rest >> 32,
        rest.is_multiple_of(7),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn inputs_have_about_300_bytes_and_differ() {
        let inputs: HashSet<String> = (0..1_000).map(|n| input(1, n)).collect();
        assert_eq!(inputs.len(), 1_000);
        let lengths = inputs.iter().map(String::len);
        let (shortest, longest) = (lengths.clone().min().unwrap(), lengths.max().unwrap());
        assert!(shortest >= 290 && longest <= 310, "{shortest} to {longest} bytes");
    }

    #[test]
    fn tokens_are_in_the_order_they_were_made_in() {
        let load = Load::new(1).unwrap();
        let tokens: Vec<Token> = (0..1_000).map(|_| load.token()).collect();
        assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn a_repeated_input_is_one_that_was_drawn() {
        let load = Load::new(1).unwrap();
        let drawn = load.batch(Kind::Unique, 10).unwrap();
        let again = load.again().unwrap();
        assert!(
            drawn
                .iter()
                .any(|first| first.content.input == again.content.input)
        );
        assert!(drawn.iter().all(|first| first.token != again.token));
    }
}
