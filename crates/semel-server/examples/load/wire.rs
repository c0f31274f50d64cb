//! A client that costs next to nothing: what is measured is the server.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One connection that is kept.
pub struct Wire {
    stream: TcpStream,
    host: String,
    buffer: Vec<u8>,
}

impl Wire {
    /// Connects.
    pub async fn to(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Wire {
            stream,
            host: address.to_owned(),
            buffer: Vec::with_capacity(64 * 1_024),
        }
    }

    /// Submits; the status of the answer.
    pub async fn submit(&mut self, body: &str) -> u16 {
        let request = format!(
            "POST /v1/jobs HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        );
        self.ask(request.as_bytes()).await
    }

    /// Gets something; the status of the answer.
    pub async fn get(&mut self, path: &str) -> u16 {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: text/html\r\n\r\n",
            self.host
        );
        self.ask(request.as_bytes()).await
    }

    /// The body of the last answer.
    pub fn body(&self) -> &[u8] {
        &self.buffer[head(&self.buffer).map_or(0, |(end, ..)| end)..]
    }

    async fn ask(&mut self, request: &[u8]) -> u16 {
        self.stream.write_all(request).await.unwrap();
        self.buffer.clear();
        loop {
            let read = self.stream.read_buf(&mut self.buffer).await.unwrap();
            assert!(read > 0, "the server closed the connection");
            if let Some((end, length, status)) = head(&self.buffer)
                && self.buffer.len() >= end + length
            {
                return status;
            }
        }
    }
}

/// Where the head of an answer ends, how long its body is, and its status.
fn head(buffer: &[u8]) -> Option<(usize, usize, u16)> {
    let end = buffer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&buffer[..end]).unwrap();
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.parse().unwrap());
    Some((end, length, text[9..12].parse().unwrap()))
}

/// The 99th percentile.
pub fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[(times.len() * 99).div_ceil(100) - 1]
}
