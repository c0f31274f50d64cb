//! A private Postgres server, on a free port, in a temporary directory.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio_postgres::NoTls;

/// A server that ends with this process, or when it is told to.
pub struct PostgresServer {
    dir: TempDir,
    pub port: u16,
    child: Option<Child>,
    has_run: bool,
    schemas: AtomicUsize,
}

impl PostgresServer {
    /// Makes a cluster and starts a server on it.
    pub fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("semel-pg").tempdir().unwrap();
        let data = dir.path().join("data");
        if is_root() {
            // The server refuses to run as root; its own user has to reach the directory.
            run(Command::new("chown").arg("postgres:postgres").arg(dir.path()));
        }
        run(as_postgres(&program("initdb"))
            .args([
                "--no-sync",
                "--auth=trust",
                "--username=postgres",
                "--encoding=UTF8",
                "--no-locale",
                "-D",
            ])
            .arg(&data));
        let mut server = PostgresServer {
            dir,
            port: free_port(),
            child: None,
            has_run: false,
            schemas: AtomicUsize::new(0),
        };
        server.launch();
        server
    }

    /// Starts the server; one that ran before, on the port where its users look for it.
    pub fn launch(&mut self) {
        for attempt in 0..40 {
            let log = std::fs::File::create(self.dir.path().join("log")).unwrap();
            let mut command = as_postgres(&program("postgres"));
            command
                .arg("-D")
                .arg(self.dir.path().join("data"))
                .args(["-p", &self.port.to_string(), "-k", ""])
                .args(["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=300"])
                .stdout(Stdio::null())
                .stderr(log);
            self.child = Some(spawn_for_good(command));
            if self.answers() {
                self.has_run = true;
                return;
            }
            // What was killed a moment ago may not be gone yet; or somebody else has taken the port.
            self.kill();
            std::thread::sleep(Duration::from_millis(100));
            if !self.has_run && attempt % 5 == 4 {
                self.port = free_port();
            }
        }
        let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        panic!("the Postgres server did not start: {log}");
    }

    /// Gives the server a certificate for 127.0.0.1 and lets it encrypt; gives the certificate.
    pub fn encrypt(&self) -> Vec<u8> {
        let data = self.dir.path().join("data");
        let wanted = self.dir.path().join("openssl.cnf");
        let text = "[req]\nprompt = no\ndistinguished_name = name\nx509_extensions = more\n[name]\nCN = 127.0.0.1\n\
                    [more]\nsubjectAltName = IP:127.0.0.1\nbasicConstraints = CA:FALSE\n";
        std::fs::write(&wanted, text).unwrap();
        run(as_postgres(Path::new("openssl"))
            .args([
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-config",
            ])
            .arg(&wanted)
            .arg("-keyout")
            .arg(data.join("server.key"))
            .arg("-out")
            .arg(data.join("server.crt")));
        run(Command::new(program("psql"))
            .args([
                "-q",
                "-h",
                "127.0.0.1",
                "-U",
                "postgres",
                "-p",
                &self.port.to_string(),
            ])
            .args(["-c", "ALTER SYSTEM SET ssl = on", "-c", "SELECT pg_reload_conf()"]));
        std::fs::read(data.join("server.crt")).unwrap()
    }

    fn answers(&mut self) -> bool {
        for _ in 0..600 {
            if self
                .child
                .as_mut()
                .is_some_and(|child| child.try_wait().unwrap().is_some())
            {
                return false;
            }
            let ready = Command::new(program("pg_isready"))
                .args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()])
                .status();
            if ready.is_ok_and(|status| status.success()) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        false
    }

    /// Ends every process of the server at once, without a chance to tidy up.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let pid = rustix::process::Pid::from_child(&child);
            let children =
                std::fs::read_to_string(format!("/proc/{}/task/{}/children", child.id(), child.id()));
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            for word in children.unwrap_or_default().split_whitespace() {
                if let Some(pid) = word.parse().ok().and_then(rustix::process::Pid::from_raw) {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
            }
            let _ = child.wait();
            let _ = std::fs::remove_file(self.dir.path().join("data/postmaster.pid"));
        }
    }

    /// The URL of the server, and a name nobody else has.
    pub fn name_schema(&self) -> (String, String) {
        let name = format!("s{}", self.schemas.fetch_add(1, Ordering::SeqCst));
        (
            format!("postgres://postgres@127.0.0.1:{}/postgres", self.port),
            name,
        )
    }
}

/// A schema of one's own; the URL leads into it.
pub async fn make_schema(base: &str, name: &str) -> String {
    connect(base)
        .await
        .batch_execute(&format!("CREATE SCHEMA {name}"))
        .await
        .unwrap();
    format!("{base}?options=-csearch_path%3D{name}")
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A connection as the user's program has one.
pub async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A program of the newest Postgres that is installed.
fn program(name: &str) -> PathBuf {
    let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|found| {
            found
                .flatten()
                .map(|entry| entry.path().join("bin").join(name))
                .collect()
        })
        .unwrap_or_default();
    versions.retain(|path| path.is_file());
    versions.sort();
    versions.pop().unwrap_or_else(|| PathBuf::from(name))
}

fn as_postgres(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    // The server dies with the tests, even when those are killed.
    command
        .args([
            "--reuid=postgres",
            "--regid=postgres",
            "--clear-groups",
            "--pdeathsig=KILL",
            "--",
        ])
        .arg(program);
    command
}

/// Starts a process from a thread that never ends: a child that dies with its parent dies with the thread that made it.
fn spawn_for_good(mut command: Command) -> Child {
    let (give, take) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        give.send(command.spawn().unwrap()).unwrap();
        loop {
            std::thread::park();
        }
    });
    take.recv().unwrap()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}
