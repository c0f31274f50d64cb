//! The server as a process of its own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use semel_server::{Server, Settings};

/// A server process.
pub struct Served {
    child: Child,
    /// Where it listens.
    pub address: String,
}

impl Served {
    /// Starts one on a store.
    pub fn start(store: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--serve", &format!("sqlite:{}", store.display())])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut address)
            .unwrap();
        Served {
            child,
            address: address.trim().to_owned(),
        }
    }

    /// Processor time it has used.
    pub fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        // A tick is a hundredth of a second on every Linux there is.
        Duration::from_millis(ticks * 10)
    }

    /// Memory it has of its own now, in MiB; what is mapped from files is the system's.
    pub fn memory(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1_024.0
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves a store until killed.
pub async fn serve(store: &str) {
    raise_the_limit_of_files();
    let client = semel::connect(store).await.unwrap();
    let settings = Settings::on("127.0.0.1:0".parse().unwrap());
    let server = Server::bind(client, settings, None).await.unwrap();
    println!("{}", server.address());
    server.run_until(std::future::pending()).await;
}

/// Ten thousand connections are ten thousand files, on both sides.
pub fn raise_the_limit_of_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let most = getrlimit(Resource::Nofile).maximum;
    let wanted = Rlimit {
        current: most,
        maximum: most,
    };
    setrlimit(Resource::Nofile, wanted).unwrap();
}
