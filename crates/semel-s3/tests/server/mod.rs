//! A private S3 server: on loopback, on a free port, in a directory of its own. `cargo xtask test` installs them.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::hash::{BuildHasher as _, RandomState};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_s3::S3Options;
use tempfile::TempDir;

/// The bucket that every server has.
const BUCKET: &str = "semel-tests";

/// moto, one request at a time: by itself it answers several at once, and looks at the condition of a write and writes
/// in two steps, between which another write fits.
const ONE_AT_A_TIME: &str = "
import sys
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
run_simple('127.0.0.1', int(sys.argv[1]), DomainDispatcherApplication(create_backend_app), threaded=False)
";

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ministack: conditional writes hold.
    Ministack,
    /// moto, as a second opinion.
    Moto,
}

/// A running server. Dropping it ends it.
pub struct Server {
    process: Child,
    port: u16,
    _directory: TempDir,
}

impl Server {
    /// Starts one, with an empty bucket.
    pub fn start(kind: Kind) -> Self {
        for _ in 0..10 {
            let directory = tempfile::tempdir().expect("a directory");
            let port = free_port();
            let mut server = Server {
                process: launch(kind, port, &directory),
                port,
                _directory: directory,
            };
            if server.makes_bucket() {
                return server;
            }
        }
        panic!("{kind:?} does not come up; `cargo xtask test` installs it");
    }

    /// Until it does, it is not up. Somebody else on this port would not know the bucket afterwards.
    fn makes_bucket(&mut self) -> bool {
        for _ in 0..1_200 {
            if self.process.try_wait().is_ok_and(|ended| ended.is_some()) {
                return false;
            }
            if makes_bucket(&format!("127.0.0.1:{}", self.port), BUCKET) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        false
    }

    /// A place nobody else has.
    pub fn fresh_url(&self) -> String {
        fresh_url(&self.endpoint())
    }

    /// Where it is.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _status = self.process.wait();
    }
}

/// A place of an endpoint that nobody else has.
pub fn fresh_url(endpoint: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let drawn = RandomState::new().hash_one(n);
    format!("s3://{BUCKET}/{drawn:016x}?region=us-east-1&endpoint={endpoint}")
}

/// A bucket of an endpoint that nobody else has. Both servers look at every name of a bucket to list a few of them, so
/// that many places in one bucket would make each of them slow.
pub fn fresh_bucket(endpoint: &str) -> String {
    let place = fresh_url(endpoint);
    let drawn = place.trim_start_matches(&format!("s3://{BUCKET}/"));
    let (drawn, rest) = drawn.split_once('?').expect("a URL with parameters");
    let host = endpoint.trim_start_matches("http://");
    let bucket = format!("semel-{drawn}");
    assert!(makes_bucket(host, &bucket), "{endpoint} makes no bucket");
    format!("s3://{bucket}/suite?{rest}")
}

/// Makes a bucket; says whether the server did.
fn makes_bucket(host: &str, bucket: &str) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect(host)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let authorization = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
        write!(
            stream,
            "PUT /{bucket} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {authorization}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    ask().is_ok_and(|answer| answer.lines().next().is_some_and(|line| line.contains(" 200")))
}

/// The options of such a place.
pub fn options(url: &str) -> S3Options {
    S3Options {
        credentials: Some(("test".to_owned(), "test".to_owned())),
        ..S3Options::from_url(url).expect("a valid URL")
    }
}

fn launch(kind: Kind, port: u16, directory: &TempDir) -> Child {
    let program = programs().join(match kind {
        Kind::Ministack => "ministack",
        Kind::Moto => "python3",
    });
    // It ends with the test, also where that is killed.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    match kind {
        Kind::Ministack => command
            .env("IOT_MTLS_ENABLED", "0")
            .env("BIND_HOST", "127.0.0.1")
            .env("GATEWAY_PORT", port.to_string()),
        Kind::Moto => command.args(["-c", ONE_AT_A_TIME, &port.to_string()]),
    };
    command
        .current_dir(directory.path())
        .env("TMPDIR", directory.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("setpriv starts the server")
}

/// Where `cargo xtask test` puts them.
fn programs() -> PathBuf {
    let workspace = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    workspace.join(target).join("s3-servers/bin")
}

/// A port away from those of outgoing connections, or one of them could take it meanwhile.
fn free_port() -> u16 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    for _ in 0..1_000 {
        let drawn = RandomState::new().hash_one(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = 10_000 + u16::try_from(drawn % 20_000).expect("small");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}
