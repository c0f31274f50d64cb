//! Opening a store: what the server must be, and what it may not be (contract 9.3), and what that means (contract 9.4).

use std::collections::HashMap;

use semel_core::error::StoreError;
use semel_core::store::Guarantee;

use crate::link::Link;
use crate::options::RedisOptions;

/// The oldest server that has every command the scripts use (`COPY`).
const OLDEST: (u32, u32) = (6, 2);

/// What a server says about itself.
#[derive(Clone, Debug, Default)]
pub struct Server {
    facts: HashMap<String, String>,
    appendfsync: Option<String>,
}

impl Server {
    fn fact(&self, name: &str) -> &str {
        self.facts.get(name).map_or("", String::as_str)
    }

    /// Bytes it uses.
    pub fn bytes(&self) -> i64 {
        self.fact("used_memory").parse().unwrap_or(0)
    }

    /// Bytes it may use: what it was given, else what its machine has.
    pub fn most_bytes(&self) -> Option<i64> {
        let facts = ["maxmemory", "total_system_memory"];
        let mut known = facts.iter().filter_map(|name| self.fact(name).parse().ok());
        known.find(|bytes| *bytes > 0)
    }

    fn has_aof(&self) -> bool {
        self.fact("aof_enabled") == "1"
    }

    fn version(&self) -> (u32, u32) {
        let mut parts = self
            .fact("redis_version")
            .split('.')
            .map(|part| part.parse().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }
}

/// Asks every node that is known what it is.
pub async fn probe(link: &Link) -> Result<Vec<Server>, StoreError> {
    let mut servers = Vec::new();
    for (info, fsync) in link.describe().await? {
        let facts = info
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
        servers.push(Server {
            facts: facts.collect(),
            appendfsync: fsync,
        });
    }
    Ok(servers)
}

/// Refuses a server on which promises could not be kept, with the reason.
pub fn check(server: &Server, options: &RedisOptions) -> Result<(), StoreError> {
    let refused = |reason: String, hint: &str| {
        Err(StoreError::Refused {
            reason,
            hint: hint.to_owned(),
        })
    };
    let (major, minor) = server.version();
    if (major, minor) < OLDEST {
        let reason = format!(
            "the server is Redis {}, older than 6.2",
            server.fact("redis_version")
        );
        return refused(reason, "use Redis 6.2 or newer, or Valkey");
    }
    if server.fact("role") == "slave" {
        return refused(
            "the server is a replica".to_owned(),
            "connect to the master, or through Sentinel",
        );
    }
    let policy = server.fact("maxmemory_policy");
    if !policy.is_empty() && policy != "noeviction" {
        let reason = format!("the server evicts keys when memory is short (maxmemory-policy {policy})");
        return refused(reason, "set maxmemory-policy noeviction");
    }
    if !server.has_aof() && !options.allow_no_aof {
        return refused(
            "the server keeps no append-only file: a restart would lose answered calls".to_owned(),
            "set appendonly yes, or add allow=no_aof to the URL",
        );
    }
    Ok(())
}

/// The guarantee sheet: what is atomic and what survives what, from what the server said.
pub fn guarantees(servers: &[Server], options: &RedisOptions) -> Vec<Guarantee> {
    let Some(server) = servers.first() else {
        return Vec::new();
    };
    let fsync = server.appendfsync.as_deref().unwrap_or("unknown");
    let aof = servers.iter().all(Server::has_aof);
    let survives = match (aof, fsync) {
        (false, _) => "nothing survives a restart of the server; answered calls survive a kill of any client",
        (true, "always") => "an answered call survives kill -9 of every process and a power cut",
        (true, "everysec") => {
            "an answered call survives kill -9 of any client; a kill or power cut of the server may lose what was \
             written since its last sync, usually one second, longer on a slow disk"
        }
        (true, "no") => {
            "an answered call survives kill -9 of any process; a power cut may lose what was not synced"
        }
        (true, _) => {
            "an answered call survives kill -9 of any client; what a kill of the server loses depends on appendfsync, which could not be read"
        }
    };
    let replicas = server.fact("connected_slaves");
    let wanted = options.wait;
    let failover = match (replicas, wanted) {
        ("" | "0", 0) => "there is no replica to fail over to".to_owned(),
        (_, 0) => "replication is asynchronous: a failover may lose answered calls that had not reached the replica; \
                   a key whose submission was lost is free again"
            .to_owned(),
        _ => format!(
            "a call is answered when {wanted} of the replicas have it, else it gives an error that may be retried \
             with the same token; a failover to one of those loses no answered call, a failover to another replica \
             may, and a key whose submission was lost is free again"
        ),
    };
    let waited = match wanted {
        0 => "wait=0".to_owned(),
        _ => format!("wait={wanted}, wait_ms={}", options.wait_for.as_millis()),
    };
    let line = |subject, statement: &str, probed: String| Guarantee {
        subject,
        statement: statement.to_owned(),
        probed,
    };
    let across = if options.shards == 1 {
        "key, job, queue position, ledger and counters of each item are written by one script"
    } else {
        "key, job, queue position, ledger and counters of each item are written by one script, in one of the shards; \
         settings and removals reach the shards one after another, and order holds per shard"
    };
    vec![
        line(
            "durability",
            survives,
            format!(
                "appendonly {}, appendfsync {fsync}",
                if aof { "yes" } else { "no" }
            ),
        ),
        line(
            "failover",
            &failover,
            format!("connected replicas: {replicas}, {waited}"),
        ),
        line(
            "atomicity",
            across,
            format!(
                "Redis {}, {} shards",
                server.fact("redis_version"),
                options.shards
            ),
        ),
        line(
            "memory",
            "no key is evicted; when memory is full, calls are refused and nothing of them is applied",
            format!("maxmemory-policy {}", server.fact("maxmemory_policy")),
        ),
        line(
            "time",
            "the server's clock; fences and generations grow even when it steps back",
            "TIME, resolution 1 ms".to_owned(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(facts: &[(&str, &str)]) -> Server {
        let base = [
            ("redis_version", "7.0.15"),
            ("role", "master"),
            ("maxmemory_policy", "noeviction"),
            ("aof_enabled", "1"),
        ];
        let all = base
            .iter()
            .chain(facts)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Server {
            facts: all.collect(),
            appendfsync: Some("always".to_owned()),
        }
    }

    #[test]
    fn a_server_that_cannot_keep_the_promises_is_refused_with_the_reason() {
        let options = RedisOptions::from_url("redis://127.0.0.1").unwrap();
        assert!(check(&server(&[]), &options).is_ok());
        for (fact, word) in [
            (("redis_version", "6.0.16"), "older"),
            (("role", "slave"), "replica"),
            (("maxmemory_policy", "allkeys-lru"), "evicts"),
            (("maxmemory_policy", "volatile-ttl"), "evicts"),
            (("aof_enabled", "0"), "append-only"),
        ] {
            let error = check(&server(&[fact]), &options).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        let asked = RedisOptions::from_url("redis://127.0.0.1?allow=no_aof").unwrap();
        assert!(check(&server(&[("aof_enabled", "0")]), &asked).is_ok());
    }
}
