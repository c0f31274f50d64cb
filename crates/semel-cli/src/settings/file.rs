//! `semel.toml`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer};

use crate::commands::submit::PolicyArgs;
use crate::duration::Length;
use crate::problem::Problem;

/// The configuration file. Unknown names are refused: a typo must not be silently ignored.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct File {
    /// The store; a relative path is taken from where the file is.
    pub store: Option<String>,
    /// Named sets of values, chosen with `--profile`.
    pub profiles: BTreeMap<String, Profile>,
    /// For `semel serve`.
    pub server: ServerSettings,
    /// How long things are kept.
    pub retention: RetentionSettings,
    /// Defaults of submissions, by queue.
    pub queues: BTreeMap<String, QueueSettings>,
    /// Defaults of submissions, by task.
    pub tasks: BTreeMap<String, TaskSettings>,
    /// Thresholds of alerts.
    pub alerts: toml::Table,
    /// JSON pointers into inputs, outputs and metadata whose values are never shown.
    #[serde(deserialize_with = "pointers")]
    pub redact: Vec<String>,
    /// Whether log lines show digests instead of the texts of keys; where nothing is said, if anything is redacted.
    pub redact_keys: Option<bool>,
    #[serde(skip)]
    raw: toml::Table,
}

/// A named set of values.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Profile {
    /// The store.
    pub store: Option<String>,
    /// The server.
    pub server: Option<String>,
}

/// What `semel serve` is told by its flags, for those who start it without.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerSettings {
    /// Where to listen.
    pub listen: Option<String>,
    /// Names the server is reached by.
    pub hosts: Vec<String>,
    /// The certificate chain, as PEM; a relative path is taken from where the file is.
    pub tls_cert: Option<PathBuf>,
    /// Its key.
    pub tls_key: Option<PathBuf>,
    /// Listen beyond this machine without encryption.
    pub plain_http: bool,
    /// A database whose outbox is relayed; a relative path is taken from where the file is.
    pub outbox: Option<String>,
    /// Let its password travel unencrypted to another machine.
    pub outbox_plain: bool,
}

/// How long things are kept.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionSettings {
    /// Complete jobs.
    pub complete: Option<Length>,
    /// Failed and cancelled jobs.
    pub failed: Option<Length>,
    /// Absorbed submissions.
    pub ledger: Option<Length>,
}

/// What a job can be told besides its input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobOptions {
    /// −100 to 100, larger first.
    pub priority: Option<i8>,
    /// How many attempts may end in an error.
    pub max_attempts: Option<u32>,
    /// How many leases may expire.
    pub max_deliveries: Option<u32>,
    /// How long one attempt may take.
    pub timeout: Option<Length>,
}

impl JobOptions {
    /// These, and where they say nothing, those.
    #[must_use]
    pub fn or(self, other: JobOptions) -> Self {
        JobOptions {
            priority: self.priority.or(other.priority),
            max_attempts: self.max_attempts.or(other.max_attempts),
            max_deliveries: self.max_deliveries.or(other.max_deliveries),
            timeout: self.timeout.or(other.timeout),
        }
    }
}

/// Defaults of submissions to a queue.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueSettings {
    priority: Option<i8>,
    max_attempts: Option<u32>,
    max_deliveries: Option<u32>,
    timeout: Option<Length>,
}

impl QueueSettings {
    /// What jobs are told.
    pub fn job(&self) -> JobOptions {
        JobOptions {
            priority: self.priority,
            max_attempts: self.max_attempts,
            max_deliveries: self.max_deliveries,
            timeout: self.timeout,
        }
    }
}

/// Defaults of submissions of a task.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TaskSettings {
    /// Where its jobs wait.
    pub queue: Option<String>,
    priority: Option<i8>,
    max_attempts: Option<u32>,
    max_deliveries: Option<u32>,
    timeout: Option<Length>,
    /// The policy of submissions that bring none: the names are those of the flags of `semel submit`.
    pub dedup: Option<PolicyArgs>,
}

impl TaskSettings {
    /// What jobs are told.
    pub fn job(&self) -> JobOptions {
        JobOptions {
            priority: self.priority,
            max_attempts: self.max_attempts,
            max_deliveries: self.max_deliveries,
            timeout: self.timeout,
        }
    }
}

impl File {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, Problem> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Problem::usage(format!("the configuration {shown} cannot be read: {error}"))
                .hint("name another file with --config or SEMEL_CONFIG")
        })?;
        File::parse(&text).map_err(|error| {
            Problem::usage(format!(
                "the configuration {shown} is not understood:\n{}",
                error.to_string().trim_end()
            ))
        })
    }

    fn parse(text: &str) -> Result<Self, toml::de::Error> {
        let mut file: File = toml::from_str(text)?;
        file.raw = toml::from_str(text)?;
        Ok(file)
    }

    /// Every value by its dotted name, in the words of the file.
    pub fn values(&self) -> Vec<(String, String)> {
        let mut values = Vec::new();
        flatten("", &self.raw, &mut values);
        values
    }
}

fn flatten(prefix: &str, table: &toml::Table, values: &mut Vec<(String, String)>) {
    for (name, value) in table {
        let name = format!("{prefix}{name}");
        match value {
            toml::Value::Table(inner) => flatten(&format!("{name}."), inner, values),
            toml::Value::String(text) => values.push((name, text.clone())),
            other => values.push((name, other.to_string())),
        }
    }
}

/// Pointers that can point somewhere: one that never does would hide nothing, and nobody would notice.
fn pointers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let said = Vec::<String>::deserialize(deserializer)?;
    for pointer in &said {
        semel_server::redact::check(pointer).map_err(serde::de::Error::custom)?;
    }
    Ok(said)
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_file_is_read() {
        let file = File::parse(
            r#"
            store = "sqlite:jobs.db"
            redact_keys = false
            redact = ["/card/number"]
            [profiles.prod]
            store = "redis://host/0"
            [retention]
            complete = "2d"
            [queues.reports]
            priority = -5
            [tasks.charge]
            queue = "billing"
            max_attempts = 3
            timeout = "30s"
            dedup = { unique_for = "10m" }
            [alerts]
            oldest_waiting = "5m"
            "#,
        )
        .unwrap();
        assert_eq!(file.store.as_deref(), Some("sqlite:jobs.db"));
        assert_eq!(file.retention.complete.unwrap().0.as_millis(), 172_800_000);
        assert_eq!(file.queues["reports"].job().priority, Some(-5));
        assert_eq!(file.tasks["charge"].job().max_attempts, Some(3));
        assert!(file.tasks["charge"].dedup.is_some());
    }

    #[test]
    fn a_typo_is_refused() {
        assert!(File::parse("stroe = 'sqlite:x'").is_err());
        assert!(File::parse("[tasks.a]\nmax_atempts = 3").is_err());
        assert!(File::parse("[server]\nlissen = '127.0.0.1:80'").is_err());
        let error = File::parse("[retention]\ncomplete = '5 parsecs'").expect_err("no unit");
        assert!(error.to_string().contains("ms, s, m, h, d, w"), "{error}");
    }
}
