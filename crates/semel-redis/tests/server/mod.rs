//! A private Redis server: on loopback, on a free port, in a directory of its own, with every write synced.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// A running server. Dropping it ends it.
pub struct Server {
    process: Child,
    port: u16,
    _directory: TempDir,
}

impl Server {
    /// Starts one that keeps everything.
    pub fn start() -> Self {
        Server::start_with(&["--appendonly", "yes", "--appendfsync", "always"])
    }

    /// Starts one with these settings.
    pub fn start_with(settings: &[&str]) -> Self {
        for _ in 0..20 {
            let directory = directory();
            let port = free_port();
            let process = Command::new("redis-server")
                .args(["--bind", "127.0.0.1", "--save", "", "--loglevel", "warning"])
                .args(["--port", &port.to_string()])
                .arg("--dir")
                .arg(directory.path())
                .args(settings)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("redis-server starts; `cargo xtask test` installs it");
            let mut server = Server {
                process,
                port,
                _directory: directory,
            };
            if server.answers() {
                return server;
            }
        }
        panic!("redis-server does not come up");
    }

    /// Somebody else may have taken the port meanwhile: then the process ends and another port is tried.
    fn answers(&mut self) -> bool {
        for _ in 0..2_000 {
            if self.process.try_wait().is_ok_and(|ended| ended.is_some()) {
                return false;
            }
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return self.process.try_wait().is_ok_and(|ended| ended.is_none());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _status = self.process.wait();
    }
}

/// In memory where that is possible: no test here cuts the power, and syncing to a slow disk thousands of times only
/// makes them long.
fn directory() -> TempDir {
    let in_memory = tempfile::Builder::new()
        .prefix("semel-redis-")
        .tempdir_in("/dev/shm");
    in_memory.or_else(|_| tempfile::tempdir()).expect("a directory")
}

fn free_port() -> u16 {
    let probe = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    probe.local_addr().expect("an address").port()
}
