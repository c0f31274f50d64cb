//! Requests to a server, and what its problems mean here.

use std::time::Duration;

use reqwest::Method;
use serde::Serialize;
use serde_json::Value;

use crate::exit::Exit;
use crate::problem::Problem;

/// A server that is asked instead of a store.
#[derive(Clone, Debug)]
pub struct Server {
    url: String,
    token: Option<String>,
    http: reqwest::Client,
}

impl Server {
    /// A server by its address, with the token it is to be shown.
    pub fn new(url: &str, token: Option<String>) -> Result<Self, Problem> {
        let allowed = || {
            // Not what was said: a password may be in it.
            Problem::usage("no server is named so: allowed is http://HOST:PORT or https://HOST")
                .hint("semel serve says its address")
        };
        let parsed = reqwest::Url::parse(url).map_err(|_| allowed())?;
        let bare = parsed.username().is_empty() && parsed.password().is_none() && parsed.query().is_none();
        if !matches!(parsed.scheme(), "http" | "https") || !bare {
            return Err(allowed());
        }
        let http = reqwest::Client::builder()
            .use_preconfigured_tls(trust()?)
            .redirect(reqwest::redirect::Policy::none())
            // The server closes a connection on which nothing was asked for 10 s: one that is about to be closed is not
            // used for a request that could then not be told from one that got lost.
            .pool_idle_timeout(Duration::from_secs(5))
            .no_proxy()
            .connect_timeout(Duration::from_secs(10))
            // Longer than any long poll.
            .timeout(Duration::from_secs(90))
            .build();
        Ok(Server {
            url: parsed.as_str().trim_end_matches('/').to_owned(),
            token,
            http: http.map_err(|error| Problem::usage(error.to_string()))?,
        })
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Asks for something.
    pub async fn get(&self, path: &str, query: &[(&str, String)]) -> Result<Value, Problem> {
        self.call(Method::GET, path, query, None).await
    }

    /// Sends something.
    pub async fn send(&self, method: Method, path: &str, body: &impl Serialize) -> Result<Value, Problem> {
        // As text all the way: a number of a user's keeps its digits.
        let body = serde_json::to_string(body).map_err(|error| Problem::usage(error.to_string()))?;
        self.call(method, path, &[], Some(body)).await
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, String)],
        body: Option<String>,
    ) -> Result<Value, Problem> {
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.url))
            .query(query);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request
                .header(reqwest::header::CONTENT_TYPE, "application/json")
                .body(body);
        }
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status().as_u16();
        let text = response.text().await.map_err(|error| self.unreachable(&error))?;
        let json = match text.is_empty() {
            true => Value::Null,
            false => serde_json::from_str(&text).map_err(|_| self.stranger(status))?,
        };
        match status {
            200..=299 => Ok(json),
            _ => Err(problem(&json).unwrap_or_else(|| self.stranger(status))),
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> Problem {
        let mut told = format!("{} does not answer", self.url);
        let mut cause = std::error::Error::source(error);
        while let Some(deeper) = cause {
            told.push_str(&format!(": {deeper}"));
            cause = deeper.source();
        }
        Problem::new(Exit::Unavailable, "store_unavailable", told).hint("is semel serve running there?")
    }

    fn stranger(&self, status: u16) -> Problem {
        let told = format!(
            "{} answered with status {status}, and not as a semel server does",
            self.url
        );
        Problem::new(Exit::Unavailable, "store_unavailable", told)
    }
}

/// Which certificates are trusted: those this system trusts (`SSL_CERT_FILE` names others).
fn trust() -> Result<rustls::ClientConfig, Problem> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Problem::usage(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// A name as a part of a path.
pub fn part(name: &str) -> String {
    let mut path = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                path.push(char::from(byte))
            }
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

/// What a problem of the server's means here: its code, with our exit code.
fn problem(json: &Value) -> Option<Problem> {
    let code = json["code"].as_str()?;
    let (exit, code) = match semel_server::CODES.iter().find(|known| known.word == code)?.word {
        "invalid" => (Exit::Usage, "invalid"),
        "duplicate_rejected" => (Exit::Rejected, "duplicate_rejected"),
        "idempotency_conflict" => (Exit::Conflict, "idempotency_conflict"),
        word @ ("not_found" | "no_subscribers" | "holder_changed") => (Exit::NotFound, word),
        word @ ("store_unavailable" | "closed" | "busy" | "too_many") => (Exit::Unavailable, word),
        word @ ("unauthorized" | "forbidden") => (Exit::NotPermitted, word),
        word => (Exit::Other, word),
    };
    let mut problem = Problem::new(exit, code, json["detail"].as_str().unwrap_or(code));
    problem.hint = match code {
        "unauthorized" => Some("SEMEL_TOKEN holds the token; semel tokens create makes one".to_owned()),
        _ => json["hint"].as_str().map(str::to_owned),
    };
    for name in ["holder", "differs", "state", "target"] {
        if !json[name].is_null() {
            problem = problem.detail(name, &json[name]);
        }
    }
    Some(problem)
}
