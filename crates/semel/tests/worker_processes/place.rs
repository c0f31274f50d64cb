//! A file that several processes work on, and the processes.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use semel::{Client, view};
use tempfile::TempDir;

use crate::child;

/// A store in a directory of its own.
pub struct Place {
    directory: TempDir,
    pub jobs: Client,
}

impl Place {
    pub async fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let url = format!("sqlite:{}", directory.path().join("jobs.db").display());
        let jobs = semel::connect(&url).await.expect("a store");
        Place { directory, jobs }
    }

    pub fn url(&self) -> String {
        format!("sqlite:{}", self.file("jobs.db").display())
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Starts a process of this very program in a role.
    pub fn start(&self, role: &str, arguments: &[&str]) -> Process {
        let program = std::env::current_exe().expect("a program");
        let child = Command::new(program)
            .args([child::WORD, role, &self.url()])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn();
        Process {
            child: child.expect("a process"),
        }
    }
}

/// A process of ours; killed when it is dropped.
pub struct Process {
    child: Child,
}

impl Process {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &self.pid().to_string()])
            .status();
        assert!(sent.expect("kill runs").success(), "signal {name} was sent");
    }

    /// Kills it as hard as can be.
    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it is gone");
    }

    /// Asks it to stop, and gives the last line it said.
    pub fn stop(mut self) -> String {
        self.signal("TERM");
        let mut said = String::new();
        let stdout = self.child.stdout.take().expect("piped");
        std::io::Read::read_to_string(&mut std::io::BufReader::new(stdout), &mut said).expect("text");
        self.child.wait().expect("it ends");
        said.lines().last().unwrap_or_default().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something holds, but not for ever.
pub async fn eventually(what: &str, holds: impl AsyncFn() -> bool) {
    for _ in 0..30_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("waited a minute for {what}");
}

/// A job as it stands.
pub async fn look(jobs: &Client, id: &semel::JobId) -> view::Job {
    let found = jobs.store().jobs_by_id(std::slice::from_ref(id)).await;
    found.expect("an answer")[0].clone().expect("it is known")
}

/// The figure below which a share of the others lies.
pub fn percentile(figures: &mut [i64], share: f64) -> i64 {
    figures.sort_unstable();
    let place = (figures.len() as f64 * share).ceil() as usize;
    figures[place.clamp(1, figures.len()) - 1]
}
