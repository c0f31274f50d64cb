//! How to reach a store, as a URL says it.

use std::time::Duration;

use semel_core::error::Invalid;
use semel_core::ids::Name;

/// The namespace of a URL that names none.
const DEFAULT_NAMESPACE: &str = "default";
/// Shards of a store on one server, where none is said.
const SHARDS: usize = 1;
/// Shards of a store on a cluster, where none is said.
const CLUSTER_SHARDS: usize = 64;
/// The most shards a store can have.
pub const MOST_SHARDS: usize = 1_024;
/// The most replicas a write can wait for.
const MOST_REPLICAS: usize = 64;

/// Where the server is.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    /// One server, by its URL.
    Server(String),
    /// A cluster, by the URLs of some of its nodes.
    Cluster(Vec<String>),
    /// The master that sentinels name.
    Sentinel {
        /// URLs of the sentinels.
        sentinels: Vec<String>,
        /// The name of the master.
        master: String,
        /// User and password of the master, as in a URL.
        login: Option<String>,
        /// The database.
        database: i64,
    },
}

/// How to reach a store.
#[derive(Clone)]
pub struct RedisOptions {
    /// Where the server is.
    pub place: Place,
    /// The outermost part of every name.
    pub namespace: Name,
    /// Over how many slots the store is spread; fixed when it is made.
    pub shards: usize,
    /// Make the store where there is none; otherwise that is refused.
    pub create: bool,
    /// Accept a server that keeps nothing over a restart.
    pub allow_no_aof: bool,
    /// Accept a password that travels unencrypted to another host.
    pub allow_plain_password: bool,
    /// How long a call tries to reach the server before it gives up.
    pub patience: Duration,
    /// How long one request may take.
    pub timeout: Duration,
    /// How many replicas must have a write before it is answered; 0 waits for none.
    pub wait: usize,
    /// How long they may take for it.
    pub wait_for: Duration,
}

impl RedisOptions {
    /// Reads a URL such as `redis://host:6379/0?namespace=app&shards=4`, `rediss://…`,
    /// `redis+cluster://host:7000,host:7001` or `redis+sentinel://host:26379/master`.
    ///
    /// Further parameters: `allow=no_aof` and `allow=plain_password`, `patience_ms`, `timeout_ms`, and `wait` with
    /// `wait_ms`: how many replicas must have a write before it is answered, and how long that may take.
    pub fn from_url(url: &str) -> Result<Self, Invalid> {
        let (scheme, rest) = url.split_once("://").ok_or_else(wrong_url)?;
        let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
        let place = match scheme {
            "redis" | "rediss" => Place::Server(format!("{scheme}://{address}")),
            "redis+cluster" | "rediss+cluster" => Place::Cluster(nodes(plain_scheme(scheme), address)?.0),
            "redis+sentinel" | "rediss+sentinel" => sentinel(plain_scheme(scheme), address)?,
            _ => return Err(wrong_url()),
        };
        let shards = match place {
            Place::Cluster(_) => CLUSTER_SHARDS,
            _ => SHARDS,
        };
        let mut options = RedisOptions {
            place,
            namespace: Name::new(DEFAULT_NAMESPACE)?,
            shards,
            create: true,
            allow_no_aof: false,
            allow_plain_password: false,
            patience: Duration::from_secs(5),
            timeout: Duration::from_secs(5),
            wait: 0,
            wait_for: Duration::from_secs(1),
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            options.parameter(pair)?;
        }
        options.check_password(scheme, address)?;
        Ok(options)
    }

    fn parameter(&mut self, pair: &str) -> Result<(), Invalid> {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match (name, value) {
            ("namespace", value) => self.namespace = Name::new(unescaped(value))?,
            ("shards", value) => {
                let number = value
                    .parse()
                    .ok()
                    .filter(|number| (1..=MOST_SHARDS).contains(number));
                self.shards = number
                    .ok_or_else(|| Invalid::new("shards", format!("1 to {MOST_SHARDS}")).found(value))?;
            }
            ("allow", "no_aof") => self.allow_no_aof = true,
            ("allow", "plain_password") => self.allow_plain_password = true,
            ("patience_ms", value) => self.patience = millis(name, value)?,
            ("timeout_ms", value) => self.timeout = millis(name, value)?,
            ("wait_ms", value) => self.wait_for = millis(name, value)?,
            ("wait", value) => {
                let number = value.parse().ok().filter(|number| *number <= MOST_REPLICAS);
                self.wait = number.ok_or_else(|| {
                    Invalid::new("wait", format!("0 to {MOST_REPLICAS} replicas")).found(value)
                })?;
            }
            _ => {
                let allowed = "namespace, shards, allow=no_aof, allow=plain_password, patience_ms, timeout_ms, wait, \
                               wait_ms";
                return Err(Invalid::new("parameter of a redis URL", allowed).found(name));
            }
        }
        Ok(())
    }

    /// A password is not sent in the clear over a network that others may listen to.
    fn check_password(&self, scheme: &str, address: &str) -> Result<(), Invalid> {
        let Some((login, hosts)) = address.rsplit_once('@') else {
            return Ok(());
        };
        let secret = login.contains(':') || !login.is_empty();
        let hosts = hosts.split('/').next().unwrap_or_default();
        let local = |host: &str| {
            let host = host.rsplit_once(':').map_or(host, |(name, _)| name);
            matches!(host, "localhost" | "[::1]" | "") || host.starts_with("127.")
        };
        if secret
            && !scheme.starts_with("rediss")
            && !self.allow_plain_password
            && !hosts.split(',').all(local)
        {
            return Err(Invalid::new(
                "password over an unencrypted connection",
                "rediss://, or a server on this host",
            )
            .hint("add allow=plain_password to the URL if the network is trusted"));
        }
        Ok(())
    }

    /// The place without its password, for people.
    pub fn shown(&self) -> String {
        let strip = |url: &String| match url.split_once("://") {
            Some((scheme, rest)) => match rest.rsplit_once('@') {
                Some((_, host)) => format!("{scheme}://{host}"),
                None => url.clone(),
            },
            None => url.clone(),
        };
        match &self.place {
            Place::Server(url) => strip(url),
            Place::Cluster(urls) => urls.iter().map(strip).collect::<Vec<_>>().join(","),
            Place::Sentinel {
                sentinels, master, ..
            } => {
                let sentinels: Vec<_> = sentinels.iter().map(strip).collect();
                format!("{}/{master}", sentinels.join(","))
            }
        }
    }
}

impl std::fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisOptions")
            .field("place", &self.shown())
            .field("namespace", &self.namespace)
            .field("shards", &self.shards)
            .finish_non_exhaustive()
    }
}

fn wrong_url() -> Invalid {
    Invalid::new(
        "redis URL",
        "redis://, rediss://, redis+cluster:// or redis+sentinel:// with a host",
    )
}

fn plain_scheme(scheme: &str) -> &str {
    scheme.split('+').next().unwrap_or(scheme)
}

/// The nodes of an address, each as a URL with the login; and the path behind them.
fn nodes<'a>(scheme: &str, address: &'a str) -> Result<(Vec<String>, &'a str), Invalid> {
    let (hosts, path) = address.split_once('/').unwrap_or((address, ""));
    let (login, hosts) = match hosts.rsplit_once('@') {
        Some((login, hosts)) => (format!("{login}@"), hosts),
        None => (String::new(), hosts),
    };
    let urls: Vec<String> = hosts
        .split(',')
        .filter(|host| !host.is_empty())
        .map(|host| format!("{scheme}://{login}{host}"))
        .collect();
    if urls.is_empty() {
        return Err(wrong_url());
    }
    Ok((urls, path))
}

fn sentinel(scheme: &str, address: &str) -> Result<Place, Invalid> {
    let (login, hosts) = match address.rsplit_once('@') {
        Some((login, hosts)) => (Some(login.to_owned()), hosts),
        None => (None, address),
    };
    let (sentinels, path) = nodes(scheme, hosts)?;
    let (master, database) = path.split_once('/').unwrap_or((path, "0"));
    if master.is_empty() {
        return Err(wrong_url().hint("redis+sentinel://host:26379/name-of-the-master"));
    }
    Ok(Place::Sentinel {
        sentinels,
        master: master.to_owned(),
        login,
        database: database.parse().map_err(|_| wrong_url())?,
    })
}

fn millis(name: &str, value: &str) -> Result<Duration, Invalid> {
    let number = value
        .parse::<u64>()
        .ok()
        .filter(|number| (1..=600_000).contains(number));
    let number = number.ok_or_else(|| Invalid::new(name, "1 to 600000 milliseconds").found(value))?;
    Ok(Duration::from_millis(number))
}

/// Undoes the `%` escapes of a query.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let escape = tail.get(..2).filter(|_| *first == b'%');
        let decoded = escape
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(decoded.unwrap_or(*first));
        rest = if decoded.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_and_how() {
        let options = RedisOptions::from_url("redis://127.0.0.1:6379/2?namespace=my%20app&shards=4").unwrap();
        assert!(options.place == Place::Server("redis://127.0.0.1:6379/2".into()));
        assert_eq!((options.namespace.as_str(), options.shards), ("my app", 4));
        assert_eq!(options.wait, 0);
        let waits = RedisOptions::from_url("redis://127.0.0.1?wait=2&wait_ms=250").unwrap();
        assert_eq!((waits.wait, waits.wait_for), (2, Duration::from_millis(250)));
        let cluster = RedisOptions::from_url("redis+cluster://a:7000,b:7001").unwrap();
        assert!(cluster.place == Place::Cluster(vec!["redis://a:7000".into(), "redis://b:7001".into()]));
        assert_eq!(cluster.shards, 64);
        let sentinel = RedisOptions::from_url("redis+sentinel://a:26379/main").unwrap();
        assert_eq!(sentinel.shown(), "redis://a:26379/main");
    }

    #[test]
    fn a_url_that_means_nothing_is_refused() {
        for wrong in [
            "redis:/x",
            "http://a",
            "redis://a?shards=0",
            "redis://a?shards=many",
            "redis://a?wait=-1",
            "redis://a?wait=many",
            "redis://a?wait_ms=0",
            "redis://a?colour=red",
            "redis+sentinel://a:26379",
            "redis+cluster://",
        ] {
            assert!(RedisOptions::from_url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_password_is_neither_shown_nor_sent_in_the_clear() {
        let options = RedisOptions::from_url("rediss://ada:secret@example.org:6379/0").unwrap();
        assert_eq!(options.shown(), "rediss://example.org:6379/0");
        assert!(!format!("{options:?}").contains("secret"));
        assert!(RedisOptions::from_url("redis://:secret@example.org").is_err());
        assert!(RedisOptions::from_url("redis://:secret@example.org?allow=plain_password").is_ok());
        assert!(RedisOptions::from_url("redis://:secret@127.0.0.1:6379").is_ok());
    }
}
