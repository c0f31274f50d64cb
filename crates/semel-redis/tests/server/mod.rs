//! A private Redis server: on loopback, on a free port, in a directory of its own, with every write synced.
#![allow(dead_code)] // each test uses some of it

pub mod cluster;
pub mod watched;

use std::hash::{BuildHasher as _, RandomState};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// A running server. Dropping it ends it.
pub struct Server {
    process: Child,
    port: u16,
    settings: Vec<String>,
    directory: TempDir,
}

impl Server {
    /// Starts one that keeps everything.
    pub fn start() -> Self {
        Server::start_with(&["--appendonly", "yes", "--appendfsync", "always"])
    }

    /// Starts one with these settings.
    pub fn start_with(settings: &[&str]) -> Self {
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        for _ in 0..20 {
            let (directory, port) = (directory(), free_port());
            let mut server = Server {
                process: launch(&directory, port, &settings),
                port,
                settings: settings.clone(),
                directory,
            };
            if server.answers() {
                return server;
            }
        }
        panic!("redis-server does not come up");
    }

    /// Starts a sentinel with these settings, in a file it will write to.
    pub fn start_sentinel(settings: &str) -> Self {
        for _ in 0..20 {
            let (directory, port) = (directory(), free_port());
            let file = directory.path().join("sentinel.conf");
            std::fs::write(&file, settings).expect("a file");
            let process = Command::new("redis-server")
                .arg(file)
                .arg("--sentinel")
                .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("redis-server starts; `cargo xtask test` installs it");
            let mut server = Server {
                process,
                port,
                settings: Vec::new(),
                directory,
            };
            if server.answers() {
                return server;
            }
        }
        panic!("the sentinel does not come up");
    }

    /// Somebody else may have taken the port meanwhile: then the process ends and another port is tried. Until it has
    /// ended, the other one answers in its place, so who answers has to say that it is this very process.
    fn answers(&mut self) -> bool {
        let own = format!("process_id:{}\r", self.process.id());
        for _ in 0..2_000 {
            if self.process.try_wait().is_ok_and(|ended| ended.is_some()) {
                return false;
            }
            if let Some(info) = self.try_command(&["INFO", "server"]) {
                if info.contains(&own) {
                    return true;
                }
                if info.contains("process_id:") {
                    return false;
                }
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    /// Kills it, as `kill -9` does.
    pub fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it can be waited for");
    }

    /// Starts it again where it was, with what it kept.
    pub fn restart(&mut self) {
        for _ in 0..20 {
            self.process = launch(&self.directory, self.port, &self.settings);
            if self.answers() {
                return;
            }
            // Somebody has the port for a moment.
            let _gone = self.process.kill();
            let _status = self.process.wait();
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("redis-server does not come up again");
    }

    /// Stops it in its tracks, or lets it go on: it answers nobody, and its connections stay.
    pub fn freeze(&self, frozen: bool) {
        let signal = if frozen { "-STOP" } else { "-CONT" };
        let sent = Command::new("kill")
            .args([signal, &self.process.id().to_string()])
            .status();
        assert!(
            sent.expect("kill can be called").success(),
            "the server can be signalled"
        );
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sends one command and gives its answer, as text.
    pub fn command(&self, words: &[&str]) -> String {
        self.try_command(words).expect("the server runs and answers")
    }

    fn try_command(&self, words: &[&str]) -> Option<String> {
        let mut wire = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let mut text = format!("*{}\r\n", words.len());
        for word in words {
            text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        wire.write_all(text.as_bytes()).ok()?;
        let mut answer = BufReader::new(wire);
        let mut first = String::new();
        answer.read_line(&mut first).ok()?;
        if let Some(length) = first
            .strip_prefix('$')
            .and_then(|length| length.trim().parse::<usize>().ok())
        {
            let mut body = vec![0; length];
            answer.read_exact(&mut body).ok()?;
            return Some(String::from_utf8_lossy(&body).into_owned());
        }
        Some(first)
    }

    /// Commands it has carried out so far.
    pub fn commands(&self) -> i64 {
        let info = self.command(&["INFO", "stats"]);
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix("total_commands_processed:"));
        line.and_then(|number| number.trim().parse().ok())
            .expect("the server counts commands")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _status = self.process.wait();
    }
}

fn launch(directory: &TempDir, port: u16, settings: &[String]) -> Child {
    Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--save", "", "--loglevel", "warning"])
        .args(["--port", &port.to_string()])
        .arg("--dir")
        .arg(directory.path())
        .args(settings)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server starts; `cargo xtask test` installs it")
}

/// In memory where that is possible: no test here cuts the power, and syncing to a slow disk thousands of times only
/// makes them long.
fn directory() -> TempDir {
    let in_memory = tempfile::Builder::new()
        .prefix("semel-redis-")
        .tempdir_in("/dev/shm");
    in_memory.or_else(|_| tempfile::tempdir()).expect("a directory")
}

/// Below the ports that the system gives to outgoing connections: one of those could sit on it while the server is
/// being started, or started again. The bus of a cluster, 10,000 above, is below them too.
fn free_port() -> u16 {
    const PORTS: std::ops::Range<u64> = 11_000..21_000;
    loop {
        let drawn = RandomState::new().hash_one(std::process::id());
        let port = PORTS.start + drawn % (PORTS.end - PORTS.start);
        let port = u16::try_from(port).expect("a port is a small number");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
