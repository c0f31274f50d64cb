//! A command under way, with everything it has started.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

/// How long output may still come after the command itself has exited, from what it left behind.
const LEFT_BEHIND: Duration = Duration::from_secs(2);

/// Of the error output, the end is kept: that is where the reason is.
const TAIL_BYTES: usize = 4 * 1024;

/// A command in a process group of its own: it does not get the terminal's Ctrl-C, and ends as a whole.
pub struct Running {
    child: Child,
    group: Group,
}

/// What a command left.
pub struct Left {
    /// How it exited.
    pub status: ExitStatus,
    /// Its output; `None` if there was more than was allowed.
    pub output: Option<Vec<u8>>,
    /// The end of its error output.
    pub tail: String,
}

/// Ends everything in the group when it is dropped, unless the command has exited by itself.
struct Group(Option<Pid>);

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.0 {
            // Gone already is as good.
            let _ = kill_process_group(pid, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

impl Running {
    /// Starts a command by `sh -c`.
    pub fn start(command: &str, environment: Vec<(&'static str, String)>) -> std::io::Result<Self> {
        let child = Command::new("sh")
            .arg("-c")
            .arg(command)
            .env_remove("SEMEL_KEY")
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let pid = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        Ok(Running {
            child,
            group: Group(pid),
        })
    }

    /// Asks the command to end.
    pub fn terminate(&self) {
        self.group.signal(Signal::TERM);
    }

    /// Feeds the input, takes the output, and waits. Given up half-way, it can be called again to wait.
    pub async fn finish(
        &mut self,
        input: &str,
        most: usize,
        line: impl FnMut(&str),
    ) -> std::io::Result<Left> {
        let feeding = feed(self.child.stdin.take(), input);
        let (stdout, stderr) = (self.child.stdout.take(), self.child.stderr.take());
        let mut output = Vec::new();
        let mut tail = String::new();
        let status = {
            let reading =
                async { tokio::join!(take(stdout, most, &mut output), follow(stderr, &mut tail, line)) };
            let exiting = async { tokio::join!(feeding, self.child.wait()).1 };
            tokio::pin!(reading, exiting);
            tokio::select! {
                _ = &mut reading => exiting.await,
                status = &mut exiting => {
                    let _ = tokio::time::timeout(LEFT_BEHIND, reading).await;
                    status
                }
            }
        }?;
        self.group.0 = None;
        let output = (output.len() <= most).then_some(output);
        Ok(Left { status, output, tail })
    }
}

/// A command that does not read its input is fine.
async fn feed(stdin: Option<ChildStdin>, input: &str) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(input.as_bytes()).await;
    }
}

/// Everything, up to one byte over a bound; the rest is read and forgotten, so that the command does not hang.
async fn take(source: Option<impl AsyncRead + Unpin>, most: usize, kept: &mut Vec<u8>) {
    let Some(mut source) = source else { return };
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let _ = (&mut source).take(limit).read_to_end(kept).await;
    let _ = tokio::io::copy(&mut source, &mut tokio::io::sink()).await;
}

/// Line by line; a line without an end is cut into pieces.
async fn follow(source: Option<impl AsyncRead + Unpin>, tail: &mut String, mut line: impl FnMut(&str)) {
    const LONGEST: u64 = 8 * 1024;
    let Some(source) = source else { return };
    let mut source = BufReader::new(source);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        match (&mut source).take(LONGEST).read_until(b'\n', &mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text = String::from_utf8_lossy(&bytes);
                line(text.trim_end());
                tail.push_str(&text);
                shorten(tail);
            }
        }
    }
}

fn shorten(tail: &mut String) {
    if tail.len() > 2 * TAIL_BYTES {
        let mut from = tail.len() - TAIL_BYTES;
        while !tail.is_char_boundary(from) {
            from += 1;
        }
        tail.drain(..from);
    }
}
