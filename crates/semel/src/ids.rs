//! The one place of this crate that makes ids.

use semel_core::ids::Token;

/// A fresh token: makes a repeated call the same call (contract 3.5).
#[expect(clippy::disallowed_methods, reason = "this is the file that makes ids")]
pub fn fresh_token() -> Token {
    Token::from_bytes(uuid::Uuid::now_v7().into_bytes())
}
