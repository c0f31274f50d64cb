//! The outside world: payments, mails, reports. A process of its own, so that its log owes nothing to the store.
//!
//! Like a payment provider it recognises a key it has seen, and it takes its time to answer: a worker
//! that is killed meanwhile has done something it could not write down.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::commands::demo::{EFFECTS, trouble};
use crate::exit::Exit;
use crate::problem::Problem;

/// How long an effect takes to be answered, once it has happened.
const LATENCY: Duration = Duration::from_millis(15);

/// What a worker asks for, and a line of the log.
#[derive(Debug, Serialize, Deserialize)]
pub struct Effect {
    /// The same for the same effect, however often it is asked for.
    pub key: String,
    /// The task it belongs to.
    pub task: String,
    /// What must not happen twice: an order, an event, a run.
    pub what: String,
    /// The job that asks.
    pub job: String,
    /// Said by the world: the key was seen before, nothing happened.
    #[serde(default)]
    pub again: bool,
}

/// Listens on a free port of this machine, says which, and ends with its standard input.
pub async fn run(dir: &Path) -> Result<Exit, Problem> {
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(dir.join(EFFECTS));
    let log = log.map_err(|error| trouble("the log of effects cannot be opened", &error))?;
    let listener = TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.map_err(|error| trouble("no port to listen on", &error))?;
    let address = listener
        .local_addr()
        .map_err(|error| trouble("no port to listen on", &error))?;
    println!("{address}");
    let world = Arc::new(World {
        log: Mutex::new(Log {
            file: log,
            keys: HashSet::new(),
        }),
    });
    tokio::select! {
        () = serve(&listener, &world) => {}
        () = end_of_input() => {}
    }
    Ok(Exit::Done)
}

/// Ends when whoever started this process is done with it, or gone.
pub async fn end_of_input() {
    let mut input = tokio::io::stdin();
    let mut bytes = [0u8; 64];
    while matches!(input.read(&mut bytes).await, Ok(n) if n > 0) {}
}

struct World {
    log: Mutex<Log>,
}

struct Log {
    file: File,
    keys: HashSet<String>,
}

async fn serve(listener: &TcpListener, world: &Arc<World>) {
    // Connections end with their workers, and all of them with this process.
    while let Ok((stream, _)) = listener.accept().await {
        let world = world.clone();
        tokio::spawn(async move {
            // A worker that was killed in the middle of a sentence is nobody's error.
            let _ = answer(stream, &world).await;
        });
    }
}

async fn answer(stream: TcpStream, world: &World) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await? > 0 {
        let effect: Effect = serde_json::from_str(&line)?;
        let again = world.happen(effect)?;
        tokio::time::sleep(LATENCY).await;
        stream
            .write_all(if again { b"again\n" } else { b"done\n" })
            .await?;
        line.clear();
    }
    Ok(())
}

impl World {
    /// Does it, unless it was done; writes down either.
    fn happen(&self, mut effect: Effect) -> std::io::Result<bool> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        effect.again = !log.keys.insert(effect.key.clone());
        let line = serde_json::to_string(&effect)? + "\n";
        log.file.write_all(line.as_bytes())?;
        Ok(effect.again)
    }
}
