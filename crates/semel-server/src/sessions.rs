//! Who has signed in at the page. A session lives in this process only: a restart asks to sign in again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use axum::http::{HeaderMap, header};
use semel_core::error::StoreError;
use semel_core::time::{Millis, Timestamp};
use sha2::{Digest, Sha256};

use crate::app::Settings;
use crate::{clock, ids};

/// What the cookie's name begins with. A browser sends cookies to every port of a host, so the port is its end: who
/// has signed in at two servers on one machine stays signed in at both.
const COOKIE: &str = "semel_session_";
/// How long one is signed in.
pub const LASTS: Millis = Millis::from_secs(12 * 3_600);
/// Sessions at once; the one that ends first makes room.
const MOST: usize = 10_000;

/// The sessions of a server, by the hash of their cookie.
#[derive(Debug, Default)]
pub struct Sessions(Mutex<HashMap<[u8; 32], Session>>);

#[derive(Clone, Debug)]
struct Session {
    token: String,
    until: Timestamp,
}

impl Sessions {
    /// Begins a session for a token; gives the secret for the cookie.
    pub fn begin(&self, token: String) -> Result<String, StoreError> {
        let secret = ids::secret::<32>()?;
        let now = clock::now();
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, session| now < session.until);
        if sessions.len() >= MOST
            && let Some(first) = sessions.iter().min_by_key(|(_, session)| session.until)
        {
            let first = *first.0;
            sessions.remove(&first);
        }
        let until = now.plus(LASTS);
        sessions.insert(hash(&secret), Session { token, until });
        Ok(secret)
    }

    /// The token that signed in with this cookie. Found by a hash, so no comparison tells how close a guess was.
    pub fn token(&self, secret: &str) -> Option<String> {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let session = sessions.get(&hash(secret))?;
        (clock::now() < session.until).then(|| session.token.clone())
    }

    /// Ends a session.
    pub fn end(&self, secret: &str) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.remove(&hash(secret));
    }
}

/// The secrets of our cookie in a request. Others on the same host can set one of that name, too; those open nothing,
/// and take nothing away from the right one.
pub fn of_request(headers: &HeaderMap, port: u16) -> impl Iterator<Item = &str> {
    let name = format!("{COOKIE}{port}");
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(move |pair| pair.trim().strip_prefix(&name)?.strip_prefix('='))
}

/// The header that sets the cookie, or takes it away.
pub fn set_cookie(secret: Option<&str>, settings: &Settings, request: &HeaderMap) -> String {
    let lasts = secret.map_or(0, |_| LASTS.as_millis() / 1_000);
    let secure = match settings.encrypted || came_encrypted(request) {
        true => "; Secure",
        false => "",
    };
    format!(
        "{COOKIE}{}={}; HttpOnly; SameSite=Strict; Path=/; Max-Age={lasts}{secure}",
        settings.listen.port(),
        secret.unwrap_or_default()
    )
}

/// Whether a browser says that it speaks to a proxy that encrypts. Who says so falsely keeps a cookie from themselves.
fn came_encrypted(request: &HeaderMap) -> bool {
    let begins = |name: header::HeaderName| {
        let value = request.get(name).and_then(|value| value.to_str().ok());
        value.is_some_and(|value| value.starts_with("https"))
    };
    begins(header::ORIGIN) || begins(header::HeaderName::from_static("x-forwarded-proto"))
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}
