//! What makes two requests the same.

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::request::Parts;
use sha2::{Digest, Sha256};

/// Whose keys they are, where nothing else is said. The credential itself is only ever hashed.
pub fn credential(parts: &Parts) -> String {
    let mut hash = Sha256::new();
    for value in parts.headers.get_all(AUTHORIZATION) {
        part(&mut hash, value.as_bytes());
    }
    hex(&hash.finalize())
}

/// The name under which the store guards a key: a digest, so that neither caller nor key is readable there.
pub fn guarded_as(scope: &str, key: &str) -> String {
    let mut hash = Sha256::new();
    part(&mut hash, scope.as_bytes());
    part(&mut hash, key.as_bytes());
    format!("http:{}", hex(&hash.finalize()))
}

/// What a repeated request has to have in common with the first: method, path, query, body.
pub fn fingerprint(parts: &Parts, body: &Bytes) -> String {
    let mut hash = Sha256::new();
    part(&mut hash, parts.method.as_str().as_bytes());
    part(&mut hash, parts.uri.path().as_bytes());
    part(&mut hash, parts.uri.query().unwrap_or_default().as_bytes());
    part(&mut hash, body);
    hex(&hash.finalize())
}

/// The length goes first: parts never run into each other.
fn part(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_be_bytes());
    hash.update(bytes);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
