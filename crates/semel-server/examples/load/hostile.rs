//! Clients that mean harm: refused or bounded, with flat memory, and others are answered meanwhile.

use std::path::Path;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::Verdict;
use crate::process::Served;
use crate::wire::Wire;

/// What the server's memory may grow by, in MiB.
const ROOM: f64 = 64.0;

/// All of them, one after another, on one server.
pub async fn bear(dir: &Path) -> Vec<Verdict> {
    let served = Served::start(&dir.join("hostile.db"));
    let mut wire = Wire::to(&served.address).await;
    assert_eq!(wire.submit(r#"{"task":"t","input":1}"#).await, 201);
    vec![
        gigabyte(&served).await,
        depth(&served).await,
        slow(&served).await,
        streams(&served).await,
    ]
}

/// A body of a gigabyte whose length is not announced.
async fn gigabyte(served: &Served) -> Verdict {
    let before = served.memory();
    let mut stream = TcpStream::connect(&served.address).await.unwrap();
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
        served.address
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = [b"10000\r\n".as_slice(), &vec![b' '; 65_536], b"\r\n"].concat();
    let (mut sent, mut peak) = (0_usize, before);
    while sent < 1 << 30 && stream.write_all(&chunk).await.is_ok() {
        sent += 65_536;
        peak = peak.max(served.memory());
    }
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await;
    let refused = answer.is_empty() || answer.starts_with(b"HTTP/1.1 413");
    Verdict::new(
        refused && sent < 1 << 30 && peak - before < ROOM,
        format!(
            "a body of 1 GiB: refused after {:.1} MiB were sent, memory +{:.1} MiB",
            sent as f64 / 1_048_576.0,
            peak - before
        ),
    )
}

/// A hundred thousand brackets, a hundred times.
async fn depth(served: &Served) -> Verdict {
    let before = served.memory();
    let mut wire = Wire::to(&served.address).await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let body = format!(r#"{{"task":"t","input":{deep}}}"#);
    let mut statuses = Vec::new();
    for _ in 0..100 {
        statuses.push(wire.submit(&body).await);
    }
    let grown = served.memory() - before;
    Verdict::new(
        statuses.iter().all(|status| *status == 400) && grown < ROOM,
        format!("a depth of 100,000, a hundred times: status 400, memory +{grown:.1} MiB"),
    )
}

/// A thousand clients that send a byte of a head each half second.
async fn slow(served: &Served) -> Verdict {
    const CLIENTS: usize = 1_000;
    let before = served.memory();
    let begun = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let address = served.address.clone();
        clients.spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let mut answer = [0_u8; 256];
            for byte in
                b"GET /healthz HTTP/1.1\r\nHost: nowhere.example\r\nX-Slow: yes and ever so slow\r\n\r\n"
            {
                if stream.write_all(&[*byte]).await.is_err() {
                    break;
                }
                let read = tokio::time::timeout(Duration::from_millis(500), stream.read(&mut answer)).await;
                if matches!(read, Ok(Ok(0) | Err(_))) {
                    break;
                }
            }
            begun.elapsed()
        });
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (grown, answered) = (served.memory() - before, answers(served).await);
    let mut longest = Duration::ZERO;
    while let Some(lasted) = clients.join_next().await {
        longest = longest.max(lasted.unwrap());
    }
    Verdict::new(
        longest < Duration::from_secs(20) && grown < ROOM && answered < Duration::from_secs(1),
        format!(
            "{CLIENTS} slow clients: shown out after {:.1} s, memory +{grown:.1} MiB, another was answered in {:.0} ms",
            longest.as_secs_f64(),
            answered.as_secs_f64() * 1e3
        ),
    )
}

/// Ten thousand who want to listen to the stream, and say nothing more; and then ten thousand others.
async fn streams(served: &Served) -> Verdict {
    let before = served.memory();
    let first = wave(served).await;
    let second = wave(served).await;
    // 4,096 connections are served at once, each with its buffers; a second wave finds room where the first was.
    let (one, two) = (first.peak - before, second.peak - before);
    let flat = one < 128.0 && two < one * 1.2 + 8.0;
    let heard = first.listening.max(second.listening);
    let answered = first.answered.max(second.answered);
    Verdict::new(
        heard <= 256 && flat && answered < Duration::from_secs(15),
        format!(
            "{STREAMS} idle streams: {heard} are heard, {} refused, {} got no answer; memory +{one:.1} MiB, after \
             {STREAMS} others +{two:.1} MiB; somebody else was answered in {:.0} ms",
            first.refused,
            first.unheard,
            answered.as_secs_f64() * 1e3
        ),
    )
}

const STREAMS: usize = 10_000;

/// What became of many streams.
#[derive(Default)]
struct Wave {
    listening: usize,
    refused: usize,
    unheard: usize,
    peak: f64,
    answered: Duration,
}

async fn wave(served: &Served) -> Wave {
    let mut clients = JoinSet::new();
    for _ in 0..STREAMS {
        clients.spawn(one_stream(served.address.clone()));
    }
    let (mut wave, mut open) = (Wave::default(), Vec::new());
    while let Some(ended) = clients.join_next().await {
        let (stream, status) = ended.unwrap();
        open.extend(stream);
        match status {
            200 => wave.listening += 1,
            429 | 503 => wave.refused += 1,
            _ => wave.unheard += 1,
        }
        if open.len() % 100 == 0 {
            wave.peak = wave.peak.max(served.memory());
        }
    }
    wave.answered = answers(served).await;
    wave
}

/// The connection, to be kept, and the status of the answer.
async fn one_stream(address: String) -> (Option<TcpStream>, u16) {
    let request = format!("GET /v1/stream HTTP/1.1\r\nHost: {address}\r\n\r\n");
    // The server's queue of connections may be full: then the system tries again.
    let connected = tokio::time::timeout(Duration::from_secs(60), TcpStream::connect(address)).await;
    let Ok(Ok(mut stream)) = connected else {
        return (None, 0);
    };
    let mut answer = [0_u8; 256];
    let _ = stream.write_all(request.as_bytes()).await;
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read(&mut answer)).await;
    let heard = matches!(read, Ok(Ok(read)) if read >= 12);
    let status = String::from_utf8_lossy(&answer[9..12]).parse();
    (Some(stream), if heard { status.unwrap_or(0) } else { 0 })
}

/// How long somebody decent waits for an answer.
async fn answers(served: &Served) -> Duration {
    let begun = Instant::now();
    assert_eq!(Wire::to(&served.address).await.get("/healthz").await, 200);
    begun.elapsed()
}
