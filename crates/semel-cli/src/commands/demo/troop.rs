//! The processes of the demo: the outside world, and workers that are killed and restarted.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::commands::demo::trouble;
use crate::problem::Problem;

const WORKERS: usize = 3;
/// Between two kills.
const EVERY: Duration = Duration::from_millis(600);

/// The processes.
pub struct Troop {
    dir: PathBuf,
    world: Child,
    address: String,
    workers: Vec<Child>,
    killed: usize,
}

impl Troop {
    /// Starts the world and the workers.
    pub async fn start(dir: &Path) -> Result<Self, Problem> {
        let mut world = spawn(part(dir, "world")?.stdout(Stdio::piped()))?;
        let mut address = String::new();
        if let Some(said) = world.stdout.take() {
            let read = BufReader::new(said).read_line(&mut address).await;
            read.map_err(|error| trouble("the outside world says nothing", &error))?;
        }
        let mut troop = Troop {
            dir: dir.to_owned(),
            world,
            address: address.trim().to_owned(),
            workers: Vec::new(),
            killed: 0,
        };
        for _ in 0..WORKERS {
            troop.workers.push(troop.worker()?);
        }
        Ok(troop)
    }

    fn worker(&self) -> Result<Child, Problem> {
        spawn(part(&self.dir, "worker")?.args(["--world", &self.address]))
    }

    /// After a while one worker is killed, without a word of warning, and another takes its place.
    pub async fn kill_one(&mut self) -> Result<(), Problem> {
        tokio::time::sleep(EVERY).await;
        let at = self.killed % WORKERS;
        let killed = self.workers[at].kill().await;
        killed.map_err(|error| trouble("a worker cannot be killed", &error))?;
        self.workers[at] = self.worker()?;
        self.killed += 1;
        Ok(())
    }

    /// How many were killed.
    pub fn killed(&self) -> usize {
        self.killed
    }

    /// Lets everybody end in order.
    pub async fn stop(mut self) -> Result<usize, Problem> {
        for process in self.workers.iter_mut().chain([&mut self.world]) {
            drop(process.stdin.take());
            let ended = process.wait().await;
            ended.map_err(|error| trouble("a process of the demo does not end", &error))?;
        }
        Ok(self.killed)
    }
}

fn part(dir: &Path, part: &str) -> Result<Command, Problem> {
    let program = std::env::current_exe().map_err(|error| trouble("this program is not found", &error))?;
    let mut command = Command::new(program);
    command.args(["demo", "--part", part, "--dir"]).arg(dir);
    Ok(command)
}

/// Processes end with their standard input, so none is left behind whatever happens to this one.
fn spawn(command: &mut Command) -> Result<Child, Problem> {
    command
        .stdin(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| trouble("a process of the demo cannot be started", &error))
}
