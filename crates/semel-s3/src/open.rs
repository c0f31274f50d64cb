//! Opening a store: what the endpoint must be (contract 9.3), and what that means (contract 9.4).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use semel_core::error::{Invalid, StoreError};
use semel_core::ids::Name;
use semel_core::store::Guarantee;

use crate::bucket::{Bucket, Written};
use crate::cell::Handles;
use crate::clock::{ServerTime, Time, random};
use crate::desk::{Desk, lock};
use crate::http::Listener;
use crate::layout::{self, FORMAT};
use crate::options::S3Options;
use crate::setup::Setup;

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The client of a bucket, and the time its answers tell.
pub fn client(options: &S3Options) -> Result<(Arc<dyn ObjectStore>, Arc<Time>), StoreError> {
    // Another part of the program may have chosen already; that is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let time = Arc::new(Time::Server(ServerTime::default()));
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(&options.bucket)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_disable_bulk_delete(!options.bulk_delete)
        .with_virtual_hosted_style_request(options.virtual_hosted)
        .with_http_connector(Listener(time.clone()))
        .with_client_options(ClientOptions::new().with_timeout(TIMEOUT).with_allow_http(true))
        // Tried again here, where it is known what an answer that says nothing means.
        .with_retry(RetryConfig {
            max_retries: 0,
            ..RetryConfig::default()
        });
    if let Some(endpoint) = &options.endpoint {
        builder = builder
            .with_endpoint(endpoint)
            .with_allow_http(endpoint.starts_with("http://"));
    }
    if let Some(region) = &options.region {
        builder = builder.with_region(region);
    }
    if let Some((key, secret)) = &options.credentials {
        builder = builder.with_access_key_id(key).with_secret_access_key(secret);
    }
    let store = builder.build().map_err(|error| {
        Invalid::new(
            "store URL",
            "a bucket that can be reached, and credentials in the environment",
        )
        .found(error.to_string())
    })?;
    Ok((Arc::new(store), time))
}

/// Opens the store below a prefix.
pub async fn open(
    store: Arc<dyn ObjectStore>,
    time: Arc<Time>,
    options: &S3Options,
) -> Result<Desk, StoreError> {
    let root = root(&options.prefix, &options.namespace);
    let bucket = Bucket::new(store, root);
    if !options.create && bucket.get(layout::HANDLES).await?.is_none() {
        return Err(StoreError::Refused {
            reason: format!("there is no store in {}", place(options)),
            hint: "a store is made by the first program that submits to it".to_owned(),
        });
    }
    probe(&bucket).await?;
    let mut desk = Desk::new(bucket, time, options.namespace.clone());
    desk.handle = join(&desk).await?;
    learn(&desk).await?;
    Ok(desk)
}

fn place(options: &S3Options) -> String {
    format!("s3://{}/{}", options.bucket, options.prefix)
}

/// Everything of a namespace is below here.
fn root(prefix: &str, namespace: &Name) -> String {
    let prefix = if prefix.is_empty() {
        String::new()
    } else {
        format!("{prefix}/")
    };
    format!("{prefix}{}", layout::short(namespace.as_str()))
}

/// Refuses an endpoint that ignores the conditions of writes: on such a one two jobs could get one key.
async fn probe(bucket: &Bucket) -> Result<(), StoreError> {
    let name = format!("{}-{:016x}", layout::PROBE, random());
    let refused = |what: &str| StoreError::Refused {
        reason: format!("the endpoint {what}"),
        hint: "use an endpoint with conditional writes, such as AWS S3, MinIO, Ceph or R2 of today"
            .to_owned(),
    };
    let content = |n: u8| format!("{{\"probe\":{n}}}").into_bytes();
    decided(bucket, &name, content(1), None, "creating an object").await?;
    if !is_refused(bucket, &name, content(2), None).await? {
        bucket.delete(vec![name]).await?;
        return Err(refused(
            "ignores If-None-Match: it created an object that was there already",
        ));
    }
    let Some((bytes, tag)) = bucket.get(&name).await? else {
        return Err(refused("does not show an object right after it was written"));
    };
    if bytes.as_ref() != content(1) {
        bucket.delete(vec![name]).await?;
        return Err(refused(
            "ignores If-None-Match: it overwrote an object and denied it",
        ));
    }
    let other = "\"00000000000000000000000000000000\"".to_owned();
    if !is_refused(bucket, &name, content(3), Some(&other)).await? {
        bucket.delete(vec![name]).await?;
        return Err(refused(
            "ignores If-Match: it changed an object that was another one",
        ));
    }
    decided(bucket, &name, content(4), Some(&tag), "changing an object").await?;
    let listed = bucket.list("control", None, usize::MAX).await?;
    let tags = listed
        .iter()
        .find(|one| one.name == name)
        .map(|one| one.tag.clone());
    let read = bucket.get(&name).await?.map(|(_, tag)| tag);
    bucket.delete(vec![name]).await?;
    match (tags, read) {
        (Some(listed), Some(read)) if listed == read => Ok(()),
        (None, _) => Err(refused("does not list an object right after it was written")),
        _ => Err(refused("lists other ETags than it reads")),
    }
}

/// Whether a write is refused that must be. An answer that says nothing proves nothing: it is tried again.
async fn is_refused(
    bucket: &Bucket,
    name: &str,
    bytes: Vec<u8>,
    over: Option<&String>,
) -> Result<bool, StoreError> {
    let mut patience = crate::bucket::Patience::new();
    loop {
        match bucket.write(name, bytes.clone(), over).await? {
            Written::Done(_) => return Ok(false),
            Written::Refused => return Ok(true),
            Written::Undecided => patience.again("trying a condition").await?,
        }
    }
}

/// A write that nobody can be in the way of; tried again while the endpoint does not answer.
async fn decided(
    bucket: &Bucket,
    name: &str,
    bytes: Vec<u8>,
    over: Option<&String>,
    doing: &str,
) -> Result<(), StoreError> {
    let mut patience = crate::bucket::Patience::new();
    loop {
        match bucket.write(name, bytes.clone(), over).await? {
            Written::Done(_) => return Ok(()),
            Written::Refused | Written::Undecided => {
                let there = bucket.get(name).await?;
                if there.is_some_and(|(found, _)| found.as_ref() == bytes) {
                    return Ok(());
                }
                patience.again(doing).await?;
            }
        }
    }
}

/// Takes a number; refuses a store of another format.
async fn join(desk: &Desk) -> Result<u32, StoreError> {
    let handles = desk
        .change(layout::HANDLES, false, &Setup::default(), |cell, _| {
            let handles = cell.handles.unwrap_or(Handles {
                format: FORMAT,
                opened: 0,
            });
            if handles.format == FORMAT {
                cell.handles = Some(Handles {
                    opened: handles.opened.wrapping_add(1),
                    ..handles
                });
            }
            (handles.format, handles.opened.wrapping_add(1))
        })
        .await?;
    match handles {
        (FORMAT, number) => Ok(number),
        (format, _) => Err(StoreError::Refused {
            reason: format!("this store has the format {format}, and this program writes {FORMAT}"),
            hint: "use a program of the same version, or another prefix".to_owned(),
        }),
    }
}

/// Learns which queues, tasks and leases there are.
async fn learn(desk: &Desk) -> Result<(), StoreError> {
    let names = async |directory: &str| {
        let listed = desk.bucket.list(directory, None, usize::MAX).await?;
        let names = listed.iter().filter_map(|one| layout::text_of(&one.name));
        Ok::<HashSet<Name>, StoreError>(names.collect())
    };
    let queues = names("names/queues").await?;
    let tasks = names("names/tasks").await?;
    *lock(&desk.queues) = queues;
    *lock(&desk.tasks) = tasks;
    desk.learn_leases().await
}

/// What holds on this bucket, and how that was found out.
pub fn guarantees(desk: &Desk, shared: bool) -> Vec<Guarantee> {
    let line = |subject, statement: &str, probed: &str| Guarantee {
        subject,
        statement: statement.to_owned(),
        probed: probed.to_owned(),
    };
    let conditions =
        "probed when this handle was opened: a second create and a change of another ETag were refused";
    let clock = match &*desk.time {
        Time::Server(server) => format!("from the Date of {} answers", server.answers()),
        Time::Given(_) => "the clock was handed in".to_owned(),
    };
    let durability = match shared {
        true => (
            "what was answered is as durable as the bucket",
            "said by the endpoint: it answered the writes",
        ),
        false => (
            "nothing survives the end of the process",
            "by construction: the bucket is in memory",
        ),
    };
    vec![
        line(
            "atomicity",
            "each change of a job is one conditional write of one object, which has its key",
            conditions,
        ),
        line("durability", durability.0, durability.1),
        line(
            "order",
            "priority and time within a task of a queue; between processes as their clocks agree",
            "by construction",
        ),
        Guarantee {
            subject: "time",
            statement: "never ahead of the server's clock, and within its one-second steps".to_owned(),
            probed: clock,
        },
        line(
            "tokens",
            "a repeated submission gets its first answer; a token sent by mistake with another key is another submission",
            "by construction: a token is found in the object of its key",
        ),
        line(
            "counters",
            "exact: each object counts its own writes; a look adds them up",
            "by construction",
        ),
    ]
}
