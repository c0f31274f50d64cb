//! The one place of this crate that makes ids and secrets.

use std::fmt::Write;

use semel_core::error::StoreError;

/// The name of a request nobody named.
pub fn request() -> String {
    semel::ids::fresh_token().to_string()
}

/// So many random bytes of the system as hex digits: nobody guesses 32 of them.
pub fn secret<const BYTES: usize>() -> Result<String, StoreError> {
    let mut bytes = [0_u8; BYTES];
    getrandom::fill(&mut bytes).map_err(|_| StoreError::unavailable("asking the system for random bytes"))?;
    Ok(hex(&bytes))
}

/// Bytes as hex digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}
